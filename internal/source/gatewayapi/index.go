package gatewayapi

import (
	"cmp"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/few"
	"gateway/internal/model"
)

// Index holds objects and their translation. A Result holds what Translate makes of the same objects. An edit costs
// what it changes:
//
//   - An edit of a route, a RouteFilter, a policy, a ReferenceGrant or a Service, or a report, translates the routes
//     that refer to it again, and gives the routes of their Service ports their policies again.
//   - So does an edit of a namespace's labels, or of a ListenerSet if it changes no other listeners and pods have room
//     for its certificates.
//   - An edit of a Gateway or a GatewayConfig makes the data planes again, and attaches the routes to other listeners
//     again.
//   - Any other edit makes the data planes anew, and attaches all routes to them.
type Index struct {
	translator
	// changed are the routes that are new, others or gone; nil stands for one that is gone. touched are the objects that
	// changed, which routes may depend on.
	changed map[Object]metav1.Object
	touched map[Object]bool
	// isNew reports whether the data planes have to be made anew, and all routes attached to them. isOther reports whether
	// they have to be made again, and that routes stay attached to what is as it was.
	isNew, isOther bool
}

// Changes are what differs from the Result before.
type Changes struct {
	// Objects are those whose status may be another one.
	Objects map[Object]bool
	// Places reports whether what Attachments returns may be something else, NewPlanes the same for DataPlanes.
	Places, NewPlanes bool
}

// The kinds of objects that routes depend on, beside RouteFilters. A ReferenceGrant stands for all of its namespace.
// What is reported is in the namespace of the data plane. For a ServiceImport, there is the Service that stands for it.
const (
	kindService  = "Service"
	kindImport   = "ServiceImport"
	kindGrant    = "ReferenceGrant"
	kindReported = "reported"
)

// More kinds of objects that may change. A target is a Service to which BackendPolicies apply: these change no route.
const (
	kindNamespace = "Namespace"
	kindTarget    = "target"
)

// NewIndex returns an index of objects.
func NewIndex(objects Objects) *Index {
	x := &Index{
		translator: translator{routes: map[Object]*route{}, dependents: map[Object]few.Counts[*route]{}},
		changed:    map[Object]metav1.Object{}, touched: map[Object]bool{},
	}
	x.Replace(objects)
	return x
}

// Replace takes in all objects. identity tells them apart: the caller replaces objects and never changes them.
// Services count as unchanged.
func (x *Index) Replace(objects Objects) {
	eachChanged(x.Policies, objects.Policies, x.touchTLSTargets)
	eachChanged(x.Grants, objects.Grants, func(grant *gatewayv1.ReferenceGrant) {
		x.touched[Object{kindGrant, grant.Namespace, ""}] = true
	})
	eachChanged(slices.Collect(maps.Values(x.filters)), objects.Filters, func(filter *appv1.RouteFilter) {
		x.touched[idOf(kindFilter, filter)] = true
	})
	x.Objects, x.isNew = objects, true
	clear(x.changed)
	x.filters = make(map[Object]*appv1.RouteFilter, len(objects.Filters))
	for _, filter := range objects.Filters {
		x.filters[idOf(kindFilter, filter)] = filter
	}
	x.Policies, x.BackendPolicies, x.Telemetry = sorted(x.Policies), sorted(x.BackendPolicies), sorted(x.Telemetry)
	x.Grants = sorted(x.Grants)
	x.indexPolicies()
	gone := maps.Clone(x.routes)
	objects.Each(func(kind string, object metav1.Object) {
		if !IsRoute(kind) {
			return
		}
		id := idOf(kind, object)
		if delete(gone, id); x.routes[id] == nil || identity(x.routes[id].Object) != identity(object) {
			x.changed[id] = object
		} else {
			x.Renew(id, object)
		}
	})
	for id := range gone {
		x.changed[id] = nil
	}
}

