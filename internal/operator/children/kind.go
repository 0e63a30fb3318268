package children

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
)

// object is a typed Kubernetes object, such as *corev1.Service.
type object interface {
	metav1.Object
	runtime.Object
}

// configuration is a typed apply configuration, such as *corev1ac.ServiceApplyConfiguration.
type configuration[A any] interface {
	GetName() *string
	GetNamespace() *string
	WithResourceVersion(value string) A
	WithUID(value types.UID) A
}

// client is the part of a typed client for one namespace, such as corev1.ServiceInterface, that is used here.
type client[T object, A any] interface {
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	Apply(ctx context.Context, desired A, options metav1.ApplyOptions) (T, error)
}

// kind keeps the children of one kind.
type kind[T object, A configuration[A]] struct {
	// name is the kind's name in errors and events.
	name string
	// informer fills the cache.
	informer cache.SharedIndexInformer
	// cache is the informer's, overlaid with what was applied and has not come back through the watch. Without the
	// overlay, a sync right after an apply would see the old object and apply again. Objects in it are only read.
	cache cache.MutationCache
	// client returns the typed client for a namespace.
	client func(namespace string) client[T, A]
	// extract returns the fields of an object that a field manager owns.
	extract func(object T, fieldManager string) (A, error)
	// strip returns what is kept of spec and status.
	strip func(object T) T
}

func newKind[T object, A configuration[A], C client[T, A]](
	name string, informer cache.SharedIndexInformer, clients func(namespace string) C, extract func(T, string) (A, error), strip func(T) T,
) *kind[T, A] {
	return &kind[T, A]{
		name: name, informer: informer, cache: Overlay(informer.GetIndexer()),
		client:  func(namespace string) client[T, A] { return clients(namespace) },
		extract: extract, strip: strip,
	}
}

// Overlay returns a view of an informer's cache that shows objects handed to its Mutation method until the informer has
// seen them too. An object that the informer does not hold is never shown: it may have been deleted meanwhile.
func Overlay(indexer cache.Indexer) cache.MutationCache {
	return cache.NewIntegerResourceVersionMutationCacheWithOptions(klog.Background(), indexer, cache.MutationCacheOptions{
		// One entry for each write that is on its way back. If there are more, the worst is an apply that changes nothing.
		MaxCacheSize: 1024,
	})
}

// Unwritten is a resourceVersion that no child has, because its namespace was written before it. An apply with it
// creates the object, or is refused if there is one of that name, so no read is needed first.
const Unwritten = "1"

// ensure makes the child as desired. It returns the child and whether it had to be written; with an error, it returns
// what exists. An object of that name that the Gateway does not control is left alone, and the error is a
// *NotOwnedError.
func (k *kind[T, A]) ensure(ctx context.Context, gateway *appv1.Gateway, desired A) (child T, written bool, err error) {
	var none T
	namespace, name, wanted := *desired.GetNamespace(), *desired.GetName(), digest(desired)
	cached, exists, err := k.cache.GetByKey(namespace + "/" + name)
	if err != nil {
		return none, false, fmt.Errorf("failed to look up %s %s/%s: %w", k.name, namespace, name, err)
	}
	if exists {
		return k.update(ctx, gateway, cached.(T), wanted, desired)
	}
	created, err := k.apply(ctx, desired.WithResourceVersion(Unwritten))
	if !errors.Is(err, ErrOutdated) {
		return created, err == nil, err
	}
	// The cache holds only objects with our label, and only what has reached it. So this object may be someone else's, or
	// ours.
	current, err := k.client(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return none, false, fmt.Errorf("failed to get %s %s/%s: %w", k.name, namespace, name, ErrOutdated)
	case err != nil:
		return none, false, fmt.Errorf("failed to get %s %s/%s: %w", k.name, namespace, name, err)
	}
	return k.update(ctx, gateway, k.kept(current), wanted, desired)
}

// seen returns the child of a Gateway as it was last seen, nil if there is none.
func (k *kind[T, A]) seen(gateway *appv1.Gateway) T {
	var none T
	cached, exists, err := k.cache.GetByKey(gateway.Namespace + "/" + proxypod.ChildName(gateway.Name))
	if err != nil || !exists || !metav1.IsControlledBy(cached.(T), gateway) {
		return none // ensure tells an error
	}
	return cached.(T)
}

// update is ensure for a child that exists; wanted is the digest that it should have.
func (k *kind[T, A]) update(
	ctx context.Context, gateway *appv1.Gateway, current T, wanted string, desired A,
) (child T, written bool, err error) {
	if err := k.checkOwner(gateway, current); err != nil {
		var none T
		return none, false, err
	}
	if keptDigest(current) == wanted {
		return current, false, nil
	}
	// The API server refuses the apply if someone has changed the object meanwhile, perhaps another operator that knows
	// more than this one; and, for the UID, if it was deleted: the resourceVersion alone would create it.
	desired = desired.WithResourceVersion(current.GetResourceVersion()).WithUID(current.GetUID())
	applied, err := k.apply(ctx, desired)
	if err != nil {
		return current, false, err
	}
	return applied, true, nil
}

// apply makes the child as desired on the API server and returns it.
func (k *kind[T, A]) apply(ctx context.Context, desired A) (T, error) {
	var none T
	namespace, name := *desired.GetNamespace(), *desired.GetName()
	applied, err := k.client(namespace).Apply(ctx, desired, metav1.ApplyOptions{
		FieldManager: proxypod.FieldManager,
		Force:        true, // a field we want is ours, whoever set it last
	})
	switch {
	case apierrors.IsConflict(err):
		err = ErrOutdated
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), isGoneNamespace(err):
		err = ErrNamespaceGone
	}
	if err != nil {
		return none, fmt.Errorf("failed to apply %s %s/%s: %w", k.name, namespace, name, err)
	}
	applied = k.kept(applied)
	k.cache.Mutation(applied)
	return applied, nil
}

// isGoneNamespace reports whether err means that a namespace was not found. For a RoleBinding, it may be the Role that
// was not found.
func isGoneNamespace(err error) bool {
	var answer apierrors.APIStatus
	if !apierrors.IsNotFound(err) || !errors.As(err, &answer) {
		return false
	}
	details := answer.Status().Details
	return details != nil && details.Group == "" && details.Kind == "namespaces"
}

// checkOwner returns nil if the Gateway controls the object.
func (k *kind[T, A]) checkOwner(gateway *appv1.Gateway, found T) error {
	if metav1.IsControlledBy(found, gateway) {
		return nil
	}
	if owner, ok := Owner(found); ok && owner.Name == gateway.Name {
		return fmt.Errorf("failed to apply %s %s/%s: %w", k.name, found.GetNamespace(), found.GetName(), ErrLeftOver)
	}
	return &NotOwnedError{Kind: k.name, Namespace: found.GetNamespace(), Name: found.GetName(), Gateway: gateway.Name}
}
