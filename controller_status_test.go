package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	appv1 "gateway/api/app/v1"
	applyappv1 "gateway/generated/app/applyconfiguration/app/v1"
	"gateway/internal/must"
	"gateway/internal/operator/children"
	"gateway/internal/operator/queue"
	"gateway/internal/proxypod"
)

// newSlice returns what the EndpointSlice controller makes for the Service of Gateway web/shop, with the pods ready.
func newSlice(pods ...string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
		Namespace: "web", Name: "shop-gateway-abcde",
		Labels: map[string]string{"app.example.com/gateway": "shop", "kubernetes.io/service-name": "shop-gateway"},
	}}
	for _, pod := range pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{"10.0.0.1"},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Name: pod},
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return slice
}

// report applies what the agent of a pod says: the generation it runs and, if message is not empty, that it cannot load
// the newest.
func (f *fixture) report(pod string, generation int64, message string) {
	f.t.Helper()
	gateway := f.gateway()
	proxied := applyappv1.ProxiedGateway().WithName(gateway.Name).WithUID(gateway.UID)
	status := applyappv1.GatewayProxyStatus().WithGateway(proxied).WithObservedGeneration(generation)
	if message != "" {
		origin := applyappv1.ProblemOrigin().WithKind("Gateway").WithNamespace("web").WithName("shop").WithGeneration(gateway.Generation)
		status.WithProblems(applyappv1.ProxyProblem().WithOrigin(origin).WithReason(appv1.ProblemLoadFailed).WithMessage(message))
	}
	proxy := applyappv1.GatewayProxy(pod, "web").WithLabels(proxypod.SelectorLabels("shop")).WithStatus(status)
	must.Get(f.gateways.AppV1().GatewayProxies("web").Apply(ctx, proxy, metav1.ApplyOptions{FieldManager: "gateway-agent", Force: true}))(f.t)
}

// setPods makes the Deployment say how many pods it has.
func (f *fixture) setPods(count int32) {
	f.t.Helper()
	deployment := must.Get(f.kube.AppsV1().Deployments("web").Get(ctx, "shop-gateway", metav1.GetOptions{}))(f.t)
	deployment.Status.Replicas = count
	must.Get(f.kube.AppsV1().Deployments("web").UpdateStatus(ctx, deployment, metav1.UpdateOptions{FieldManager: "controller-manager"}))(f.t)
}

func TestMissingServiceIsToldAndHeals(t *testing.T) {
	f := newFixture(t, newGateway())
	f.mustSync()
	f.expectCondition(`ResolvedRefs=False BackendNotFound: route "shop": Service web/api does not exist: create it or change the route`)
	f.expectEvents(
		`Warning BackendNotFound route "shop": Service web/api does not exist: create it or change the route`,
		"Normal Synced generation 1: applied ServiceAccount, Role, RoleBinding, Service, PodDisruptionBudget, Deployment",
	)
	f.expectWrites(f.mustSync())
	f.expectEvents() // told once

	must.Get(f.kube.CoreV1().Services("web").Create(ctx, newService("api", 80), metav1.CreateOptions{}))(t)
	f.expectWrites(f.mustSync(), "patch gateways/status shop")
	f.expectEvents(`Warning PortNotFound route "shop": Service web/api has no TCP port 8080: add it or change the route`)

	must.Get(f.kube.CoreV1().Services("web").Update(ctx, newService("api", 8080), metav1.UpdateOptions{}))(t)
	f.expectWrites(f.mustSync(), "patch gateways/status shop")
	f.expectCondition("ResolvedRefs=True ResolvedRefs: everything that is named exists and can be used")
	f.expectEvents()
}

func TestProgrammedFollowsTheReports(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080), newSlice("a", "b"))
	f.settle()
	f.setPods(2)
	f.report("a", 1, "")
	f.mustSync()
	f.expectCondition("Programmed=False Pending: 1 of 2 ready proxies run generation 1")

	f.report("b", 1, "")
	f.expectWrites(f.mustSync(), "patch gateways/status shop")
	f.expectCondition("Programmed=True Programmed: 2 of 2 ready proxies run generation 1")
	f.expectWrites(f.mustSync())
	f.expectEvents()

	f.edit(func(gateway *appv1.Gateway) { gateway.Spec.Routes[0].Hostnames = []appv1.Hostname{"shop.example.com"} })
	f.report("a", 1, "map file too big")
	f.mustSync()
	f.expectCondition("Programmed=False LoadFailed: 0 of 2 ready proxies run generation 2; pod a: map file too big")
	f.expectEvents("Warning LoadFailed 0 of 2 ready proxies run generation 2; pod a: map file too big",
		"Normal Synced generation 2: nothing to apply but the status")
	if got := f.gateway().Status; got.Replicas != 2 || got.ReadyReplicas != 2 {
		t.Errorf("%d replicas, %d ready; want 2 and 2", got.Replicas, got.ReadyReplicas)
	}
}

