package main

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
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

// TestInternalErrorsThatLast: an API server that has no node port left calls that an internal error, and one that waits for a webhook
// may not answer in time. When it starts, or has lost etcd, it does so, too, and that is not told.
func TestInternalErrorsThatLast(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	var failure, statusFailure error
	f.kube.PrependReactor("patch", "services", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failure != nil, nil, failure
	})
	f.gateways.PrependReactor("patch", "gateways", func(clienttesting.Action) (bool, runtime.Object, error) {
		return statusFailure != nil, nil, statusFailure
	})
	const (
		message   = "failed to apply Service web/shop-gateway: Internal error occurred: failed to allocate a nodePort: range is full"
		untold    = "Programmed=False NoReadyProxies: 0 of 2 proxies are ready"
		told      = "Programmed=False ApplyFailed: " + message
		tried     = "Warning ApplyFailed " + message
		other     = "Warning ApplyFailed failed to apply Service web/shop-gateway: not now"
		unwritten = "Warning StatusFailed failed to apply the status of Gateway web/shop: "
		hangs     = "ApplyFailed%s failed to apply Service web/shop-gateway: context deadline exceeded"
	)
	unanswered := context.DeadlineExceeded
	full, etcd := apierrors.NewInternalError(errors.New("failed to allocate a nodePort: range is full")), apierrors.NewInternalError(errors.New("etcd"))
	for _, try := range []struct {
		after                  time.Duration
		failure, statusFailure error
		condition              string
		events                 []string
	}{
		{0, full, nil, untold, []string{tried}},
		{lastingFailure - 1, full, nil, untold, []string{tried}},
		// Something else comes between.
		{1, apierrors.NewServiceUnavailable("not now"), nil, untold, []string{other}},
		{1, full, nil, untold, []string{tried}},
		// The status should say it, but cannot be written either.
		{lastingFailure, full, etcd, untold, []string{unwritten + etcd.Error(), tried}},
		{1, full, nil, untold, []string{tried}},
		{lastingFailure, full, unanswered, untold, []string{unwritten + unanswered.Error(), tried}},
		{1, full, nil, untold, []string{tried}},
		{lastingFailure, full, nil, told, []string{tried}},
		{lastingFailure, full, nil, told, nil},
		{1, unanswered, nil, "Programmed=False " + fmt.Sprintf(hangs, ":"), []string{"Warning " + fmt.Sprintf(hangs, "")}},
		{1, nil, nil, untold, []string{"Normal Synced generation 1: applied Service"}},
	} {
		f.now, failure, statusFailure = f.now.Add(try.after), try.failure, try.statusFailure
		f.catchUp()
		_, _ = f.sync() // the error is that of the event
		f.expectCondition(try.condition)
		f.expectEvents(try.events...)
	}
}

// TestRefusedPermissions: the API server looks for the Role before it takes its RoleBinding. That it is not found says nothing about
// the namespace.
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

// TestAFailureWhoseTextChanges: a webhook's port, or the time, is new in each answer. To write that each time would change the Gateway,
// and so have the operator try again at once, for ever.
func TestAFailureWhoseTextChanges(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	failure := ""
	f.kube.PrependReactor("patch", "deployments", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(k8sappsv1.Resource("deployments"), "shop-gateway", errors.New(failure))
	})
	for _, try := range []struct {
		after         time.Duration
		failure, told string
		edit          bool
	}{
		{0, "read 10.0.0.1:48212: reset", "read 10.0.0.1:48212: reset", false},
		{time.Second, "read 10.0.0.1:4821: reset", "read 10.0.0.1:48212: reset", false},
		{time.Second, "read 10.0.0.2:1: reset", "read 10.0.0.1:48212: reset", false},
		{time.Second, "read 10.0.0.2:1: refused", "read 10.0.0.2:1: refused", false},
		{time.Second, "read 10.0.0.2:2: refused", "read 10.0.0.2:1: refused", false},
		{restated, "read 10.0.0.2:3: refused", "read 10.0.0.2:3: refused", false},
		{time.Second, "read 10.0.0.2:4: refused", "read 10.0.0.2:3: refused", false},
		{time.Second, "read 10.0.0.2:5: refused", "read 10.0.0.2:5: refused", true},
	} {
		if try.edit {
			f.edit(func(gateway *appv1.Gateway) { gateway.Spec.Replicas = new(int32(3)) })
		}
		f.now, failure = f.now.Add(try.after), try.failure
		f.catchUp()
		_, _ = f.sync()
		f.expectCondition("Programmed=False ApplyFailed: failed to apply Deployment web/shop-gateway: " +
			`deployments.apps "shop-gateway" is forbidden: ` + try.told)
	}
}
