package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	clientset "gateway/generated/app/clientset/versioned"
	appinformers "gateway/generated/app/informers/externalversions/app/v1"
	"gateway/internal/logging"
	"gateway/internal/operator/children"
	"gateway/internal/routing"
	source "gateway/internal/source/gatewayapi"
)

const (
	// interval is the least time between two looks at everything. With many routes it is pauseFactor times as long as the
	// look before took: the operator uses a fifth of a core at most, however often routes change.
	interval    = 100 * time.Millisecond
	pauseFactor = 4
	// A sync that failed is tried again after firstRetry, and then ever more slowly, but at least every lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
	// syncTimeout is how long one sync may wait for the API server.
	syncTimeout = 30 * time.Second
	// writers is how many statuses are written at a time: few, so that whoever creates thousands of routes is not slowed
	// down.
	writers = 2
	// pendingDelay is how long the status of a route waits that says that not all proxies run the route yet. Mostly they
	// do by then, and one write tells both. It is longer than the time between two reports of a pod.
	pendingDelay = 2 * time.Second
)

// Inputs is what a Controller reads from.
type Inputs struct {
	// Others run Gateways, Services, Proxies and Endpoints.
	Gateways  appinformers.GatewayInformer
	Services  informers.SharedInformerFactory
	Proxies   cache.SharedIndexInformer
	Endpoints cache.SharedIndexInformer
	// Fill runs Configs, Filters, Policies, Namespaces and Bindings.
	Configs              appinformers.GatewayConfigInformer
	Filters              appinformers.RouteFilterInformer
	Policies             appinformers.BackendPolicyInformer
	Namespaces, Bindings cache.SharedIndexInformer
}

// Clients reach the API server.
type Clients struct {
	Kube     kubernetes.Interface
	Gateways clientset.Interface
	Routes   routesclient.Interface
}

// Controller creates and updates everything for the objects of the Gateway API.
type Controller struct {
	Clients
	inputs  Inputs
	factory gatewayinformers.SharedInformerFactory
	now     func() time.Time
	// queue holds one key when there may be something to do.
	queue workqueue.TypedRateLimitingInterface[string]
	// writes holds the keys of pending.
	writes workqueue.TypedRateLimitingInterface[object]

	mu sync.Mutex
	// served are the informers of those resources that the cluster has. discovered says that they are known, and stalled
	// are those that the API server did not list in time.
	served     map[string]cache.SharedIndexInformer
	discovered bool
	stalled    map[string]bool
	// pending are the statuses to write, and written the versions that were, of objects that the caches may have older.
	pending map[object]write
	written map[types.UID]string

	// The worker alone touches what follows. applied is what was applied of Gateways of our own, refused what the API
	// server has against one, and firstSeen the first version that was seen of each generation of an object.
	applied   map[types.NamespacedName]applied
	refused   map[types.NamespacedName]string
	firstSeen map[types.UID]version
	// confirmed are the generations of objects that all proxies of a data plane run, by what the API server had.
	confirmed map[confirmation]int64
	// index and compilers keep what was made of routes, until a Service changes. faults are the objects that make the
	// evaluation panic.
	index           *source.Index
	compilers       map[source.Parent]*routing.Compiler
	faults          map[types.UID]fault
	servicesChanged atomic.Bool
	// pause is the time until the next look.
	pause time.Duration
}

// object names an object of the Gateway API.
type object struct{ resource, namespace, name string }

const everything = "everything"

// New returns a Controller. It does nothing before Run.
func New(clients Clients, inputs Inputs, now func() time.Time) (*Controller, error) {
	c := &Controller{
		Clients: clients, inputs: inputs, now: now,
		factory: gatewayinformers.NewSharedInformerFactoryWithOptions(clients.Routes, 0, gatewayinformers.WithTransform(children.Strip)),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
		writes: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[object](firstRetry, lastRetry)),
		served: map[string]cache.SharedIndexInformer{}, stalled: map[string]bool{},
		pending: map[object]write{}, written: map[types.UID]string{},
		applied: map[types.NamespacedName]applied{}, refused: map[types.NamespacedName]string{}, firstSeen: map[types.UID]version{}, confirmed: map[confirmation]int64{},
		faults: map[types.UID]fault{}, pause: interval,
	}
	for _, informer := range inputs.informers() {
		if err := c.handle(informer.SharedIndexInformer, func(any, any) bool { return true }); err != nil {
			return nil, err
		}
	}
	changed := func(any) { c.servicesChanged.Store(true) }
	_, err := inputs.Services.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(_, new any) { changed(new) },
	})
	return c, err
}

// handle triggers an evaluation when objects change. matters reports whether an update matters.
func (c *Controller) handle(informer cache.SharedIndexInformer, matters func(old, new any) bool) error {
	changed := func(any) { c.queue.Add(everything) }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(old, new any) {
		if matters(old, new) {
			changed(new)
		}
	}})
	if err != nil {
		return fmt.Errorf("failed to watch for changes: %w", err)
	}
	return nil
}

// Run works until ctx is cancelled, with what Fill reads. It returns only after it has stopped writing. It can be
// called once.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	stop := context.AfterFunc(ctx, func() { c.queue.ShutDown(); c.writes.ShutDown() })
	defer stop()
	for range writers {
		running.Go(func() {
			for c.processNextWrite(ctx) {
			}
		})
	}
	for c.processNext(ctx) {
		select {
		case <-ctx.Done():
		case <-time.After(c.pause):
		}
	}
}

// isNew reports whether an object of the Gateway API changed in more than its status, which the Controller writes.
func isNew(old, new any) bool {
	before, after := old.(metav1.Object), new.(metav1.Object)
	return before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() || after.GetDeletionTimestamp() != nil
}

// processNext waits until there is something to do, and does it. It returns false once the queue is shut down.
func (c *Controller) processNext(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if !c.isReady() {
		if c.informer(resourceClasses) != nil {
			c.queue.AddAfter(key, interval)
		}
		return true
	}
	switch err := c.syncSafely(ctx); {
	case err == nil:
		c.queue.Forget(key)
	case ctx.Err() == nil:
		if !children.OnlyOutdated(err) {
			logging.Errorf("Trying again later: failed to look after the Gateway API: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		c.queue.AddRateLimited(key)
	}
	return true
}

// syncSafely is sync with a time limit, and with a panic as an error.
func (c *Controller) syncSafely(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	return safely(func() error { return c.sync(ctx) })
}

// sync makes everything as it should be. Statuses are written by other goroutines.
func (c *Controller) sync(ctx context.Context) error {
	begin := time.Now()
	seen, err := c.observe(ctx)
	if err != nil {
		return err
	}
	if c.servicesChanged.Swap(false) {
		c.index = nil
	}
	wanted, err := c.evaluate(seen)
	if err != nil {
		return err
	}
	applying := time.Now()
	err = errors.Join(c.applyDataPlanes(ctx, seen, wanted), c.attach(ctx, seen, wanted))
	c.noteRefused(wanted)
	begin = begin.Add(time.Since(applying)) // waiting for the API server takes no time of a core
	c.writeStatuses(seen, wanted.status)
	c.pause = max(interval, pauseFactor*(time.Since(begin)-seen.reading))
	return errors.Join(err, seen.readErr)
}
