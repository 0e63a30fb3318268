package main

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// lanes are the order of the work queue: what someone has just changed overtakes what only has to be looked at again, such as
// all Gateways after a start and at a resync. It is the storage of client-go's work queue, which keeps names unique and
// calls all methods but hurry with a lock of its own held.
type lanes struct {
	mu sync.Mutex
	// fast and slow are the names in order. A name that has overtaken is still in slow, and skipped there.
	fast, slow []cache.ObjectName
	// lane says for each name that waits whether it is in fast.
	lane map[cache.ObjectName]bool
	// urgent are names in a hurry that were not waiting: they are being worked on, and wait in fast if they come back.
	urgent map[cache.ObjectName]bool
}

func newLanes() *lanes {
	return &lanes{lane: map[cache.ObjectName]bool{}, urgent: map[cache.ObjectName]bool{}}
}

// hurry makes a name overtake. It is called after the name was added to the queue, and costs nothing but the order if the name has
// left it since.
func (l *lanes) hurry(name cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch fast, waits := l.lane[name]; {
	case !waits:
		l.urgent[name] = true
	case !fast:
		l.push(name, true)
	}
}

// Touch does nothing: a name that waits keeps its place.
func (l *lanes) Touch(cache.ObjectName) {}

// Push adds a name that does not wait.
func (l *lanes) Push(name cache.ObjectName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.push(name, l.urgent[name])
	delete(l.urgent, name)
}

func (l *lanes) push(name cache.ObjectName, fast bool) {
	l.lane[name] = fast
	if fast {
		l.fast = append(l.fast, name)
	} else {
		l.slow = append(l.slow, name)
	}
}

// Len is how many names wait.
func (l *lanes) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lane)
}

// Pop takes the next name. There is one.
func (l *lanes) Pop() cache.ObjectName {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		from, fast := &l.slow, len(l.fast) > 0
		if fast {
			from = &l.fast
		}
		name := (*from)[0]
		*from = (*from)[1:]
		if lane, waits := l.lane[name]; waits && lane == fast {
			delete(l.lane, name)
			return name
		}
	}
}

// onChange calls handle with every object that is added, changed or deleted, in the form it had before and in the one it
// has now: either may name a Gateway. live is false for what was there from the start. Resyncs are left out; those of the
// Gateways are enough.
func onChange(handle func(obj any, live bool)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { handle(obj, !initial) },
		UpdateFunc: func(old, updated any) {
			if changed(old, updated) {
				handle(old, true)
				handle(updated, true)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			handle(obj, true)
		},
	}
}

// changed says whether an update is one, and not a resync.
func changed(old, updated any) bool {
	return old.(metav1.Object).GetResourceVersion() != updated.(metav1.Object).GetResourceVersion()
}
