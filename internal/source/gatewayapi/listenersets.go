package gatewayapi

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// GatewayOf returns the Gateway of a ListenerSet.
func GatewayOf(set *gatewayv1.ListenerSet) Parent {
	ref := set.Spec.ParentRef
	return ParentOf(gatewayv1.ParentReference{Group: ref.Group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}, set.Namespace)
}

// allowsSet reports whether a Gateway lets a ListenerSet add listeners.
func (t *translator) allowsSet(gateway *gatewayv1.Gateway, set *gatewayv1.ListenerSet) bool {
	if gateway.Spec.AllowedListeners == nil || gateway.Spec.AllowedListeners.Namespaces == nil {
		return false
	}
	namespaces := gateway.Spec.AllowedListeners.Namespaces
	return t.allows(ptr.Deref(namespaces.From, gatewayv1.NamespacesFromNone), namespaces.Selector, gateway.Namespace, set.Namespace)
}

// newSet returns a ListenerSet as a parent of routes, nil if its Gateway is not ours.
func (t *translator) newSet(set *gatewayv1.ListenerSet) *parent {
	gateway := t.parents[GatewayOf(set)]
	if gateway == nil || gateway.plane.gateway == nil {
		return nil
	}
	plane := gateway.plane
	p := &parent{Parent: SetParent(set.Namespace, set.Name), plane: plane, set: set, allowed: t.allowsSet(plane.gateway, set)}
	for i := range set.Spec.Listeners {
		l := t.newListener((*gatewayv1.Listener)(&set.Spec.Listeners[i]), origin(kindListenerSet, set), plane)
		l.since = max(1, set.CreationTimestamp.Unix()) // in files, it has none
		p.listeners = append(p.listeners, l)
	}
	if p.allowed {
		t.refuseSet(p)
	}
	return p
}

// addListenerSets adds the listeners of ListenerSets to the data planes of their Gateways.
func (t *translator) addListenerSets() {
	for _, set := range sorted(t.ListenerSets) {
		parent := t.newSet(set)
		if parent == nil {
			continue
		}
		plane := parent.plane
		if parent.allowed {
			parent.charge()
			plane.listeners = append(plane.listeners, parent.listeners...)
			plane.to.Origins = append(plane.to.Origins, origin(kindListenerSet, set))
			t.adopt(parent, 1)
			t.noteReports(parent, true)
		}
		plane.sets, t.parents[parent.Parent] = append(plane.sets, parent), parent
	}
}

// adopt counts what an allowed ListenerSet needs, n times.
func (t *translator) adopt(set *parent, n int) {
	set.plane.count(claim{claimResource, set.Namespace, resources[kindListenerSet]}, n)
	for _, l := range set.listeners {
		set.plane.adopt(l, n)
	}
}

// noteReports notes which reports an allowed ListenerSet depends on, or that it depends on none.
func (t *translator) noteReports(set *parent, depends bool) {
	for _, l := range set.listeners {
		for _, object := range l.reports {
			sets := t.sets[object]
			switch {
			case depends && (len(sets) == 0 || sets[len(sets)-1] != set):
				t.sets[object] = append(sets, set)
			case depends: // by another listener, too
			default:
				if t.sets[object] = slices.DeleteFunc(sets, func(of *parent) bool { return of == set }); len(t.sets[object]) == 0 {
					delete(t.sets, object)
				}
			}
		}
	}
}

// adopt counts what a listener needs, n times.
func (p *plane) adopt(l *listener, n int) {
	for _, c := range l.claims {
		p.count(c, n)
	}
}

// count counts a claim of the Gateway or of a listener, once more or less.
func (p *plane) count(c claim, n int) {
	if p.unrouted == nil {
		p.unrouted = map[claim]int{}
	}
	if count(p.unrouted, c, n); n > 0 {
		p.claim(c)
	} else {
		p.unclaim(c)
	}
}

// places counts the listeners of a data plane by what conflicts are about.
type places struct {
	hosts  map[hostAt]int
	speaks map[int32]map[spoken]int
}

// hostAt is a port and hostname, and spoken how listeners speak.
type (
	hostAt struct {
		port     int32
		hostname string
	}
	spoken struct {
		protocol gatewayv1.ProtocolType
		passes   bool
	}
)

// add counts a listener, n times.
func (p *places) add(l *listener, n int) {
	if kindsOf[l.Protocol] == nil || l.isBeyond() {
		return
	}
	if p.hosts == nil {
		p.hosts, p.speaks = map[hostAt]int{}, map[int32]map[spoken]int{}
	}
	if p.speaks[l.Port] == nil {
		p.speaks[l.Port] = map[spoken]int{}
	}
	count(p.hosts, hostAt{l.Port, l.hostname()}, n)
	count(p.speaks[l.Port], spoken{l.Protocol, l.passesThrough()}, n)
}

// conflicts reports whether a listener, which is counted, conflicts with others, or may.
func (p *places) conflicts(l *listener) bool {
	kinds := p.speaks[l.Port]
	// TLS that is passed through, and TLS that is terminated in one way, may share a port.
	isMixed := len(kinds) == 2 && kinds[spoken{gatewayv1.TLSProtocolType, true}] > 0 && kinds[spoken{gatewayv1.HTTPProtocolType, false}] == 0 &&
		kinds[spoken{gatewayv1.TCPProtocolType, false}] == 0
	return kindsOf[l.Protocol] != nil && !l.isBeyond() && (p.hosts[hostAt{l.Port, l.hostname()}] > 1 || len(kinds) > 1 && !isMixed)
}

