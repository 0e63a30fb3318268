package ingress

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appinformers "gateway/generated/app/informers/externalversions/app/v1"
	"gateway/internal/cputime"
	"gateway/internal/logging"
	"gateway/internal/operator/children"
	"gateway/internal/operator/safely"
	source "gateway/internal/source/ingress"
)

const (
	// fieldManager owns the fields of what is made, and the addresses in the status of Ingresses.
	fieldManager = "gateway-operator-ingress"

	// interval is the least time between two looks at everything. With many Ingresses, it is pauseFactor times as long as
	// a core worked on the look before: the operator uses a fifth of a core at most.
	interval    = 100 * time.Millisecond
	pauseFactor = 4
	// A sync that failed is tried again after firstRetry, and then ever more slowly, but at least every lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 3 * time.Second
	// resync is how often it is tried again what the API server refused, or could not be made for a name that is taken.
	resync = 10 * time.Minute
	// syncTimeout is how long one sync may wait for the API server.
	syncTimeout = 10 * time.Minute
	// settling is how long an object stays after the last reference to it. Proxies may see its end before the
	// reference's.
	settling = 5 * time.Second
	// watchDelay is how long the API server may take to show what was written. If it takes longer, it is written again.
	watchDelay = 10 * time.Second

	everything = "everything"
)

// Inputs is what a Controller reads from.
type Inputs struct {
	// Others run Services, Gateways of our own kind and Namespaces.
	Services   informers.SharedInformerFactory
	Gateways   appinformers.GatewayInformer
	Namespaces cache.SharedIndexInformer
	// Namespace has the Gateways, and the ConfigMaps that IngressClasses and annotations name.
	Namespace string
}

// Controller makes and updates everything for Ingresses.
type Controller struct {
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	recorder record.EventRecorder
	inputs   Inputs
	now      func() time.Time
	// translate is source.Translate.
	translate func(source.Input) *source.Result
	// queue holds one key when there may be something to do.
	queue workqueue.TypedRateLimitingInterface[string]
	// ingresses, classes, configMaps and grants are read; made are the caches of what is made, by kind.
	ingresses, classes, configMaps, grants cache.SharedIndexInformer
	made                                   map[string]cache.SharedIndexInformer
	// logged is what was logged last of kinds that the cluster lacks.
	logged string

	mu sync.Mutex
	// ready reports whether the caches have been filled once.
	ready bool
	// applied is what was applied last of each object.
	applied map[source.Subject]applied
	// taken are names of objects of others, and refused the API server's error for an object. Both are forgotten after a
	// while.
	taken   map[source.Subject]bool
	refused map[source.Subject]refusal
	// blocked is what stays as it is until the next sync.
	blocked map[scope]bool

	// The worker alone touches what follows. forgotten is when taken and refused were forgotten.
	forgotten time.Time
	// unneeded is since when nothing refers to an object.
	unneeded map[source.Subject]time.Time
	// told are the events that were recorded, by object; nil before the first sync.
	told map[types.UID]map[event]bool
	// pause is the time until the next look.
	pause time.Duration
}

// New returns a Controller. It does nothing before Run.
func New(kube kubernetes.Interface, dynamic dynamic.Interface, recorder record.EventRecorder, inputs Inputs, now func() time.Time) (*Controller, error) {
	all := informers.NewSharedInformerFactory(kube, 0)
	home := informers.NewSharedInformerFactoryWithOptions(kube, 0, informers.WithNamespace(inputs.Namespace))
	c := &Controller{
		kube: kube, dynamic: dynamic, recorder: recorder, inputs: inputs, now: now, translate: source.Translate,
		queue:     workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](firstRetry, lastRetry)),
		ingresses: all.Networking().V1().Ingresses().Informer(), classes: all.Networking().V1().IngressClasses().Informer(),
		configMaps: home.Core().V1().ConfigMaps().Informer(), made: map[string]cache.SharedIndexInformer{},
		grants:  dynamicinformer.NewFilteredDynamicInformer(dynamic, resources["ReferenceGrant"], metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer(),
		applied: map[source.Subject]applied{}, taken: map[source.Subject]bool{}, refused: map[source.Subject]refusal{},
		unneeded: map[source.Subject]time.Time{}, pause: interval,
	}
	for informer, transform := range map[cache.SharedIndexInformer]cache.TransformFunc{
		c.ingresses: stripIngress, c.classes: children.Strip, c.configMaps: children.Strip, c.grants: readGrant,
	} {
		if err := informer.SetTransform(transform); err != nil {
			return nil, fmt.Errorf("failed to set the transform of the cache of objects: %w", err)
		}
		if err := c.handle(informer, func(any) {}); err != nil {
			return nil, err
		}
	}
	for kind := range resources {
		if err := c.addMade(kind); err != nil {
			return nil, err
		}
	}
	return c, errors.Join(c.handle(inputs.Services.Core().V1().Services().Informer(), func(any) {}), c.handleHostnames())
}

// handle triggers a sync when objects change. gone is called with deleted objects.
func (c *Controller) handle(informer cache.SharedIndexInformer, gone func(any)) error {
	changed := func(any) { c.queue.Add(everything) }
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		UpdateFunc: func(old, new any) {
			if old.(metav1.Object).GetResourceVersion() != new.(metav1.Object).GetResourceVersion() {
				changed(new)
			}
		},
		DeleteFunc: func(obj any) {
			if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tombstone.Obj
			}
			gone(obj)
			changed(obj)
		},
	})
	if err != nil {
		return fmt.Errorf("failed to watch for changes: %w", err)
	}
	return nil
}

