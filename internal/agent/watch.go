package agent

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/clientset/versioned"
	"gateway/generated/app/informers/externalversions"
	"gateway/internal/endpoints"
	"gateway/internal/logging"
	"gateway/internal/peers"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
	"gateway/internal/source/gatewayapi"
)

// watcher is the Source of an agent whose Gateway is in an API server. It holds the last seen state of the Gateway and
// of the namespaces with its objects. Only the loop calls its methods, except run and touch.
type watcher struct {
	namespace, name string
	core            Core
	routes          routesclient.Interface
	// own reaches objects of our own group.
	own            versioned.Interface
	place          endpoints.Place
	gatewayFactory externalversions.SharedInformerFactory
	gateways       cache.SharedIndexInformer
	attachments    *attachments
	changed        func()
	ctx            context.Context //nolint:containedctx // that of run, for namespaces that come later
	// namespaces are those that are followed; that of the Gateway always is.
	namespaces map[string]*namespaceWatch

	// seen is the Gateway that changes returned last, and index the objects that belong to it; nil: there are none.
	// isStale says that all of them have to be looked at.
	seen    *appv1.Gateway
	index   *gatewayapi.Index
	isStale bool
	// edits counts the passes that took in changes of objects.
	edits int64
	// settled says that all that the Gateway had at first was seen.
	settled bool

	// clock tells how long objects wait for RouteFilters.
	clock clock.WithDelayedExecution

	mu sync.Mutex
	// touched are the Services that changed, or whose EndpointSlices did, since changes returned them last, and whether
	// they did themselves. events are what the API server sent of other objects since then.
	touched map[types.NamespacedName]bool
	events  map[objectKey]event
}

func newWatcher(options Options) (*watcher, error) {
	w := &watcher{
		namespace: options.Namespace, name: options.Gateway, core: options.Core, routes: options.Routes, own: options.Gateways, place: options.Place,
		changed: func() {}, namespaces: map[string]*namespaceWatch{}, touched: map[types.NamespacedName]bool{},
		events: map[objectKey]event{}, clock: clock.RealClock{},
	}
	w.gatewayFactory = externalversions.NewSharedInformerFactoryWithOptions(options.Gateways, 0,
		externalversions.WithNamespace(options.Namespace),
		externalversions.WithTweakListOptions(func(list *metav1.ListOptions) {
			list.FieldSelector = fields.OneTermEqualSelector("metadata.name", options.Gateway).String()
		}),
		externalversions.WithTransform(stripGateway))
	w.gateways = w.gatewayFactory.App().V1().Gateways().Informer()
	if _, err := w.gateways.AddEventHandler(w.onGateway()); err != nil {
		return nil, fmt.Errorf("failed to watch the Gateway: %w", err)
	}
	var err error
	if w.attachments, err = watchAttachments(options, func() { w.changed() }); err != nil {
		return nil, err
	}
	own, err := w.watchNamespace(options.Namespace)
	w.namespaces[options.Namespace] = own
	return w, err
}

func (w *watcher) source() Source {
	return Source{Run: w.run, Changes: w.changes, Cluster: endpoints.Cluster{Service: w.service, Slices: w.slicesOf, Place: w.place}, Pods: w.pods}
}

// run watches until ctx ends. It retries while the API server does not answer.
func (w *watcher) run(ctx context.Context, changed func()) {
	w.ctx, w.changed = ctx, changed
	w.gatewayFactory.StartWithContext(ctx)
	go w.attachments.informer.RunWithContext(ctx)
	own := w.namespaces[w.namespace]
	own.start(ctx, changed)
	if cache.WaitForCacheSync(ctx.Done(), w.gateways.HasSynced, w.attachments.handler.HasSynced, own.services.HasSynced, own.slices.HasSynced) {
		w.changed()
	}
	<-ctx.Done()
	w.gatewayFactory.Shutdown()
}

// synced reports whether the Gateway with its GatewayAttachments, and the Services and EndpointSlices of its namespace,
// were listed once.
func (w *watcher) synced() bool {
	own := w.namespaces[w.namespace]
	return w.gateways.HasSynced() && w.attachments.handler.HasSynced() && own.services.HasSynced() && own.slices.HasSynced()
}

// gateway returns the Gateway, nil if there is none. It is only read.
func (w *watcher) gateway() *appv1.Gateway {
	// Reading the cache never fails.
	if obj, ok, _ := w.gateways.GetStore().GetByKey(w.namespace + "/" + w.name); ok {
		return obj.(*appv1.Gateway)
	}
	return nil
}

// changes returns what changed since the last call, or all there is. A deleted Gateway is no change: the agent does not
// end the pod.
func (w *watcher) changes(anew bool) (Changes, bool) {
	if !w.synced() {
		return Changes{}, false
	}
	if anew {
		w.seen, w.index = nil, nil
	}
	gateway := w.gateway()
	if gateway != nil {
		w.follow(gateway)
		if w.settled = w.settled || w.isSettled(); !w.settled {
			return Changes{}, false
		}
	}
	w.updateCounts() // what was listed before now is among the events
	w.mu.Lock()
	services, events := w.touched, w.events
	w.touched, w.events = map[types.NamespacedName]bool{}, map[objectKey]event{}
	w.mu.Unlock()
	taken := w.takeIn(events)
	changes := Changes{Services: slices.Collect(maps.Keys(services))}
	switch {
	case gateway == nil:
		w.index = nil // what changes meanwhile is not looked at
	case len(w.attachments.namespaces) > 0 || proxypod.Parent(gateway) != "":
		w.addAttached(gateway, services, taken, &changes)
	case w.seen == nil || gateway.UID != w.seen.UID || gateway.Generation != w.seen.Generation || w.index != nil:
		w.seen, w.index = gateway, nil
		changes.Gateway, changes.UID = source.Translate(gateway), gateway.UID
	}
	return changes, true
}

