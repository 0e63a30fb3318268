package agent

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	appv1 "gateway/api/app/v1"
	"gateway/internal/compact"
	"gateway/internal/endpoints"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

const (
	resourceOwn      = "gateways." + appv1.GroupName
	resourceGateways = "gateways"
	resourcePolicies = "backendtlspolicies"
	resourceServices = "services"
	resourceSlices   = "endpointslices"
)

// objects are the objects of a resource in a namespace, by name.
type objects map[string]metav1.Object

// watched is a watch of the objects of a resource in a namespace, and has what the API server has sent last. It is the
// store of a Reflector, which brings all events in their order.
type watched struct {
	w                         *watcher
	resource, namespace, name string
	requests                  cache.ListerWatcher
	stop                      context.CancelFunc
	turns                     chan struct{}

	// w.mu guards what follows. shares are the ones that this feeds, by namespace.
	objects map[string]objects
	slices  map[types.NamespacedName][]*packed // by Service
	shares  map[string]*share
	// version is the one up to which everything was seen; 0: it cannot be compared. newest is the version of the newest
	// object.
	version, newest uint64
	// isMissing reports whether the API server does not know the resource, refusals how often it refused to list the
	// objects.
	isListed, isMissing bool
	refusals            int
	// end ends the request that brings events, and heard is when the last one came, or was asked for.
	end   context.CancelFunc
	heard time.Time
}

// newWatched returns a watch that does not run yet: of the object of a name if it is set, or of GatewayAttachments of a
// Gateway.
func (w *watcher) newWatched(resource, namespace, name string) *watched {
	o := &watched{
		w: w, resource: resource, namespace: namespace, name: name, stop: func() {}, end: func() {}, objects: map[string]objects{},
		slices: map[types.NamespacedName][]*packed{}, shares: map[string]*share{},
	}

	if o.turns = w.turns[resource]; o.turns == nil {
		o.turns = make(chan struct{}, startsAtOnce)
		w.turns[resource] = o.turns
	}
	switch resource {
	case resourceOwn:
		list(o, w.own.AppV1().Gateways(namespace))
	case proxypod.ResourceAttachments:
		list(o, w.own.AppV1().GatewayAttachments(namespace))
	case resourceServices:
		list(o, w.core.CoreV1().Services(namespace))
	case resourceSlices:
		list(o, w.core.DiscoveryV1().EndpointSlices(namespace))
	case proxypod.ResourceFilters:
		list(o, w.own.AppV1().RouteFilters(namespace))
	case proxypod.ResourceBackendPolicies:
		list(o, w.own.AppV1().BackendPolicies(namespace))
	case proxypod.ResourceImports:
		if o.isMissing = w.imports == nil; !o.isMissing {
			list(o, w.imports.ServiceImports(namespace))
		}
	case resourceBundles:
		list(o, w.core.CertificatesV1().ClusterTrustBundles())
	case resourceGateways:
		list(o, w.routes.GatewayV1().Gateways(namespace))
	case resourcePolicies:
		list(o, w.routes.GatewayV1().BackendTLSPolicies(namespace))
	case "listenersets":
		list(o, w.routes.GatewayV1().ListenerSets(namespace))
	case "referencegrants":
		list(o, w.routes.GatewayV1().ReferenceGrants(namespace))
	case "httproutes":
		list(o, w.routes.GatewayV1().HTTPRoutes(namespace))
	case "grpcroutes":
		list(o, w.routes.GatewayV1().GRPCRoutes(namespace))
	case "tlsroutes":
		list(o, w.routes.GatewayV1().TLSRoutes(namespace))
	case "tcproutes":
		list(o, w.routes.GatewayV1().TCPRoutes(namespace))
	default: // a later operator knows more
		o.isMissing = true
	}
	return o
}

// list makes a watch use a client.
func list[L runtime.Object](o *watched, client interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}) {
	narrow := func(options metav1.ListOptions) metav1.ListOptions {
		if o.resource == proxypod.ResourceAttachments {
			options.LabelSelector = proxypod.PodSelector(o.name).String()
		} else if o.name != "" {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, o.name).String()
		}
		return options
	}
	o.requests = cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			ctx, end := context.WithCancel(ctx)
			defer end()
			answered, err := o.turn(ctx, end)
			if err != nil {
				return nil, err
			}
			defer answered()
			list, err := client.List(ctx, narrow(options))
			o.refused(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			ctx, end := context.WithCancel(ctx)
			answered, err := o.turn(ctx, end)
			if err != nil {
				end()
				return nil, err
			}
			defer answered()
			events, err := client.Watch(ctx, narrow(options))
			if err != nil {
				end()
				return nil, err
			}
			o.began(end)
			return events, nil
		},
	}, o.w.core)
}

