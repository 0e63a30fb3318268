package agent

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayinformers "sigs.k8s.io/gateway-api/pkg/client/informers/externalversions"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/informers/externalversions"
	"gateway/internal/endpoints"
	"gateway/internal/proxypod"
)

const (
	// byService is the name of the index of EndpointSlices by the namespace and name of their Service.
	byService = "service"

	resourceGateways = "gateways"
	resourcePolicies = "backendtlspolicies"
)

// namespaceWatch holds the last seen Services, EndpointSlices and objects of the Gateway API of a namespace.
type namespaceWatch struct {
	namespace        string
	services, slices *watched
	// resources are those of the Gateway API, RouteFilters and BackendPolicies. waiting are their events that are not
	// taken in yet, the newest of each object, and since is when they began to wait; zero: they do not.
	resources map[string]*watched
	waiting   map[objectKey]event
	since     time.Time
	ctx       context.Context //nolint:containedctx // it ends the informers, which come and go
	stop      context.CancelFunc
}

// watched is an informer that knows whether its requests are allowed.
type watched struct {
	cache.SharedIndexInformer
	// handler gets the events of the objects, which are of a resource in a namespace.
	handler             cache.ResourceEventHandlerRegistration
	namespace, resource string
	// missing says that the API server does not know the resource, refusals how often it refused to list the objects.
	missing  atomic.Bool
	refusals atomic.Int64
	stop     context.CancelFunc
	// The loop alone touches what follows. stopped says that the objects are not watched any more. guards are what has to
	// be seen before they count, and counts says that they did when they were looked at last. taken are the objects that
	// were taken in, by name, and newest is the one with the highest version.
	stopped, counts bool
	guards          []*guard
	taken           map[string]metav1.Object
	newest          metav1.Object
}

// HasSynced reports whether all objects were listed once, and the handler knows them.
func (w *watched) HasSynced() bool { return w.handler != nil && w.handler.HasSynced() }

// isSettled reports whether all objects were listed once, or this pod may see none.
func (w *watched) isSettled() bool {
	return w.HasSynced() || w.missing.Load() || w.refusals.Load() > 0
}

// areSeen reports whether the objects were listed once, and what has to be seen before they count was, too.
func (w *watched) areSeen() bool { return w.HasSynced() && !w.isGuarded() }

// refused notes why the objects could not be listed, and reports whether this pod may see none.
func (w *watched) refused(err error) bool {
	switch {
	case apierrors.IsNotFound(err):
		w.missing.Store(true)
	case apierrors.IsForbidden(err):
		w.refusals.Add(1)
	default:
		return false
	}
	return true
}

// newWatched returns an informer of the objects that a client lists and watches.
func newWatched[L runtime.Object](core Core, client interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}, object runtime.Object, indexers cache.Indexers) *watched {
	lists := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, options)
		},
		WatchFuncWithContext: client.Watch,
	}
	return &watched{SharedIndexInformer: cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(lists, core), object, 0, indexers)}
}

// watchNamespace watches the Services and EndpointSlices of a namespace, from the call of start on.
func (w *watcher) watchNamespace(namespace string) (*namespaceWatch, error) {
	n := &namespaceWatch{
		namespace: namespace, resources: map[string]*watched{}, waiting: map[objectKey]event{},
		services: newWatched(w.core, w.core.CoreV1().Services(namespace), &corev1.Service{}, nil),
		slices: newWatched(w.core, w.core.DiscoveryV1().EndpointSlices(namespace), &discoveryv1.EndpointSlice{},
			cache.Indexers{byService: sliceService}),
	}
	for _, informer := range []*watched{n.services, n.slices} {
		if err := informer.SetTransform(endpoints.Strip); err != nil {
			return nil, fmt.Errorf("failed to watch: %w", err)
		}
		if err := w.handle(informer, onChange(w.touch)); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// handle adds a handler to an informer, and notes whether its requests are allowed.
func (w *watcher) handle(informer *watched, handler cache.ResourceEventHandler) error {
	var err error
	if informer.handler, err = informer.AddEventHandler(handler); err != nil {
		return fmt.Errorf("failed to watch: %w", err)
	}
	err = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *cache.Reflector, err error) {
		if informer.refused(err) {
			w.changed()
		}
		cache.DefaultWatchErrorHandler(ctx, reflector, err)
	})
	if err != nil {
		return fmt.Errorf("failed to watch: %w", err)
	}
	return nil
}

