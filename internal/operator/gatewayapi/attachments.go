package gatewayapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/logging"
	"gateway/internal/operator/apply"
	"gateway/internal/operator/children"
	"gateway/internal/proxypod"
	source "gateway/internal/source/gatewayapi"
)

const (
	// LabelAttached is on the RoleBindings by which agents may read what belongs to their Gateway in another namespace.
	LabelAttached = "app.example.com/attached"
	// clusterRole says what they may read there. It is in artifacts/rbac.
	clusterRole = "gateway-attached"
)

// attach lets the agents read in the namespaces that have objects for their Gateway, tells them, and takes it back
// where there are none any more. Agents get the permission before they start to watch a namespace, and stop before they
// lose it.
func (c *Controller) attach(ctx context.Context, seen *observed, evaluated *evaluation) error {
	var errs []error
	keep, names := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
	for _, own := range c.ownGateways(seen) {
		wanted := evaluated.attachments[own.parent]
		switch {
		case seen.unknown[own.parent]:
			wanted = own.Status.Attachments
		case len(seen.stalled) > 0:
			wanted = both(own.Status.Attachments, wanted)
		}
		wanted, left := bounded(own.Status.Attachments, wanted)
		c.noteLeft(own.Gateway, left)
		names[nameOf(own.Gateway)] = true
		for _, attachments := range []*appv1.Attachments{own.Status.Attachments, wanted} {
			for _, namespace := range namespacesOf(attachments) {
				keep[types.NamespacedName{Namespace: namespace.Name, Name: bindingName(own.Gateway)}] = true
			}
		}
		bound, err := c.bind(ctx, own.Gateway, wanted)
		errs = append(errs, err, c.publish(ctx, own.Gateway, bound))
	}
	maps.DeleteFunc(c.unbound, func(name types.NamespacedName, _ string) bool { return !keep[name] })
	maps.DeleteFunc(c.left, func(name types.NamespacedName, _ map[leftOut]bool) bool { return !names[name] })
	for _, obj := range c.inputs.Bindings.GetStore().List() {
		binding := obj.(*rbacv1.RoleBinding)
		if keep[nameOf(binding)] || binding.RoleRef.Name != clusterRole {
			continue
		}
		err := c.Kube.RbacV1().RoleBindings(binding.Namespace).Delete(ctx, binding.Name, children.Unchanged(binding))
		errs = append(errs, children.Failed(err, "delete RoleBinding", nameOf(binding)))
	}
	return errors.Join(errs...)
}

// both returns what two attachments name together. For what is in both, the second one counts.
func both(told, wanted *appv1.Attachments) *appv1.Attachments {
	if told == nil || wanted == nil {
		return cmp.Or(wanted, told)
	}
	all := wanted.DeepCopy()
	for _, namespace := range told.Namespaces {
		i := slices.IndexFunc(all.Namespaces, func(n appv1.AttachedNamespace) bool { return n.Name == namespace.Name })
		if i < 0 {
			all.Namespaces = append(all.Namespaces, namespace)
			continue
		}
		all.Namespaces[i].Resources = sortedUnion(all.Namespaces[i].Resources, namespace.Resources, strings.Compare)
	}
	byName := func(a, b appv1.ObjectReference) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(all.Namespaces, func(a, b appv1.AttachedNamespace) int { return strings.Compare(a.Name, b.Name) })
	all.ConfigMaps = sortedUnion(all.ConfigMaps, told.ConfigMaps, byName)
	all.VerifiesNames, all.WAF = all.VerifiesNames || told.VerifiesNames, all.WAF || told.WAF
	all.Users = sortedUnion(all.Users, told.Users, byName)
	all.Logins = sortedUnion(all.Logins, told.Logins, byName)
	return all
}

func sortedUnion[T comparable](a, b []T, compare func(T, T) int) []T {
	return slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(a, b)), compare))
}

