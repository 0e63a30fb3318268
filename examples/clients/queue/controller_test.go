package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// printer notes when something is printed; it fails as often as failures says.
type printer struct {
	start    time.Time
	failures int
	prints   []string
	// errors are those that were handled by being said.
	errors []string
}

func (p *printer) Write(line []byte) (int, error) {
	result := string(line)
	if p.failures--; p.failures >= 0 {
		result = "failed\n"
	}
	p.prints = append(p.prints, fmt.Sprintf("%v %s", time.Since(p.start), result))
	if result == "failed\n" {
		return 0, errors.New("no paper")
	}
	return len(line), nil
}

// start runs a controller with one Pod in the cache until the end of the test, in a bubble of synctest: its clock
// stands still as long as anything can be done, and then jumps to what is waited for. So delays are exact, and take no
// time.
func start(t *testing.T, out *printer) *controller {
	t.Helper()
	out.start = time.Now()
	handlers := utilruntime.ErrorHandlers
	utilruntime.ErrorHandlers = []utilruntime.ErrorHandler{func(_ context.Context, err error, msg string, keysAndValues ...any) {
		out.errors = append(out.errors, utilruntime.ErrorToString(err, msg, keysAndValues...))
	}}
	t.Cleanup(func() { utilruntime.ErrorHandlers = handlers })
	c := newController(out)
	c.caches["Pod"] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := c.caches["Pod"].Add(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}); err != nil {
		t.Fatal(err)
	}
	go c.run(t.Context(), 1) // which ends before the cleanup, and the bubble waits for all that it has started
	return c
}

var pod = key{"Pod", cache.NewObjectName("default", "a")}

// TestRetries: five retries, each after twice as long, and then no more until the next change.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &printer{failures: 6}
		c := start(t, out)
		c.queue.Add(pod)
		<-time.After(time.Hour)
		want := []string{"0s failed\n", "50ms failed\n", "150ms failed\n", "350ms failed\n", "750ms failed\n", "1.55s failed\n"}
		if !slices.Equal(out.prints, want) {
			t.Errorf("tried at %q, want %q", out.prints, want)
		}
		want = []string{`"Dropped until it changes again" err="failed to print Pod default/a: no paper" kind="Pod" name="default/a" retries=5`}
		if !slices.Equal(out.errors, want) {
			t.Errorf("said %q, want %q", out.errors, want)
		}

		c.queue.Add(pod)
		synctest.Wait()
		if last := out.prints[len(out.prints)-1]; last != "1h0m0s Pod default/a: Running\n" {
			t.Errorf("printed %q after a change", last)
		}
	})
}

// TestRetriesCountAnew: what has succeeded has all its retries again.
func TestRetriesCountAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &printer{}
		c := start(t, out)
		for range 2 {
			out.failures = 5
			c.queue.Add(pod)
			<-time.After(time.Hour)
		}
		if len(out.prints) != 12 || out.prints[11] != "1h0m1.55s Pod default/a: Running\n" {
			t.Errorf("printed %q", out.prints)
		}
	})
}

// TestDeletions: of an object that went while the watch was broken comes a tombstone, perhaps with no object in it.
func TestDeletions(t *testing.T) {
	gone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}
	for name, obj := range map[string]any{
		"an object":                  gone,
		"a tombstone":                cache.DeletedFinalStateUnknown{Key: "default/b", Obj: gone},
		"a tombstone with no object": cache.DeletedFinalStateUnknown{Key: "default/b"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := &printer{}
				c := start(t, out)
				c.handler("Pod").OnDelete(obj)
				synctest.Wait()
				if !slices.Equal(out.prints, []string{"0s Pod default/b: gone\n"}) {
					t.Errorf("printed %q", out.prints)
				}
			})
		})
	}
}

// TestSameVersion: an object that is only listed again has not changed.
func TestSameVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := &printer{}
		c := start(t, out)
		first, second := &corev1.Pod{}, &corev1.Pod{}
		first.Namespace, first.Name, first.ResourceVersion = "default", "a", "1"
		first.DeepCopyInto(second)
		c.handler("Pod").OnUpdate(first, second)
		synctest.Wait()
		if len(out.prints) != 0 {
			t.Errorf("printed %q", out.prints)
		}
		second.ResourceVersion = "2"
		c.handler("Pod").OnUpdate(first, second)
		synctest.Wait()
		if !slices.Equal(out.prints, []string{"0s Pod default/a: Running\n"}) {
			t.Errorf("printed %q", out.prints)
		}
	})
}
