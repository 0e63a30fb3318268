package agent

import (
	"context"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/generated/app/clientset/versioned"
	"gateway/internal/endpoints"
	"gateway/internal/model"
	"gateway/internal/multicluster"
	"gateway/internal/peers"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
	"gateway/internal/source/gatewayapi"
)

// watcher is the Source of an agent whose Gateway is in an API server. It holds the last seen state of the Gateway and
// of the namespaces with its objects. Only the loop calls its methods, except run.
type watcher struct {
	namespace, name string
	core            Core
	routes          routesclient.Interface
	// own reaches objects of our own group.
	own versioned.Interface
	// imports reaches ServiceImports; nil: there are none.
	imports *multicluster.Client
	place   endpoints.Place
	changed func()
	// traced takes in objects that may have a question in an annotation.
	traced func(before, now metav1.Object)
	// reloads tells whose edits may cause a reload; nil: all may.
	reloads *reloadBudget
	// clock tells how long objects wait for RouteFilters.
	clock clock.WithDelayedExecution
	ctx   context.Context //nolint:containedctx // of run, for namespaces that come later

	// seen is the Gateway that changes returned last, and index the objects that belong to it; nil: there are none.
	// isStale reports whether all of them have to be looked at.
	seen    *appv1.Gateway
	index   *gatewayapi.Index
	isStale bool
	// edits counts the passes that took in changes of objects.
	edits int64
	// settled reports whether everything that the Gateway had at first was seen.
	settled bool
	// attached are the namespaces with objects of the Gateway, by name. namespaces are followed: these, and the namespace
	// of the Gateway. holds reports whether some have more than they are to have.
	attached   map[string]appv1.GatewayAttachmentSpec
	namespaces map[string]*namespaceShares
	holds      bool

	// mu guards the watches, and what they tell. isCluster reports whether they are to be of all namespaces. gateways and
	// attachments watch the Gateway and its GatewayAttachments, and isEdited reports whether one of these changed.
	// edited are the namespaces with objects that have to be taken in. isNews says that something else happened to a
	// watch.
	mu                    sync.Mutex
	watches               map[place]*watched
	isCluster             bool
	gateways, attachments *watched
	// bundles watches ClusterTrustBundles; nil: none is needed. otherBundles reports whether it brought some.
	bundles      *watched
	otherBundles bool
	isEdited     bool
	edited       map[*namespaceShares]bool
	isNews       bool
	// turns bound the requests for the objects of a resource, and checked is when watches were looked at last.
	turns   map[string]chan struct{}
	checked time.Time
}

func newWatcher(options Options) *watcher {
	w := &watcher{
		namespace: options.Namespace, name: options.Gateway, core: options.Core, routes: options.Routes, own: options.Gateways, imports: options.Imports, place: options.Place,
		changed: func() {}, traced: func(_, _ metav1.Object) {}, namespaces: map[string]*namespaceShares{}, edited: map[*namespaceShares]bool{}, clock: clock.RealClock{},
		watches: map[place]*watched{}, turns: map[string]chan struct{}{},
	}
	w.gateways = w.watchOf(resourceOwn, options.Namespace, options.Gateway)
	w.attachments = w.watchOf(proxypod.ResourceAttachments, options.Namespace, options.Gateway)
	w.followNamespace(options.Namespace, nil)
	return w
}

func (w *watcher) source() Source {
	return Source{Run: w.run, Changes: w.changes, Cluster: endpoints.Cluster{Service: w.service, Slices: w.slicesOf, Place: w.place}, Pods: w.pods, Bundle: w.bundle}
}

// run watches until ctx ends. It retries while the API server does not answer.
func (w *watcher) run(ctx context.Context, changed func()) {
	w.mu.Lock()
	w.ctx, w.changed = ctx, changed
	for _, of := range w.watches {
		w.start(of)
	}
	w.mu.Unlock()
	<-ctx.Done()
}

// synced reports whether the Gateway with its GatewayAttachments, and the Services and EndpointSlices of its namespace,
// were listed once.
func (w *watcher) synced() bool {
	own := w.namespaces[w.namespace].shares
	return w.gateways.isListed && w.attachments.isListed && own[resourceServices].of.isListed && own[resourceSlices].of.isListed
}

// gateway returns the Gateway, nil if there is none. It is only read.
func (w *watcher) gateway() *appv1.Gateway {
	if object := w.gateways.objects[w.namespace][w.name]; object != nil {
		return object.(*appv1.Gateway)
	}
	return nil
}

