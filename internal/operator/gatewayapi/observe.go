package gatewayapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unique"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/operator/children"
	"gateway/internal/operator/status"
	"gateway/internal/proxypod"
	source "gateway/internal/source/gatewayapi"
)

// observed is the state of the cluster. Of routes, RouteFilters and Services, the index has the newest.
type observed struct {
	source.Objects
	controller *Controller
	// own are our Gateways by the Gateway that they are for, or that routes name.
	own map[source.Parent]*appv1.Gateway
	// live is what their proxies run, and watch how all of them watch.
	live  map[source.Parent]status.Live
	watch map[source.Parent]appv1.WatchMode
	// foreign are the names of Gateways that are in the way of Gateways that have to be made.
	foreign map[source.Parent]string
	// unknown are the Gateways and ListenerSets that could not be evaluated: what there is for them stays as it is.
	unknown map[source.Parent]bool
	// stalled are the resources that the API server does not list.
	stalled map[string]bool
	// names are the names of our Gateways that exist, or should, for Gateways and routes.
	names map[cache.ObjectName]bool
	// waiting are the objects whose status waits for the proxies of a data plane.
	waiting map[source.Parent]map[source.Object]bool
	// idle are the objects whose status was looked at while their data plane was not Programmed. late are the data planes
	// that are not any more, whose other objects still say that they are live.
	idle map[source.Parent]map[source.Object]bool
	late map[source.Parent]bool
	now
}

// now is the state of one evaluation.
type now struct {
	// look are the objects whose status has to be looked at. otherBindings reports whether agents may need other
	// RoleBindings, and otherPlanes whether our Gateways may have to be others.
	look                       map[source.Object]bool
	otherBindings, otherPlanes bool
	// read is what proxies run by what the API server has, of those data planes that it was asked about. readErr is why
	// it could not be asked. reportedNow is the same of all proxies that have reported.
	ctx               context.Context //nolint:containedctx // of the sync
	read, reportedNow map[source.Parent]status.Live
	readErr           error
}

// version is a generation of an object.
type version struct {
	// first is the first resourceVersion that was seen.
	first string
	// object is the one that was seen last. Its status is written as it was seen then, not as the caches have it later.
	object metav1.Object
	// confirmed are the data planes whose proxies all ran the generation, by what the API server had.
	confirmed planes
	// live are the data planes at which the object is live by this evaluation, with all that it needs, and before the same
	// by the one before; nil: there was none.
	live, before planes
	// counted is when the last status was queued at once that only counts what is attached.
	counted time.Time
}

// planes are data planes. Nearly all objects belong to one: a map for each object would take ten times the memory.
type planes []unique.Handle[source.Parent]

func (p planes) has(plane source.Parent) bool { return slices.Contains(p, unique.Make(plane)) }

// set adds or removes a data plane.
func (p *planes) set(plane source.Parent, isOne bool) {
	at := slices.Index(*p, unique.Make(plane))
	switch {
	case isOne && at < 0:
		*p = append(*p, unique.Make(plane))
	case !isOne && at >= 0:
		*p = slices.Delete(*p, at, at+1)
	}
}

// next begins an evaluation. Where an object does not belong to a data plane, nobody asks, and it is not live.
func (v *version) next() { v.before, v.live = v.live, planes{} }

// of reports whether it is the version of an object as it is.
func (v *version) of(object metav1.Object) bool {
	return v != nil && v.object.GetUID() == object.GetUID() && v.object.GetGeneration() == object.GetGeneration()
}

// begin begins an evaluation.
func (o *observed) begin(ctx context.Context) {
	o.now = now{look: map[source.Object]bool{}, ctx: ctx, read: map[source.Parent]status.Live{}, reportedNow: map[source.Parent]status.Live{}}
}

// observe collects the state of the cluster from the caches.
func (c *Controller) observe(ctx context.Context) (*observed, error) {
	o := &observed{
		controller: c, own: map[source.Parent]*appv1.Gateway{}, live: map[source.Parent]status.Live{}, foreign: map[source.Parent]string{},
		names: map[cache.ObjectName]bool{}, watch: map[source.Parent]appv1.WatchMode{}, late: map[source.Parent]bool{},
	}
	c.seen = o
	o.begin(ctx)
	c.takeQuiet() // all statuses are looked at
	o.stalled = c.stalledResources()
	for _, informer := range c.objectInformers() {
		for _, obj := range informer.GetStore().List() {
			o.Add(obj)
		}
	}
	o.Namespaces = map[string]labels.Set{}
	for _, obj := range c.inputs.Namespaces.GetStore().List() {
		namespace := obj.(metav1.Object)
		o.Namespaces[namespace.GetName()] = namespace.GetLabels()
	}
	o.Service, o.Config, o.Reported = o.service, o.config, o.reported
	o.NoTrustBundles = !c.hasBundles()
	if !c.inputs.KeyServer {
		o.MaxCertificates = appv1.MaxMounted
	}
	c.noteVersions(o)
	return o, o.addOwn()
}

