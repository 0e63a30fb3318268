package agent

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

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

// takeIn takes in events.
func (w *watcher) takeIn(events map[objectKey]event) {
	for key, event := range events {
		key.of.take(key.name, event.object)
	}
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
