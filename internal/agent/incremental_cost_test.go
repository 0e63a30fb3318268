package agent

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/source/gatewayapi"
)

// fleet is a Gateway with many HTTPRoutes, each of which has a hostname and a Service of its own.
type fleet struct {
	own      *appv1.Gateway
	index    *gatewayapi.Index
	compiler routing.Compiler
	renderer render.Renderer
	states   map[model.Backend]render.BackendState
	config   ir.Config
	edits    int
}

func newFleet(routes int) *fleet {
	f := &fleet{
		states: map[model.Backend]render.BackendState{}, compiler: routing.Compiler{Check: filters.Problem},
		own: &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gatewayN}, Spec: appv1.GatewaySpec{
			Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}},
		}},
	}
	objects := gatewayapi.AttachedTo(f.own, nil)
	objects.Service = func(_, name string) (*corev1.Service, bool) { return newService(name), true }
	for i := range routes {
		objects.AddAttached(f.route(i, fmt.Sprintf("host-%d.example.com", i), "/", map[int]int32{i: 1}))
	}
	for i := range routes + 2 {
		f.states[f.backend(i)] = render.BackendState{Exists: true, Servers: []ir.Server{{Address: "10.0.0.1", Port: 80}}}
	}
	f.index = gatewayapi.NewIndex(objects)
	f.live()
	return f
}

func (f *fleet) backend(i int) model.Backend {
	return model.Backend{Namespace: namespace, Service: fmt.Sprint("service-", i), Port: 80}
}

// route returns a route to Services, by their numbers, with these weights.
func (f *fleet) route(i int, host, path string, weights map[int]int32) *gatewayv1.HTTPRoute {
	f.edits++
	rule := gatewayv1.HTTPRouteRule{Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: &path}}}}
	for service, weight := range weights {
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: gatewayv1.BackendRef{
			BackendObjectReference: gatewayv1.BackendObjectReference{
				Name: gatewayv1.ObjectName(f.backend(service).Service), Port: ptr.To[gatewayv1.PortNumber](80),
			}, Weight: &weight,
		}})
	}
	name := fmt.Sprint("route-", i)
	return &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Generation: int64(f.edits)},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Group: ptr.To[gatewayv1.Group](appv1.GroupName), Name: gatewayN}}},
			Hostnames:       []gatewayv1.Hostname{gatewayv1.Hostname(host)}, Rules: []gatewayv1.HTTPRouteRule{rule},
		},
	}
}

// put replaces a route, or deletes it if there is none.
func (f *fleet) put(i int, route *gatewayv1.HTTPRoute) {
	id := gatewayapi.Object{Kind: "HTTPRoute", Namespace: namespace, Name: fmt.Sprint("route-", i)}
	if route == nil {
		f.index.Change(id, nil)
	} else {
		f.index.Change(id, route)
	}
	f.live()
}

// live brings what changed to HAProxy's next configuration.
func (f *fleet) live(changed ...model.Backend) {
	table, _ := f.compiler.Compile(f.index.Result().For(f.own))
	next := f.renderer.Render(render.Input{Table: table, Backends: f.states}, changed...)
	plan.Change(f.config, next, f.config, false)
	f.config = next
}

// TestEditsCostWhatTheyChange: an edit allocates about as much among ten times as many routes.
func TestEditsCostWhatTheyChange(t *testing.T) { //nolint:paralleltest // others would allocate meanwhile
	const few, many = 100, 1000
	for name, edit := range map[string]func(f *fleet, routes int){
		"endpoints": func(f *fleet, _ int) {
			f.edits++
			f.states[f.backend(1)] = render.BackendState{Exists: true, Servers: []ir.Server{{Address: fmt.Sprint("10.0.0.", f.edits%200), Port: 80}}}
			f.live(f.backend(1))
		},
		"a path": func(f *fleet, _ int) {
			f.put(1, f.route(1, "host-1.example.com", fmt.Sprint("/", f.edits), map[int]int32{1: 1}))
		},
		"a hostname": func(f *fleet, _ int) {
			f.put(1, f.route(1, fmt.Sprintf("new-%d.example.com", f.edits), "/", map[int]int32{1: 1}))
		},
		"another Service": func(f *fleet, routes int) {
			f.put(1, f.route(1, "host-1.example.com", "/", map[int]int32{routes + f.edits%2: 1}))
		},
		"weights": func(f *fleet, routes int) {
			f.put(1, f.route(1, "host-1.example.com", "/", map[int]int32{routes: int32(f.edits % 3), routes + 1: 1}))
		},
		"a new route, and its end": func(f *fleet, routes int) {
			f.put(routes, f.route(routes, "new.example.com", "/", map[int]int32{routes: 1}))
			f.put(routes, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			allocations := func(routes int) float64 {
				f := newFleet(routes)
				return testing.AllocsPerRun(20, func() { edit(f, routes) })
			}
			// Trees are deeper by three levels.
			if a, b := allocations(few), allocations(many); b > 1.5*a {
				t.Errorf("an edit allocates %.0f times among %d routes, and %.0f times among %d", b, many, a, few)
			}
		})
	}
}
