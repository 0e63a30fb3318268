package gatewayapi

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	appv1 "gateway/api/app/v1"
	clientset "gateway/generated/app/clientset/versioned"
	appinformers "gateway/generated/app/informers/externalversions/app/v1"
	"gateway/internal/cputime"
	"gateway/internal/logging"
	"gateway/internal/operator/children"
	"gateway/internal/operator/safely"
	source "gateway/internal/source/gatewayapi"
)

const (
	// interval is the time between two looks, while changes keep coming. With many routes it is pauseFactor times as long
	// as a core worked on the look before: the operator uses a fifth of a core at most, however often routes change. The
	// first looks after a while follow each other at once, as long as their pauses do not add up to more than burst:
	// an edit, and the reports of several pods that run it.
	interval    = 100 * time.Millisecond
	pauseFactor = 4
	burst       = 500 * time.Millisecond
	// A sync that failed is tried again after firstRetry, and then ever more slowly, but at least every lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
	// syncTimeout is how long one sync may wait for the API server.
	syncTimeout = 30 * time.Second
	// writers is how many statuses are written at a time: few, so that whoever creates thousands of routes is not slowed
	// down.
	writers = 2
	// pendingDelay is how long the status of a route or ListenerSet waits that says that not all proxies run it yet.
	// Mostly they do by then, and one write tells both. It is longer than the time between two reports of a pod.
	pendingDelay = 2 * time.Second
	// countInterval is the time between two statuses of a Gateway that only count what is attached.
	countInterval = time.Second
)

// Inputs is what a Controller reads from.
type Inputs struct {
	// Others run Gateways, Services, Proxies, Attachments and Endpoints. The last three have children.IndexOwner.
	Gateways    appinformers.GatewayInformer
	Services    informers.SharedInformerFactory
	Proxies     cache.SharedIndexInformer
	Attachments cache.SharedIndexInformer
	Endpoints   cache.SharedIndexInformer
	// Fill runs Configs, Filters, Policies, Namespaces and Bindings.
	Configs              appinformers.GatewayConfigInformer
	Filters              appinformers.RouteFilterInformer
	Policies             appinformers.BackendPolicyInformer
	Namespaces, Bindings cache.SharedIndexInformer
	// Imports is run once the cluster has ServiceImports.
	Imports cache.SharedIndexInformer
	// ClusterBindings is run by Fill, too. It is nil if no Gateway may watch the cluster. MayWatchCluster reports which
	// may and want to; nil: none.
	ClusterBindings cache.SharedIndexInformer
	MayWatchCluster func(*appv1.Gateway) bool
	// KeyServer reports whether pods mount no certificates: they get any number of them from a key server.
	KeyServer bool
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
	// attacher makes RoleBindings and GatewayAttachments.
	attacher *attacher
	// queue holds what there may be something to do for.
	queue workqueue.TypedRateLimitingInterface[task]
	// writes holds the keys of pending.
	writes workqueue.TypedRateLimitingInterface[source.Object]

	mu sync.Mutex
	// served are the informers of those resources that the cluster has. discovered reports whether they are known, and
	// stalled are those that the API server did not list in time.
	served     map[string]cache.SharedIndexInformer
	discovered bool
	bundles    bool // the cluster has ClusterTrustBundles
	stalled    map[string]bool
	// quiet are the objects whose status has to be looked at with the next sync.
	quiet map[source.Object]bool
	// pending are the statuses to write, and written the versions that were, of objects that the caches may have older.
	// futile are those that are not sent again.
	pending map[source.Object]write
	written map[source.Object]written
	futile  map[source.Object]futile
	// arrived are the newest generations of objects that were not looked at yet.
	arrived map[source.Object]arrival

	// The worker alone touches what follows. applied is what was applied of Gateways of our own, refused the API server's
	// error for one, and versions the newest generation of each object.
	applied map[types.NamespacedName]applied
	refused map[types.NamespacedName]refusal
	// left is what the pods of our Gateways do not mount.
	left     map[types.NamespacedName]map[leftOut]bool
	versions map[source.Object]*version
	// index, compilers and seen keep what was made of objects. isIncomplete reports whether nobody knows which of it is
	// done. faults are the objects that make the evaluation panic.
	index        *source.Index
	compilers    map[source.Parent]*compiled
	seen         *observed
	isIncomplete bool
	faults       map[types.UID]fault
	// pause is the time until the next look.
	pause time.Duration
}

