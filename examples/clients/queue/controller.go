package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	appv1 "gateway/api/app/v1"
)

const (
	// A failed item is tried again maxRetries times, first after firstDelay, then each time after twice as long.
	maxRetries = 5
	firstDelay = 50 * time.Millisecond
	lastDelay  = 10 * time.Second
)

// key is what the queue holds: names, never objects. So many changes of an object in a row are one thing to do, and it
// is done with what the cache holds then, not with what is outdated.
type key struct {
	kind string
	name cache.ObjectName
}

// controller prints objects that changed.
type controller struct {
	out   io.Writer
	queue workqueue.TypedRateLimitingInterface[key]
	// caches has the informers' objects, by kind.
	caches map[string]cache.Indexer
	// synced say that all objects there are at the start are in the queue.
	synced []cache.DoneChecker
}

func newController(out io.Writer) *controller {
	return &controller{
		out: out,
		queue: workqueue.NewTypedRateLimitingQueueWithConfig(
			workqueue.NewTypedItemExponentialFailureRateLimiter[key](firstDelay, lastDelay),
			workqueue.TypedRateLimitingQueueConfig[key]{Name: "changes"}), // for metrics
		caches: map[string]cache.Indexer{},
	}
}

// watch makes every change of an informer's objects put their name into the queue. Call it before the informer starts.
func (c *controller) watch(kind string, informer cache.SharedIndexInformer) error {
	registration, err := informer.AddEventHandler(c.handler(kind))
	if err != nil {
		return fmt.Errorf("failed to watch objects of kind %s: %w", kind, err)
	}
	c.caches[kind] = informer.GetIndexer()
	c.synced = append(c.synced, registration.HasSyncedChecker())
	return nil
}

// handler puts names into the queue, and does nothing that could take long or fail: the next change waits for it.
func (c *controller) handler(kind string) cache.ResourceEventHandler {
	enqueue := func(obj any) {
		// For an object that went while the watch was broken, obj is a tombstone, cache.DeletedFinalStateUnknown: only its
		// key is sure.
		name, err := cache.DeletionHandlingObjectToName(obj)
		if err != nil {
			utilruntime.HandleErrorWithContext(context.Background(), err, "An informer has handed out what is no object") // a bug
			return
		}
		c.queue.Add(key{kind, name})
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue,
		UpdateFunc: func(old, updated any) {
			// The same version comes again with a resync, and when the watch broke and everything is listed anew.
			if old.(metav1.Object).GetResourceVersion() != updated.(metav1.Object).GetResourceVersion() {
				enqueue(updated)
			}
		},
		DeleteFunc: enqueue,
	}
}

// run works with the number of workers until ctx is cancelled, and returns when the last one is done.
func (c *controller) run(ctx context.Context, workers int) {
	var running sync.WaitGroup
	defer running.Wait()
	defer c.queue.ShutDown() // before Wait: it is what ends the workers

	// A worker that starts earlier could take what is not in the cache yet for what is gone.
	if !cache.WaitFor(ctx, "caches", c.synced...) {
		return // interrupted
	}
	for range workers {
		running.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
}

// work handles one key after the other until the queue is shut down.
func (c *controller) work(ctx context.Context) {
	for c.handleNext(ctx) {
	}
}

// handleNext handles the next key, and returns false when there will be none.
func (c *controller) handleNext(ctx context.Context) bool {
	next, shutDown := c.queue.Get()
	if shutDown {
		return false
	}
	// Until then, no other worker gets this key. If it is added meanwhile, it is handed out again afterwards.
	defer c.queue.Done(next)

	err := c.print(next)
	switch retries := c.queue.NumRequeues(next); {
	case err == nil:
		c.queue.Forget(next) // if it fails another time, the count and the delays begin anew
	case retries < maxRetries:
		klog.FromContext(ctx).Info("Trying again", "kind", next.kind, "name", next.name, "retry", retries+1, "err", err)
		c.queue.AddRateLimited(next)
	default:
		c.queue.Forget(next)
		utilruntime.HandleErrorWithContext(ctx, err, "Dropped until it changes again", "kind", next.kind, "name", next.name, "retries", retries)
	}
	return true
}

// print is the work: here, to print how an object is. Whatever fails, say a write to another system, is returned and
// tried again.
func (c *controller) print(k key) error {
	obj, exists, err := c.caches[k.kind].GetByKey(k.name.String())
	if err != nil {
		return fmt.Errorf("failed to look up %s %s: %w", k.kind, k.name, err)
	}
	line := "gone"
	if exists {
		line = describe(obj)
	}
	if _, err := fmt.Fprintf(c.out, "%s %s: %s\n", k.kind, k.name, line); err != nil {
		return fmt.Errorf("failed to print %s %s: %w", k.kind, k.name, err)
	}
	return nil
}

// describe is how an object is. It is the cache's own copy: never modify it.
func describe(obj any) string {
	switch object := obj.(type) {
	case *corev1.Pod:
		return string(object.Status.Phase)
	case *appv1.Gateway:
		return fmt.Sprintf("generation %d, %d routes", object.Generation, len(object.Spec.Routes))
	}
	return "exists"
}
