package queue

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
)

// OnChange returns a handler that calls handle with every object that is added, changed or deleted, in its old and its
// new form: either may name a Gateway. It leaves resyncs out.
func OnChange(handle func(obj any, priority Priority)) cache.ResourceEventHandler {
	return OnOther(func(old, updated any) bool {
		return old.(metav1.Object).GetResourceVersion() == updated.(metav1.Object).GetResourceVersion()
	}, handle)
}

// OnOther is OnChange for objects of which not each change matters: isSame reports whether two of them are the same in
// what does.
func OnOther(isSame func(old, updated any) bool, handle func(obj any, priority Priority)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) { handle(obj, PriorityOf(initial)) },
		UpdateFunc: func(old, updated any) {
			if !isSame(old, updated) {
				handle(old, High)
				handle(updated, High)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			handle(obj, High)
		},
	}
}

// PriorityOf is the priority of an object that an informer has added: Low if the object was in the first list.
func PriorityOf(initial bool) Priority { return Priority(!initial) }
