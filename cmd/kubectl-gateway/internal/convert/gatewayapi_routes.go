package convert

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// apiRoute is a route of the Gateway API, of any kind.
type apiRoute struct {
	metav1.Object
	place
	kind string
	gatewayv1.CommonRouteSpec
	hostnames []gatewayv1.Hostname
	// rules are those of HTTPRoutes and, as such, of GRPCRoutes.
	rules []gatewayv1.HTTPRouteRule
	// backends are where connections go, of TLSRoutes and TCPRoutes.
	backends []gatewayv1.BackendRef
}

// apiRoutes returns the routes of all kinds, in their order of precedence: the oldest first, then by namespace and
// name.
func apiRoutes(o *objects, n *notes) []*apiRoute {
	var all []*apiRoute
	add := func(object metav1.Object, kind string, common gatewayv1.CommonRouteSpec, hostnames []gatewayv1.Hostname) *apiRoute {
		route := &apiRoute{Object: object, place: newPlace(n, object, kind), kind: kind, CommonRouteSpec: common, hostnames: hostnames}
		route.noteAnnotations(object)
		all = append(all, route)
		return route
	}
	for _, route := range o.httpRoutes {
		add(route, "HTTPRoute", route.Spec.CommonRouteSpec, route.Spec.Hostnames).rules = route.Spec.Rules
	}
	for _, route := range o.grpcRoutes {
		added := add(route, "GRPCRoute", route.Spec.CommonRouteSpec, route.Spec.Hostnames)
		added.rules = grpcRules(added.place, route.Spec.Rules)
	}
	for _, route := range o.tlsRoutes {
		added := add(route, "TLSRoute", route.Spec.CommonRouteSpec, route.Spec.Hostnames)
		for i, rule := range route.Spec.Rules {
			added.addConnections(i, rule.BackendRefs)
		}
	}
	for _, route := range o.tcpRoutes {
		added := add(route, "TCPRoute", route.Spec.CommonRouteSpec, nil)
		for i, rule := range route.Spec.Rules {
			added.addConnections(i, rule.BackendRefs)
		}
	}
	oldestFirst(all)
	return all
}

func (r *apiRoute) addConnections(rule int, backends []gatewayv1.BackendRef) {
	if rule > 0 {
		r.note("rules[%d] is left out: connections go by the first rule", rule)
		return
	}
	r.backends = backends
}

func (r *apiRoute) hasConnections() bool { return r.kind == "TLSRoute" || r.kind == "TCPRoute" }

// isGateway says whether a route is to belong to a Gateway, and which.
func isGateway(parent *gatewayv1.ParentReference) bool {
	return or(parent.Group, gatewayv1.GroupName) == gatewayv1.GroupName && or(parent.Kind, "Gateway") == "Gateway"
}

func (r *apiRoute) hasParent(parent *gatewayv1.ParentReference, gateway *gatewayv1.Gateway) bool {
	namespace := or(parent.Namespace, gatewayv1.Namespace(r.GetNamespace()))
	return isGateway(parent) && string(parent.Name) == gateway.Name && string(namespace) == gateway.Namespace
}

// noteParents lists what a route is to belong to and is not here.
func noteParents(o *objects, route *apiRoute) {
	if route.UseDefaultGateways == gatewayv1.GatewayDefaultScopeAll {
		route.note("useDefaultGateways is not carried over: name the Gateway in parentRefs")
	}
	if len(route.ParentRefs) == 0 {
		route.note("it is not carried over: it has no parentRefs")
	}
	for i := range route.ParentRefs {
		parent := &route.ParentRefs[i]
		here := func(gateway *gatewayv1.Gateway) bool { return route.hasParent(parent, gateway) }
		switch {
		case !isGateway(parent):
			route.note("it is not carried over to %s %s: only Gateways have routes", or(parent.Kind, "Gateway"), parent.Name)
		case !slices.ContainsFunc(o.gateways, here):
			route.note("it is not carried over to Gateway %s/%s, which is not in the input: give that too",
				or(parent.Namespace, gatewayv1.Namespace(route.GetNamespace())), parent.Name)
		}
	}
}

// fits says whether a listener is for a kind of route.
func fits(kind string, listener *gatewayv1.Listener) bool {
	switch kind {
	case "TLSRoute":
		return passesThrough(listener)
	case "TCPRoute":
		return listener.Protocol == gatewayv1.TCPProtocolType || listener.Protocol == gatewayv1.TLSProtocolType && !passesThrough(listener)
	}
	return listener.Protocol == gatewayv1.HTTPProtocolType || listener.Protocol == gatewayv1.HTTPSProtocolType
}

