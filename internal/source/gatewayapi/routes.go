package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
	"gateway/internal/rules"
)

// route is a route of any kind.
type route struct {
	metav1.Object
	id   Object
	kind string
	// key is its place in the order of precedence, after the routes of a Gateway of our own kind. name is what the access
	// log calls it, NAMESPACE/NAME.
	key, name string

	hostnames []string
	rules     []model.Rule
	// backends are the Service ports that it refers to.
	backends []model.Backend
	// uses are the RouteFilters that its rules have, and the ReferenceGrants of its backends.
	uses []Object
	// dependsOn are the objects that it was translated with.
	dependsOn []Object
	// refused is the problem of the whole route, and resolved the problem of its references.
	refused, resolved verdict

	attachments []*attachment
	// listeners are those that it belongs to, by any of its parents, and candidates those that it would belong to without
	// routes of the other kind.
	listeners, candidates []*listener
	// members are its parts of data planes. models are what they, or those before, have of it.
	members []*member
	// held are the hostnames that it has to itself, or would have.
	held []held
	// spent is what it has of budgets.
	spent  []spent
	models []madeRoute
}

// madeRoute is what the model of a data plane has of a route.
type madeRoute struct {
	at Parent
	*model.Route
}

// member is a route of a data plane.
type member struct {
	*plane
	// passthrough reports whether all its traffic there is TLS that is passed through.
	passthrough bool
	claims      []claim
}

// newRoute returns a route without rules, for all hostnames.
func newRoute(object metav1.Object, kind string) *route {
	r := &route{
		Object: object, id: idOf(kind, object), kind: kind, name: object.GetNamespace() + "/" + object.GetName(),
		hostnames: []string{""},
	}
	for _, ref := range r.parentRefs() {
		if of := ParentOf(ref, object.GetNamespace()); of.Kind == kindListenerSet {
			r.dependsOn = append(r.dependsOn, Object{kindListenerSet, of.Namespace, of.Name})
		}
	}
	r.key = keyOf(kind, object)
	return r
}

// LabelFor is on a route in the namespace of its Gateway that is made of what somebody in another namespace wants. Its
// value is the name of that namespace: the route uses its hostnames and its budget.
const LabelFor = "app.example.com/for-namespace"

// ForNamespace returns the namespace that a route is for at Gateways of its own namespace; "": that one.
func ForNamespace(object metav1.Object) string { return object.GetLabels()[LabelFor] }

// namespaceAt returns the namespace whose hostnames and budget a route uses at a data plane. Whoever writes into the
// namespace of the Gateway may say for whom.
func (r *route) namespaceAt(p *plane) string {
	if r.GetNamespace() != p.parent.Namespace {
		return r.GetNamespace()
	}
	return cmp.Or(ForNamespace(r), r.GetNamespace())
}

func (r *route) parentRefs() []gatewayv1.ParentReference {
	spec, _ := RouteParts(r.Object)
	return spec.ParentRefs
}

// parents are what the status of a route says of its parents.
func (r *route) parents() []gatewayv1.RouteParentStatus {
	_, status := RouteParts(r.Object)
	return status.Parents
}

// keyOf returns the place of an object in the order of precedence.
func keyOf(kind string, object metav1.Object) string {
	created := object.GetCreationTimestamp()
	// Negative numbers come first. The time of an object without one is negative.
	return fmt.Sprintf("a%020d\x00%s/%s\x00%s", uint64(created.Unix())^1<<63, object.GetNamespace(), object.GetName(), kind) //nolint:gosec // bits
}

// setHostnames sets the hostnames of a route, if there are any.
func (r *route) setHostnames(hostnames []gatewayv1.Hostname) {
	for i, hostname := range hostnames {
		if i == 0 {
			r.hostnames = nil
		}
		if !slices.Contains(r.hostnames, string(hostname)) {
			r.hostnames = append(r.hostnames, string(hostname))
		}
	}
}

// RouteParts returns what routes of all kinds have. Of other objects, both are empty.
func RouteParts(object metav1.Object) (*gatewayv1.CommonRouteSpec, *gatewayv1.RouteStatus) {
	switch r := object.(type) {
	case *gatewayv1.HTTPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.GRPCRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.TLSRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.TCPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.UDPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	}
	return &gatewayv1.CommonRouteSpec{}, &gatewayv1.RouteStatus{}
}

