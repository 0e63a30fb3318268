package gatewayapi

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/must"
	"gateway/internal/operator/children"
	source "gateway/internal/source/gatewayapi"
)

// allKinds has an object of each kind that statuses are written of.
const allKinds = shop + `
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: web, name: all}
spec:
  gatewayClassName: app
  allowedListeners: {namespaces: {from: Same}}
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: tcp, port: 81, protocol: TCP}, {name: tls, port: 82, protocol: TLS, tls: {mode: Passthrough}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {namespace: web, name: set}
spec: {parentRef: {name: all}, listeners: [{name: more, port: 83, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {namespace: web, name: grpc}
spec: {parentRefs: [{name: all}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {namespace: web, name: tcp}
spec: {parentRefs: [{name: all}], rules: [{backendRefs: [{name: api, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TLSRoute
metadata: {namespace: web, name: tls}
spec: {parentRefs: [{name: all}], hostnames: [a.io], rules: [{backendRefs: [{name: api, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {namespace: web, name: udp}
spec: {parentRefs: [{name: all}], rules: [{backendRefs: [{name: api, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {namespace: web, name: policy}
spec: {targetRefs: [{group: "", kind: Service, name: api}], validation: {hostname: a.io, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}
---` + spans

// TestAStatusIsWrittenOnce though the caches have the object as it was before.
func TestAStatusIsWrittenOnce(t *testing.T) {
	f := newFixture(t, allKinds)
	writes := must.Get(f.sync())(t)
	var written []string
	for _, write := range writes {
		if resource, ok := strings.CutPrefix(write, "update "); ok {
			written = append(written, strings.Split(resource, "/")[0])
		}
	}
	if got := slices.Compact(written); len(got) != len(resourceOf)-2 { // all but ReferenceGrants and ServiceImports
		t.Fatalf("statuses are written of %v", got)
	}
	// Our Gateways are seen by now, and not the statuses. So some are to be others.
	f.catchUpKind(ownKind("Gateway"))
	for range 2 {
		for _, write := range f.syncBehind() {
			if strings.HasPrefix(write, "update ") {
				t.Errorf("the caches are behind, and there is %q", write)
			}
		}
	}
	f.settle()
}

// TestAPendingStatusWaits for the proxies to run the route, so that one write has both. Problems are written at once.
func TestAPendingStatusWaits(t *testing.T) {
	for _, test := range []struct {
		name, documents string
		meanwhile       func(f *fixture)
		now, later      int
		condition       string
	}{
		{"the proxies do not run it", shop, func(*fixture) {}, 0, 1, "parents[0] Programmed=False Pending: its proxies do not run yet"},
		{"the proxies run it meanwhile", shop, func(f *fixture) {
			f.catchUp()
			must.Do(f.t, f.syncOnce(context.Background())) // the GatewayAttachment of the namespace
			f.program("web", "shop")
			f.catchUp()
			must.Do(f.t, f.syncOnce(context.Background()))
		}, 0, 1, "parents[0] Programmed=True Programmed"},
		{"it is not accepted", strings.Replace(shop, "{name: shop}]", "{name: shop, sectionName: none}]", 1), func(*fixture) {}, 1, 0, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, test.documents)
				f.clearActions()
				must.Do(t, f.syncOnce(t.Context()))
				count := func() int { return f.writesOf("update httproutes/status web/api") }
				if got := count(); got != test.now {
					t.Errorf("there are %d writes at once, want %d", got, test.now)
				}
				test.meanwhile(f)
				time.Sleep(pendingDelay)
				synctest.Wait()
				if got := count(); got != test.later {
					t.Errorf("there are %d writes later, want %d", got, test.later)
				}
				if test.condition != "" {
					f.expectConditions(routeKind("HTTPRoute"), "web", "api", test.condition)
				}
			})
		})
	}
}

