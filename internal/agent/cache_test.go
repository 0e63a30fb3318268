package agent

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	"gateway/internal/source/gatewayapi"
)

// cluster is what a random cluster has of HTTPRoutes and what they refer to.
type cluster struct {
	*routingtest.Generator
	own      *appv1.Gateway
	routes   map[string]*gatewayv1.HTTPRoute
	filters  map[string]*appv1.RouteFilter
	services map[string]*corev1.Service
	states   map[model.Backend]render.BackendState
}

// TestCaches: with what is kept of the configuration before, the next one is what it is without.
func TestCaches(t *testing.T) {
	t.Parallel()
	c := &cluster{
		Generator: routingtest.New(t), routes: map[string]*gatewayv1.HTTPRoute{}, filters: map[string]*appv1.RouteFilter{},
		services: map[string]*corev1.Service{}, states: map[model.Backend]render.BackendState{},
		own: &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gatewayN}, Spec: appv1.GatewaySpec{
			Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}},
		}},
	}
	in, cache := inputs{compiler: routing.Compiler{Check: filters.Problem}}, &gatewayapi.Cache{}
	for i := range 400 {
		if c.edit(i) {
			cache = &gatewayapi.Cache{}
		}
		compiler := routing.Compiler{Check: filters.Problem}
		want, wantProblems := c.render(nil, &compiler, &render.Renderer{})
		got, problems := c.render(cache, &in.compiler, &in.renderer)
		if !reflect.DeepEqual(problems, wantProblems) {
			t.Fatalf("edit %d: the problems are\n%v, want\n%v", i, problems, wantProblems)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("edit %d: got\n%+v, want\n%+v", i, got, want)
		}
	}
}

// edit changes something. It returns whether a Service did.
func (c *cluster) edit(i int) (service bool) {
	name := fmt.Sprint(c.IntN(6))
	switch c.IntN(9) {
	case 0:
		delete(c.routes, name)
	case 1:
		c.filters[name] = &appv1.RouteFilter{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: appv1.RouteFilterSpec{
			Filters: []appv1.RuleFilter{{Type: appv1.RuleFilterClientAddress, ClientAddress: &appv1.ClientAddress{Deny: []appv1.AddressRange{appv1.AddressRange(fmt.Sprintf("10.0.0.%d", i%250))}}}},
		}}
	case 2:
		delete(c.filters, name)
	case 3:
		c.services[name] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		return true
	case 4:
		delete(c.services, name)
		return true
	case 5:
		c.states[model.Backend{Namespace: namespace, Service: name, Port: 80}] = render.BackendState{
			Exists: c.IntN(4) > 0, AppProtocol: []string{"", "kubernetes.io/h2c", "unknown"}[c.IntN(3)],
			Servers: []ir.Server{{Address: fmt.Sprintf("10.0.0.%d", c.IntN(3)), Port: 80}},
		}
	case 6:
		version := []appv1.ProxyProtocolVersion{"", appv1.ProxyProtocolV1, appv1.ProxyProtocolV2}[c.IntN(3)]
		c.own.Spec.Backends = []appv1.Backend{{Name: name, Port: 80, BackendSettings: appv1.BackendSettings{ProxyProtocol: version}}}
	default:
		c.routes[name] = c.route(name, i)
	}
	return false
}

// route returns a random one.
func (c *cluster) route(name string, i int) *gatewayv1.HTTPRoute {
	service := func() gatewayv1.BackendRef {
		return gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{
			Name: gatewayv1.ObjectName(fmt.Sprint(c.IntN(6))), Port: ptr.To[gatewayv1.PortNumber](80),
		}}
	}
	rule := gatewayv1.HTTPRouteRule{
		Matches: []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Value: ptr.To([]string{"/", "/a", "/a/b"}[c.IntN(3)])}}},
	}
	for range 1 + c.IntN(2) {
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: service()})
	}
	if c.IntN(3) == 0 {
		rule.Matches[0].Headers = []gatewayv1.HTTPHeaderMatch{{Name: "x", Value: fmt.Sprint(c.IntN(3)), Type: ptr.To(gatewayv1.HeaderMatchRegularExpression)}}
	}
	switch c.IntN(4) {
	case 0:
		rule.Filters = []gatewayv1.HTTPRouteFilter{{
			Type: gatewayv1.HTTPRouteFilterExtensionRef, ExtensionRef: &gatewayv1.LocalObjectReference{Group: appv1.GroupName, Kind: "RouteFilter", Name: gatewayv1.ObjectName(name)},
		}}
	case 1:
		rule.Filters = []gatewayv1.HTTPRouteFilter{{
			Type: gatewayv1.HTTPRouteFilterRequestMirror, RequestMirror: &gatewayv1.HTTPRequestMirrorFilter{BackendRef: service().BackendObjectReference},
		}}
	}
	route := &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name), Generation: int64(i)},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Group: ptr.To[gatewayv1.Group](appv1.GroupName), Name: gatewayN}}},
			Rules:           []gatewayv1.HTTPRouteRule{rule},
		},
	}
	for range c.IntN(3) {
		route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname([]string{"a.example.com", "b.example.com", "*.example.com"}[c.IntN(3)]))
	}
	return route
}

// render makes the configuration, with what was kept.
func (c *cluster) render(cache *gatewayapi.Cache, compiler *routing.Compiler, renderer *render.Renderer) (ir.Config, []routing.Problem) {
	objects := gatewayapi.AttachedTo(c.own)
	objects.Cache = cache
	objects.Service = func(_, name string) (*corev1.Service, bool) { return c.services[name], true }
	for _, name := range slices.Sorted(maps.Keys(c.routes)) {
		objects.Add(c.routes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.filters)) {
		objects.Add(c.filters[name])
	}
	table, problems := compiler.Compile(gatewayapi.Translate(objects).For(c.own))
	return renderer.Render(render.Input{Table: table, Backends: c.states}, slices.Collect(maps.Keys(c.states))...), problems
}