// changeSet takes in a ListenerSet that is new, another one or gone. It reports whether it could: nothing else may
// depend on it but its routes, which belong to no data plane now.
func (x *Index) changeSet(id Object) bool {
	name := SetParent(id.Namespace, id.Name)
	before, now := x.parents[name], (*parent)(nil)
	if i := slices.IndexFunc(x.ListenerSets, func(set *gatewayv1.ListenerSet) bool { return idOf(kindListenerSet, set) == id }); i >= 0 {
		now = x.newSet(x.ListenerSets[i])
	}
	if before == nil && now == nil {
		return true
	}
	plane := cmp.Or(now, before).plane
	isMoved := before != nil && before.plane != plane
	isClosed := x.FiltersUnknown || before.asks() || now.asks() || slices.ContainsFunc(plane.filters.Filters, func(f appv1.RuleFilter) bool { return f.ExternalAuth != nil })
	if isMoved || isClosed || plane.isFull || !before.isPlain() || !now.isPlain() || !x.replaceSet(before, now) {
		return false
	}
	if now.isAllowed() { // before the claims of the other go: what both claim goes on
		x.adopt(now, 1)
	}
	if before.isAllowed() {
		x.adopt(before, -1)
		x.noteReports(before, false)
	}
	if now.isAllowed() {
		x.noteReports(now, true)
	}
	if x.parents[name] = now; now == nil {
		delete(x.parents, name)
	}
	x.remake(plane)
	if before.selects() || now.selects() {
		if plane.selects != nil && *plane.selects != plane.hasSelectors() || plane.selectors != nil && !maps.Equal(plane.selectors, plane.selectorKeys()) {
			return false // agents have to be told other labels of all namespaces
		}
	}
	x.changes.Objects[idOf(kindGateway, plane.gateway)], x.changes.NewPlanes = true, true
	return true
}

// selects reports whether a ListenerSet that is part of a data plane selects namespaces by their labels.
func (p *parent) selects() bool {
	return p.isAllowed() && slices.ContainsFunc(p.listeners, func(l *listener) bool { return l.selector() != nil })
}

// isPlain reports whether a ListenerSet has no conflicts.
func (p *parent) isPlain() bool {
	return p == nil || !slices.ContainsFunc(p.listeners, func(l *listener) bool {
		return l.conflict.reason() != "" || p.allowed && p.plane.places.conflicts(l)
	})
}

// replaceSet replaces a ListenerSet of a data plane by another one; nil: there is none. It reports false, and leaves
// the data plane to be made anew, if that changes others.
func (t *translator) replaceSet(old, now *parent) bool {
	disputed := old.isAllowed() && (!old.giveBack() || old.claim(-1))
	if old != nil {
		old.plane.removeSet(old)
	}
	if now == nil || disputed {
		return !disputed
	}
	p := now.plane
	place := slices.IndexFunc(p.sets, func(other *parent) bool { return before(now.set, other.set) < 0 })
	if place < 0 {
		place = len(p.sets)
	}
	if p.sets = slices.Insert(p.sets, place, now); !now.allowed {
		return true
	}
	if !now.charge() {
		return false
	}
	for _, l := range now.listeners {
		p.places.add(l, 1)
	}
	if !now.isPlain() || now.claim(1) {
		return false
	}
	for _, l := range now.listeners {
		if l.isServed() {
			p.addListener(l, t.MaxCertificates)
			p.addFilters(l)
		}
	}
	return !p.isFull && len(p.atPorts) <= maxPorts
}

// claim counts the hostnames that an allowed ListenerSet has to itself, n times. It reports whether others may have
// them.
func (p *parent) claim(n int) (disputed bool) {
	o := &p.plane.ownership
	if !o.isFirstCome() || p.isOwners() {
		return false
	}
	for _, l := range p.listeners {
		if disputed = disputed || l.isBeyond(); l.Protocol == gatewayv1.TCPProtocolType || l.accepted.reason() != "" {
			continue
		}
		hostnames := []string{l.hostname()}
		_, other := o.claims.other(p.Namespace, hostnames)
		disputed = disputed || other != ""
		o.claims.add(p.Namespace, hostnames, n)
	}
	return disputed
}

// removeSet removes a ListenerSet from what is counted.
func (p *plane) removeSet(set *parent) {
	p.sets = slices.DeleteFunc(p.sets, func(other *parent) bool { return other == set })
	if !set.allowed {
		return
	}
	for _, l := range set.listeners {
		p.places.add(l, -1)
		if l.made == nil {
			continue
		}
		count(p.atPorts, l.Port, -1)
		if l.tls != nil && len(p.mounted) > 0 {
			for _, name := range l.tls.Secrets {
				count(p.mounted, name, -1)
			}
		}
	}
}

// remake lists the listeners of a data plane, and their problems.
func (t *translator) remake(p *plane) {
	own := t.parents[p.parent].listeners
	p.listeners = append(make([]*listener, 0, len(p.listeners)+len(own)), own...) // about as many as before
	p.to.Origins = append(make([]model.Origin, 0, len(p.sets)+1), p.to.Origins[0])
	for _, set := range p.sets {
		if set.allowed {
			p.listeners = append(p.listeners, set.listeners...)
			p.to.Origins = append(p.to.Origins, origin(kindListenerSet, set.set))
		}
	}
	for i, l := range p.listeners {
		l.plane, l.order = p, i
	}
	p.list()
	p.ownProblems = nil
	p.noteOwnProblems()
}

// list lists what the model has of the listeners, which have it there.
func (p *plane) list() {
	p.to.Listeners = make([]model.Listener, 0, len(p.listeners))
	for _, l := range p.listeners {
		if l.made != nil {
			p.to.Listeners = append(p.to.Listeners, *l.made)
			l.made = &p.to.Listeners[len(p.to.Listeners)-1]
		}
	}
}
