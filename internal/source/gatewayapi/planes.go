package gatewayapi

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/tree"
)

// beginPlanes makes the data planes of Gateways of the Gateway API, without ListenerSets.
func (t *translator) beginPlanes() {
	t.planes, t.parents, t.isMakingPlanes = nil, map[Parent]*parent{}, true
	t.sets, t.grants, t.configs = map[Object][]*parent{}, map[Object]bool{}, map[types.NamespacedName]bool{}
	t.addClasses()
	t.addGateways()
}

// endPlanes adds ListenerSets to data planes, and decides which of their listeners are served.
func (t *translator) endPlanes(planes []*plane) {
	t.addListenerSets()
	for _, plane := range planes {
		t.settleClaims(plane)
		plane.resolveConflicts()
	}
	for _, plane := range planes {
		plane.addListeners(t.MaxCertificates)
		t.addListenerFilters(plane)
		plane.ownPolicies = plane.to.Policies
		plane.noteOwnProblems()
	}
	t.isMakingPlanes = false
}

// attachAll makes the data planes anew, with all routes.
func (x *Index) attachAll() {
	t := &x.translator
	t.uses, t.changes.Places, t.changes.NewPlanes = map[Object]*usage{}, true, true
	for r := range t.ordered() {
		r.attachments, r.listeners, r.candidates, r.members, r.held, r.spent = nil, nil, nil, nil, nil, nil
	}
	t.beginPlanes()
	t.addOwn()
	t.endPlanes(t.planes)
	for r := range t.ordered() {
		t.attach(r)
		t.addToPlanes(r)
	}
	t.eachObject(func(kind string, object metav1.Object) { t.changes.Objects[idOf(kind, object)] = true })
}

// ordered returns the routes in the order of precedence.
func (t *translator) ordered() func(yield func(*route) bool) {
	return tree.Map[*route].Values(t.order.Map())
}

// remade are data planes that are made again. kept are the listeners that routes see no difference of, with those that
// they are the same as.
type remade struct {
	translator
	kept map[*listener]*listener
}

// difference is what routes may see of a parent that is another one: all of it, or some listeners, before and now.
type difference struct {
	isWhole   bool
	listeners []*listener
}

// remakePlanes makes the data planes again, and notes the routes that have to be attached again: those that may see a
// difference. It returns nil if all have to.
func (x *Index) remakePlanes() *remade {
	r := &remade{x.translator, map[*listener]*listener{}}
	r.beginPlanes()
	made := r.planes
	isFirstCome := func(p *plane) bool { return p.ownership.isFirstCome() }
	if slices.ContainsFunc(x.planes, isFirstCome) || slices.ContainsFunc(made, isFirstCome) { // hostnames go by age
		return nil
	}
	for _, p := range x.planes {
		if p.gateway == nil { // nothing changes it
			r.planes, r.parents[p.parent] = append(r.planes, p), x.parents[p.parent]
		}
	}
	if !slices.EqualFunc(x.planes, r.planes, func(a, b *plane) bool { return a.parent == b.parent }) {
		return nil
	}
	r.endPlanes(made)
	differences := map[Parent]*difference{}
	for i, now := range made {
		was := x.planes[i]
		if was.selectsNamespaces() != now.selectsNamespaces() || !maps.Equal(was.selectorKeys(), now.selectorKeys()) {
			return nil // agents have to be told other labels of all namespaces
		}
		r.compare(was, now, differences, x.parents)
	}
	x.changeRoutes(differences)
	return r
}

// compare finds the differences that routes may see between two data planes, whose parents are in before.
func (r *remade) compare(was, now *plane, differences map[Parent]*difference, before map[Parent]*parent) {
	parents := slices.Concat([]*parent{r.parents[now.parent]}, now.sets)
	for _, p := range parents {
		if a := before[p.Parent]; a == nil || a.plane != was || a.allowed != p.allowed {
			differences[p.Parent] = &difference{isWhole: true}
		} else if others := r.keep(a.listeners, p.listeners); len(others) > 0 {
			differences[p.Parent] = &difference{listeners: others}
		}
	}
	for _, set := range was.sets {
		if now := r.parents[set.Parent]; now == nil || now.plane.parent != was.parent {
			differences[set.Parent] = &difference{isWhole: true}
		}
	}
	isWhole := !reflect.DeepEqual(was.ownership.spec, now.ownership.spec) || was.ownership.by != now.ownership.by ||
		!reflect.DeepEqual(was.budget.spec, now.budget.spec) || was.budget.by != now.budget.by
	last := -1
	for _, l := range now.listeners { // routes list them in this order
		if same := r.kept[l]; same != nil {
			isWhole = isWhole || same.order < last
			last = same.order
		}
	}
	for _, p := range parents {
		if isWhole {
			differences[p.Parent] = &difference{isWhole: true}
			for _, l := range p.listeners {
				delete(r.kept, l)
			}
		}
	}
}

// keep notes the listeners of a parent that look the same to routes, and returns all others, before and now.
func (r *remade) keep(before, now []*listener) []*listener {
	rest, others := slices.Clone(before), []*listener(nil)
	for _, l := range now {
		if i := slices.IndexFunc(rest, func(was *listener) bool { return was.isAlike(l) }); i >= 0 {
			r.kept[l] = rest[i]
			rest = slices.Delete(rest, i, i+1)
		} else {
			others = append(others, l)
		}
	}
	return append(rest, others...)
}