// start makes a watch run, once the watcher does.
func (w *watcher) start(o *watched) {
	if w.ctx == nil || o.requests == nil {
		return
	}
	var ctx context.Context
	ctx, o.stop = context.WithCancel(w.ctx)
	options := cache.ReflectorOptions{Name: o.namespace, TypeDescription: o.resource}
	go cache.NewReflectorWithOptions(o.requests, nil, o, options).RunWithContext(ctx)
}

// refused notes why the objects could not be listed, if this pod may see none. A Reflector always ends with a list if
// it may not watch.
func (o *watched) refused(err error) {
	o.w.mu.Lock()
	switch {
	case apierrors.IsNotFound(err):
		o.isMissing = true
	case apierrors.IsForbidden(err):
		o.refusals++
	default:
		o.w.mu.Unlock()
		return
	}
	o.w.isNews, o.w.otherBundles = true, o.w.otherBundles || o == o.w.bundles
	o.w.mu.Unlock()
	o.w.changed()
}

// Add is cache.Store's.
func (o *watched) Add(object any) error { return o.Update(object) }

// Update is cache.Store's.
func (o *watched) Update(object any) error {
	now := strip(object)
	o.note(now.GetNamespace(), now.GetName(), now, now.GetResourceVersion())
	return nil
}

// Delete is cache.Store's.
func (o *watched) Delete(object any) error {
	gone := object.(metav1.Object)
	o.note(gone.GetNamespace(), gone.GetName(), nil, gone.GetResourceVersion())
	return nil
}

func (o *watched) note(namespace, name string, now metav1.Object, version string) {
	o.w.mu.Lock()
	isNews := o.set(namespace, name, now, versionOf(version))
	o.w.mu.Unlock()
	if isNews {
		o.w.changed()
	}
}

// set takes in an object; nil: it is gone. It reports whether the loop has to know soon: it does not for status writes.
func (o *watched) set(namespace, name string, now metav1.Object, version uint64) bool {
	before := o.objects[namespace][name]
	o.index(before, now)
	switch {
	case now == nil:
		delete(o.objects[namespace], name)
	case o.objects[namespace] == nil:
		o.objects[namespace] = objects{name: now}
	default:
		o.objects[namespace][name] = now
	}
	o.heard = o.w.clock.Now()
	o.version, o.newest = max(o.version, version), max(o.newest, version)
	if share := o.shares[namespace]; share != nil {
		share.note(name, before, now, version)
		o.w.traced(before, now)
		return differ(before, now)
	}
	if o == o.w.bundles {
		o.w.otherBundles = true
		return true
	}
	if (o == o.w.gateways || o == o.w.attachments) && differ(before, now) {
		o.w.isEdited = true
		return true
	}
	return false
}

// index finds EndpointSlices by their Services. Somebody may read the lists that it replaces.
func (o *watched) index(before, now metav1.Object) {
	for _, service := range servicesOfSlice(before) {
		others := slices.DeleteFunc(slices.Clone(o.slices[service]), func(of *packed) bool { return of == before })
		if o.slices[service] = others; len(others) == 0 {
			delete(o.slices, service)
		}
	}
	for _, service := range servicesOfSlice(now) {
		o.slices[service] = append(slices.Clone(o.slices[service]), now.(*packed))
	}
}

// servicesOfSlice returns the Services of an EndpointSlice, none of another object.
func servicesOfSlice(object metav1.Object) []types.NamespacedName {
	slice, ok := object.(*packed)
	if !ok {
		return nil
	}
	var all []types.NamespacedName
	for _, service := range slice.services {
		all = append(all, types.NamespacedName{Namespace: slice.namespace, Name: service})
	}
	return all
}

// Replace is cache.Store's: the objects were listed.
func (o *watched) Replace(list []any, version string) error {
	o.w.mu.Lock()
	isListed, listed := o.isListed, versionOf(version)
	gone := map[string]objects{}
	for namespace, all := range o.objects {
		gone[namespace] = objects{}
		for name := range all {
			gone[namespace][name] = nil
		}
	}
	isNews := !isListed
	for _, object := range list {
		now := strip(object)
		delete(gone[now.GetNamespace()], now.GetName())
		isNews = o.set(now.GetNamespace(), now.GetName(), now, versionOf(now.GetResourceVersion())) || isNews
	}
	for namespace, all := range gone {
		for name := range all {
			isNews = o.set(namespace, name, nil, listed) || isNews
		}
	}
	isNews = isNews || o.refusals > 0
	o.w.otherBundles = o.w.otherBundles || o == o.w.bundles
	o.isMissing = false
	o.version, o.isListed, o.refusals, o.heard, o.w.isNews = listed, true, 0, o.w.clock.Now(), o.w.isNews || isNews
	o.w.mu.Unlock()
	if isNews {
		o.w.changed()
	}
	return nil
}

