package agent

import (
	"fmt"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
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

// edits is how many random edits TestEdits makes.
var edits = 400

// cluster is what a random cluster has of a Gateway, its routes and what they refer to.
type cluster struct {
	*routingtest.Generator
	own      *appv1.Gateway
	objects  map[gatewayapi.Object]metav1.Object
	services map[string]*corev1.Service
	states   map[model.Backend]render.BackendState
	// index, compiler and renderer know of each edit. changed are the Service ports whose states changed.
	index    *gatewayapi.Index
	compiler routing.Compiler
	renderer render.Renderer
	changed  []model.Backend
	// labeled reports whether another namespace has the labels that the listener selects.
	labeled bool
}

// TestEdits: after each of many random edits, the configuration that was made of the one before is what is made of the
// objects from the start.
func TestEdits(t *testing.T) {
	t.Parallel()
	c := &cluster{
		Generator: routingtest.New(t), objects: map[gatewayapi.Object]metav1.Object{}, services: map[string]*corev1.Service{},
		states: map[model.Backend]render.BackendState{}, compiler: routing.Compiler{Check: filters.Problem},
		own: &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: gatewayN}, Spec: appv1.GatewaySpec{
			Listeners: []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP, AllowedRoutes: &appv1.AllowedRoutes{
				Namespaces: appv1.RouteNamespaces{From: appv1.NamespacesFromSelector, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}},
			}}},
		}},
	}
	c.index = gatewayapi.NewIndex(c.all())
	for i := range edits {
		what := c.edit(i)
		var renderer render.Renderer
		table, wantProblems := routing.Compile(gatewayapi.Translate(c.all()).For(c.own), filters.Problem)
		want := renderer.Render(render.Input{Table: table, Backends: c.states})
		incremental, problems := c.compiler.Compile(c.index.Result().For(c.own))
		got := c.renderer.Render(render.Input{Table: incremental, Backends: c.states}, c.changed...)
		c.changed = nil
		if !reflect.DeepEqual(incremental, table) {
			t.Fatalf("edit %d, %s: the table is\n%+v, want\n%+v", i, what, incremental, table)
		}
		if !reflect.DeepEqual(problems, wantProblems) {
			t.Fatalf("edit %d, %s: the problems are\n%v, want\n%v", i, what, problems, wantProblems)
		}
		if !reflect.DeepEqual(got, want) || got.Hash() != want.Hash() {
			t.Fatalf("edit %d, %s: got\n%+v, want\n%+v", i, what, got, want)
		}
	}
}

// edit changes something, and lets the index and the renderer know.
func (c *cluster) edit(i int) string {
	name := fmt.Sprint(c.IntN(6))
	space := []string{namespace, "other"}[c.IntN(2)]
	switch c.IntN(14) {
	case 0:
		c.services[name] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name}, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Name: []string{"web", "api"}[c.IntN(2)], Port: 80}},
		}}
		if c.IntN(3) == 0 {
			delete(c.services, name)
		}
		for _, space := range []string{namespace, "other"} {
			c.index.ChangeService(space, name)
		}
		return "a Service"
	case 1, 2:
		backend := model.Backend{Namespace: space, Service: name, Port: 80}
		c.states[backend] = render.BackendState{
			Exists: c.IntN(4) > 0, AppProtocol: []string{"", "kubernetes.io/h2c", "unknown"}[c.IntN(3)],
			Servers: []ir.Server{{Address: fmt.Sprintf("10.0.0.%d", c.IntN(3)), Port: 80}},
		}
		c.changed = append(c.changed, backend)
		return "the state of a Service"
	case 3:
		version := []appv1.ProxyProtocolVersion{"", appv1.ProxyProtocolV1, appv1.ProxyProtocolV2}[c.IntN(3)]
		c.own = c.own.DeepCopy()
		c.own.Spec.Backends = []appv1.Backend{{Name: name, Port: 80, BackendSettings: appv1.BackendSettings{ProxyProtocol: version}}}
		c.index.Replace(c.all())
		return "the Gateway's backends"
	case 4:
		c.own = c.own.DeepCopy()
		if c.own.Spec.Listeners = c.own.Spec.Listeners[:1]; c.IntN(2) == 0 {
			c.own.Spec.Listeners = append(c.own.Spec.Listeners, appv1.Listener{
				Name: "more", Port: 80, Protocol: appv1.ProtocolHTTP, Hostname: appv1.Hostname([]string{"a.example.com", "*.example.com"}[c.IntN(2)]),
			})
		}
		if c.own.Spec.Listeners[0].MaxRequestBytes = nil; c.IntN(2) == 0 {
			c.own.Spec.Listeners[0].MaxRequestBytes = new(int64(c.IntN(2) + 1))
		}
		c.index.Replace(c.all())
		return "the listeners"
	case 5:
		c.labeled = c.IntN(3) > 0
		c.index.Replace(c.all())
		return "the labels of a namespace"
	}
	return c.editObject(space, name, i)
}

