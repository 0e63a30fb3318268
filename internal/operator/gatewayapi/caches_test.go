package gatewayapi

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// startFill fills the caches of a Controller in a bubble of synctest, on an API server that serves some resources of
// the Gateway API, and fails to list a resource until it is healed.
func startFill(ctx context.Context, t *testing.T, served []string, broken string) (f *fixture, healed *atomic.Bool) {
	t.Helper()
	f, healed = newFixture(t, shop), &atomic.Bool{}
	f.controller.served, f.controller.discovered = map[string]cache.SharedIndexInformer{}, false
	f.kube.Resources = nil
	f.serve(served...)
	for fake := range f.trackers() {
		fake.PrependReactor("list", broken, func(clienttesting.Action) (bool, runtime.Object, error) {
			// Of other errors, client-go keeps the time in a variable of all bubbles.
			return !healed.Load(), nil, apierrors.NewResourceExpired("not now")
		})
	}
	for _, input := range f.inputs.informers() {
		if !input.ours { // others run it
			go input.RunWithContext(ctx)
		}
	}
	go f.controller.Fill(ctx)
	return f, healed
}

// serve has the API server serve more resources.
func (f *fixture) serve(resources ...string) {
	f.kube.Lock()
	defer f.kube.Unlock()
	for _, resource := range resources {
		version := groupVersionOf(resource).String()
		i := slices.IndexFunc(f.kube.Resources, func(list *metav1.APIResourceList) bool { return list.GroupVersion == version })
		if i < 0 {
			i = len(f.kube.Resources)
			f.kube.Resources = append(f.kube.Resources, &metav1.APIResourceList{GroupVersion: version})
		}
		f.kube.Resources[i].APIResources = append(f.kube.Resources[i].APIResources, metav1.APIResource{Name: resource})
	}
}

// TestCachesAreFilledBeforeRun: whoever takes over needs them at once, and readiness says which are not filled yet.
func TestCachesAreFilledBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f, healed := startFill(ctx, t, slices.Collect(maps.Values(resourceOf)), "grpcroutes")
		time.Sleep(time.Second)
		const want = "the API server has not listed grpcroutes"
		if err := f.controller.Ready(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		if f.controller.isReady() {
			t.Error("it works before the GRPCRoutes are there")
		}
		healed.Store(true)
		time.Sleep(time.Minute)
		if err := f.controller.Ready(); err != nil || !f.controller.isReady() {
			t.Errorf("it is not ready: %v", err)
		}
		f.expectWrites(f.writes())
		cancel()
		synctest.Wait()
	})
}

// TestWithoutTheGatewayAPIItIsReady: there is nothing to wait for.
func TestWithoutTheGatewayAPIItIsReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f, _ := startFill(ctx, t, nil, "nothing")
		time.Sleep(time.Second)
		if err := f.controller.Ready(); err != nil || f.controller.isReady() {
			t.Errorf("got %v, want it ready, and nothing to look after", err)
		}
		cancel()
		synctest.Wait()
	})
}

// TestAKindThatIsNotListedStallsNoOther: after a while the operator goes on without it.
func TestAKindThatIsNotListedStallsNoOther(t *testing.T) {
	for _, resource := range []string{"gatewayconfigs", "routefilters", "grpcroutes", "listenersets", "referencegrants", "xtelemetrypolicies"} {
		t.Run(resource, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				f, healed := startFill(ctx, t, slices.Collect(maps.Values(resourceOf)), resource)
				stopped := make(chan struct{})
				go func() {
					defer close(stopped)
					f.controller.Run(ctx)
				}()
				time.Sleep(listTimeout + pendingDelay + 2*time.Second)
				if own := f.ownGateway("web", "shop"); own == nil {
					t.Error("there is no data plane")
				}
				f.expectConditions(routeKind("HTTPRoute"), "web", "api", "parents[0] Accepted=True Accepted")
				if err := f.controller.Ready(); err == nil || !strings.Contains(err.Error(), "has not listed "+resource) {
					t.Errorf("it is ready: %v", err)
				}
				healed.Store(true)
				time.Sleep(time.Minute)
				if err := f.controller.Ready(); err != nil || len(f.controller.stalledResources()) > 0 {
					t.Errorf("it is not ready: %v", err)
				}
				cancel()
				<-stopped
				synctest.Wait()
			})
		})
	}
}

