package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/operator/children"
	"gateway/internal/operator/status"
	source "gateway/internal/source/gatewayapi"
)

// observed is the state of the cluster in one evaluation.
type observed struct {
	source.Objects
	controller *Controller
	// own are our Gateways by the Gateway that they are for, or that routes name.
	own map[source.Parent]*appv1.Gateway
	// live is what their proxies run.
	live map[source.Parent]status.Live
	// foreign are the names of Gateways that are in the way of those that have to be made.
	foreign map[source.Parent]string
	// unknown are the Gateways and ListenerSets that could not be evaluated: what there is for them stays as it is.
	unknown map[source.Parent]bool
	// stalled are the resources that the API server does not list.
	stalled map[string]bool
	// read is what proxies run by what the API server has, of those data planes that it was asked about. readErr is why
	// it could not be asked, and reading how long the answers took.
	ctx     context.Context //nolint:containedctx // that of the sync
	read    map[source.Parent]status.Live
	readErr error
	reading time.Duration
}

// confirmation names a data plane for which the API server was asked whether all proxies run an object.
type confirmation struct {
	plane  source.Parent
	object types.UID
}

// version is the first resourceVersion that was seen of a generation.
type version struct {
	generation      int64
	resourceVersion string
}

// observe collects the state of the cluster from the caches.
func (c *Controller) observe(ctx context.Context) (*observed, error) {
	o := &observed{
		controller: c, own: map[source.Parent]*appv1.Gateway{}, live: map[source.Parent]status.Live{}, foreign: map[source.Parent]string{},
		ctx: ctx, read: map[source.Parent]status.Live{},
	}
	o.stalled = c.stalledResources()
	o.Classes = list[*gatewayv1.GatewayClass](c, "gatewayclasses")
	o.Gateways = list[*gatewayv1.Gateway](c, "gateways")
	o.ListenerSets = list[*gatewayv1.ListenerSet](c, "listenersets")
	o.HTTPRoutes = list[*gatewayv1.HTTPRoute](c, "httproutes")
	o.GRPCRoutes = list[*gatewayv1.GRPCRoute](c, "grpcroutes")
	o.TLSRoutes = list[*gatewayv1.TLSRoute](c, "tlsroutes")
	o.TCPRoutes = list[*gatewayv1.TCPRoute](c, "tcproutes")
	o.UDPRoutes = list[*gatewayv1.UDPRoute](c, "udproutes")
	o.Policies = list[*gatewayv1.BackendTLSPolicy](c, "backendtlspolicies")
	o.Grants = list[*gatewayv1.ReferenceGrant](c, "referencegrants")
	for _, obj := range c.inputs.Filters.Informer().GetStore().List() {
		o.Filters = append(o.Filters, obj.(*appv1.RouteFilter))
	}
	for _, obj := range c.inputs.Policies.Informer().GetStore().List() {
		o.BackendPolicies = append(o.BackendPolicies, obj.(*appv1.BackendPolicy))
	}
	o.Namespaces = map[string]labels.Set{}
	for _, obj := range c.inputs.Namespaces.GetStore().List() {
		namespace := obj.(metav1.Object)
		o.Namespaces[namespace.GetName()] = namespace.GetLabels()
	}
	o.Service, o.Config, o.Reported = o.service, o.config, o.reported
	c.noteVersions(o)
	return o, o.addOwn()
}

// list returns the objects of a resource.
func list[T metav1.Object](c *Controller, resource string) []T {
	informer := c.informer(resource)
	if informer == nil {
		return nil
	}
	var all []T
	for _, obj := range informer.GetStore().List() {
		all = append(all, obj.(T))
	}
	return all
}

// noteVersions notes the first version of each generation, for all objects whose status is written or that proxies
// report. Later versions differ in the status only, so a proxy that runs one runs the generation.
func (c *Controller) noteVersions(o *observed) {
	seen := make(map[types.UID]version, len(c.firstSeen))
	note := func(object metav1.Object) {
		v, ok := c.firstSeen[object.GetUID()]
		if !ok || v.generation != object.GetGeneration() {
			v = version{object.GetGeneration(), object.GetResourceVersion()}
		}
		seen[object.GetUID()] = v
	}
	noteAll(o.Classes, note)
	noteAll(o.Gateways, note)
	noteAll(o.ListenerSets, note)
	noteAll(o.HTTPRoutes, note)
	noteAll(o.GRPCRoutes, note)
	noteAll(o.TLSRoutes, note)
	noteAll(o.TCPRoutes, note)
	noteAll(o.UDPRoutes, note)
	noteAll(o.Policies, note)
	noteAll(o.Filters, note)
	noteAll(o.BackendPolicies, note)
	c.firstSeen = seen
	maps.DeleteFunc(c.confirmed, func(of confirmation, generation int64) bool { return seen[of.object].generation != generation })
}

func noteAll[T metav1.Object](objects []T, note func(metav1.Object)) {
	for _, object := range objects {
		note(object)
	}
}