// identity tells objects of a kind apart by their generation: their translation does not depend on their status.
// Objects of files have no generation, and are told apart by their pointers.
func identity(object metav1.Object) any {
	type generation struct {
		uid          types.UID
		of           int64
		forNamespace string
	}
	if object.GetUID() == "" || object.GetGeneration() == 0 {
		return object
	}
	return generation{object.GetUID(), object.GetGeneration(), ForNamespace(object)}
}

// eachChanged calls f for the objects that are in one of two lists.
func eachChanged[T metav1.Object](before, now []T, f func(T)) {
	in := make(map[any]bool, len(before))
	for _, object := range before {
		in[identity(object)] = true
	}
	for _, object := range now {
		if id := identity(object); in[id] {
			delete(in, id)
		} else {
			f(object)
		}
	}
	for _, object := range before {
		if in[identity(object)] {
			f(object)
		}
	}
}

// idOf identifies an object.
func idOf(kind string, object metav1.Object) Object {
	return Object{kind, object.GetNamespace(), object.GetName()}
}

// Change takes in an object that is new or another one; nil: it is gone. It reports whether it could: for kinds that
// seldom change, Replace does.
func (x *Index) Change(id Object, object metav1.Object) bool {
	switch {
	case IsRoute(id.Kind):
		if before := x.routes[id]; before != nil && before.Object == object || before == nil && object == nil {
			delete(x.changed, id)
		} else {
			x.changed[id] = object
		}
	case id.Kind == kindFilter:
		if filter, ok := object.(*appv1.RouteFilter); ok {
			x.filters[id] = filter
		} else {
			delete(x.filters, id)
		}
		x.touched[id] = true
	case id.Kind == kindTLSPolicy:
		x.Policies = changed(x.Policies, id, object, x.touchTLSTargets)
		x.indexPolicies()
	case id.Kind == kindBackendPolicy:
		x.BackendPolicies = changed(x.BackendPolicies, id, object, x.touchTargets)
		x.indexPolicies()
	case id.Kind == kindGrant:
		x.Grants = changed(x.Grants, id, object, func(*gatewayv1.ReferenceGrant) { x.touched[Object{kindGrant, id.Namespace, ""}] = true })
	case id.Kind == kindImport:
		x.ChangeService(id.Namespace, model.ServiceImport(id.Name))
	case id.Kind == kindConfig:
		x.isOther = x.isOther || x.configs[types.NamespacedName{Namespace: id.Namespace, Name: id.Name}]
	case id.Kind == kindGateway:
		return x.changeGateway(id, object)
	case id.Kind == kindTelemetry:
		x.Telemetry, x.isOther = changed(x.Telemetry, id, object, func(*v1alpha1.XTelemetryPolicy) {}), true
	case id.Kind == kindListenerSet:
		x.ListenerSets = changed(x.ListenerSets, id, object, func(*gatewayv1.ListenerSet) { x.touched[id] = true })
	default:
		return false
	}
	return true
}

// changed returns the objects of a kind with a new one, in the order of precedence; nil: it is gone. It calls touch
// for what it was and is.
func changed[P metav1.Object](all []P, id Object, object metav1.Object, touch func(P)) []P {
	var others []P
	for _, policy := range all {
		if idOf(id.Kind, policy) == id {
			touch(policy)
		} else {
			others = append(others, policy)
		}
	}
	if policy, ok := object.(P); ok {
		touch(policy)
		others = append(others, policy)
	}
	return sorted(others)
}

// touchTLSTargets notes that the routes to the targets of a policy may depend on it.
func (x *Index) touchTLSTargets(policy *gatewayv1.BackendTLSPolicy) {
	for i := range policy.Spec.TargetRefs {
		if name, ok := targetName(&policy.Spec.TargetRefs[i]); ok {
			x.ChangeService(policy.Namespace, name)
		}
	}
}