// TestAGroupThatComesLater: its kinds are looked after without a restart, and the others before.
func TestAGroupThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		isOther := func(resource string) bool { return resource == resourceTelemetry }
		f, _ := startFill(ctx, t, slices.DeleteFunc(slices.Collect(maps.Values(resourceOf)), isOther), "nothing")
		time.Sleep(time.Second)
		if err := f.controller.Ready(); err != nil || !f.controller.isReady() || f.controller.informer(resourceTelemetry) != nil {
			t.Errorf("got %v, want it ready without the group", err)
		}
		synctest.Wait()
		f.serve(resourceTelemetry)
		time.Sleep(discoverInterval + time.Second)
		if informer := f.controller.informer(resourceTelemetry); informer == nil || !informer.HasSynced() {
			t.Error("the policies are not looked after")
		}
		cancel()
		synctest.Wait()
	})
}

// TestNothingIsTakenFromAgentsForAKindThatIsNotListed: its objects may still be there.
func TestNothingIsTakenFromAgentsForAKindThatIsNotListed(t *testing.T) {
	f := newFixture(t, shop)
	f.put(other)
	f.settle()
	f.controller.stalled["httproutes"] = true
	must.Do(t, f.controller.informer("httproutes").GetIndexer().Replace(nil, ""))
	must.Get(f.sync())(t)
	f.expectAttached("team web")
	f.expectConditions(routeKind("HTTPRoute"), "team", "api", "parents[0] Accepted=True Accepted")
}

// TestAgentsAreToldWhatTheListHas: an upgraded operator begins without a kind that is not listed.
func TestAgentsAreToldWhatTheListHas(t *testing.T) {
	f := newFixture(t, shop)
	f.put(other)
	f.settle()
	want := f.told().Resources
	f.listInStatus()
	f.program("web", "shop")
	old := f.list(ownKind("GatewayProxy"))[0].(*appv1.GatewayProxy)
	old.Status.Watch = ""
	f.putObject(ownKind("GatewayProxy"), old)
	f.catchUp()
	f.controller.stalled["httproutes"], f.controller.index = true, nil
	must.Do(t, f.controller.informer("httproutes").GetIndexer().Replace(nil, ""))
	for range 3 {
		must.Get(f.sync())(t)
		f.catchUpKind(ownKind("GatewayAttachment"))
	}
	f.expectAttached("team web")
	if got := f.told().Resources; !slices.Equal(got, want) {
		t.Errorf("the agents are told of %v, want %v", got, want)
	}
}

// TestAGatewayStaysAsItIsForAKindThatIsNotListed: others that do not need the kind are looked after.
func TestAGatewayStaysAsItIsForAKindThatIsNotListed(t *testing.T) {
	second := strings.Replace(strings.Split(shop, "\n---")[3], "name: shop}", "name: second}", 1)
	needing := strings.Replace(second, "app\n", "app\n  allowedListeners: {namespaces: {from: All}}\n", 1)
	f := newFixture(t, shop)
	f.put(needing)
	f.settle()
	f.put(strings.Replace(needing, "name: http, port: 80", "name: http, port: 81", 1))
	f.put(strings.Replace(shop, "name: http, port: 80", "name: http, port: 81", 1))
	f.catchUp()
	f.controller.stalled[resourceListenerSets] = true
	must.Get(f.sync())(t)
	f.expectConditions(routeKind("Gateway"), "web", "second",
		"Accepted=Unknown Pending: the API server does not list listenersets, which this may need")
	if port := f.ownGateway("web", "second").Spec.Listeners[0].Port; port != 80 {
		t.Errorf("the data plane of the Gateway that may have ListenerSets has port %d", port)
	}
	if port := f.ownGateway("web", "shop").Spec.Listeners[0].Port; port != 81 {
		t.Errorf("the data plane of the other Gateway has port %d", port)
	}
}
