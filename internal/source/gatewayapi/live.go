package gatewayapi

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// Live answers what is live.
type Live interface {
	// Plane reports whether a data plane is, and why it is not: a reason of the condition Programmed, and a message. A
	// data plane without an address is live.
	Plane(Parent) (live bool, reason, message string)
	// Addresses are where a data plane can be reached, and ClusterIPs the cluster IPs of its Service.
	Addresses(Parent) []gatewayv1.GatewayStatusAddress
	ClusterIPs(Parent) []string
	// Missing returns what not all proxies of a data plane run yet of the needs of an object, "" if they run all of it.
	Missing(plane Parent, needs Needs) string
	// Unreadable returns why the proxies of a data plane cannot read a namespace, "" if nothing keeps them from it.
	Unreadable(plane Parent, namespace string) string
}

// Needs are what proxies have to run before an object is live at their data plane.
type Needs struct {
	// Object is the object itself. WasLive reports whether its status says that its generation is live there.
	Object  Object
	WasLive bool
	// Parents are the Gateway and the ListenerSet that it belongs to. Labels are the labels of its namespace by which
	// they select it; nil: they do not select. An object that is live stays so while they change.
	Parents []Object
	Labels  labels.Set
	// Uses are the objects that it refers to. It is live by their newest version.
	Uses []Object
}

// needs returns what an object needs that refers to no other. conditions are the conditions of its status.
func needs(kind string, object metav1.Object, conditions []metav1.Condition) Needs {
	c := meta.FindStatusCondition(conditions, string(gatewayv1.GatewayConditionProgrammed))
	isAwaiting := c != nil && c.Reason == string(gatewayv1.GatewayReasonAddressNotAssigned) &&
		meta.FindStatusCondition(conditions, string(gatewayv1.GatewayConditionAddressesAssigned)) == nil
	return Needs{
		Object:  idOf(kind, object),
		WasLive: c != nil && c.ObservedGeneration == object.GetGeneration() && (c.Status == metav1.ConditionTrue || isAwaiting),
	}
}

// needs returns what a ListenerSet needs.
func (p *parent) needs() Needs {
	all := needs(kindListenerSet, p.set, p.set.Status.Conditions)
	all.Parents = []Object{idOf(kindGateway, p.plane.gateway)}
	return all
}

// needsAt returns what a route needs at a parent.
func (t *translator) needsAt(a *attachment, r *route) Needs {
	all, p := needs(r.kind, r, r.conditionsAt(a.ref)), a.parent.plane
	if p.gateway != nil {
		all.Parents = append(all.Parents, idOf(kindGateway, p.gateway))
	}
	if a.parent.set != nil {
		all.Parents = append(all.Parents, idOf(kindListenerSet, a.parent.set))
	}
	if p.selectsNamespaces() {
		all.Labels = t.selectedLabels(p, r.GetNamespace())
	}
	all.Uses = slices.Clip(r.uses)
	if slices.ContainsFunc(r.members, func(m *member) bool { return m.plane == p && m.passthrough }) {
		return all // policies for TLS are for what others send to its Services
	}
	for _, backend := range r.backends {
		for _, c := range p.choices[backend].all() {
			if id := policyID(c.policy); id.Kind == kindTLSPolicy && c.conflict == "" {
				all.Uses = append(all.Uses, id)
			}
		}
	}
	return all
}

// use notes that a route refers to an object.
func (r *route) use(object Object) {
	if !slices.Contains(r.uses, object) {
		r.uses = append(r.uses, object)
	}
}

// unreadable adds the namespaces of a route, and of what it refers to, that proxies cannot read.
func (t *translator) unreadable(p *plane, r *route, resolved *verdict) {
	namespaces := map[string]bool{r.GetNamespace(): true}
	for _, backend := range r.backends {
		namespaces[backend.Namespace] = true
	}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if why := t.live.Unreadable(p.parent, namespace); why != "" {
			resolved.also(gatewayv1.RouteReasonRefNotPermitted, "the proxies cannot read namespace %s: %s", namespace, why)
		}
	}
}

// pending returns why an object of a data plane is not live yet. A generation that was live stays live when proxies
// start: they begin with the present objects.
func (t *translator) pending(p *plane, needs Needs) verdict {
	missing := t.live.Missing(p.parent, needs)
	live, reason, message := t.live.Plane(p.parent)
	switch {
	case !live:
		return newVerdict(reason, message)
	case missing != "":
		return newVerdict(string(gatewayv1.GatewayReasonPending), missing)
	}
	return verdict{}
}