// addRoute carries a route over if it belongs to the Gateway.
func (c *gatewayConverter) addRoute(route *apiRoute) {
	isParent := func(parent gatewayv1.ParentReference) bool { return route.hasParent(&parent, c.source) }
	if !slices.ContainsFunc(route.ParentRefs, isParent) {
		return
	}
	listeners, closed, all := c.listenersOf(route)
	if len(listeners)+len(closed) == 0 {
		route.note("it is not carried over to Gateway %s: no listener takes it, by sectionName, port, protocol and allowedRoutes", objectName(c.source))
		return
	}
	if len(listeners) > 0 {
		c.addTo(listeners, all, route, c.rules(route, false), c.connections(route))
	}
	if len(closed) > 0 && !route.hasConnections() {
		c.addTo(closed, false, route, c.rules(route, true), nil)
	}
}

// addTo adds a route with these rules to listeners, or to all of its protocol.
func (c *gatewayConverter) addTo(listeners []appv1.Name, all bool, route *apiRoute, rules []appv1.RouteRule, connections []appv1.ConnectionRule) {
	if len(rules) == 0 && len(connections) == 0 {
		route.note("it is not carried over to Gateway %s: no rule of it is", objectName(c.source))
		return
	}
	var hostnames []appv1.Hostname
	for _, hostname := range route.hostnames {
		if !slices.Contains(hostnames, appv1.Hostname(hostname)) {
			hostnames = append(hostnames, appv1.Hostname(hostname))
		}
	}
	// A route of ours names up to 16 listeners.
	chunks := slices.Collect(slices.Chunk(listeners, 16))
	if all && route.kind != "TCPRoute" {
		chunks = [][]appv1.Name{nil}
	}
	spec := &c.gateway.Spec
	for _, chunk := range chunks {
		name := c.routeNames.unique(route.GetName())
		switch route.kind {
		case "TCPRoute":
			spec.TCPRoutes = append(spec.TCPRoutes, appv1.TCPRoute{Name: name, Listeners: chunk, Rules: connections})
		case "TLSRoute":
			spec.TLSRoutes = append(spec.TLSRoutes, appv1.TLSRoute{Name: name, Listeners: chunk, Hostnames: hostnames, Rules: connections})
		default:
			spec.Routes = append(spec.Routes, appv1.Route{Name: name, Listeners: chunk, Hostnames: hostnames, Rules: rules})
		}
	}
}

// listenersOf returns the names of the Gateway's listeners that take a route in, of those where it is closed, as
// nothing says whether they do, and whether a route takes the former too if it names none.
func (c *gatewayConverter) listenersOf(route *apiRoute) (taken, closed []appv1.Name, all bool) {
	all = true
	for i, listener := range c.sources {
		if !fits(route.kind, listener) {
			continue
		}
		wants := func(parent gatewayv1.ParentReference) bool {
			return route.hasParent(&parent, c.source) && or(parent.SectionName, listener.Name) == listener.Name && or(parent.Port, listener.Port) == listener.Port
		}
		name, attachment := c.gateway.Spec.Listeners[i].Name, c.attachment(listener, route)
		if !slices.ContainsFunc(route.ParentRefs, wants) {
			attachment = refused
		}
		if attachment == unknown {
			attachment = c.noteUnknown(listener, route)
		}
		switch attachment {
		case allowed:
			taken = append(taken, name)
			continue
		case unknown:
			closed = append(closed, name)
		}
		all = false
	}
	return taken, closed, all
}

// noteUnknown says that nobody knows whether a listener takes a route in. The route is allowed if --open names it.
func (c *gatewayConverter) noteUnknown(listener *gatewayv1.Listener, route *apiRoute) attachment {
	name := flagName(route.kind, route)
	then, result := "until then, or until --open names "+name+", it answers 503 there", unknown
	switch {
	case slices.Contains(c.open, name):
		then, result = "it is let through", allowed
	case route.hasConnections():
		then = "until then, or until --open names " + name + ", it is left out there"
	}
	route.note("whether listener %s of Gateway %s takes it depends on labels of namespace %s, which is not in the input: give that too; %s",
		listener.Name, objectName(c.source), route.GetNamespace(), then)
	return result
}
