package gatewayapi

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/proxypod"
	source "gateway/internal/source/gatewayapi"
)

const (
	// LabelAttached is on the RoleBindings by which agents may read what belongs to their Gateway in another namespace.
	LabelAttached = "app.example.com/attached"
	// clusterRole says what they may read there. It is in artifacts/rbac.
	clusterRole = "gateway-attached"
)

// attach lets the agents read in the namespaces that have something for their Gateway, tells them, and takes it back where
// there is nothing any more. They stop to watch a namespace before they lose the permission, and get it before they start.
func (c *Controller) attach(ctx context.Context, seen *observed, result *source.Result) error {
	var errs []error
	served, keep := c.servedResources(), map[types.NamespacedName]bool{}
	for _, own := range c.ownGateways(seen) {
		wanted := result.Attachments(own.parent, served)
		for _, attachments := range []*appv1.Attachments{own.Status.Attachments, wanted} {
			if attachments == nil {
				continue
			}
			for i := range attachments.Namespaces {
				namespace := attachments.Namespaces[i].Name
				if namespace == own.Namespace {
					continue
				}
				keep[types.NamespacedName{Namespace: namespace, Name: bindingName(own.Gateway)}] = true
			}
		}
		err := c.bind(ctx, own.Gateway, wanted)
		if err == nil {
			err = c.tell(ctx, own.Gateway, wanted)
		}
		errs = append(errs, err)
	}
	for _, obj := range c.inputs.Bindings.GetStore().List() {
		binding := obj.(*rbacv1.RoleBinding)
		if keep[types.NamespacedName{Namespace: binding.Namespace, Name: binding.Name}] || binding.RoleRef.Name != clusterRole {
			continue
		}
		err := c.Kube.RbacV1().RoleBindings(binding.Namespace).Delete(ctx, binding.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(binding.UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			errs = append(errs, fmt.Errorf("failed to delete RoleBinding %s/%s: %w", binding.Namespace, binding.Name, err))
		}
	}
	return errors.Join(errs...)
}

// attachable is one of our Gateways, and what objects call it.
type attachable struct {
	*appv1.Gateway
	parent source.Parent
}

// ownGateways returns our Gateways that have, or had, something of the Gateway API.
func (c *Controller) ownGateways(seen *observed) []attachable {
	var all []attachable
	for _, obj := range c.inputs.Gateways.Informer().GetStore().List() {
		gateway := obj.(*appv1.Gateway)
		parent := source.OwnParent(gateway.Namespace, gateway.Name)
		if name := proxypod.Parent(gateway); name != "" {
			parent = source.GatewayParent(gateway.Namespace, name)
		}
		if (seen.own[parent] == gateway || gateway.Status.Attachments != nil) && gateway.DeletionTimestamp == nil {
			all = append(all, attachable{gateway, parent})
		}
	}
	return all
}

// bindingName returns the name of the RoleBindings for a Gateway, in other namespaces.
func bindingName(gateway *appv1.Gateway) string {
	return gateway.Namespace + "." + proxypod.ChildName(gateway.Name)
}

// bind lets the agents of a Gateway read in other namespaces.
func (c *Controller) bind(ctx context.Context, gateway *appv1.Gateway, wanted *appv1.Attachments) error {
	if wanted == nil {
		return nil
	}
	for i := range wanted.Namespaces {
		namespace, name := wanted.Namespaces[i].Name, bindingName(gateway)
		if namespace == gateway.Namespace {
			continue
		}
		if _, exists, _ := c.inputs.Bindings.GetStore().GetByKey(namespace + "/" + name); exists {
			continue
		}
		binding := rbacv1ac.RoleBinding(name, namespace).
			WithLabels(map[string]string{LabelAttached: "true", proxypod.LabelManagedBy: proxypod.FieldManager}).
			WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(clusterRole)).
			WithSubjects(rbacv1ac.Subject().WithKind(rbacv1.ServiceAccountKind).
				WithName(proxypod.ChildName(gateway.Name)).WithNamespace(gateway.Namespace))
		_, err := c.Kube.RbacV1().RoleBindings(namespace).Apply(ctx, binding, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
		if err != nil && !apierrors.HasStatusCause(err, "NamespaceTerminating") {
			return fmt.Errorf("failed to apply RoleBinding %s/%s: %w", namespace, name, err)
		}
	}
	return nil
}

// tell writes down for the agents of a Gateway what belongs to it.
func (c *Controller) tell(ctx context.Context, gateway *appv1.Gateway, wanted *appv1.Attachments) error {
	if equality.Semantic.DeepEqual(gateway.Status.Attachments, wanted) {
		return nil
	}
	status := applyappv1.GatewayStatus()
	if wanted != nil {
		attachments := applyappv1.Attachments()
		for i := range wanted.Namespaces {
			attachments.WithNamespaces(applyappv1.AttachedNamespace().WithName(wanted.Namespaces[i].Name).
				WithLabels(wanted.Namespaces[i].Labels).WithResources(wanted.Namespaces[i].Resources...))
		}
		for _, configMap := range wanted.ConfigMaps {
			attachments.WithConfigMaps(applyappv1.ObjectReference().WithName(configMap.Name))
		}
		for _, secret := range wanted.Users {
			attachments.WithUsers(applyappv1.ObjectReference().WithName(secret.Name))
		}
		status.WithAttachments(attachments)
	}
	_, err := c.Gateways.AppV1().Gateways(gateway.Namespace).ApplyStatus(ctx,
		applyappv1.Gateway(gateway.Name, gateway.Namespace).WithUID(gateway.UID).WithStatus(status),
		metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("failed to apply the attachments of Gateway %s/%s: %w", gateway.Namespace, gateway.Name, err)
	}
	return nil
}