// TestReportsThatTheCacheLacks: before it says for the first time that a generation is live, the operator looks at what
// there is: the caches may be behind what was written before that generation. It does not ask again.
func TestReportsThatTheCacheLacks(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080), newSlice("a"))
	f.settle()
	f.report("a", 1, "")
	f.catchUp()
	slice := newSlice("a", "b")
	slice.Endpoints[1].Conditions.Ready = new(false) // it may become ready at any moment
	must.Get(f.kube.DiscoveryV1().EndpointSlices("web").Update(ctx, slice, metav1.UpdateOptions{}))(t)
	f.report("b", 0, "")
	must.Get(f.sync())(t)
	f.expectCondition("Programmed=False Pending: 1 of 1 ready proxies run generation 1; pod b, which is not ready, runs generation 0")

	f.report("b", 1, "")
	f.mustSync()
	f.expectCondition("Programmed=True Programmed: 1 of 1 ready proxies run generation 1")
	f.expectWrites(f.mustSync())
	for _, action := range append(f.kube.Actions(), f.gateways.Actions()...) {
		if action.GetVerb() == "list" {
			t.Errorf("in steady state the operator lists %s", action.GetResource().Resource)
		}
	}
}

// TestAnEditThatWritesChildren: what was written is told at once, also of an edit that the proxies have yet to load.
func TestAnEditThatWritesChildren(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080), newSlice("a"))
	f.settle()
	f.report("a", 1, "")
	f.mustSync()
	f.edit(func(gateway *appv1.Gateway) { gateway.Spec.Listeners[0].Port++ })
	f.expectWrites(f.mustSync(), "patch services shop-gateway", "patch gateways/status shop")
	f.expectEvents("Normal Synced generation 2: applied Service")
}

// TestForgedReports: whoever has taken over a proxy may write reports of pods that there are not, or for another
// Gateway of the name. They count for nothing, nor does an EndpointSlice of another Service, whatever its label says.
func TestForgedReports(t *testing.T) {
	foreign := newSlice("c")
	foreign.Name, foreign.Labels["kubernetes.io/service-name"] = "other-abcde", "other"
	f := newFixture(t, newGateway(), newService("api", 8080), newSlice("a", "b"), foreign)
	f.settle()
	f.report("a", 1, "")
	for i := range 100 {
		f.report(fmt.Sprint("shop-gateway-", i), 0, "forged")
	}
	f.mustSync()
	f.expectCondition("Programmed=False Pending: 1 of 2 ready proxies run generation 1")
	f.report("b", 1, "")
	f.mustSync()
	f.expectCondition("Programmed=True Programmed: 2 of 2 ready proxies run generation 1")
	f.expectWrites(f.mustSync())
	must.Do(t, f.gateways.AppV1().GatewayProxies("web").Delete(ctx, "b", metav1.DeleteOptions{}))
	f.mustSync()
	f.expectCondition("Programmed=False Pending: 1 of 2 ready proxies run generation 1")
}

func TestDeletedGatewaysAreLeftAlone(t *testing.T) {
	deleted := metav1.Now()
	f := newFixture(t, newGateway(func(gateway *appv1.Gateway) {
		gateway.DeletionTimestamp, gateway.Finalizers = &deleted, []string{"example.com/theirs"}
	}))
	f.expectWrites(f.mustSync())
	must.Do(t, f.gateways.AppV1().Gateways("web").Delete(ctx, "shop", metav1.DeleteOptions{}))
	f.expectWrites(f.mustSync())
	f.expectEvents()
}

func TestChildrenOfADeletedGatewayAreWaitedFor(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	f.settle()
	must.Do(t, f.gateways.AppV1().Gateways("web").Delete(ctx, "shop", metav1.DeleteOptions{}))
	again := newGateway(func(gateway *appv1.Gateway) { gateway.UID = "another-uid" })
	must.Do(t, f.gateways.Tracker().Add(again))
	f.catchUp()
	writes, err := f.sync()
	if err == nil {
		t.Error("there is no error, so nothing would try again")
	}
	f.expectWrites(writes, "patch gateways/status shop")
	f.expectEvents() // it is nobody's fault
	const left = "web/shop-gateway: it belongs to a deleted Gateway of the same name and is being deleted"
	f.expectCondition("Programmed=False Pending: failed to apply ServiceAccount " + left + "; failed to apply Role " + left +
		"; failed to apply Service " + left + "; failed to apply PodDisruptionBudget " + left)
}

// TestAChildOfADeletedGatewayThatStays: the finalizer of a load balancer that cannot be deleted keeps its Service.
func TestAChildOfADeletedGatewayThatStays(t *testing.T) {
	deleted := newGateway(func(gateway *appv1.Gateway) { gateway.UID = "deleted-uid" })
	service := newService("shop-gateway", 80)
	service.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(deleted, appv1.SchemeGroupVersion.WithKind("Gateway"))}
	f := newFixture(t, newGateway(), newService("api", 8080), service)
	for range 2 {
		f.catchUp()
		if _, err := f.sync(); !errors.Is(err, children.ErrLeftOver) {
			t.Errorf("got the error %v, want that the Service is left over", err)
		}
		f.expectCondition("Programmed=False Pending: failed to apply Service web/shop-gateway: it belongs to a deleted Gateway of the same name " +
			"and is being deleted")
		f.expectEvents()
	}
	must.Do(t, f.kube.CoreV1().Services("web").Delete(ctx, "shop-gateway", metav1.DeleteOptions{}))
	f.mustSync()
	f.expectCondition("Programmed=False NoReadyProxies: 0 of 2 proxies are ready")
	f.expectEvents("Normal Synced generation 1: applied Service")
}

