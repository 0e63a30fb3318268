package main

import (
	"slices"
	"testing"

	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

func TestLiveChangesOvertake(t *testing.T) {
	l := newLanes()
	queue := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[cache.ObjectName]{Queue: l})
	defer queue.ShutDown()
	named := func(name string) cache.ObjectName { return cache.NewObjectName("web", name) }
	live := func(name string) {
		queue.Add(named(name))
		l.hurry(named(name))
	}
	get := func() string {
		name, _ := queue.Get()
		return name.Name
	}
	expect := func(want ...string) {
		t.Helper()
		var got []string
		for queue.Len() > 0 {
			got = append(got, get())
			queue.Done(named(got[len(got)-1]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("came as %q, want %q", got, want)
		}
	}

	for _, name := range []string{"a", "b", "c", "d"} {
		queue.Add(named(name))
	}
	live("c")
	live("new")
	live("c") // again: it keeps its place
	expect("c", "new", "a", "b", "d")

	// What overtook can wait behind again, and a hurry that came too late only makes it overtake the next time.
	queue.Add(named("a"))
	queue.Add(named("c"))
	expect("a", "c")

	// A change of what is being worked on: it comes back before the others.
	queue.Add(named("a"))
	working := get()
	queue.Add(named("b"))
	live(working)
	queue.Done(named(working))
	expect("a", "b")
}