// start watches a namespace until ctx ends or stop is called.
func (n *namespaceWatch) start(ctx context.Context, changed func()) {
	n.ctx, n.stop = context.WithCancel(ctx)
	n.run(n.services, changed)
	n.run(n.slices, changed)
}

// run runs an informer. It calls changed once all objects were listed.
func (n *namespaceWatch) run(informer *watched, changed func()) {
	var ctx context.Context
	ctx, informer.stop = context.WithCancel(n.ctx)
	go informer.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			changed()
		}
	}()
}

// addResource starts an informer for a resource in n's namespace, for the one object called name if name is set.
func (w *watcher) addResource(n *namespaceWatch, resource, name string) error {
	found, err := w.informerOf(n.namespace, resource, name)
	if err != nil {
		return fmt.Errorf("failed to watch %s: %w", resource, err)
	}
	informer := &watched{SharedIndexInformer: found, namespace: n.namespace, resource: resource, taken: map[string]metav1.Object{}}
	if err := w.handle(informer, w.onResource(informer)); err != nil {
		return err
	}
	n.resources[resource] = informer
	n.run(informer, func() { w.changed() })
	return nil
}

// removeOthers stops the informers of all resources but these.
func (n *namespaceWatch) removeOthers(resources []string) {
	for resource, informer := range n.resources {
		if !slices.Contains(resources, resource) {
			informer.stop()
			informer.stopped = true
			delete(n.resources, resource)
			maps.DeleteFunc(n.waiting, func(key objectKey, _ event) bool { return key.of == informer })
		}
	}
}

// informerOf returns an informer of a resource that does not run yet.
func (w *watcher) informerOf(namespace, resource, name string) (cache.SharedIndexInformer, error) {
	if proxypod.GroupOf(resource) == appv1.GroupName {
		factory := externalversions.NewSharedInformerFactoryWithOptions(w.own, 0,
			externalversions.WithNamespace(namespace), externalversions.WithTransform(stripRoute))
		generic, err := factory.ForResource(appv1.SchemeGroupVersion.WithResource(resource))
		if err != nil {
			return nil, err
		}
		return generic.Informer(), nil
	}
	options := []gatewayinformers.SharedInformerOption{gatewayinformers.WithNamespace(namespace), gatewayinformers.WithTransform(stripRoute)}
	if name != "" {
		options = append(options, gatewayinformers.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
		}))
	}
	factory := gatewayinformers.NewSharedInformerFactoryWithOptions(w.routes, 0, options...)
	generic, err := factory.ForResource(schema.GroupVersion(gatewayv1.GroupVersion).WithResource(resource))
	if err != nil {
		return nil, err
	}
	return generic.Informer(), nil
}

// isSettled reports whether everything of the namespace that this pod may see was listed once.
func (n *namespaceWatch) isSettled() bool {
	for _, informer := range n.resources {
		if !informer.isSettled() {
			return false
		}
	}
	return n.services.isSettled() && n.slices.isSettled()
}

func (n *namespaceWatch) service(name string) *corev1.Service {
	// Reading the cache never fails.
	if obj, ok, _ := n.services.GetStore().GetByKey(n.namespace + "/" + name); ok {
		return obj.(*corev1.Service)
	}
	return nil
}

func (n *namespaceWatch) slicesOf(service string) []*discoveryv1.EndpointSlice {
	// An index that does not exist is the only error, and it does exist.
	found, _ := n.slices.GetIndexer().ByIndex(byService, n.namespace+"/"+service)
	endpointSlices := make([]*discoveryv1.EndpointSlice, len(found))
	for i, obj := range found {
		endpointSlices[i] = obj.(*discoveryv1.EndpointSlice)
	}
	return endpointSlices
}

// sliceService returns the namespace and name of an EndpointSlice's Service.
func sliceService(obj any) ([]string, error) {
	if slice, ok := obj.(*discoveryv1.EndpointSlice); ok && slice.Labels[discoveryv1.LabelServiceName] != "" {
		return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
	}
	return nil, nil
}

// stripRoute drops the fields of an object of the Gateway API that nobody reads.
func stripRoute(obj any) (any, error) {
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return obj, nil // a tombstone
	}
	accessor.SetManagedFields(nil)
	accessor.SetAnnotations(nil)
	accessor.SetLabels(nil)
	if status := reflect.ValueOf(obj).Elem().FieldByName("Status"); status.IsValid() {
		status.SetZero()
	}
	return obj, nil
}