// touchTargets notes that the ports of the targets of a BackendPolicy get their policies again.
func (x *Index) touchTargets(policy *appv1.BackendPolicy) {
	for _, ref := range policy.Spec.TargetRefs {
		x.touched[Object{kindTarget, policy.Namespace, serviceName(ref.Kind, ref.Name)}] = true
	}
}

// Renew takes in an object that differs in its version alone. If a route differs in more, that is not lost: it counts
// as changed.
func (x *Index) Renew(id Object, object metav1.Object) {
	if before := x.routes[id]; before != nil && identity(before.Object) != identity(object) {
		x.changed[id] = object
	} else if before != nil {
		before.Object = object
	}
	if filter, ok := object.(*appv1.RouteFilter); ok {
		x.filters[id] = filter
	}
}

// ChangeService takes in a Service, or what stands for a ServiceImport, that is new, another one, or gone.
func (x *Index) ChangeService(namespace, name string) {
	x.touched[Object{kindService, namespace, name}] = true
}

// ChangeNamespace takes in the labels of a namespace; nil: it is gone. If data planes select by other ones, it changes
// nothing.
func (x *Index) ChangeNamespace(name string, of labels.Set) {
	selected := func() (all []labels.Set) {
		for _, plane := range x.planes {
			if plane.selectsNamespaces() {
				all = append(all, x.selectedLabels(plane, name))
			}
		}
		return all
	}
	before := selected()
	all := map[string]labels.Set{} // whoever gave it may have it
	maps.Copy(all, x.Namespaces)
	if all[name] = of; of == nil {
		delete(all, name)
	}
	x.Namespaces = all
	for _, plane := range x.planes {
		delete(plane.ownership.patterns, name)
	}
	if !slices.EqualFunc(before, selected(), func(a, b labels.Set) bool { return maps.Equal(a, b) }) {
		x.touched[Object{kindNamespace, "", name}] = true
	}
}

// ChangeReported takes in that proxies of a namespace report something else of an object or a URL. name is the one that
// the object has in their namespace.
func (x *Index) ChangeReported(namespace, name string) {
	x.touched[Object{kindReported, namespace, name}] = true
}

// Result returns the models of the objects as they are now, and their status.
func (x *Index) Result() *Result {
	result := &Result{Planes: map[Parent]*model.Gateway{}, Changes: x.update(), t: &x.translator}
	for _, plane := range x.planes {
		result.Planes[plane.parent] = &plane.to
	}
	return result
}

// update translates what changed.
func (x *Index) update() Changes {
	x.changes = Changes{Objects: map[Object]bool{}}
	sets := x.touchedSets()
	for object := range x.touched {
		x.touchPolicies(object)
		for r := range x.dependents[object].All() {
			x.change(r)
		}
		if object.Kind == kindNamespace {
			x.changes.Places = true
			for _, r := range x.routes {
				if r.GetNamespace() == object.Name || ForNamespace(r) == object.Name {
					x.change(r)
				}
			}
		}
		x.isOther = x.isOther || x.grants[object] || slices.ContainsFunc(x.planes, func(p *plane) bool { return p.fixed[object] })
	}
	var remade *remade
	if x.isOther && !x.isNew {
		remade = x.remakePlanes()
		x.isNew = remade == nil
	}
	known := map[string]bool{}
	x.waiting(known)
	added := x.renew()
	if remade != nil && !x.isNew {
		x.takeOver(remade)
		sets = nil
	}
	for _, id := range sets {
		x.changes.Objects[id] = true
		x.isNew = x.isNew || !x.changeSet(id)
	}
	for len(added) > 0 {
		for _, r := range added {
			x.add(r)
		}
		added = nil
		if isMore := x.waiting(known); !x.isNew && (x.grow(slices.Collect(maps.Keys(x.changed))) || isMore) {
			added = x.renew()
		}
	}
	if x.isNew {
		x.attachAll()
	}
	for _, plane := range x.planes {
		x.updatePolicies(plane)
		plane.to.Routes = plane.routes.Map()
		x.changes.Places = x.changes.Places || plane.isMoved
		plane.isMoved = false
	}
	x.updateProblems()
	x.changed, x.touched = map[Object]metav1.Object{}, map[Object]bool{} // they were as large as the largest change
	x.isNew, x.isOther = false, false
	return x.changes
}