// objectInformers returns the informers of what routes, data planes and their policies are in.
func (c *Controller) objectInformers() []cache.SharedIndexInformer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(slices.Collect(maps.Values(c.served)), c.inputs.Filters.Informer(), c.inputs.Policies.Informer())
}

// noteVersions notes the versions of all objects.
func (c *Controller) noteVersions(o *observed) {
	before := c.versions
	c.versions = make(map[source.Object]*version, len(before))
	o.Each(func(kind string, object metav1.Object) {
		id := source.Object{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName()}
		c.versions[id] = before[id]
		c.noteVersion(id, object)
		o.look[id] = true
	})
	for _, obj := range c.inputs.Attachments.GetStore().List() {
		attachment := obj.(*appv1.GatewayAttachment)
		id := source.Object{Kind: kindAttached, Namespace: attachment.Namespace, Name: attachment.Name}
		c.versions[id] = before[id]
		c.noteVersion(id, attachment)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.written, func(id source.Object, _ written) bool { return c.versions[id] == nil })
}

// noteVersion notes the first version of a generation of an object; nil: the object is gone. Later versions differ in
// the status only, so a proxy that runs one runs the generation.
func (c *Controller) noteVersion(id source.Object, object metav1.Object) {
	switch {
	case object == nil:
		delete(c.versions, id)
		c.mu.Lock()
		delete(c.written, id)
		c.mu.Unlock()
	case c.versions[id].of(object):
		c.versions[id].object = object
	default:
		c.versions[id] = &version{first: object.GetResourceVersion(), object: object}
	}
	if object != nil {
		c.versions[id].first = cmp.Or(c.takeArrival(id, object), c.versions[id].first)
	}
}

// addOwn adds our Gateways: those created for Gateways of the Gateway API, and those that routes name.
func (o *observed) addOwn() error {
	for _, gateway := range o.Gateways {
		parent := source.GatewayParent(gateway.Namespace, gateway.Name)
		name := cache.NewObjectName(gateway.Namespace, source.DataPlaneName(gateway.Name))
		own := o.controller.ownGateway(name.Namespace, name.Name)
		o.names[name] = true
		switch {
		case own == nil:
		case !metav1.IsControlledBy(own, gateway):
			o.foreign[parent] = own.Name
		default:
			if err := o.addLive(parent, own); err != nil {
				return err
			}
		}
	}
	var errs []error
	o.Each(func(_ string, object metav1.Object) {
		for parent, own := range o.newOwn(object) {
			o.Own = append(o.Own, own)
			errs = append(errs, o.addLive(parent, own))
		}
	})
	return errors.Join(errs...)
}

// newOwn returns our Gateways that a route is the first to name, and notes the names of all that it names.
func (o *observed) newOwn(object metav1.Object) map[source.Parent]*appv1.Gateway {
	found := map[source.Parent]*appv1.Gateway{}
	spec, _ := source.RouteParts(object)
	for _, ref := range spec.ParentRefs {
		parent := source.ParentOf(ref, object.GetNamespace())
		if parent.Group != appv1.GroupName {
			continue
		}
		o.names[cache.NewObjectName(parent.Namespace, parent.Name)] = true
		if own := o.controller.ownGateway(parent.Namespace, parent.Name); own != nil && o.own[parent] == nil {
			found[parent] = own
		}
	}
	return found
}

// ownGateway returns a Gateway of our own, nil if there is none.
func (c *Controller) ownGateway(namespace, name string) *appv1.Gateway {
	obj, ok, _ := c.inputs.Gateways.Informer().GetStore().GetByKey(namespace + "/" + name)
	if !ok {
		return nil
	}
	return obj.(*appv1.Gateway)
}

// addLive adds one of our Gateways, with what its proxies run.
func (o *observed) addLive(parent source.Parent, own *appv1.Gateway) (err error) {
	o.own[parent] = own
	o.live[parent], o.watch[parent], err = o.controller.liveOf(own)
	return err
}

