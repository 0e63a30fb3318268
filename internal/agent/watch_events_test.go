package agent

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// eventRig is a passRig that gets events of the API server from the test, by a clock that stands still.
type eventRig struct {
	*passRig
	clock *clocktesting.FakeClock
	// rules are the rules of HTTPRoutes and GRPCRoutes, by kind and name, as the agent wants them.
	rules map[string]*model.Rule
	last  Changes
}

func newEventRig(t *testing.T, resources ...string) *eventRig {
	t.Helper()
	r := &eventRig{passRig: newPassRig(t, 1), clock: clocktesting.NewFakeClock(time.Unix(1, 0))}
	r.agent.watch.mu.Lock()
	r.agent.watch.clock = r.clock
	r.agent.watch.mu.Unlock()
	r.gatewaySeen.Spec.Routes = nil
	r.attach(resources...)
	r.await("all is listed", func() bool {
		r.look()
		return r.rules != nil
	})
	return r
}

// look has the agent look at what changed.
func (r *eventRig) look() {
	changes, ok := r.agent.watch.changes(false)
	if r.last = changes; !ok || changes.Gateway == nil {
		return
	}
	r.rules = map[string]*model.Rule{}
	for _, route := range changes.Gateway.Routes.All() {
		r.rules[route.Kind+" "+route.Origin.Name] = &route.Rules[0]
	}
}

// send sends events of a resource: objects that are new or others. It looks after all of them.
func (r *eventRig) send(resource string, objects ...metav1.Object) {
	r.t.Helper()
	for _, object := range objects {
		r.put(r.followed(resource), object)
	}
	r.look()
}

// expect compares who answers requests for a route: a body, or a reason to refuse them.
func (r *eventRig) expect(what, route, want string) {
	r.t.Helper()
	got := "nobody"
	if rule := r.rules[route]; rule != nil && rule.Response != nil {
		got = rule.Response.Body
	} else if rule != nil && rule.Refused == "" && len(rule.Backends) == 0 {
		got = "500"
	}
	if got != want {
		r.t.Errorf("%s, %s is answered by %s, want %s", what, route, got, want)
	}
}

// expectVersion compares up to which version objects of a resource are reported.
func (r *eventRig) expectVersion(what, resource, want string) {
	r.t.Helper()
	got := ""
	if r.last.Versions.Base != "" {
		got = "at least " + r.last.Versions.Base
	}
	for _, reported := range r.last.Versions.Exceptions {
		if reported.Resource == resource {
			got = reported.ResourceVersion
		}
	}
	if got != want {
		r.t.Errorf("%s, %s are reported up to %q, want %q", what, resource, got, want)
	}
}

// newAnswer returns a RouteFilter whose answers have its own name, unless another one is given.
func newAnswer(name string, bodies ...string) *appv1.RouteFilter {
	body := append(bodies, name)[0]
	return &appv1.RouteFilter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appv1.RouteFilterSpec{
		Filters: []appv1.RuleFilter{{Type: appv1.RuleFilterDirectResponse, DirectResponse: &appv1.DirectResponse{Body: body}}},
	}}
}

// at gives an object a generation and a version.
func at[T metav1.Object](object T, generation int64, version int) T {
	object.SetUID(types.UID(object.GetName()))
	object.SetGeneration(generation)
	object.SetResourceVersion(fmt.Sprint(version))
	return object
}

// newFiltered returns a route of a kind with a RouteFilter.
func newFiltered(kind, name, filter string) metav1.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	parents := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Group: ptr.To[gatewayv1.Group](appv1.GroupName), Name: gatewayN}}}
	ref := &gatewayv1.LocalObjectReference{Group: appv1.GroupName, Kind: "RouteFilter", Name: gatewayv1.ObjectName(filter)}
	if kind == "GRPCRoute" {
		return &gatewayv1.GRPCRoute{ObjectMeta: meta, Spec: gatewayv1.GRPCRouteSpec{
			CommonRouteSpec: parents, Hostnames: []gatewayv1.Hostname{"grpc.example.com"},
			Rules: []gatewayv1.GRPCRouteRule{{Filters: []gatewayv1.GRPCRouteFilter{{Type: gatewayv1.GRPCRouteFilterExtensionRef, ExtensionRef: ref}}}},
		}}
	}
	return &gatewayv1.HTTPRoute{ObjectMeta: meta, Spec: gatewayv1.HTTPRouteSpec{
		CommonRouteSpec: parents,
		Rules:           []gatewayv1.HTTPRouteRule{{Filters: []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterExtensionRef, ExtensionRef: ref}}}},
	}}
}