// translate translates a route.
func (t *translator) translate(id Object, object metav1.Object) *route {
	r := newRoute(object, id.Kind)
	t.translating = r
	switch object := object.(type) {
	case *gatewayv1.HTTPRoute:
		r.setHostnames(object.Spec.Hostnames)
		t.addRules(r, object.Spec.Rules)
	case *gatewayv1.GRPCRoute:
		r.setHostnames(object.Spec.Hostnames)
		t.addRules(r, rules.FromGRPC(object.Spec.Rules))
	case *gatewayv1.TLSRoute:
		r.setHostnames(object.Spec.Hostnames)
		for _, rule := range object.Spec.Rules {
			t.addConnections(r, rule.BackendRefs)
		}
	case *gatewayv1.TCPRoute:
		for _, rule := range object.Spec.Rules {
			t.addConnections(r, rule.BackendRefs)
		}
	case *gatewayv1.UDPRoute:
		r.refused.no(gatewayv1.RouteReasonUnsupportedValue, "HAProxy does not speak UDP")
	}
	t.translating = nil
	return r
}

// dependOn notes that the route that is translated depends on an object, whether it exists or not.
func (t *translator) dependOn(kind, namespace, name string) {
	if object := (Object{kind, namespace, name}); t.translating != nil && !slices.Contains(t.translating.dependsOn, object) {
		t.translating.dependsOn = append(t.translating.dependsOn, object)
	}
}

// compare orders routes by precedence, as before does.
func (r *route) compare(other *route) int { return cmp.Compare(r.key, other.key) }

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
	t.noteProblems(r)
}

// addToPlane adds a route to a data plane, if it belongs to a listener that is served. It returns the problems of the
// references of the route there.
func (t *translator) addToPlane(p *plane, r *route) verdict {
	var names []string
	m := &member{plane: p, passthrough: true}
	at := slices.SortedFunc(slices.Values(r.listeners), func(a, b *listener) int { return cmp.Compare(a.order, b.order) })
	for _, l := range at {
		if l.plane == p && l.isServed() {
			names = append(names, l.name)
			m.passthrough = m.passthrough && l.Protocol == gatewayv1.TLSProtocolType && l.tls == nil
		}
	}
	if len(names) == 0 {
		return r.resolved
	}
	translated, resolved := t.rulesAt(m, r)
	made := &model.Route{Origin: origin(r.kind, r), Kind: r.kind, Name: r.name, Listeners: names, Hostnames: r.hostnames, Rules: translated}
	if i := slices.IndexFunc(r.models, func(before madeRoute) bool { return before.at == p.parent }); i < 0 {
		r.models = append(r.models, madeRoute{p.parent, made})
	} else if before := r.models[i].Route; slices.Equal(before.Listeners, names) && isSame(before.Rules, translated) {
		made = before
	} else {
		r.models[i].Route = made
	}
	p.routes.Set(r.key, made)
	for _, backend := range r.backends {
		p.use(backend, m.passthrough, 1)
	}
	m.claimPlaces(r)
	r.members = append(r.members, m)
	return resolved
}

// isSame reports whether two slices are one.
func isSame(a, b []model.Rule) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }

// detach removes a route from its listeners and data planes.
func (r *route) detach() {
	r.letGo()
	r.giveBack()
	for _, l := range r.listeners {
		l.taken.remove(r, l)
		if !r.isUnsupported() {
			l.attached--
		}
	}
	for _, l := range r.candidates {
		l.wanted.remove(r, l)
	}
	for _, m := range r.members {
		m.routes.Delete(r.key)
		for _, backend := range r.backends {
			m.use(backend, m.passthrough, -1)
		}
		for _, c := range m.claims {
			m.unclaim(c)
		}
	}
	for _, a := range r.attachments {
		delete(a.parent.plane.problems, r.key)
	}
}

// use counts a route that sends something to a Service port.
func (p *plane) use(backend model.Backend, passthrough bool, n int) {
	if p.used == nil {
		p.used, p.passed, p.stale = map[model.Backend]int{}, map[model.Backend]int{}, map[model.Backend]bool{}
	}
	counts := p.used
	if passthrough {
		counts = p.passed
	}
	count(counts, backend, n)
	p.stale[backend] = true
}