// isAlike reports whether routes see no difference between two listeners.
func (l *listener) isAlike(now *listener) bool {
	return l.name == now.name && l.Name == now.Name && l.Port == now.Port && l.Protocol == now.Protocol && l.hostname() == now.hostname() &&
		l.closed == now.closed && (l.tls == nil) == (now.tls == nil) && l.conflict.cause() == now.conflict.cause() &&
		l.accepted.cause() == now.accepted.cause() && reflect.DeepEqual(l.kinds, now.kinds) && reflect.DeepEqual(l.AllowedRoutes, now.AllowedRoutes)
}

// changeRoutes notes the routes that may see a difference: those that name another listener, or belong to none, whose
// messages list what is there.
func (x *Index) changeRoutes(differences map[Parent]*difference) {
	if len(differences) == 0 {
		return
	}
	for _, r := range x.routes {
		for _, ref := range r.parentRefs() {
			name := ParentOf(ref, r.GetNamespace())
			d := differences[name]
			if d == nil {
				continue
			}
			isRefused := func(a *attachment) bool { return a.parent.Parent == name && a.accepted.reason() != "" }
			if d.isWhole || slices.ContainsFunc(d.listeners, (&attachment{ref: ref}).names) || slices.ContainsFunc(r.attachments, isRefused) {
				x.change(r)
			}
		}
	}
}

// takeOver replaces the data planes, once the routes are removed that see a difference. All others stay where they are:
// what is replaced is in the places of what it was.
func (x *Index) takeOver(r *remade) {
	for now, was := range r.kept {
		now.taken, now.wanted, now.attached = was.taken, was.wanted, was.attached
		*was = *now
	}
	planes := map[*plane]*plane{}
	for i, was := range x.planes {
		planes[r.planes[i]] = was
		if now := r.planes[i]; now != was {
			was.takeOver(now, r.kept)
		}
	}
	places := map[*parent]*parent{}
	for name, p := range r.parents {
		for i, l := range p.listeners {
			p.listeners[i] = cmp.Or(r.kept[l], l)
		}
		p.plane = planes[p.plane]
		if was := x.parents[name]; was != nil {
			*was, places[p] = *p, was
		} else {
			places[p] = p
		}
	}
	inPlace := func(all []*parent) {
		for i, p := range all {
			all[i] = places[p]
		}
	}
	for _, p := range x.planes {
		if p.gateway != nil {
			inPlace(p.sets)
		}
	}
	for name, p := range r.parents {
		r.parents[name] = places[p]
	}
	for _, sets := range r.sets {
		inPlace(sets)
	}
	x.classes, x.parents, x.sets, x.grants, x.configs = r.classes, r.parents, r.sets, r.grants, r.configs
	x.changes.NewPlanes = true
	x.Each(func(kind string, object metav1.Object) {
		if slices.Contains([]string{kindClass, kindGateway, kindListenerSet, kindTelemetry}, kind) {
			x.changes.Objects[idOf(kind, object)] = true
		}
	})
}

// takeOver replaces a data plane by what it is now, but for what routes made of it.
func (p *plane) takeOver(now *plane, kept map[*listener]*listener) {
	was := *p
	for i, l := range now.listeners {
		now.listeners[i] = cmp.Or(kept[l], l)
		now.listeners[i].plane = p
	}
	*p = *now
	p.routes, p.to.Policies, p.problems, p.policyProblems = was.routes, was.to.Policies, was.problems, was.policyProblems
	p.used, p.passed, p.stale, p.choices = was.used, was.passed, was.stale, was.choices
	if p.noCertificate != was.noCertificate {
		for backend := range p.choices {
			p.stale[backend] = true
		}
	}
	for _, backend := range was.asked {
		p.use(backend, false, -1)
	}
	for _, backend := range now.asked {
		p.use(backend, false, 1)
	}
	p.attached = attached{claims: was.claims, isMoved: was.isMoved}
	for c, n := range now.unrouted {
		for range n {
			p.count(c, 1)
		}
	}
	for c, n := range was.unrouted {
		for range n {
			p.unclaim(c)
		}
	}
	if reflect.DeepEqual(was.budget.spec, now.budget.spec) {
		p.budget = was.budget.with(now, was.sets)
	}
}

// with returns a budget with what the ListenerSets of a data plane have now, and not what they had.
func (b budget) with(now *plane, before []*parent) budget {
	if b.used == nil {
		return now.budget
	}
	for _, set := range before {
		if used := b.used[set.Namespace]; used != nil {
			used.add(&set.charged, -1)
		}
	}
	for namespace, amounts := range now.budget.used {
		if b.used[namespace] == nil {
			b.used[namespace] = amounts
		} else {
			b.used[namespace].add(amounts, 1)
		}
	}
	b.by, b.overSets = now.budget.by, now.budget.overSets
	if b.overSets == nil {
		b.overSets = map[string]bool{}
	}
	return b
}

// changeGateway takes in another spec of a Gateway. It reports whether it could: for one that is new, gone or of
// another class, Replace does.
func (x *Index) changeGateway(id Object, object metav1.Object) bool {
	now, ok := object.(*gatewayv1.Gateway)
	i := slices.IndexFunc(x.Gateways, func(gateway *gatewayv1.Gateway) bool { return idOf(kindGateway, gateway) == id })
	if !ok || i < 0 || x.Gateways[i].UID != now.UID || x.Gateways[i].Spec.GatewayClassName != now.Spec.GatewayClassName {
		return false
	}
	x.Gateways = slices.Clone(x.Gateways)
	x.Gateways[i], x.isOther = now, x.isOther || x.classes[string(now.Spec.GatewayClassName)] != nil
	return true
}