func TestStatusThatCannotBeWritten(t *testing.T) {
	f := newFixture(t, newGateway(), newService("api", 8080))
	f.failOn("patch", "gateways", apierrors.NewInternalError(errors.New("disk full")))
	f.catchUp()
	if _, err := f.sync(); err == nil {
		t.Error("there is no error, so nothing would try again")
	}
	f.expectEvents("Warning StatusFailed failed to apply the status of Gateway web/shop: Internal error occurred: disk full",
		"Normal Synced generation 1: applied ServiceAccount, Role, RoleBinding, Service, PodDisruptionBudget, Deployment")

	f = newFixture(t, newGateway(), newService("api", 8080))
	f.failOn("patch", "gateways", apierrors.NewNotFound(schema.GroupResource{Resource: "gateways"}, "shop"))
	f.catchUp()
	if _, err := f.sync(); err != nil {
		t.Errorf("a Gateway that was deleted meanwhile is an error: %v", err)
	}
}

// failOn makes the API servers answer a kind of request with an error.
func (f *fixture) failOn(verb, resource string, err error) {
	reaction := func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err }
	f.kube.PrependReactor(verb, resource, reaction)
	f.gateways.PrependReactor(verb, resource, reaction)
}

// TestWhoIsLookedAtAgain feeds the event handlers and compares what they put into the queue.
func TestWhoIsLookedAtAgain(t *testing.T) {
	other := newGateway(func(gateway *appv1.Gateway) { gateway.Name, gateway.UID = "other", types.UID("other-uid") })
	unrelated := newGateway(func(gateway *appv1.Gateway) {
		gateway.Name, gateway.UID, gateway.Spec.Routes = "unrelated", types.UID("unrelated-uid"), nil
	})
	f := newFixture(t, newGateway(), other, unrelated)
	owned := newService("shop-gateway", 80)
	owned.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(newGateway(), appv1.SchemeGroupVersion.WithKind("Gateway"))}
	elsewhere := newService("api", 8080)
	elsewhere.Namespace = "elsewhere"
	report := &appv1.GatewayProxy{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a", Labels: proxypod.SelectorLabels("shop")}}
	users := f.controller.enqueueUsers
	tests := map[string]struct {
		handle func(obj any, priority queue.Priority)
		object any
		want   []string
	}{
		"a Service enqueues the Gateways that name it":   {users, newService("api", 8080), []string{"web/other", "web/shop"}},
		"but not those of another namespace":             {users, elsewhere, nil},
		"a Service that nobody names enqueues nobody":    {users, newService("db", 5432), nil},
		"a child enqueues its owner":                     {f.controller.enqueueOwner, owned, []string{"web/shop"}},
		"an EndpointSlice enqueues the Gateway it is of": {f.controller.enqueueOwner, newSlice("a"), []string{"web/shop"}},
		"so does a report":                               {f.controller.enqueueOwner, report, []string{"web/shop"}},
		"a Gateway enqueues itself":                      {f.controller.enqueueGateway, newGateway(), []string{"web/shop"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.handle(test.object, queue.High)
			expectQueue(t, f.controller, test.want)
		})
	}
}

// TestUpdatesOfAGateway: what the operator writes is the status, and no reason to look again.
func TestUpdatesOfAGateway(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(*appv1.Gateway)
		want   []string
	}{
		"a resync":            {func(gateway *appv1.Gateway) { gateway.ResourceVersion = "1" }, []string{"web/shop"}},
		"another generation":  {func(gateway *appv1.Gateway) { gateway.Generation++ }, []string{"web/shop"}},
		"another Gateway":     {func(gateway *appv1.Gateway) { gateway.UID = "another-uid" }, []string{"web/shop"}},
		"its deletion begins": {func(gateway *appv1.Gateway) { gateway.DeletionTimestamp = &now }, []string{"web/shop"}},
		"its conditions": {func(gateway *appv1.Gateway) {
			gateway.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionProgrammed, Message: "another"}}
		}, nil},
		"its conditions are gone": {func(gateway *appv1.Gateway) { gateway.Status.Conditions = nil }, []string{"web/shop"}},
		"somebody's label":        {func(gateway *appv1.Gateway) { gateway.Labels = map[string]string{"team": "a"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newGateway())
			before := newGateway()
			before.ResourceVersion = "1"
			before.Status.Conditions = []metav1.Condition{{Type: appv1.ConditionProgrammed}}
			after := before.DeepCopy()
			after.ResourceVersion = "2"
			test.change(after)
			f.controller.updateGateway(before, after)
			expectQueue(t, f.controller, test.want)
		})
	}
}

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
			must.Do(t, f.kube.CoreV1().Services("web").Delete(ctx, "shop-gateway", metav1.DeleteOptions{}))
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