func namespacesOf(attachments *appv1.Attachments) []appv1.AttachedNamespace {
	if attachments == nil {
		return nil
	}
	return attachments.Namespaces
}

// byName returns the namespaces that the agents of a Gateway are told of.
func byName(gateway *appv1.Gateway) map[string]appv1.AttachedNamespace {
	all := map[string]appv1.AttachedNamespace{}
	for _, namespace := range namespacesOf(gateway.Status.Attachments) {
		all[namespace.Name] = namespace
	}
	return all
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
		parent := parentOfOwn(gateway)
		if own := seen.own[parent]; (own != nil && own.UID == gateway.UID || gateway.Status.Attachments != nil) && gateway.DeletionTimestamp == nil {
			all = append(all, attachable{gateway, parent})
		}
	}
	return all
}

// parentOfOwn returns what objects call one of our Gateways.
func parentOfOwn(own *appv1.Gateway) source.Parent {
	if name := proxypod.Parent(own); name != "" {
		return source.GatewayParent(own.Namespace, name)
	}
	return source.OwnParent(own.Namespace, own.Name)
}

// bindingName returns the name of the RoleBindings for a Gateway, in other namespaces.
func bindingName(gateway *appv1.Gateway) string {
	return gateway.Namespace + "." + proxypod.ChildName(gateway.Name)
}

// bind lets the agents of a Gateway read in other namespaces, and returns what to tell them. A namespace that they may
// not read yet is left out unless they know it already. It does not keep other namespaces from them.
func (c *Controller) bind(
	ctx context.Context, gateway *appv1.Gateway, wanted *appv1.Attachments,
) (*appv1.Attachments, error) {
	if wanted == nil {
		return nil, nil
	}
	known := map[string]bool{gateway.Namespace: true}
	for _, namespace := range namespacesOf(gateway.Status.Attachments) {
		known[namespace.Name] = true
	}
	bound := *wanted
	bound.Namespaces = nil
	var errs []error
	for _, namespace := range wanted.Namespaces {
		isBound := true
		if namespace.Name != gateway.Namespace {
			var err error
			isBound, err = c.bindNamespace(ctx, gateway, namespace.Name)
			name := types.NamespacedName{Namespace: namespace.Name, Name: bindingName(gateway)}
			errs = append(errs, c.noteUnbound(name, err))
		}
		if isBound || known[namespace.Name] {
			bound.Namespaces = append(bound.Namespaces, namespace)
		}
	}
	return &bound, errors.Join(errs...)
}

// noteUnbound notes why a RoleBinding cannot be made, for the statuses of all routes that need its namespace, and looks
// again later. It returns the error if it is enough to try again.
func (c *Controller) noteUnbound(name types.NamespacedName, err error) error {
	failure := children.Failure(err)
	if failure == nil {
		if err == nil && c.unbound[name] != "" {
			delete(c.unbound, name)
			c.queue.Add(rebuild)
		}
		return err
	}
	if c.unbound[name] != failure.Message {
		logging.Errorf("Namespace %s is not served: %s", name.Namespace, failure.Message)
		c.unbound[name] = failure.Message
		c.queue.Add(rebuild)
	}
	c.queue.AddAfter(task{source.Object{Kind: kindBinding, Namespace: name.Namespace, Name: name.Name}, true}, lastRetry)
	return nil
}

