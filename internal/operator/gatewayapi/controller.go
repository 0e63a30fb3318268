package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	clientset "gateway/generated/app/clientset/versioned"
	appinformers "gateway/generated/app/informers/externalversions/app/v1"
	"gateway/internal/logging"
	"gateway/internal/operator/children"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
	source "gateway/internal/source/gatewayapi"
)

const (
	// discoverInterval is how often the operator looks whether the cluster has more of the Gateway API by now.
	discoverInterval = 10 * time.Second
	// interval is the least time between two looks at everything. With many routes it is pauseFactor times as long as the
	// look before took: the operator uses a fifth of a core at most, however often routes change.
	interval    = 100 * time.Millisecond
	pauseFactor = 4
	// A sync that failed is tried again after firstRetry, and then ever more slowly, but at least every lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
	// syncTimeout is how long one sync may wait for the API server.
	syncTimeout = 30 * time.Second
	// writers is how many statuses are written at a time.
	writers = 8
)

// The resources that there have to be, and those that there may be.
const (
	resourceClasses  = "gatewayclasses"
	resourceGateways = "gateways"
)

var resources = []string{
	resourceClasses, resourceGateways, "backendtlspolicies", "grpcroutes", "httproutes", "listenersets", "referencegrants", "tcproutes",
	"tlsroutes", "udproutes",
}

// Inputs is what a Controller reads from. Others run these informers.
type Inputs struct {
	Gateways  appinformers.GatewayInformer
	Services  informers.SharedInformerFactory
	Proxies   cache.SharedIndexInformer
	Endpoints cache.SharedIndexInformer
	// Configs, Filters, Policies, Namespaces and Bindings are run by the Controller.
	Configs              appinformers.GatewayConfigInformer
	Filters              appinformers.RouteFilterInformer
	Policies             appinformers.BackendPolicyInformer
	Namespaces, Bindings cache.SharedIndexInformer
}

func (i *Inputs) informers() []cache.SharedIndexInformer {
	return []cache.SharedIndexInformer{
		i.Gateways.Informer(), i.Services.Core().V1().Services().Informer(), i.Proxies, i.Endpoints,
		i.Configs.Informer(), i.Filters.Informer(), i.Policies.Informer(), i.Namespaces, i.Bindings,
	}
}

// Clients reach the API server.
type Clients struct {
	Kube     kubernetes.Interface
	Gateways clientset.Interface
	Routes   routesclient.Interface
}

// Controller keeps what there is for the objects of the Gateway API.
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
	// served are the informers of those resources that the cluster has.
	served map[string]cache.SharedIndexInformer
	// pending are the statuses to write, and written the versions that were, of objects that the caches may have older.
	pending map[object]write
	written map[types.UID]string

	// The worker alone touches what follows. applied is what was applied of Gateways of our own, and firstSeen the first
	// version that was seen of each generation of an object.
	applied   map[types.NamespacedName]applied
	firstSeen map[types.UID]version
	// confirmed are the generations of objects that all proxies of a data plane run, by what the API server had.
	confirmed map[confirmation]int64
	// cache and compilers keep what was made of routes, until a Service changes. faults are the objects that make the
	// evaluation panic.
	cache           *source.Cache
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
		served: map[string]cache.SharedIndexInformer{}, pending: map[object]write{}, written: map[types.UID]string{},
		applied: map[types.NamespacedName]applied{}, firstSeen: map[types.UID]version{}, confirmed: map[confirmation]int64{},
		faults: map[types.UID]fault{}, pause: interval,
	}
	for _, informer := range inputs.informers() {
		if err := c.handle(informer, func(any, any) bool { return true }); err != nil {
			return nil, err
		}
	}
	changed := func(any) { c.servicesChanged.Store(true) }
	_, err := inputs.Services.Core().V1().Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, DeleteFunc: changed, UpdateFunc: func(_, new any) { changed(new) },
	})
	return c, err
}

// handle has changes looked at. matters says whether an update does.
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

