package queue

import (
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/tools/cache"
)

func TestHighPriorityOvertakes(t *testing.T) {
	queue := New("", time.Second, time.Second)
	defer queue.ShutDown()
	named := func(name string) cache.ObjectName { return cache.NewObjectName("web", name) }
	high := func(name string) { queue.AddWithPriority(named(name), High) }
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
		if left := queue.storage.raised; len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}

	for _, name := range []string{"a", "b", "c", "d"} {
		queue.AddWithPriority(named(name), Low)
	}
	high("c")
	high("new")
	high("c")             // again: it keeps its place
	queue.Add(named("c")) // as does this one
	expect("c", "new", "a", "b", "d")

	// A name that had priority once does not keep it the next time.
	queue.Add(named("a"))
	queue.Add(named("c"))
	expect("a", "c")

	// A change of what is being worked on: it comes back before the others.
	queue.Add(named("a"))
	working := get()
	queue.Add(named("b"))
	high(working)
	queue.Done(named(working))
	expect("a", "b")
}
