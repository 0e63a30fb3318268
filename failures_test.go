package main

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"

	appv1 "gateway/api/app/v1"
)

func TestRefusedChildIsInTheStatus(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "shop-gateway", errors.New("quota exceeded"))
	f.failOn("patch", "services", quota)
	f.catchUp()
	_, err := f.sync()
	const message = `failed to apply Service web/shop-gateway: services "shop-gateway" is forbidden: quota exceeded`
	if !errors.Is(err, quota) || err.Error() != message {
		t.Errorf("got the error %v, want %s", err, message)
	}
	f.expectEvents("Warning ApplyFailed " + message)
	f.expectCondition("Programmed=False ApplyFailed: " + message)
}

func TestNamespaceThatIsBeingDeleted(t *testing.T) {
	terminating := apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "shop-gateway", errors.New("terminating"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, failure := range map[string]error{
		"it is on its way out": terminating,
		"it is gone":           apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "web"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newGateway(), newService("api", 8080))
			f.settle()
			must(t, f.kube.CoreV1().Services("web").Delete(ctx, "shop-gateway", metav1.DeleteOptions{}))
			f.failOn("patch", "services", failure)
			f.expectWrites(f.mustSync(), "create services shop-gateway")
			f.expectEvents()
		})
	}
}

func TestPassingFailureIsNotInTheStatus(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080), newSlice("a"))
	f.settle()
	f.report("a", 1, "")
	f.mustSync()
	f.edit(func(gateway *appv1.Gateway) { gateway.Spec.Replicas = new(int32(3)) })
	f.report("a", 2, "")
	f.failOn("patch", "deployments", apierrors.NewServiceUnavailable("try later"))
	f.catchUp()
	if _, err := f.sync(); err == nil {
		t.Error("there is no error, so nothing would try again")
	}
	f.expectEvents("Warning ApplyFailed failed to apply Deployment web/shop-gateway: try later")
	f.expectCondition("Programmed=True Programmed: 1 of 1 ready proxies run generation 2")
}

// TestFailuresThatLast: an API server that has no node port left calls that an internal error, and one that waits for a
// webhook may not answer in time. What it says goes into the status at once, and out of it when it is over.
func TestFailuresThatLast(t *testing.T) {
	for name, test := range map[string]struct {
		failure error
		message string
	}{
		"an internal error": {
			apierrors.NewInternalError(errors.New("failed to allocate a nodePort: range is full")),
			"Internal error occurred: failed to allocate a nodePort: range is full",
		},
		"no answer": {context.DeadlineExceeded, "context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newGateway(), newService("api", 8080))
			failure := test.failure
			f.kube.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
				return failure != nil, nil, failure
			})
			message := "failed to apply Service web/shop-gateway: " + test.message
			if _, err := f.sync(); err == nil {
				t.Error("there is no error, so nothing would try again")
			}
			f.expectCondition("Programmed=False ApplyFailed: " + message)
			f.expectEvents("Warning ApplyFailed " + message)
			f.catchUp()
			writes, _ := f.sync()
			f.expectWrites(writes, "create services shop-gateway")
			f.expectEvents() // the status has it
			failure = nil
			f.mustSync()
			f.expectCondition("Programmed=False NoReadyProxies: 0 of 2 proxies are ready")
			f.expectEvents("Normal Synced generation 1: applied Service")
		})
	}
}

// TestRefusedPermissions: the API server looks for the Role before it takes its RoleBinding. That it is not found says
// nothing about the namespace.
func TestRefusedPermissions(t *testing.T) {
	const name = "shop-gateway"
	for resource, test := range map[string]struct {
		refusal error
		message string
	}{
		"roles": {
			apierrors.NewForbidden(rbacv1.Resource("roles"), name, errors.New("exceeded quota")),
			`failed to apply Role web/shop-gateway: roles.rbac.authorization.k8s.io "shop-gateway" is forbidden: exceeded quota`,
		},
		"rolebindings": {
			apierrors.NewNotFound(rbacv1.Resource("roles"), name),
			`failed to apply RoleBinding web/shop-gateway: roles.rbac.authorization.k8s.io "shop-gateway" not found`,
		},
	} {
		t.Run(resource, func(t *testing.T) {
			f := newFixture(t, newGateway(), newService("api", 8080))
			f.failOn("patch", resource, test.refusal)
			f.catchUp()
			if _, err := f.sync(); err == nil {
				t.Error("there is no error, so nothing would try again")
			}
			f.expectCondition("Programmed=False ApplyFailed: " + test.message)
			f.expectEvents("Warning ApplyFailed " + test.message)
		})
	}
}