// Run works until ctx is cancelled. It returns only after it has stopped writing. It can be called once.
func (c *Controller) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	stop := context.AfterFunc(ctx, func() { c.queue.ShutDown(); c.writes.ShutDown() })
	defer stop()
	running.Go(func() { c.inputs.Namespaces.RunWithContext(ctx) })
	running.Go(func() { c.inputs.Bindings.RunWithContext(ctx) })
	running.Go(func() { c.inputs.Configs.Informer().RunWithContext(ctx) })
	running.Go(func() { c.inputs.Filters.Informer().RunWithContext(ctx) })
	running.Go(func() { c.inputs.Policies.Informer().RunWithContext(ctx) })
	running.Go(func() { wait.UntilWithContext(ctx, c.discover, discoverInterval) })
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

// discover starts the informers of those resources that the cluster has by now.
func (c *Controller) discover(ctx context.Context) {
	list, err := c.Kube.Discovery().ServerResourcesForGroupVersion(gatewayv1.GroupVersion.String())
	if err != nil {
		if !apierrors.IsNotFound(err) && ctx.Err() == nil {
			logging.Warningf("Trying again: failed to look for the Gateway API: %v", err)
		}
		return
	}
	var found []string
	for i := range list.APIResources {
		name := list.APIResources[i].Name
		if !slices.Contains(resources, name) || c.informer(name) != nil {
			continue
		}
		generic, err := c.factory.ForResource(schema.GroupVersion(gatewayv1.GroupVersion).WithResource(name))
		if err == nil {
			err = c.handle(generic.Informer(), isNew)
		}
		if err != nil {
			logging.Errorf("Not looking after %s: %v", name, err)
			continue
		}
		c.mu.Lock()
		c.served[name] = generic.Informer()
		c.mu.Unlock()
		found = append(found, name)
	}
	if len(found) > 0 {
		logging.Infof("Looking after objects of the Gateway API: %s", strings.Join(found, ", "))
		c.factory.StartWithContext(ctx)
	}
}

// isNew says whether an object of the Gateway API changed in more than its status, which the Controller writes.
func isNew(old, new any) bool {
	before, after := old.(metav1.Object), new.(metav1.Object)
	return before.GetUID() != after.GetUID() || before.GetGeneration() != after.GetGeneration() || after.GetDeletionTimestamp() != nil
}

// informer returns that of a resource, nil if the cluster does not have it.
func (c *Controller) informer(resource string) cache.SharedIndexInformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.served[resource]
}

// servedResources returns the resources that the cluster has.
func (c *Controller) servedResources() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := []string{proxypod.ResourceFilters, proxypod.ResourceBackendPolicies}
	for name := range c.served {
		names = append(names, name)
	}
	return names
}

// isReady says whether there is the Gateway API, and everything was seen once.
func (c *Controller) isReady() bool {
	if c.informer(resourceClasses) == nil || c.informer(resourceGateways) == nil {
		return false
	}
	for _, resource := range resources {
		if informer := c.informer(resource); informer != nil && !informer.HasSynced() {
			return false
		}
	}
	for _, informer := range c.inputs.informers() {
		if !informer.HasSynced() {
			return false
		}
	}
	return true
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

// syncSafely is sync with a panic as an error, and with an end.
func (c *Controller) syncSafely(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	return safely(func() error { return c.sync(ctx) })
}

// sync makes everything as it should be, but for statuses, which it has written.
func (c *Controller) sync(ctx context.Context) error {
	begin := time.Now()
	seen, err := c.observe(ctx)
	if err != nil {
		return err
	}
	if c.servicesChanged.Swap(false) {
		c.cache = nil
	}
	wanted, err := c.evaluate(seen)
	if err != nil {
		return err
	}
	applying := time.Now()
	err = errors.Join(c.applyDataPlanes(ctx, seen, wanted), c.attach(ctx, seen, wanted))
	begin = begin.Add(time.Since(applying)) // waiting for the API server takes no time of a core
	c.writeStatuses(seen, wanted.status)
	c.pause = max(interval, pauseFactor*(time.Since(begin)-seen.reading))
	return errors.Join(err, seen.readErr)
}