// TestCountsAreWrittenTogether: the first count of attached routes is written at once, and all that follow within a
// while by one write.
func TestCountsAreWrittenTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newSettled(t, shop)
		f.programShop()
		add := func(name string) (writes int) {
			f.put(strings.Replace(route, "name: api}", "name: "+name+"}", 1))
			f.catchUp()
			must.Do(t, f.syncOnce(t.Context()))
			return f.writesOf("update gateways/status web/shop")
		}
		if got := []int{add("second"), add("third"), add("fourth")}; !slices.Equal(got, []int{1, 0, 0}) {
			t.Errorf("there are %v writes at once", got)
		}
		time.Sleep(countInterval)
		synctest.Wait()
		if got := f.writesOf("update gateways/status web/shop"); got != 1 {
			t.Errorf("there are %d writes later", got)
		}
		if got := f.list(routeKind("Gateway"))[0].(*gatewayv1.Gateway).Status.Listeners[0].AttachedRoutes; got != 4 {
			t.Errorf("%d routes are counted", got)
		}
	})
}

// writesOf writes the statuses that are due, and returns how many writes are equal to one.
func (f *fixture) writesOf(wanted string) (n int) {
	f.clearActions()
	for f.controller.writes.Len() > 0 {
		f.controller.processNextWrite(f.t.Context())
	}
	for _, write := range f.writes() {
		if write == wanted {
			n++
		}
	}
	return n
}

// TestAFailedStatusIsLookedAtAgain: nothing that is watched may change before.
func TestAFailedStatusIsLookedAtAgain(t *testing.T) {
	routes := schema.GroupResource{Group: "gateway.networking.k8s.io", Resource: "httproutes"}
	for _, test := range []struct {
		name   string
		answer error
		after  time.Duration
	}{
		{"an error of the API server", apierrors.NewInternalError(errors.New("etcd is away")), lastRetry},
		{"a conflict", apierrors.NewConflict(routes, "api", errors.New("it has been modified")), interval},
		{"no such object", apierrors.NewNotFound(routes, "api"), interval},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, shop)
				failures := 1
				f.routes.PrependReactor("update", "httproutes", func(clienttesting.Action) (bool, runtime.Object, error) {
					failures--
					return failures >= 0, nil, test.answer
				})
				f.mustSync()
				f.emptyQueue()
				time.Sleep(test.after - time.Millisecond)
				synctest.Wait()
				if waiting := f.controller.queue.Len(); waiting > 0 {
					t.Errorf("it is looked at too soon")
				}
				time.Sleep(time.Millisecond)
				synctest.Wait()
				if waiting := f.controller.queue.Len(); waiting != 1 {
					t.Errorf("it is not looked at again")
				}
				if writes := f.mustSync(); !slices.Contains(writes, "update httproutes/status web/api") {
					t.Errorf("then there is %q", writes)
				}
			})
		})
	}
}

// TestWhatIsBehindIsLookedAtAgain: the cache of an object is behind what was written of it.
func TestWhatIsBehindIsLookedAtAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, shop)
		must.Get(f.sync())(t)
		f.emptyQueue()
		f.catchUpKind(ownKind("Gateway"))
		f.syncBehind()
		time.Sleep(interval)
		synctest.Wait()
		var again []source.Object
		for f.controller.queue.Len() > 0 {
			next, _ := f.controller.queue.Get()
			again = append(again, next.Object)
			f.controller.queue.Done(next)
		}
		for _, id := range []source.Object{
			{Kind: "GatewayClass", Name: "app"}, {Kind: "Gateway", Namespace: "web", Name: "shop"}, {Kind: "HTTPRoute", Namespace: "web", Name: "api"},
		} {
			if !slices.Contains(again, id) {
				t.Errorf("%+v is not looked at again, only %+v", id, again)
			}
		}
	})
}

// syncBehind is sync while the caches are behind: what was written meanwhile may be refused.
func (f *fixture) syncBehind() []string {
	f.t.Helper()
	writes, err := f.sync()
	if err != nil && !children.OnlyOutdated(err) {
		f.t.Fatal(err)
	}
	return writes
}

// emptyQueue takes out of the queue what is there now.
func (f *fixture) emptyQueue() {
	for f.controller.queue.Len() > 0 {
		key, _ := f.controller.queue.Get()
		f.controller.queue.Done(key)
	}
}