// New returns a Controller. It does nothing before Run.
func New(clients Clients, inputs Inputs, now func() time.Time) (*Controller, error) {
	c := &Controller{
		Clients: clients, inputs: inputs, now: now,
		factory: gatewayinformers.NewSharedInformerFactoryWithOptions(clients.Routes, 0, gatewayinformers.WithTransform(children.Strip)),
		queue: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[task](firstRetry, lastRetry)),
		writes: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[source.Object](firstRetry, lastRetry)),
		served: map[string]cache.SharedIndexInformer{}, stalled: map[string]bool{}, quiet: map[source.Object]bool{},
		pending: map[source.Object]write{}, written: map[source.Object]written{},
		futile: map[source.Object]futile{}, arrived: map[source.Object]arrival{},
		applied: map[types.NamespacedName]applied{}, refused: map[types.NamespacedName]refusal{},
		left: map[types.NamespacedName]map[leftOut]bool{}, versions: map[source.Object]*version{},
		faults: map[types.UID]fault{}, pause: interval,
	}
	c.attacher = newAttacher(clients, &inputs, now)
	for _, informer := range inputs.informers() {
		if err := c.handle(informer.kind, informer.SharedIndexInformer); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// Run works until ctx is cancelled, with what Fill reads. It returns only after it has stopped writing. It can be
// called once.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	stop := context.AfterFunc(ctx, func() { c.queue.ShutDown(); c.writes.ShutDown(); c.attacher.queue.ShutDown() })
	defer stop()
	for range attachers {
		running.Go(func() {
			for goOn := true; goOn; {
				goOn, _ = c.attacher.next(ctx) // it has logged the error
			}
		})
	}
	for range writers {
		running.Go(func() {
			for c.processNextWrite(ctx) {
			}
		})
	}
	var due time.Time
	for c.processNext(ctx) {
		due = nextLook(due, time.Now(), c.pause)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(due)):
		}
	}
}

// nextLook returns when to look next after a look that ended now. due is when that was due.
func nextLook(due, now time.Time, pause time.Duration) time.Time {
	if earliest := now.Add(-burst); due.Before(earliest) {
		due = earliest
	}
	return due.Add(pause)
}

// processNext waits until there is something to do, and does it. It returns false once the queue is shut down.
func (c *Controller) processNext(ctx context.Context) bool {
	first, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	if !c.isReady() {
		if c.informer(resourceClasses) != nil {
			c.queue.AddAfter(first, interval)
		}
		c.queue.Done(first)
		return true
	}
	tasks := c.drain(first)
	var err error
	used := cputime.Of(func() {
		err = safely.Within(ctx, syncTimeout, func(ctx context.Context) error { return c.sync(ctx, tasks) })
	})
	c.pause = max(interval, pauseFactor*used)
	for _, task := range tasks {
		if c.queue.Done(task); err == nil {
			c.queue.Forget(task)
		}
	}
	if err != nil && ctx.Err() == nil {
		if !children.OnlyOutdated(err) {
			logging.Errorf("Trying again later: failed to look after the Gateway API: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		c.queue.AddRateLimited(rebuild)
	}
	return true
}

// sync makes everything as it should be that the tasks matter to. Statuses are written by other goroutines.
func (c *Controller) sync(ctx context.Context, tasks []task) error {
	wanted := c.evaluateChanged(ctx, tasks)
	c.isIncomplete = true
	if wanted == nil {
		seen, err := c.observe(ctx)
		if err != nil {
			return err
		}
		if wanted, err = c.evaluate(seen); err != nil {
			return err
		}
	}
	err := c.apply(ctx, wanted)
	c.noteRefused(wanted)
	c.writeStatuses(wanted)
	c.isIncomplete = false
	return errors.Join(err, c.seen.readErr)
}

// apply makes data planes as they should be, and says what their agents have to be told.
func (c *Controller) apply(ctx context.Context, wanted *evaluation) error {
	var errs []error
	if wanted.isAll || wanted.planes != nil {
		errs = append(errs, c.applyDataPlanes(ctx, c.seen, wanted))
	}
	if wanted.attachments != nil {
		errs = append(errs, c.attach(ctx, c.seen, wanted))
	}
	return errors.Join(errs...)
}
