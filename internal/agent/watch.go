package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/informers/externalversions"
	"gateway/internal/endpoints"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
)

// byService is the name of the index of EndpointSlices by the namespace and name of their Service.
const byService = "service"

// watcher is the Source of an agent that works for a Gateway in an API server. It holds what was last seen of the
// Gateway, and of the Services and EndpointSlices of its namespace.
type watcher struct {
	namespace, name string
	gatewayFactory  externalversions.SharedInformerFactory
	coreFactory     informers.SharedInformerFactory
	gateways        cache.SharedIndexInformer
	services        cache.SharedIndexInformer
	slices          cache.SharedIndexInformer
	changed         func()

	// uid and generation are those of the Gateway that changes returned last.
	uid        types.UID
	generation int64

	mu sync.Mutex
	// touched are the Services that changed, or whose EndpointSlices did, since changes returned them last.
	touched map[types.NamespacedName]bool
}

func newWatcher(options Options) (*watcher, error) {
	w := &watcher{namespace: options.Namespace, name: options.Gateway, changed: func() {}, touched: map[types.NamespacedName]bool{}}
	w.gatewayFactory = externalversions.NewSharedInformerFactoryWithOptions(options.Gateways, 0,
		externalversions.WithNamespace(options.Namespace),
		externalversions.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.FieldSelector = fields.OneTermEqualSelector("metadata.name", options.Gateway).String()
		}),
		externalversions.WithTransform(stripGateway))
	w.coreFactory = informers.NewSharedInformerFactoryWithOptions(options.Core, 0,
		informers.WithNamespace(options.Namespace), informers.WithTransform(endpoints.Strip))
	w.gateways = w.gatewayFactory.App().V1().Gateways().Informer()
	w.services = w.coreFactory.Core().V1().Services().Informer()
	w.slices = w.coreFactory.Discovery().V1().EndpointSlices().Informer()
	if err := w.slices.AddIndexers(cache.Indexers{byService: sliceService}); err != nil {
		return nil, fmt.Errorf("failed to index EndpointSlices: %w", err)
	}
	for _, informer := range []cache.SharedIndexInformer{w.services, w.slices} {
		if _, err := informer.AddEventHandler(onChange(w.touch)); err != nil {
			return nil, fmt.Errorf("failed to watch: %w", err)
		}
	}
	if _, err := w.gateways.AddEventHandler(w.onGateway()); err != nil {
		return nil, fmt.Errorf("failed to watch the Gateway: %w", err)
	}
	return w, nil
}

func (w *watcher) source() Source {
	return Source{Run: w.run, Changes: w.changes, Cluster: endpoints.Cluster{Service: w.service, Slices: w.slicesOf}}
}

// run watches until ctx ends. While the API server does not answer it goes on trying.
func (w *watcher) run(ctx context.Context, changed func()) {
	w.changed = changed
	w.gatewayFactory.StartWithContext(ctx)
	w.coreFactory.StartWithContext(ctx)
	if cache.WaitForCacheSync(ctx.Done(), w.gateways.HasSynced, w.services.HasSynced, w.slices.HasSynced) {
		w.changed()
	}
	<-ctx.Done()
	w.gatewayFactory.Shutdown()
	w.coreFactory.Shutdown()
}

// synced says whether everything was seen once.
func (w *watcher) synced() bool {
	return w.gateways.HasSynced() && w.services.HasSynced() && w.slices.HasSynced()
}

// gateway returns the Gateway, nil if there is none. It is only read.
func (w *watcher) gateway() *appv1.Gateway {
	if obj, ok := get(w.gateways, w.namespace, w.name); ok {
		return obj.(*appv1.Gateway)
	}
	return nil
}

