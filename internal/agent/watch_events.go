package agent

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

// filterWait is how long an edited route waits for a RouteFilter that it names, which comes over another watch.
const filterWait = 2 * time.Second

// objectKey is the place of an object of the Gateway API, a RouteFilter or a BackendPolicy.
type objectKey struct {
	of   *watched
	name string
}

// event is an object as the API server sent it; nil: it is gone. differs reports whether it is another one than before
// in more than its version.
type event struct {
	object  metav1.Object
	differs bool
}

// after returns an event that stands for an earlier one, too.
func (e event) after(before event) event {
	e.differs = e.differs || before.differs
	return e
}

// onResource notes events. It does not wake the loop for status writes. The next pass reports their resourceVersions.
func (w *watcher) onResource(of *watched) cache.ResourceEventHandlerFuncs {
	note := func(found, object any, differs bool) {
		if accessor, err := meta.Accessor(found); err == nil {
			now, _ := object.(metav1.Object)
			key := objectKey{of, accessor.GetName()}
			w.mu.Lock()
			w.events[key] = event{now, differs}.after(w.events[key])
			w.mu.Unlock()
		}
		if differs {
			w.changed()
		}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { note(object, object, true) },
		UpdateFunc: func(old, new any) {
			before, after := old.(metav1.Object), new.(metav1.Object)
			note(new, new, before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration())
		},
		DeleteFunc: func(object any) {
			if final, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = final.Obj
			}
			note(object, nil, true)
		},
	}
}

// takeIn takes in events, and those that waited, unless they have to wait. It returns what it took in.
func (w *watcher) takeIn(events map[objectKey]event) map[objectKey]event {
	for key, event := range events {
		if watch := w.namespaces[key.of.namespace]; watch != nil && watch.resources[key.of.resource] == key.of {
			watch.waiting[key] = event.after(watch.waiting[key])
		}
	}
	taken := map[objectKey]event{}
	for _, watch := range w.namespaces {
		if w.isEarly(watch) {
			continue
		}
		for key, event := range watch.waiting {
			key.of.take(key.name, event.object)
		}
		maps.Copy(taken, watch.waiting)
		clear(watch.waiting)
	}
	return taken
}

// isEarly reports whether the events of a namespace have to wait, because an edited route names a RouteFilter that has
// not arrived: without it, requests would get 500 that were served before. All events wait, and not the route alone. So
// HAProxy runs what it would run if the watches were slower, and nothing is open that was closed: the route may take
// requests that another one refused, and a RouteFilter may be edited that the route had before.
func (w *watcher) isEarly(n *namespaceWatch) bool {
	if !n.lacksFilter() {
		n.since = time.Time{}
		return false
	}
	if n.since.IsZero() {
		n.since = w.clock.Now()
		w.clock.AfterFunc(filterWait, w.changed)
	}
	if w.clock.Since(n.since) < filterWait {
		return true
	}
	n.since = time.Time{}
	return false
}

// lacksFilter reports whether a route that waits names a RouteFilter which it did not name before, and which is not
// there.
func (n *namespaceWatch) lacksFilter() bool {
	filters := n.resources[proxypod.ResourceFilters]
	if filters == nil || !filters.counts {
		return false
	}
	for key, event := range n.waiting {
		before := key.of.taken[key.name]
		if before == nil || !event.differs {
			continue
		}
		named := gatewayapi.FiltersOf(before)
		for _, name := range gatewayapi.FiltersOf(event.object) {
			now, isNew := n.waiting[objectKey{filters, name}]
			if isThere := isNew && now.object != nil || !isNew && filters.taken[name] != nil; !isThere && !slices.Contains(named, name) {
				return true
			}
		}
	}
	return false
}

// take takes in an object; nil: it is gone.
func (w *watched) take(name string, object metav1.Object) {
	before := w.taken[name]
	if object == nil {
		delete(w.taken, name)
	} else {
		w.taken[name] = object
	}
	switch {
	case object != nil && isNewer(object, w.newest):
		w.newest = object
	case before != nil && before == w.newest:
		w.newest = nil
		for _, other := range w.taken {
			if isNewer(other, w.newest) {
				w.newest = other
			}
		}
	}
}

// isNewer reports whether an object has a higher version than another one; nil: there is none.
func isNewer(object, than metav1.Object) bool {
	return than == nil || later(than.GetResourceVersion(), object.GetResourceVersion()) != than.GetResourceVersion()
}