// changes returns what changed since the last call, or all there is. A deleted Gateway is no change: the agent does not
// end the pod.
func (w *watcher) changes(anew bool) (Changes, bool) {
	if anew {
		w.seen, w.index = nil, nil
	}
	gateway, edits, versions, ok := w.look()
	if !ok {
		return Changes{}, false
	}
	services, changes := servicesOf(edits), Changes{Versions: versions, Bundles: w.takeBundles()}
	changes.Services = slices.Collect(maps.Keys(services))
	switch {
	case gateway == nil:
		w.index = nil // what changes meanwhile is not looked at
	case w.isAttached(gateway):
		w.addAttached(gateway, services, edits, &changes)
	case w.seen == nil || gateway.UID != w.seen.UID || gateway.Generation != w.seen.Generation || w.index != nil:
		w.seen, w.index = gateway, nil
		changes.Gateway, changes.UID = source.Translate(gateway), gateway.UID
	}
	return changes, true
}

// isAttached reports whether objects of the Gateway API belong to a Gateway.
func (w *watcher) isAttached(gateway *appv1.Gateway) bool {
	return len(w.attached) > 0 || proxypod.Parent(gateway) != ""
}

// look returns the Gateway, and takes in what changed, up to some versions; false: not all objects were seen yet.
func (w *watcher) look() (gateway *appv1.Gateway, edits []edit, versions Versions, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endSilent()
	if !w.synced() {
		return nil, nil, versions, false
	}
	if gateway = w.gateway(); gateway != nil {
		w.follow(gateway)
		if w.settled = w.settled || w.isSettled(); !w.settled {
			return nil, nil, versions, false
		}
	}
	w.updateCounts()
	if edits = w.takeIn(); gateway != nil && w.isAttached(gateway) {
		versions = w.versions()
	}
	return gateway, edits, versions, true
}

// follow watches exactly the namespaces that have objects of the Gateway.
func (w *watcher) follow(gateway *appv1.Gateway) {
	if !w.isEdited && !w.holds {
		return
	}
	if w.isEdited {
		w.edits++ // the operator waits for the report
	}
	w.isEdited = false
	attached := gatewayapi.Attached(gateway, func(yield func(*appv1.GatewayAttachment) bool) {
		for _, object := range w.attachments.objects[w.namespace] {
			if !yield(object.(*appv1.GatewayAttachment)) {
				return
			}
		}
	})
	w.holds = w.hold(attached)
	isCluster := gateway.Spec.Watch == appv1.WatchCluster && (len(attached) > 0 || proxypod.Parent(gateway) != "")
	if w.attached != nil && isCluster == w.isCluster && equality.Semantic.DeepEqual(attached, w.attached) {
		return
	}
	w.attached, w.isCluster, w.isStale, w.isNews = attached, isCluster, true, true
	wanted := map[string]map[string]string{w.namespace: {}}
	if parent := proxypod.Parent(gateway); parent != "" {
		wanted[w.namespace][resourceGateways] = parent
	}
	for namespace, of := range attached {
		if wanted[namespace] == nil {
			wanted[namespace] = map[string]string{}
		}
		for _, resource := range of.Resources {
			wanted[namespace][resource] = ""
		}
	}
	for namespace, n := range w.namespaces {
		if _, ok := wanted[namespace]; !ok {
			n.removeOthers(nil)
			delete(w.namespaces, namespace)
			delete(w.edited, n)
			w.index = nil
		}
	}
	for namespace, resources := range wanted {
		w.followNamespace(namespace, resources)
	}
}

// hold makes namespaces whose edits wait keep their earlier resources, since their objects are the earlier ones and
// may need them. It reports whether a namespace would lack some otherwise.
func (w *watcher) hold(attached map[string]appv1.GatewayAttachmentSpec) (holds bool) {
	for namespace, before := range w.attached {
		now, ok := attached[namespace]
		if !ok || w.reloads == nil || equality.Semantic.DeepEqual(before, now) || w.reloads.take(namespace) {
			continue
		}
		count := len(now.Resources)
		now.Resources = slices.Compact(slices.Sorted(slices.Values(slices.Concat(before.Resources, now.Resources))))
		attached[namespace], holds = now, holds || len(now.Resources) > count
	}
	return holds
}

// followNamespace watches exactly these resources of a namespace, and its Services and EndpointSlices. Of a resource,
// it watches the one object of a name, or all if the name is empty.
func (w *watcher) followNamespace(namespace string, resources map[string]string) {
	wanted := map[string]string{resourceServices: "", resourceSlices: ""}
	maps.Copy(wanted, resources)
	n := w.namespaces[namespace]
	if n == nil {
		n = &namespaceShares{namespace: namespace, shares: map[string]*share{}}
		w.namespaces[namespace] = n
	}
	n.removeOthers(wanted)
	var added []string
	for resource, name := range wanted {
		if n.shares[resource] != nil {
			continue
		}
		share := &share{n: n, resource: resource, name: name, pending: map[string]bool{}, taken: objects{}}
		share.use(w.sourceOf(share))
		n.shares[resource] = share
		added = append(added, resource)
	}
	n.guard(added)
}

// isSettled reports whether everything of the Gateway that this pod may see was listed once.
func (w *watcher) isSettled() bool {
	for _, n := range w.namespaces {
		for _, share := range n.shares {
			if of := share.of; !of.isListed && !of.isMissing && (of.refusals == 0 || w.isCluster && !w.mayReadCluster()) {
				return false
			}
		}
	}
	return true
}