// bindNamespace makes the RoleBinding of a Gateway in another namespace as it should be, and reports whether that is
// done. A RoleBinding of somebody else is left alone. A new one gets its subject once it is in the cache: nothing
// refuses a late write that creates again what the next leader has deleted, so such a write must grant nothing.
func (c *Controller) bindNamespace(
	ctx context.Context, gateway *appv1.Gateway, namespace string,
) (isBound bool, err error) {
	name := types.NamespacedName{Namespace: namespace, Name: bindingName(gateway)}
	desired := rbacv1ac.RoleBinding(name.Name, namespace).
		WithLabels(map[string]string{LabelAttached: "true", proxypod.LabelManagedBy: proxypod.FieldManager}).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(clusterRole))
	obj, exists, _ := c.inputs.Bindings.GetStore().GetByKey(name.String()) // reading the cache never fails
	if !exists && c.unbound[name] != "" {
		if err = c.checkBinding(ctx, name, gateway.Name); errors.As(err, new(*children.NotOwnedError)) {
			return false, err
		}
	}
	if exists {
		before := obj.(*rbacv1.RoleBinding)
		subject := rbacv1.Subject{
			Kind: rbacv1.ServiceAccountKind, Namespace: gateway.Namespace, Name: proxypod.ChildName(gateway.Name),
		}
		if before.RoleRef.Name == clusterRole && slices.Equal(before.Subjects, []rbacv1.Subject{subject}) {
			return true, nil
		}
		desired.WithResourceVersion(before.ResourceVersion).WithUID(before.UID).WithSubjects(rbacv1ac.Subject().
			WithKind(subject.Kind).WithName(subject.Name).WithNamespace(subject.Namespace))
	} else {
		desired.WithResourceVersion(children.Unwritten)
	}
	_, err = c.Kube.RbacV1().RoleBindings(namespace).Apply(ctx, desired, force)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return true, nil // there is nothing to read soon
	case apierrors.IsConflict(err) && !exists:
		return false, c.checkBinding(ctx, name, gateway.Name)
	}
	return err == nil && exists, children.Failed(err, "apply RoleBinding", name)
}

// checkBinding returns why a RoleBinding that is in no cache cannot be made: the cache holds only what carries our
// label, and only what has reached it. So the one of that name may be someone else's, or ours.
func (c *Controller) checkBinding(ctx context.Context, name types.NamespacedName, gateway string) error {
	current, err := c.Kube.RbacV1().RoleBindings(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	switch {
	case err == nil && current.Labels[LabelAttached] == "":
		return &children.NotOwnedError{Kind: "RoleBinding", Namespace: name.Namespace, Name: name.Name, Gateway: gateway}
	case err == nil || apierrors.IsNotFound(err):
		err = children.ErrOutdated
	}
	return fmt.Errorf("failed to apply RoleBinding %s: %w", name, err)
}

// dated returns attachments in which each namespace that is new, or another one, tells to which version of the Gateway
// it is written. So agents can report that they follow it.
func dated(wanted *appv1.Attachments, gateway *appv1.Gateway) *appv1.Attachments {
	if wanted == nil {
		return nil
	}
	told := byName(gateway)
	all := *wanted
	all.Namespaces = slices.Clone(wanted.Namespaces)
	for i := range all.Namespaces {
		namespace := &all.Namespaces[i]
		before := told[namespace.Name]
		if namespace.Since = before.Since; !equality.Semantic.DeepEqual(*namespace, before) {
			namespace.Since = gateway.ResourceVersion
		}
	}
	return &all
}

// publish writes to status.attachments which objects belong to a Gateway.
func (c *Controller) publish(ctx context.Context, gateway *appv1.Gateway, wanted *appv1.Attachments) error {
	wanted = dated(wanted, gateway)
	if equality.Semantic.DeepEqual(gateway.Status.Attachments, wanted) {
		return nil
	}
	status := applyappv1.GatewayStatus()
	if wanted != nil {
		status.WithAttachments(apply.From[applyappv1.AttachmentsApplyConfiguration](wanted))
	}
	desired := applyappv1.Gateway(gateway.Name, gateway.Namespace).
		WithResourceVersion(gateway.ResourceVersion).WithUID(gateway.UID).WithStatus(status)
	_, err := c.Gateways.AppV1().Gateways(gateway.Namespace).ApplyStatus(ctx, desired, force)
	return children.Failed(err, "apply the attachments of Gateway", nameOf(gateway))
}
