// Package clienttest makes the generated fake clientset work for Gateways.
package clienttest

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	appv1 "gateway/api/app/v1"
)

// WithPlurals returns the object tracker of a fake clientset, to be asked for "gateways". The trackers of client-go
// guess the plurals of kinds and take this one to be "gatewaies" (https://github.com/kubernetes/client-go/issues/1082).
// The fake clientset calls this itself.
func WithPlurals(tracker clienttesting.ObjectTracker) clienttesting.ObjectTracker {
	return plurals{tracker}
}

// plurals is a tracker that is asked by plurals and asks another one by guesses. What it adds is stored by guesses
// already.
type plurals struct{ clienttesting.ObjectTracker }

// Get implements ObjectTracker, as do all that follow.
func (t plurals) Get(resource schema.GroupVersionResource, ns, name string, opts ...metav1.GetOptions) (runtime.Object, error) {
	object, err := t.ObjectTracker.Get(guess(resource), ns, name, opts...)
	return object, inPlural(resource, err)
}

func (t plurals) Create(resource schema.GroupVersionResource, object runtime.Object, ns string, opts ...metav1.CreateOptions) error {
	return inPlural(resource, t.ObjectTracker.Create(guess(resource), object, ns, opts...))
}

func (t plurals) Update(resource schema.GroupVersionResource, object runtime.Object, ns string, opts ...metav1.UpdateOptions) error {
	return inPlural(resource, t.ObjectTracker.Update(guess(resource), object, ns, opts...))
}

func (t plurals) Patch(resource schema.GroupVersionResource, object runtime.Object, ns string, opts ...metav1.PatchOptions) error {
	return inPlural(resource, t.ObjectTracker.Patch(guess(resource), object, ns, opts...))
}

func (t plurals) Apply(resource schema.GroupVersionResource, object runtime.Object, ns string, opts ...metav1.PatchOptions) error {
	return inPlural(resource, t.ObjectTracker.Apply(guess(resource), object, ns, opts...))
}

func (t plurals) List(
	resource schema.GroupVersionResource, kind schema.GroupVersionKind, ns string, opts ...metav1.ListOptions,
) (runtime.Object, error) {
	return t.ObjectTracker.List(guess(resource), kind, ns, opts...)
}

func (t plurals) Delete(resource schema.GroupVersionResource, ns, name string, opts ...metav1.DeleteOptions) error {
	return inPlural(resource, t.ObjectTracker.Delete(guess(resource), ns, name, opts...))
}

func (t plurals) Watch(resource schema.GroupVersionResource, ns string, opts ...metav1.ListOptions) (watch.Interface, error) {
	return t.ObjectTracker.Watch(guess(resource), ns, opts...)
}

// guess is the resource as client-go guesses it.
func guess(resource schema.GroupVersionResource) schema.GroupVersionResource {
	if resource.GroupResource() == appv1.Resource("gateways") {
		resource, _ = meta.UnsafeGuessKindToResource(resource.GroupVersion().WithKind("Gateway"))
	}
	return resource
}

// inPlural makes an error name the resource that was asked for.
func inPlural(resource schema.GroupVersionResource, err error) error {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || status.ErrStatus.Details == nil {
		return err
	}
	switch name := status.ErrStatus.Details.Name; status.ErrStatus.Reason {
	case metav1.StatusReasonNotFound:
		return apierrors.NewNotFound(resource.GroupResource(), name)
	case metav1.StatusReasonAlreadyExists:
		return apierrors.NewAlreadyExists(resource.GroupResource(), name)
	default:
		return err
	}
}
