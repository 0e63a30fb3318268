package gatewayapi

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/rules"
)

// route is a route of any kind.
type route struct {
	metav1.Object
	kind string
	// created, in seconds, and namespace are those of the object. name is what the access log calls it, NAMESPACE/NAME.
	created         int64
	namespace, name string

	parentRefs []gatewayv1.ParentReference
	// parents are what its status says of its parents.
	parents   []gatewayv1.RouteParentStatus
	hostnames []string
	rules     []model.Rule
	// backends are the Service ports that it refers to.
	backends []model.Backend
	// filters are the RouteFilters that its rules have.
	filters []*appv1.RouteFilter
	// refused is what is wrong with the whole of it, resolved with its references.
	refused, resolved verdict

	attachments []*attachment
	// listeners are those that it belongs to, by any of its parents.
	listeners []*listener
}

// newRoute returns a route without rules.
func newRoute(
	object metav1.Object, kind string, spec gatewayv1.CommonRouteSpec, status gatewayv1.RouteStatus, hostnames []gatewayv1.Hostname,
) *route {
	created, namespace := object.GetCreationTimestamp(), object.GetNamespace()
	r := &route{
		Object: object, kind: kind, created: created.Unix(), namespace: namespace, name: namespace + "/" + object.GetName(),
		parentRefs: spec.ParentRefs, parents: status.Parents, hostnames: []string{""},
	}
	if len(hostnames) > 0 {
		r.hostnames = nil
		for _, hostname := range hostnames {
			if !slices.Contains(r.hostnames, string(hostname)) {
				r.hostnames = append(r.hostnames, string(hostname))
			}
		}
	}
	return r
}

// addRoutes adds the routes of all kinds, in their order of precedence.
func (t *translator) addRoutes() {
	n := len(t.HTTPRoutes) + len(t.GRPCRoutes) + len(t.TLSRoutes) + len(t.TCPRoutes) + len(t.UDPRoutes)
	t.allRoutes, t.routes = make([]route, 0, n), make([]*route, 0, n)
	for _, object := range t.HTTPRoutes {
		t.addRoute(object, func() *route {
			r := newRoute(object, "HTTPRoute", object.Spec.CommonRouteSpec, object.Status.RouteStatus, object.Spec.Hostnames)
			t.addRules(r, object.Spec.Rules)
			return r
		})
	}
	for _, object := range t.GRPCRoutes {
		t.addRoute(object, func() *route {
			r := newRoute(object, "GRPCRoute", object.Spec.CommonRouteSpec, object.Status.RouteStatus, object.Spec.Hostnames)
			t.addRules(r, rules.FromGRPC(object.Spec.Rules))
			return r
		})
	}
	for _, object := range t.TLSRoutes {
		t.addRoute(object, func() *route {
			r := newRoute(object, "TLSRoute", object.Spec.CommonRouteSpec, object.Status.RouteStatus, object.Spec.Hostnames)
			for _, rule := range object.Spec.Rules {
				t.addConnections(r, rule.BackendRefs)
			}
			return r
		})
	}
	for _, object := range t.TCPRoutes {
		t.addRoute(object, func() *route {
			r := newRoute(object, "TCPRoute", object.Spec.CommonRouteSpec, object.Status.RouteStatus, nil)
			for _, rule := range object.Spec.Rules {
				t.addConnections(r, rule.BackendRefs)
			}
			return r
		})
	}
	for _, object := range t.UDPRoutes {
		t.addRoute(object, func() *route {
			r := newRoute(object, "UDPRoute", object.Spec.CommonRouteSpec, object.Status.RouteStatus, nil)
			r.refused.no(gatewayv1.RouteReasonUnsupportedValue, "HAProxy does not speak UDP")
			return r
		})
	}
	slices.SortFunc(t.routes, (*route).compare)
	for _, p := range t.planes {
		average := n / len(t.planes)
		p.to.Origins, p.to.Routes, p.used = slices.Grow(p.to.Origins, average), slices.Grow(p.to.Routes, average), slices.Grow(p.used, average)
	}
	for _, r := range t.routes {
		t.attach(r)
		t.addToPlanes(r)
	}
}

// compare orders routes by precedence, as before does.
func (r *route) compare(other *route) int {
	if r.created != other.created {
		return cmp.Compare(r.created, other.created)
	}
	if r.namespace != other.namespace {
		return cmp.Compare(r.namespace, other.namespace)
	}
	return cmp.Or(cmp.Compare(r.name, other.name), cmp.Compare(r.kind, other.kind))
}

// addToPlanes adds a route to the data planes that it belongs to.
func (t *translator) addToPlanes(r *route) {
	for i, a := range r.attachments {
		isSame := func(other *attachment) bool { return other.parent.plane == a.parent.plane }
		if before := slices.IndexFunc(r.attachments[:i], isSame); before >= 0 {
			a.resolved = r.attachments[before].resolved
		} else {
			a.resolved = t.addToPlane(a.parent.plane, r)
		}
	}
}

// addToPlane adds a route to a data plane, if it belongs to a listener that is served. It returns what is wrong with
// the references of the route there.
func (t *translator) addToPlane(p *plane, r *route) verdict {
	var names []string
	passthrough := true
	for _, l := range p.listeners {
		if r.isAt(l) && l.isServed() {
			names = append(names, l.name)
			passthrough = passthrough && l.Protocol == gatewayv1.TLSProtocolType && l.tls == nil
		}
	}
	if len(names) == 0 {
		return r.resolved
	}
	from := origin(r.kind, r)
	translated, resolved := t.rulesAt(p, r)
	p.to.Origins = append(p.to.Origins, from)
	p.to.Routes = append(p.to.Routes, model.Route{
		Origin: from, Kind: r.kind, Name: r.name, Listeners: names, Hostnames: r.hostnames, Rules: translated,
	})
	if passthrough {
		p.passed = append(p.passed, r.backends...)
	} else {
		p.used = append(p.used, r.backends...)
	}
	p.attachOf(r)
	return resolved
}