// UpdateResourceVersion is for cache.ResourceVersionUpdater: all events up to a version came, as
// bookmarks tell, too.
func (o *watched) UpdateResourceVersion(version string) {
	o.w.mu.Lock()
	defer o.w.mu.Unlock()
	o.version, o.heard = max(o.version, versionOf(version)), o.w.clock.Now()
}

// Resync is cache.Store's.
func (o *watched) Resync() error { return nil }

// Transformer is for cache.TransformingStore: objects are stripped while the others still come.
func (o *watched) Transformer() cache.TransformFunc {
	return func(object any) (any, error) { return strip(object), nil }
}

// differ reports whether an object is another one in the fields that are read; nil: it is not there.
func differ(before, now metav1.Object) bool {
	if before == nil || now == nil {
		return before != now
	}
	switch now := now.(type) {
	case *packed:
		return !bytes.Equal(before.(*packed).encoded, now.encoded)
	case *appv1.GatewayAttachment: // the operator waits for each version
		return before.GetResourceVersion() != now.GetResourceVersion()
	case *appv1.Gateway:
		if before, ok := before.(*appv1.Gateway); ok && !equality.Semantic.DeepEqual(before.Status.Attachments, now.Status.Attachments) {
			return true
		}
	}
	return before.GetUID() != now.GetUID() || before.GetGeneration() != now.GetGeneration() ||
		gatewayapi.ForNamespace(before) != gatewayapi.ForNamespace(now)
}

// strip drops the fields of an object that nobody reads. It does nothing to an object that it has returned.
func strip(object any) metav1.Object {
	switch object := object.(type) {
	case *packed:
		return object
	case *corev1.Service:
		return pack(object, nil, endpoints.StripService(object).Marshal)
	case *discoveryv1.EndpointSlice:
		return pack(object, endpoints.ServicesOf(object), endpoints.StripSlice(object).Marshal)
	case *appv1.Gateway:
		kept := &appv1.Gateway{ObjectMeta: identity(&object.ObjectMeta), Spec: object.Spec}
		kept.OwnerReferences, kept.Status.Attachments = object.OwnerReferences, object.Status.Attachments
		return kept
	case *appv1.GatewayAttachment:
		kept := &appv1.GatewayAttachment{ObjectMeta: identity(&object.ObjectMeta), Status: object.Status}
		kept.OwnerReferences = object.OwnerReferences
		kept.Spec.Namespace, kept.Spec.Resources, kept.Spec.Labels = object.Spec.Namespace, object.Spec.Resources, object.Spec.Labels
		return kept
	}
	kept := object.(metav1.Object)
	isNew := kept.GetManagedFields() != nil
	kept.SetManagedFields(nil)
	kept.SetAnnotations(keepTrace(kept.GetAnnotations()))
	kept.SetLabels(keepLabel(kept.GetLabels()))
	if status := reflect.ValueOf(object).Elem().FieldByName("Status"); status.IsValid() {
		status.SetZero()
	}
	if isNew {
		compact.Object(object)
	}
	return kept
}

// keepLabel keeps the label that tells for which namespace a route is.
func keepLabel(labels map[string]string) map[string]string {
	if of := labels[gatewayapi.LabelFor]; of != "" {
		return map[string]string{gatewayapi.LabelFor: of}
	}
	return nil
}

// identity keeps what identifies an object and its version.
func identity(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
		ResourceVersion: meta.ResourceVersion, Generation: meta.Generation,
	}
}

// packed is a Service or an EndpointSlice in its encoded form, which takes a third of the memory. Most are read once,
// and again after an edit.
type packed struct {
	metav1.Object            // rest
	namespace, name, version string
	// services are the Services of an EndpointSlice.
	services []string
	encoded  []byte
}

// rest is the metadata of packed objects that nobody reads.
var rest metav1.Object = &metav1.ObjectMeta{}

func (p *packed) GetNamespace() string       { return p.namespace }
func (p *packed) GetName() string            { return p.name }
func (p *packed) GetResourceVersion() string { return p.version }

// pack packs an object that marshal encodes.
func pack(object metav1.Object, services []string, marshal func() ([]byte, error)) *packed {
	encoded, err := marshal()
	utilruntime.Must(err) // types of Kubernetes are made to be encoded
	return &packed{
		Object: rest, namespace: object.GetNamespace(), name: object.GetName(), version: object.GetResourceVersion(),
		services: services, encoded: encoded,
	}
}

// unpack returns the object that a packed one was.
func unpack[O interface{ Unmarshal(encoded []byte) error }](p *packed, object O) O {
	utilruntime.Must(object.Unmarshal(p.encoded)) // this process has encoded it
	return object
}