// editObject changes an object of the Gateway API.
func (c *cluster) editObject(space, name string, i int) string {
	var object metav1.Object
	kind := []string{"HTTPRoute", "HTTPRoute", "HTTPRoute", "HTTPRoute", "GRPCRoute", "RouteFilter", "BackendPolicy", "BackendTLSPolicy", "ReferenceGrant"}[c.IntN(9)]
	meta := metav1.ObjectMeta{Namespace: space, Name: name, UID: types.UID(kind + space + name), Generation: int64(i)}
	switch kind {
	case "HTTPRoute":
		object = c.route(space, name, i)
	case "GRPCRoute":
		meta.Name = fmt.Sprint(c.IntN(2))
		route := c.route(space, name, i)
		object = &gatewayv1.GRPCRoute{ObjectMeta: meta, Spec: gatewayv1.GRPCRouteSpec{
			CommonRouteSpec: route.Spec.CommonRouteSpec, Hostnames: []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("grpc-%d.example.com", c.IntN(2)))},
			Rules: []gatewayv1.GRPCRouteRule{{BackendRefs: []gatewayv1.GRPCBackendRef{{BackendRef: route.Spec.Rules[0].BackendRefs[0].BackendRef}}}},
		}}
	case "RouteFilter":
		object = &appv1.RouteFilter{ObjectMeta: meta, Spec: appv1.RouteFilterSpec{Filters: []appv1.RuleFilter{c.filter(i)}}}
	case "BackendPolicy":
		object = &appv1.BackendPolicy{ObjectMeta: meta, Spec: appv1.BackendPolicySpec{
			TargetRefs:      []appv1.BackendPolicyTarget{{Kind: "Service", Name: fmt.Sprint(c.IntN(6)), SectionName: []string{"", "web"}[c.IntN(2)]}},
			BackendSettings: appv1.BackendSettings{ProxyProtocol: appv1.ProxyProtocolV1},
		}}
	case "BackendTLSPolicy":
		object = &gatewayv1.BackendTLSPolicy{ObjectMeta: meta, Spec: gatewayv1.BackendTLSPolicySpec{
			TargetRefs: []gatewayv1.LocalPolicyTargetReferenceWithSectionName{{LocalPolicyTargetReference: gatewayv1.LocalPolicyTargetReference{
				Kind: "Service", Name: gatewayv1.ObjectName(fmt.Sprint(c.IntN(6))),
			}}},
			Validation: gatewayv1.BackendTLSPolicyValidation{Hostname: "a.example.com", CACertificateRefs: []gatewayv1.LocalObjectReference{{Kind: "ConfigMap", Name: "ca"}}},
		}}
	case "ReferenceGrant":
		object = &gatewayv1.ReferenceGrant{ObjectMeta: meta, Spec: gatewayv1.ReferenceGrantSpec{
			From: []gatewayv1.ReferenceGrantFrom{{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: gatewayv1.Namespace([]string{namespace, "other"}[c.IntN(2)])}},
			To:   []gatewayv1.ReferenceGrantTo{{Kind: "Service"}},
		}}
	}
	id := gatewayapi.Object{Kind: kind, Namespace: space, Name: object.GetName()}
	if c.IntN(4) == 0 {
		delete(c.objects, id)
	} else {
		c.objects[id] = object
	}
	// A change may also come with one that Change does not take.
	if c.IntN(4) == 0 || !c.index.Change(id, c.objects[id]) {
		c.index.Replace(c.all())
	}
	return fmt.Sprintf("%+v: %+v", id, c.objects[id])
}

// filter returns a random one.
func (c *cluster) filter(i int) appv1.RuleFilter {
	switch c.IntN(4) {
	case 0:
		return appv1.RuleFilter{Type: appv1.RuleFilterBasicAuth, BasicAuth: &appv1.BasicAuth{SecretRef: appv1.ObjectReference{Name: fmt.Sprint("users-", c.IntN(2))}}}
	case 1:
		return appv1.RuleFilter{Type: appv1.RuleFilterRateLimit, RateLimit: &appv1.RateLimit{Limits: []appv1.RequestLimit{{Requests: int32(i) + 1, Unit: appv1.RateLimitMinute}}}}
	case 2:
		return appv1.RuleFilter{Type: appv1.RuleFilterDirectResponse, DirectResponse: &appv1.DirectResponse{Body: fmt.Sprint(c.IntN(3))}}
	}
	return appv1.RuleFilter{Type: appv1.RuleFilterClientAddress, ClientAddress: &appv1.ClientAddress{Deny: []appv1.AddressRange{appv1.AddressRange(fmt.Sprintf("10.0.0.%d", i%250))}}}
}

// route returns a random one.
func (c *cluster) route(space, name string, i int) *gatewayv1.HTTPRoute {
	service := func() gatewayv1.BackendRef {
		return gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{
			Namespace: ptr.To(gatewayv1.Namespace([]string{space, space, space, namespace}[c.IntN(4)])),
			Name:      gatewayv1.ObjectName(fmt.Sprint(c.IntN(6))), Port: ptr.To[gatewayv1.PortNumber](80),
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
		ObjectMeta: metav1.ObjectMeta{
			Namespace: space, Name: name, UID: types.UID("HTTPRoute" + space + name), Generation: int64(i),
			CreationTimestamp: metav1.Unix(int64(c.IntN(3)), 0),
		},
		Spec: gatewayv1.HTTPRouteSpec{
			CommonRouteSpec: gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{
				Group: ptr.To[gatewayv1.Group](appv1.GroupName), Namespace: ptr.To[gatewayv1.Namespace](namespace), Name: gatewayN,
			}}},
			Rules: []gatewayv1.HTTPRouteRule{rule},
		},
	}
	for range c.IntN(3) {
		route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname([]string{"a.example.com", "b.example.com", "*.example.com", "grpc-0.example.com"}[c.IntN(4)]))
	}
	return route
}

// all returns all objects.
func (c *cluster) all() gatewayapi.Objects {
	objects := gatewayapi.AttachedTo(c.own, nil)
	objects.Service = func(_, name string) (*corev1.Service, bool) { return c.services[name], true }
	objects.Namespaces[namespace] = labels.Set{"team": "a"}
	if c.labeled {
		objects.Namespaces["other"] = labels.Set{"team": "a"}
	}
	for _, object := range c.objects {
		objects.AddAttached(object)
	}
	return objects
}