// TestProgrammedIsOfTheGeneration that our Gateway has.
func TestProgrammedIsOfTheGeneration(t *testing.T) {
	f := newSettled(t, shop)
	f.programShop()
	f.expectConditions(routeKind("Gateway"), "web", "shop", "Programmed=True Programmed")
	f.put(strings.Replace(strings.Split(shop, "\n---")[3], "port: 80", "port: 81", 1))
	f.settle() // our Gateway has another generation, and the status of the one before
	f.expectConditions(routeKind("Gateway"), "web", "shop", "Programmed=False Pending: its proxies do not run yet",
		"listeners[0] Programmed=False Pending: its proxies do not run yet")
	f.expectConditions(routeKind("HTTPRoute"), "web", "api", "parents[0] Programmed=False Pending: its proxies do not run yet")
}

// TestNoListenerCanBeServed: a Gateway that gets no proxies does not promise any.
func TestNoListenerCanBeServed(t *testing.T) {
	f := newFixture(t, shop)
	f.put("apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {namespace: web, name: shop}\nspec:\n  gatewayClassName: app\n" +
		"  listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{kind: Other, name: tls}]}}]\n")
	f.settle()
	f.expectConditions(routeKind("Gateway"), "web", "shop",
		"Programmed=False Invalid: no listener can be served: see the conditions of the listeners")
}

// TestConditionsOfOthersStay wherever others may add one. Ours that are not wanted any more go.
func TestConditionsOfOthersStay(t *testing.T) {
	now, want := metav1.Now(), "Accepted Foreign"
	before := []metav1.Condition{{Type: "Foreign", Status: "True"}, {Type: "PartiallyInvalid", Status: "True"}}
	wanted := []metav1.Condition{{Type: "Accepted", Status: "True"}}
	got := map[string][]metav1.Condition{}

	gateway := gatewayv1.GatewayStatus{Listeners: []gatewayv1.ListenerStatus{{Name: "http", Conditions: before}}}
	setGateway(&gateway, gatewayv1.GatewayStatus{Listeners: []gatewayv1.ListenerStatus{{Name: "http", Conditions: wanted}}}, now)
	got["a listener"] = gateway.Listeners[0].Conditions

	set := gatewayv1.ListenerSetStatus{Listeners: []gatewayv1.ListenerEntryStatus{{Name: "http", Conditions: before}}}
	setListenerSet(&set, gatewayv1.ListenerSetStatus{Listeners: []gatewayv1.ListenerEntryStatus{{Name: "http", Conditions: wanted}}}, now)
	got["a listener of a set"] = set.Listeners[0].Conditions

	entry := gatewayv1.RouteParentStatus{ControllerName: source.ControllerName, Conditions: before}
	routes := []gatewayv1.RouteParentStatus{entry}
	entry.Conditions = wanted
	parents.set(&routes, []gatewayv1.RouteParentStatus{entry}, now)
	got["a route"] = routes[0].Conditions

	for name, conditions := range got {
		var types []string
		for _, c := range conditions {
			types = append(types, c.Type)
		}
		if strings.Join(types, " ") != want {
			t.Errorf("%s: got %v, want %s", name, types, want)
		}
	}
}

// TestAStatusOfBeforeAWriteIsNotWritten: while a status is written, another one may be wanted, of the object as it was.
// The API server would refuse it.
func TestAStatusOfBeforeAWriteIsNotWritten(t *testing.T) {
	f := newSettled(t, shop)
	f.program("web", "shop")
	f.catchUp()
	must.Do(t, f.syncOnce(t.Context()))
	id := source.Object{Kind: "Gateway", Namespace: "web", Name: "shop"}
	before := f.controller.pending[id]
	if before.do == nil {
		t.Fatal("there is nothing to write")
	}
	for each := range f.controller.pending {
		f.controller.writes.Add(each)
	}
	for f.controller.writes.Len() > 0 {
		f.controller.processNextWrite(t.Context())
	}
	f.controller.pending[id] = before // as if it had been queued meanwhile
	f.clearActions()
	f.controller.writes.Add(id)
	f.controller.processNextWrite(t.Context())
	f.expectWrites(f.writes())
	if !f.later[task{id, false}] {
		t.Error("it is not looked at again")
	}
}