// Run works until ctx is cancelled, with what Fill reads. It returns only after it has stopped writing. It can be
// called once.
func (c *Controller) Run(ctx context.Context) {
	stop := context.AfterFunc(ctx, c.queue.ShutDown)
	defer stop()
	c.queue.Add(everything)
	for c.processNext(ctx) {
		select {
		case <-ctx.Done():
		case <-time.After(c.pause):
		}
	}
}

// processNext waits until there is something to do, and does it. It returns false once the queue is shut down.
func (c *Controller) processNext(ctx context.Context) bool {
	key, shutdown := c.queue.Get()
	if shutdown {
		return false
	}
	defer c.queue.Done(key)
	if !c.isReady() { // Fill adds the key
		return true
	}
	var err error
	c.pause = max(interval, pauseFactor*cputime.Of(func() { err = safely.Within(ctx, syncTimeout, c.sync) }))
	switch {
	case err == nil:
		c.queue.Forget(key)
	case ctx.Err() == nil:
		if !children.OnlyOutdated(err) {
			logging.Errorf("Trying again later: failed to serve Ingresses: %s", strings.ReplaceAll(err.Error(), "\n", "; "))
		}
		c.queue.AddRateLimited(key)
	}
	return true
}

// sync makes everything as it should be.
func (c *Controller) sync(ctx context.Context) error {
	if now := c.now(); now.Sub(c.forgotten) >= resync {
		c.taken, c.refused, c.forgotten = map[source.Subject]bool{}, map[source.Subject]refusal{}, now
		c.queue.AddAfter(everything, resync)
	}
	seen := c.observe()
	wanted := c.evaluate(seen)
	err := errors.Join(c.apply(ctx, wanted), c.cleanUp(ctx, wanted), c.writeStatuses(ctx, seen, wanted))
	c.tell(seen, wanted)
	return err
}

// observed is the state of the cluster in one sync.
type observed struct {
	classes    []*networkingv1.IngressClass
	ingresses  []*networkingv1.Ingress
	services   map[types.NamespacedName]*corev1.Service
	configMaps map[types.NamespacedName]*corev1.ConfigMap
	// grants are the ReferenceGrants of others.
	grants []*gatewayv1.ReferenceGrant
	// routes are since when there are HTTPRoutes.
	routes map[source.HostRoutes]source.Period
	// gateways and listenerSets were made, and are by class.
	gateways     map[string][]source.MadeGateway
	listenerSets map[string][]source.MadeListenerSet
}

// observe collects the state of the cluster from the caches.
func (c *Controller) observe() *observed {
	o := &observed{
		classes: list[*networkingv1.IngressClass](c.classes), services: map[types.NamespacedName]*corev1.Service{},
		configMaps: map[types.NamespacedName]*corev1.ConfigMap{}, routes: map[source.HostRoutes]source.Period{},
		gateways: map[string][]source.MadeGateway{}, listenerSets: map[string][]source.MadeListenerSet{},
	}
	for _, ingress := range list[*networkingv1.Ingress](c.ingresses) {
		if ingress.DeletionTimestamp == nil {
			o.ingresses = append(o.ingresses, ingress)
		}
	}
	for _, service := range list[*corev1.Service](c.inputs.Services.Core().V1().Services().Informer()) {
		o.services[nameOf(service)] = service
	}
	for _, configMap := range list[*corev1.ConfigMap](c.configMaps) {
		o.configMaps[nameOf(configMap)] = configMap
	}
	for _, grant := range list[*gatewayv1.ReferenceGrant](c.grants) {
		if grant.Labels[source.LabelClass] == "" {
			o.grants = append(o.grants, grant)
		}
	}
	for _, route := range list[*made](c.made["HTTPRoute"]) {
		for _, host := range route.hostnames {
			key := source.HostRoutes{Namespace: route.Namespace, Host: host}
			period, ok := o.routes[key]
			if created := route.CreationTimestamp.Time; !ok {
				period = source.Period{First: created, Last: created}
			} else if created.Before(period.First) {
				period.First = created
			} else if created.After(period.Last) {
				period.Last = created
			}
			o.routes[key] = period
		}
	}
	c.observeMade(o)
	return o
}

// observeMade collects where hosts are. What was applied counts, if the cache does not show it yet.
func (c *Controller) observeMade(o *observed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for subject, last := range c.applied {
		if last.home == nil || !c.isAhead(subject, c.cached(subject)) {
			continue
		}
		switch object := last.home.(type) {
		case *gatewayv1.Gateway:
			o.gateways[last.class] = append(o.gateways[last.class], source.ReadGateway(object))
		case *gatewayv1.ListenerSet:
			o.listenerSets[last.class] = append(o.listenerSets[last.class], source.ReadListenerSet(object))
		}
	}
	for _, kind := range []string{"Gateway", "ListenerSet"} {
		for _, object := range list[*made](c.made[kind]) {
			class := object.Labels[source.LabelClass]
			switch {
			case object.DeletionTimestamp != nil || c.isAhead(source.Subject{Kind: kind, Namespace: object.Namespace, Name: object.Name}, object):
			case kind == "Gateway":
				o.gateways[class] = append(o.gateways[class], object.clients)
			default:
				o.listenerSets[class] = append(o.listenerSets[class], object.listeners)
			}
		}
	}
}

// list returns the objects of a cache.
func list[T any](informer cache.SharedIndexInformer) []T {
	var all []T
	for _, obj := range informer.GetStore().List() {
		all = append(all, obj.(T))
	}
	return all
}

func nameOf(object metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
}