// change notes that a route depends on something that changed.
func (x *Index) change(r *route) {
	if _, ok := x.changed[r.id]; !ok {
		x.changed[r.id] = r.Object
	}
}

// renew removes the routes that changed, and those that contest their hostnames, and returns them as they are now.
func (x *Index) renew() []*route {
	var added []*route
	x.grow(slices.Collect(maps.Keys(x.changed)))
	for id, object := range x.changed {
		x.changes.Objects[id] = true
		if before := x.routes[id]; before != nil {
			x.isNew = x.isNew || before.isDisputed()
			x.remove(before)
		}
		if object != nil {
			added = append(added, x.translate(id, object))
		}
	}
	slices.SortFunc(added, (*route).compare)
	return added
}

// grow notes the routes that contest a hostname with one that changed, and those that do with these. It reports
// whether there are any that had not changed.
func (x *Index) grow(changed []Object) (hasGrown bool) {
	for len(changed) > 0 {
		r := x.routes[changed[0]]
		if changed = changed[1:]; r == nil || !r.isContested() {
			continue
		}
		for id, other := range x.routes {
			if _, isChanged := x.changed[id]; !isChanged && r.contests(other) {
				x.change(other)
				changed, hasGrown = append(changed, id), true
			}
		}
	}
	return hasGrown
}

// touchedSets returns the ListenerSets that may be others, sorted. Their routes are touched, too.
func (x *Index) touchedSets() []Object {
	sets := map[Object]bool{}
	for object := range x.touched {
		switch object.Kind {
		case kindListenerSet:
			sets[object] = true
		case kindNamespace:
			for _, set := range x.ListenerSets {
				if set.Namespace == object.Name {
					sets[idOf(kindListenerSet, set)] = true
				}
			}
		}
		for _, set := range x.sets[object] {
			sets[idOf(kindListenerSet, set.set)] = true
		}
	}
	for set := range sets {
		x.touched[set] = true
	}
	return slices.SortedFunc(maps.Keys(sets), func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// add adds a route. It belongs to data planes at once, unless these are made anew.
func (x *Index) add(r *route) {
	x.routes[r.id] = r
	x.order.Set(r.key, r)
	for _, object := range r.dependsOn {
		few.In(x.dependents, object, r, 1)
	}
	if x.isNew {
		return
	}
	if x.isNew = x.claimHostnames(r); x.isNew {
		return
	}
	x.attach(r)
	x.addToPlanes(r)
	x.noteParents(r)
}

// remove removes a route.
func (x *Index) remove(r *route) {
	delete(x.routes, r.id)
	x.order.Delete(r.key)
	for _, object := range r.dependsOn {
		few.In(x.dependents, object, r, -1)
	}
	x.noteParents(r)
	r.detach()
}

// noteParents notes that the parents of a route count it, or did.
func (x *Index) noteParents(r *route) {
	for _, a := range r.attachments {
		x.changes.Objects[Object{a.parent.Kind, a.parent.Namespace, a.parent.Name}] = true
	}
}

// eachObject calls f for all objects that may have a status.
func (t *translator) eachObject(f func(kind string, object metav1.Object)) {
	t.Each(func(kind string, object metav1.Object) {
		if !IsRoute(kind) { // t.routes has the newest
			f(kind, object)
		}
	})
	for id, r := range t.routes {
		f(id.Kind, r.Object)
	}
}

// Translate returns the models of objects, and computes their status.
func Translate(objects Objects) *Result { return NewIndex(objects).Result() }
