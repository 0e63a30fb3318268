package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/apply"
	"gateway/internal/operator/children"
	"gateway/internal/proxypod"
)

const (
	// LabelAttached is on the RoleBindings by which agents may read what belongs to their Gateway in another namespace,
	// and on the ClusterRoleBindings by which they may in all.
	LabelAttached = "app.example.com/attached"
	// clusterRole says what they may read there. It is in artifacts/rbac.
	clusterRole = "gateway-attached"
)

// roleBinding is what RoleBindings and ClusterRoleBindings have.
type roleBinding struct {
	metav1.Object
	RoleRef  rbacv1.RoleRef
	Subjects []rbacv1.Subject
}

// bindingOf returns what a RoleBinding or ClusterRoleBinding has, nil for none.
func bindingOf(object any) *roleBinding {
	switch found := object.(type) {
	case *rbacv1.RoleBinding:
		return &roleBinding{found, found.RoleRef, found.Subjects}
	case *rbacv1.ClusterRoleBinding:
		return &roleBinding{found, found.RoleRef, found.Subjects}
	}
	return nil
}

// binding returns the binding of a place as the cache has it, nil if there is none.
func (a *attacher) binding(p place) *roleBinding {
	store := a.bindings
	if p.namespace == "" {
		store = a.clusterBindings
	}
	if store == nil {
		return nil
	}
	object, _, _ := store.GetByKey(cache.NewObjectName(p.namespace, p.bindingName()).String()) // reading the cache never fails
	return bindingOf(object)
}

// bind makes the binding of a place as it should be, and reports whether that is done. One of somebody else is left
// alone. A new one gets its subject once it is in the cache: nothing refuses a late write that creates again what the
// next leader has deleted, so such a write must grant nothing. isRefused reports whether it could not be made before.
func (a *attacher) bind(ctx context.Context, p place, own *appv1.Gateway, isRefused bool) (isBound bool, err error) {
	before := a.binding(p)
	if before != nil && before.grants(p) {
		return true, nil
	}
	if before == nil && isRefused {
		if isBound, err = a.current(ctx, p, own.Name); isBound || err != nil && !errors.Is(err, children.ErrOutdated) {
			return isBound, err
		}
	}
	err = a.applyBinding(ctx, p, before)
	if apierrors.IsConflict(err) && before == nil {
		return a.current(ctx, p, own.Name)
	}
	return err == nil && before != nil, bindingError(p, err)
}

// current reports whether a binding that is in no cache lets the agents of a Gateway read. The cache holds only what
// carries our label, and only what has reached it. So the one of that name may be someone else's, or ours.
func (a *attacher) current(ctx context.Context, p place, gateway string) (isBound bool, err error) {
	var object metav1.Object
	if p.namespace == "" {
		object, err = a.Kube.RbacV1().ClusterRoleBindings().Get(ctx, p.bindingName(), metav1.GetOptions{})
	} else {
		object, err = a.Kube.RbacV1().RoleBindings(p.namespace).Get(ctx, p.bindingName(), metav1.GetOptions{})
	}
	found := bindingOf(object)
	switch {
	case err != nil && !apierrors.IsNotFound(err):
		return false, bindingError(p, err)
	case err == nil && found.GetLabels()[LabelAttached] == "" && found.grants(p):
		return true, nil
	case err == nil && found.GetLabels()[LabelAttached] == "":
		return false, &children.NotOwnedError{Kind: kindOfBinding(p), Namespace: p.namespace, Name: p.bindingName(), Gateway: gateway}
	}
	return false, bindingError(p, apierrors.NewConflict(rbacv1.Resource("rolebindings"), p.bindingName(), children.ErrOutdated))
}

func kindOfBinding(p place) string {
	if p.namespace == "" {
		return kindCluster
	}
	return kindBinding
}

// applyBinding writes a binding, without a subject if there was none before.
func (a *attacher) applyBinding(ctx context.Context, p place, before *roleBinding) error {
	to := subjectOf(p)
	desired := rbacv1ac.RoleBinding(p.bindingName(), p.namespace).
		WithLabels(map[string]string{LabelAttached: "true", proxypod.LabelManagedBy: proxypod.FieldManager}).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(clusterRole)).
		WithResourceVersion(children.Unwritten)
	if before != nil {
		desired.WithResourceVersion(before.GetResourceVersion()).WithUID(before.GetUID()).
			WithSubjects(rbacv1ac.Subject().WithKind(to.Kind).WithName(to.Name).WithNamespace(to.Namespace))
	}
	var err error
	if p.namespace == "" {
		all := apply.From[rbacv1ac.ClusterRoleBindingApplyConfiguration](desired.WithKind(kindCluster))
		all.Namespace = nil
		_, err = a.Kube.RbacV1().ClusterRoleBindings().Apply(ctx, all, force)
	} else {
		_, err = a.Kube.RbacV1().RoleBindings(p.namespace).Apply(ctx, desired, force)
	}
	return err
}

// unbind deletes the binding of a place.
func (a *attacher) unbind(ctx context.Context, p place) error {
	seen := a.binding(p)
	if seen == nil || seen.RoleRef.Name != clusterRole {
		return nil
	}
	remove := a.Kube.RbacV1().RoleBindings(p.namespace).Delete
	if p.namespace == "" {
		remove = a.Kube.RbacV1().ClusterRoleBindings().Delete
	}
	err := remove(ctx, p.bindingName(), children.Unchanged(seen))
	return children.Failed(err, "delete "+kindOfBinding(p), types.NamespacedName{Namespace: p.namespace, Name: p.bindingName()})
}

// bindingError returns the error of a write of a binding.
func bindingError(p place, err error) error {
	name := types.NamespacedName{Namespace: p.namespace, Name: p.bindingName()}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return fmt.Errorf("failed to apply %s %s: %w", kindOfBinding(p), name, children.ErrNamespaceGone)
	}
	return children.Failed(err, "apply "+kindOfBinding(p), name)
}

// subjectOf is who gets the permissions of a Gateway.
func subjectOf(p place) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: p.gateway.Namespace, Name: proxypod.ChildName(p.gateway.Name)}
}

// grants reports whether a binding lets the agents of a Gateway read.
func (b *roleBinding) grants(p place) bool {
	return b.RoleRef.Kind == "ClusterRole" && b.RoleRef.Name == clusterRole && slices.Equal(b.Subjects, []rbacv1.Subject{subjectOf(p)})
}