// changes returns what changed since it was called last. A Gateway that was deleted is no change: the pod's end is not
// the agent's to bring.
func (w *watcher) changes() (Changes, bool) {
	if !w.synced() {
		return Changes{}, false
	}
	w.mu.Lock()
	changes := Changes{Services: slices.Collect(maps.Keys(w.touched))}
	clear(w.touched)
	w.mu.Unlock()
	if gateway := w.gateway(); gateway != nil && (gateway.UID != w.uid || gateway.Generation != w.generation) {
		w.uid, w.generation = gateway.UID, gateway.Generation
		changes.Gateway, changes.UID = source.Translate(gateway), gateway.UID
	}
	return changes, true
}

func (w *watcher) service(namespace, name string) *corev1.Service {
	if obj, ok := get(w.services, namespace, name); ok {
		return obj.(*corev1.Service)
	}
	return nil
}

func (w *watcher) slicesOf(namespace, service string) []*discoveryv1.EndpointSlice {
	// An index that does not exist is the only error, and it does exist.
	found, _ := w.slices.GetIndexer().ByIndex(byService, namespace+"/"+service)
	endpointSlices := make([]*discoveryv1.EndpointSlice, len(found))
	for i, obj := range found {
		endpointSlices[i] = obj.(*discoveryv1.EndpointSlice)
	}
	return endpointSlices
}

// isEndpoint says whether a pod is an endpoint of the Gateway's own Service, ready or not.
func (w *watcher) isEndpoint(pod string) bool {
	isPod := func(endpoint discoveryv1.Endpoint) bool {
		return endpoint.TargetRef != nil && endpoint.TargetRef.Kind == "Pod" && endpoint.TargetRef.Name == pod
	}
	return slices.ContainsFunc(w.slicesOf(w.namespace, proxypod.ChildName(w.name)), func(slice *discoveryv1.EndpointSlice) bool {
		return slices.ContainsFunc(slice.Endpoints, isPod)
	})
}

func get(informer cache.SharedIndexInformer, namespace, name string) (any, bool) {
	// Reading the cache never fails.
	obj, ok, _ := informer.GetStore().GetByKey(namespace + "/" + name)
	return obj, ok
}

// touch notes that a Service, or an EndpointSlice of it, changed. A slice may have changed its Service.
func (w *watcher) touch(objects ...any) {
	w.mu.Lock()
	for _, object := range objects {
		if final, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = final.Obj
		}
		switch object := object.(type) {
		case *corev1.Service:
			w.touched[types.NamespacedName{Namespace: object.Namespace, Name: object.Name}] = true
		case *discoveryv1.EndpointSlice:
			w.touched[types.NamespacedName{Namespace: object.Namespace, Name: object.Labels[discoveryv1.LabelServiceName]}] = true
		}
	}
	w.mu.Unlock()
	w.changed()
}

// onChange calls changed for what differs in more than its version: only what is used is in the cache.
func onChange(changed func(objects ...any)) cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(added any) { changed(added) },
		UpdateFunc: func(old, new any) {
			if !endpoints.Equal(old, new) {
				changed(old, new)
			}
		},
		DeleteFunc: func(deleted any) { changed(deleted) },
	}
}

// onGateway keeps changes of the status from the loop.
func (w *watcher) onGateway() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.changed() },
		UpdateFunc: func(old, new any) {
			before, after := old.(*appv1.Gateway), new.(*appv1.Gateway)
			if before.UID != after.UID || before.Generation != after.Generation {
				w.changed()
			}
		},
	}
}

// sliceService returns the namespace and name of an EndpointSlice's Service.
func sliceService(obj any) ([]string, error) {
	if slice, ok := obj.(*discoveryv1.EndpointSlice); ok && slice.Labels[discoveryv1.LabelServiceName] != "" {
		return []string{slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]}, nil
	}
	return nil, nil
}

// stripGateway keeps the spec.
func stripGateway(obj any) (any, error) {
	gateway, ok := obj.(*appv1.Gateway)
	if !ok {
		return obj, nil
	}
	return &appv1.Gateway{ObjectMeta: endpoints.Identity(&gateway.ObjectMeta), Spec: gateway.Spec}, nil
}