// addOwn adds our Gateways: those created for Gateways of the Gateway API, and those that routes name.
func (o *observed) addOwn() error {
	for _, gateway := range o.Gateways {
		parent := source.GatewayParent(gateway.Namespace, gateway.Name)
		own := o.controller.ownGateway(gateway.Namespace, source.DataPlaneName(gateway.Name))
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
	refer := func(namespace string, refs []gatewayv1.ParentReference) error {
		for _, ref := range refs {
			if ptr.Deref(ref.Group, gatewayv1.GroupName) != appv1.GroupName {
				continue
			}
			parent := source.OwnParent(string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(namespace))), string(ref.Name))
			own := o.controller.ownGateway(parent.Namespace, parent.Name)
			if o.own[parent] != nil || own == nil {
				continue
			}
			o.Own = append(o.Own, own)
			if err := o.addLive(parent, own); err != nil {
				return err
			}
		}
		return nil
	}
	return eachRoute(&o.Objects, func(_ string, route metav1.Object, spec *gatewayv1.CommonRouteSpec, _ *gatewayv1.RouteStatus) error {
		return refer(route.GetNamespace(), spec.ParentRefs)
	})
}

// eachRoute calls a function for the routes of all kinds.
func eachRoute(
	objects *source.Objects, do func(kind string, route metav1.Object, spec *gatewayv1.CommonRouteSpec, status *gatewayv1.RouteStatus) error,
) error {
	for _, r := range objects.HTTPRoutes {
		if err := do("HTTPRoute", r, &r.Spec.CommonRouteSpec, &r.Status.RouteStatus); err != nil {
			return err
		}
	}
	for _, r := range objects.GRPCRoutes {
		if err := do("GRPCRoute", r, &r.Spec.CommonRouteSpec, &r.Status.RouteStatus); err != nil {
			return err
		}
	}
	for _, r := range objects.TLSRoutes {
		if err := do("TLSRoute", r, &r.Spec.CommonRouteSpec, &r.Status.RouteStatus); err != nil {
			return err
		}
	}
	for _, r := range objects.TCPRoutes {
		if err := do("TCPRoute", r, &r.Spec.CommonRouteSpec, &r.Status.RouteStatus); err != nil {
			return err
		}
	}
	for _, r := range objects.UDPRoutes {
		if err := do("UDPRoute", r, &r.Spec.CommonRouteSpec, &r.Status.RouteStatus); err != nil {
			return err
		}
	}
	return nil
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
func (o *observed) addLive(parent source.Parent, own *appv1.Gateway) error {
	key := cache.MetaObjectToName(own).String()
	found, err := o.controller.inputs.Endpoints.GetIndexer().ByIndex(children.IndexOwner, key)
	if err != nil {
		return fmt.Errorf("failed to look up EndpointSlices of Gateway %s: %w", key, err)
	}
	var slices []*discoveryv1.EndpointSlice
	for _, obj := range found {
		slices = append(slices, obj.(*discoveryv1.EndpointSlice))
	}
	if found, err = o.controller.inputs.Proxies.GetIndexer().ByIndex(children.IndexOwner, key); err != nil {
		return fmt.Errorf("failed to look up GatewayProxies of Gateway %s: %w", key, err)
	}
	var reports []*appv1.GatewayProxy
	for _, obj := range found {
		reports = append(reports, obj.(*appv1.GatewayProxy))
	}
	o.own[parent], o.live[parent] = own, status.LiveOf(own, slices, reports)
	return nil
}

func (o *observed) service(namespace, name string) (*corev1.Service, bool) {
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
	name := source.LocalName(of.Plane.Namespace, of.Namespace, of.Name)
	for _, problem := range o.live[of.Plane].Problems {
		isAt := of.Reason != appv1.ProblemInvalidCertificateRef || problem.Listener == of.Listener
		if problem.Reason == of.Reason && problem.Origin.Name == name && isAt {
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

// Addresses are those of our Gateway.
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

// Object reports whether all proxies of a data plane run an object. Before it does so for the first time for a
// generation, it asks the API server: the caches may lack a pod that is about to receive traffic.
func (o *observed) Object(parent source.Parent, resource string, object metav1.Object) bool {
	of := confirmation{parent, object.GetUID()}
	if _, ok := o.controller.confirmed[of]; ok {
		return true
	}
	first := o.controller.firstSeen[object.GetUID()]
	isLive := func(live status.Live) bool { return live.Has(resource, object.GetNamespace(), first.resourceVersion) }
	if !isLive(o.live[parent]) || !isLive(o.liveNow(parent)) {
		return false
	}
	o.controller.confirmed[of] = first.generation
	return true
}

// liveNow returns what the proxies of a data plane run, by the API server. It asks once for all objects.
func (o *observed) liveNow(parent source.Parent) status.Live {
	live, ok := o.read[parent]
	if ok {
		return live
	}
	begin := time.Now()
	slices, reports, err := children.ListProxies(o.ctx, o.controller.Kube, o.controller.Gateways, o.own[parent])
	o.reading += time.Since(begin)
	if err != nil {
		o.readErr = errors.Join(o.readErr, err)
	} else {
		live = status.LiveOf(o.own[parent], slices, reports)
	}
	o.read[parent] = live
	return live
}