// TestEditedRoutesAwaitRouteFilters: a route that names a RouteFilter which has not arrived stays as it was for a
// while, and so does all else of its namespace. Then it fails closed, as a new one does at once.
func TestEditedRoutesAwaitRouteFilters(t *testing.T) {
	t.Parallel()
	for kind, resource := range map[string]string{"HTTPRoute": testRoutes, "GRPCRoute": "grpcroutes"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newEventRig(t, testRoutes, "grpcroutes", testFilters)
			edited, other := kind+" edited", kind+" other"
			r.send(testFilters, at(newAnswer("one"), 1, 10))
			r.send(resource, at(newFiltered(kind, "edited", "one"), 1, 20))
			r.expect("at first", edited, "one")

			r.send(resource, at(newFiltered(kind, "edited", "two"), 2, 30))
			r.expect("before the filter arrives", edited, "one")
			r.expectVersion("before the filter arrives", resource, "20")
			r.send(testFilters, at(newAnswer("one", "open"), 2, 31))
			r.expect("when the earlier filter is edited", edited, "one")
			r.send(resource, at(newFiltered(kind, "other", "one"), 1, 32))
			r.expect("when another route comes meanwhile", other, "nobody")
			r.send(testFilters, at(newAnswer("two"), 1, 33))
			r.expect("once the filter is there", edited, "two")
			r.expect("once the filter is there", other, "open")
			r.expectVersion("once the filter is there", resource, "32")

			r.send(resource, at(newFiltered(kind, "edited", "three"), 3, 40))
			r.clock.Step(filterWait - 1)
			r.look()
			r.expect("just before a filter should have arrived", edited, "two")
			select { // what came before has woken the loop
			case <-r.agent.wake:
			default:
			}
			r.clock.Step(1)
			<-r.agent.wake
			r.look()
			r.expect("when a filter has not arrived in time", edited, "500")
			r.expectVersion("when a filter has not arrived in time", resource, "40")
			r.send(resource, at(newFiltered(kind, "edited", "three"), 4, 41))
			r.expectVersion("when a route still names what is missing", resource, "41")
			r.send(testFilters, at(newAnswer("three"), 1, 42))
			r.expect("when a filter has arrived late", edited, "three")

			r.send(resource, at(newFiltered(kind, "new", "four"), 1, 50))
			r.expect("without its filter", kind+" new", "500")
		})
	}
}

// TestVersionsGoOnWithoutAGateway: what changes while the Gateway is away is reported once it is there again, and so is
// the end of the newest object.
func TestVersionsGoOnWithoutAGateway(t *testing.T) {
	t.Parallel()
	r := newEventRig(t, testRoutes, testFilters)
	r.send(testRoutes, at(newFiltered("HTTPRoute", "a", "one"), 1, 100))
	r.must(r.agent.watch.gateways.Delete(r.gatewaySeen))
	r.send(testRoutes, at(newFiltered("HTTPRoute", "a", "one"), 2, 200), at(newFiltered("HTTPRoute", "b", "one"), 1, 210))
	r.gatewaySeen = r.gatewaySeen.DeepCopy()
	r.gatewaySeen.UID = "uid-2"
	r.put(r.agent.watch.gateways, r.gatewaySeen)
	r.look()
	r.expectVersion("when the Gateway is back", testRoutes, "210")
	r.must(r.followed(testRoutes).Delete(at(newFiltered("HTTPRoute", "b", "one"), 1, 220)))
	r.look()
	r.expectVersion("when the newest is gone", testRoutes, "220")
	if got := slices.Collect(r.last.Gateway.Routes.Keys()); len(got) != 1 {
		t.Errorf("the routes are %q", got)
	}
}