func (w *watcher) share(namespace, resource string) *share {
	if n := w.namespaces[namespace]; n != nil {
		return n.shares[resource]
	}
	return nil
}

func (w *watcher) service(namespace, name string) *corev1.Service {
	service, _ := w.knownService(namespace, name)
	return service
}

// knownService returns a Service, or a ServiceImport as one; false: unknown, because its namespace is not watched.
func (w *watcher) knownService(namespace, name string) (*corev1.Service, bool) {
	resource := resourceServices
	if of, isImport := model.ServiceImportOf(name); isImport {
		resource, name = proxypod.ResourceImports, of
	}
	share := w.share(namespace, resource)
	if share == nil || !share.counts {
		return nil, false
	}
	if service, ok := share.taken[name].(*packed); ok {
		return unpack(service, &corev1.Service{}), true
	}
	return nil, true
}

func (w *watcher) slicesOf(namespace, service string) []*discoveryv1.EndpointSlice {
	share := w.share(namespace, resourceSlices)
	if share == nil {
		return nil
	}
	w.mu.Lock()
	found := share.of.slices[types.NamespacedName{Namespace: namespace, Name: service}]
	w.mu.Unlock()
	all := make([]*discoveryv1.EndpointSlice, len(found))
	for i, slice := range found {
		all[i] = unpack(slice, &discoveryv1.EndpointSlice{})
	}
	return all
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

// addAttached adds the changes of a Gateway that has objects of the Gateway API: services are those that changed, and
// whether they did themselves.
func (w *watcher) addAttached(gateway *appv1.Gateway, services map[types.NamespacedName]bool, edits []edit, changes *Changes) {
	isNew := w.seen == nil || gateway.UID != w.seen.UID || gateway.Generation != w.seen.Generation
	w.isStale = w.isStale || w.index == nil || isNew && !w.isAlike(gateway)
	isNew = isNew || w.isStale
	for _, edit := range edits {
		isNew = w.updateIndex(edit) || isNew
	}
	for service, differs := range services {
		if isNew = isNew || differs; differs && w.index != nil {
			w.index.ChangeService(service.Namespace, service.Name)
		}
	}
	if isNew {
		w.edits++
	}
	if changes.Versions.Edits = w.edits; !isNew {
		return
	}
	if w.index == nil {
		w.index = gatewayapi.NewIndex(w.objects(gateway))
	} else if w.isStale {
		w.index.Replace(w.objects(gateway))
	}
	w.seen, w.isStale = gateway, false
	changes.Gateway, changes.UID = w.index.Result().For(gateway), gateway.UID
}

// isAlike reports whether objects become the same for a Gateway as for the one seen last. What has no part in that,
// such as drainTimeout, is in the settings of what the index returns for it.
func (w *watcher) isAlike(gateway *appv1.Gateway) bool {
	return w.seen != nil && gateway.UID == w.seen.UID &&
		reflect.DeepEqual(gatewayapi.AttachedTo(w.seen, w.attached), gatewayapi.AttachedTo(gateway, w.attached))
}

// updateIndex takes in an edit of an object. It reports whether the object is new, another one or gone, if it counts.
func (w *watcher) updateIndex(edit edit) bool {
	if !edit.of.counts || edit.of.isCore() {
		return false
	}
	if w.index == nil || w.isStale {
		return edit.differs
	}
	id := gatewayapi.Object{Kind: gatewayapi.KindOf(edit.of.resource), Namespace: edit.of.n.namespace, Name: edit.name}
	switch {
	case !edit.differs:
		w.index.Renew(id, edit.now)
	case !w.index.ChangeAttached(id, edit.now):
		w.isStale = true
	}
	return edit.differs
}

// versions returns up to which version the objects are taken in, and the GatewayAttachments that are followed.
func (w *watcher) versions() Versions {
	of := []progress{{proxypod.ResourceAttachments, w.namespace, w.attachments.version, w.attachments.newest}}
	for namespace, n := range w.namespaces {
		for resource, share := range n.shares {
			one := progress{resource: resource, namespace: namespace}
			switch {
			case share.isCore():
				continue
			case share.counts && (len(share.pending) > 0 || share.of.refusals > 0): // it waits, which holds up no other
				one.last = share.version
			case share.counts:
				one.last, one.seen = share.version, share.of.version
			}
			of = append(of, one)
		}
	}
	versions := newVersions(of)
	versions.Watch = w.mode()
	return versions
}

// objects returns the objects that belong to a Gateway.
func (w *watcher) objects(gateway *appv1.Gateway) gatewayapi.Objects {
	objects := gatewayapi.AttachedTo(gateway, w.attached)
	objects.Service = w.knownService
	for _, n := range w.namespaces {
		for _, share := range n.shares {
			for _, object := range share.taken {
				if share.counts && !share.isCore() {
					objects.AddAttached(object)
				}
			}
		}
	}
	return objects
}