// liveOf returns what the proxies of one of our Gateways run, and how they watch.
func (c *Controller) liveOf(own *appv1.Gateway) (status.Live, appv1.WatchMode, error) {
	key := cache.MetaObjectToName(own).String()
	found, err := c.inputs.Endpoints.GetIndexer().ByIndex(children.IndexOwner, key)
	if err != nil {
		return status.Live{}, "", fmt.Errorf("failed to look up EndpointSlices of Gateway %s: %w", key, err)
	}
	var slices []*discoveryv1.EndpointSlice
	for _, obj := range found {
		slices = append(slices, obj.(*discoveryv1.EndpointSlice))
	}
	if found, err = c.inputs.Proxies.GetIndexer().ByIndex(children.IndexOwner, key); err != nil {
		return status.Live{}, "", fmt.Errorf("failed to look up GatewayProxies of Gateway %s: %w", key, err)
	}
	var reports []*appv1.GatewayProxy
	for _, obj := range found {
		reports = append(reports, obj.(*appv1.GatewayProxy))
	}
	live := status.LiveOf(own, slices, reports)
	return live, watchOf(own, live, reports), nil
}

// service returns a Service, or a ServiceImport as one.
func (o *observed) service(namespace, name string) (*corev1.Service, bool) {
	if of, isImport := model.ServiceImportOf(name); isImport {
		service, _ := o.controller.object(source.Object{Kind: kindImport, Namespace: namespace, Name: of}).(*corev1.Service)
		return service, !o.stalled[proxypod.ResourceImports]
	}
	service, err := o.controller.inputs.Services.Core().V1().Services().Lister().Services(namespace).Get(name)
	if err != nil { // it does not exist: the cache has no other error
		return nil, true
	}
	return service, true
}

func (o *observed) config(namespace, name string) *appv1.GatewayConfig {
	config, err := o.controller.inputs.Configs.Lister().GatewayConfigs(namespace).Get(name)
	if err != nil { // it does not exist: the cache has no other error
		return nil
	}
	return config
}

// reported returns what the proxies of a data plane report of a subject.
func (o *observed) reported(of source.Subject) source.Report {
	name := model.Cut(source.LocalName(of.Plane.Namespace, of.Namespace, of.Name), model.MaxName)
	kind := leftConfigMap
	if of.Reason == appv1.ProblemInvalidUsersRef {
		kind = leftUsers
	}
	if left := o.leftProblem(of.Plane, leftOut{kind, of.Namespace, name}); left != "" && of.Reason != appv1.ProblemInvalidCertificateRef {
		return source.Report{Problem: left}
	}
	for _, problem := range o.live[of.Plane].Problems {
		isAt := of.Reason != appv1.ProblemInvalidCertificateRef || problem.Listener == of.Listener
		isBundle := problem.Origin.Kind == kindBundle
		if problem.Reason == of.Reason && problem.Origin.Name == name && isAt && isBundle == (of.Namespace == "") {
			return source.Report{Problem: problem.Message}
		}
	}
	return source.Report{Unknown: o.live[of.Plane].Omitted}
}

// Plane reports whether the proxies of a data plane run what our Gateway asks for.
func (o *observed) Plane(parent source.Parent) (live bool, reason, message string) {
	own := o.own[parent]
	if name := o.foreign[parent]; name != "" {
		return false, string(gatewayv1.GatewayReasonInvalid), fmt.Sprintf(
			"a Gateway of group %s is called %s and was not made for this one: rename one of them", appv1.GroupName, name)
	}
	if own == nil {
		return false, string(gatewayv1.GatewayReasonPending), "its proxies do not run yet"
	}
	c := meta.FindStatusCondition(own.Status.Conditions, appv1.ConditionProgrammed)
	switch {
	case c == nil || c.ObservedGeneration != own.Generation:
		return false, string(gatewayv1.GatewayReasonPending), "its proxies do not run yet"
	case c.Status != metav1.ConditionTrue:
		return false, string(gatewayv1.GatewayReasonPending), c.Message
	}
	return true, "", ""
}

// Addresses are the addresses of our Gateway.
func (o *observed) Addresses(parent source.Parent) []gatewayv1.GatewayStatusAddress {
	own := o.own[parent]
	if own == nil {
		return nil
	}
	var addresses []gatewayv1.GatewayStatusAddress
	for _, address := range own.Status.Addresses {
		addresses = append(addresses, gatewayv1.GatewayStatusAddress{Type: ptr.To(gatewayv1.AddressType(address.Type)), Value: address.Value})
	}
	return addresses
}

// ClusterIPs are the cluster IPs of the Service of our Gateway.
func (o *observed) ClusterIPs(parent source.Parent) []string {
	own := o.own[parent]
	if own == nil {
		return nil
	}
	service, _ := o.service(own.Namespace, proxypod.ChildName(own.Name))
	if service == nil || !metav1.IsControlledBy(service, own) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(service.Spec.ClusterIPs), func(ip string) bool { return ip == corev1.ClusterIPNone })
}