// follow watches exactly the namespaces that have objects of the Gateway.
func (w *watcher) follow(gateway *appv1.Gateway) {
	before := w.attachments.version
	differs := w.attachments.takeIn(gateway)
	if w.attachments.version != before {
		w.edits++ // the operator waits for the report
	}
	if !differs {
		return
	}
	w.isStale = true
	wanted := map[string][]string{w.namespace: nil}
	if proxypod.Parent(gateway) != "" {
		wanted[w.namespace] = []string{resourceGateways}
	}
	for namespace, attached := range w.attachments.namespaces {
		wanted[namespace] = append(wanted[namespace], attached.Resources...)
	}
	for namespace, watch := range w.namespaces {
		if _, ok := wanted[namespace]; !ok {
			watch.stop()
			delete(w.namespaces, namespace)
			w.index = nil
		}
	}
	for namespace, resources := range wanted {
		if err := w.followNamespace(gateway, namespace, resources); err != nil {
			logging.Errorf("Not all of namespace %s is watched: %v", namespace, err)
		}
	}
}

// followNamespace watches exactly these resources of a namespace.
func (w *watcher) followNamespace(gateway *appv1.Gateway, namespace string, resources []string) error {
	watch := w.namespaces[namespace]
	if watch == nil {
		var err error
		if watch, err = w.watchNamespace(namespace); err != nil {
			return err
		}
		w.namespaces[namespace] = watch
		watch.start(w.ctx, w.changed)
	}
	watch.removeOthers(resources)
	var added []string
	defer func() { watch.guard(added) }()
	for _, resource := range resources {
		if watch.resources[resource] != nil {
			continue
		}
		name := ""
		if resource == resourceGateways {
			name = proxypod.Parent(gateway)
		}
		if err := w.addResource(watch, resource, name); err != nil {
			return err
		}
		added = append(added, resource)
	}
	return nil
}

// isSettled reports whether everything of the Gateway that this pod may see was listed once.
func (w *watcher) isSettled() bool {
	for _, watch := range w.namespaces {
		if !watch.isSettled() {
			return false
		}
	}
	return true
}

func (w *watcher) service(namespace, name string) *corev1.Service {
	if watch := w.namespaces[namespace]; watch != nil {
		return watch.service(name)
	}
	return nil
}

func (w *watcher) slicesOf(namespace, service string) []*discoveryv1.EndpointSlice {
	if watch := w.namespaces[namespace]; watch != nil {
		return watch.slicesOf(service)
	}
	return nil
}

// pods returns the proxy pods of the Gateway, ready or not: the endpoints of its own Service. If a pod has two
// addresses, the IPv4 address counts.
func (w *watcher) pods() []peers.Pod {
	addresses := map[string]netip.Addr{}
	for _, slice := range w.slicesOf(w.namespace, proxypod.ChildName(w.name)) {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef == nil || endpoint.TargetRef.Kind != "Pod" || len(endpoint.Addresses) == 0 {
				continue
			}
			address, err := netip.ParseAddr(endpoint.Addresses[0])
			if name := endpoint.TargetRef.Name; err == nil && (address.Is4() || !addresses[name].IsValid()) {
				addresses[name] = address
			}
		}
	}
	pods := make([]peers.Pod, 0, len(addresses))
	for _, name := range slices.Sorted(maps.Keys(addresses)) {
		pods = append(pods, peers.Pod{Name: name, Address: addresses[name]})
	}
	return pods
}

// touch notes that a Service, or an EndpointSlice of it, changed. A slice may have moved to another Service.
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
			service := types.NamespacedName{Namespace: object.Namespace, Name: object.Labels[discoveryv1.LabelServiceName]}
			if _, ok := w.touched[service]; !ok {
				w.touched[service] = false
			}
		}
	}
	w.mu.Unlock()
	w.changed()
}

// onChange calls changed if objects differ in more than their version. The cache holds only fields that are used.
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

// onGateway ignores most changes of the status.
func (w *watcher) onGateway() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.changed() },
		UpdateFunc: func(old, new any) {
			before, after := old.(*appv1.Gateway), new.(*appv1.Gateway)
			if before.UID != after.UID || before.Generation != after.Generation ||
				!equality.Semantic.DeepEqual(before.Status.Attachments, after.Status.Attachments) {
				w.changed()
			}
		},
	}
}

// stripGateway keeps the spec, the old attachments, and the name of the Gateway of the Gateway API.
func stripGateway(obj any) (any, error) {
	gateway, ok := obj.(*appv1.Gateway)
	if !ok {
		return obj, nil
	}
	kept := &appv1.Gateway{ObjectMeta: endpoints.Identity(&gateway.ObjectMeta), Spec: gateway.Spec}
	kept.OwnerReferences, kept.Status.Attachments = gateway.OwnerReferences, gateway.Status.Attachments
	return kept, nil
}
