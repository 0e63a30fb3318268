package gatewayapi

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/apisx/v1alpha1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/few"
	"gateway/internal/kinds"
	"gateway/internal/model"
	source "gateway/internal/source/appv1"
	"gateway/internal/tree"
)

// ControllerName is the controllerName of our GatewayClasses.
const ControllerName gatewayv1.GatewayController = "app.example.com/gateway"

// Objects are the objects of a cluster, or of files. None of them is changed.
type Objects struct {
	Classes      []*gatewayv1.GatewayClass
	Gateways     []*gatewayv1.Gateway
	ListenerSets []*gatewayv1.ListenerSet
	HTTPRoutes   []*gatewayv1.HTTPRoute
	GRPCRoutes   []*gatewayv1.GRPCRoute
	TLSRoutes    []*gatewayv1.TLSRoute
	TCPRoutes    []*gatewayv1.TCPRoute
	UDPRoutes    []*gatewayv1.UDPRoute
	Policies     []*gatewayv1.BackendTLSPolicy
	Grants       []*gatewayv1.ReferenceGrant
	Filters      []*appv1.RouteFilter
	// Telemetry are the policies for traces, of the experimental channel. The operator alone has them.
	Telemetry []*v1alpha1.XTelemetryPolicy
	// BackendPolicies are of our own group.
	BackendPolicies []*appv1.BackendPolicy
	// ListenerFilters are the filters of all HTTP and HTTPS listeners, with their limit of bodies, unless a GatewayConfig
	// has some. Agents take them from the Gateway of our own. While that has no such listener, FiltersUnknown keeps them
	// closed.
	ListenerFilters source.Filters
	FiltersUnknown  bool
	// ProxyProtocol is the version of the PROXY headers that all listeners take, unless a GatewayConfig has one. Agents
	// take it from the Gateway of our own.
	ProxyProtocol appv1.ProxyProtocolVersion
	// TLS is how listeners that terminate TLS speak it, unless a GatewayConfig has settings. Agents take it from the
	// Gateway of our own.
	TLS appv1.TLSSettings
	// Hostnames are which namespaces may use which hostnames, unless a GatewayConfig says so. Agents take them from the
	// Gateway of our own.
	Hostnames *appv1.AllowedHostnames
	// Budget is how much of a data plane each namespace may have, unless a GatewayConfig says it. Agents take it from the
	// Gateway of our own.
	Budget *appv1.NamespaceBudget
	// NoTrustBundles reports whether the cluster has no ClusterTrustBundles. Agents find out by themselves.
	NoTrustBundles bool
	// Own are our own Gateways, which routes may name as parents.
	Own []*appv1.Gateway
	// Namespaces are the labels of namespaces, by name. One that is not there has its name as a label and no other.
	Namespaces map[string]labels.Set
	// MaxCertificates is how many Secrets with certificates the pods of a data plane mount, 0 if that is not limited. Only
	// the operator has it: agents serve what they get.
	MaxCertificates int
	// Service returns a Service, nil if there is none. False means that it is unknown: it is taken to have whatever port
	// is asked for. Nil: nobody knows any.
	Service func(namespace, name string) (*corev1.Service, bool)
	// Reported returns what the proxies of a data plane report of an object that they mount, or of a URL. Nil: nothing is
	// wrong with any. It is in the status, and in nothing else: the proxies find out for themselves, and pods that lacked
	// what is reported could not.
	Reported func(Subject) Report
	// Config returns a GatewayConfig, nil if there is none. Nil: there are none.
	Config func(namespace, name string) *appv1.GatewayConfig
}

// KindOwn is the kind of Gateways of our own, among Objects.
const KindOwn = "Gateway of our own"

// list is what Objects have of a kind: how to add an object, which reports whether it is of the kind, and to keep those
// that a function selects.
type list struct {
	add  func(to *Objects, object any) bool
	keep func(of *Objects, keep func(kind string, object metav1.Object) bool)
}

func listOf[T metav1.Object](kind string, of func(*Objects) *[]T) list {
	return list{
		func(to *Objects, obj any) bool {
			object, ok := obj.(T)
			if ok {
				*of(to) = append(*of(to), object)
			}
			return ok
		},
		func(all *Objects, keep func(kind string, object metav1.Object) bool) {
			var some []T
			for _, object := range *of(all) {
				if keep(kind, object) {
					some = append(some, object)
				}
			}
			*of(all) = some
		},
	}
}

// lists has a list of each kind, owners first.
var lists = []list{
	listOf(kindClass, func(o *Objects) *[]*gatewayv1.GatewayClass { return &o.Classes }),
	listOf(kindGateway, func(o *Objects) *[]*gatewayv1.Gateway { return &o.Gateways }),
	listOf(KindOwn, func(o *Objects) *[]*appv1.Gateway { return &o.Own }),
	listOf(kindListenerSet, func(o *Objects) *[]*gatewayv1.ListenerSet { return &o.ListenerSets }),
	listOf(kindGrant, func(o *Objects) *[]*gatewayv1.ReferenceGrant { return &o.Grants }),
	listOf(kindFilter, func(o *Objects) *[]*appv1.RouteFilter { return &o.Filters }),
	listOf(kindTLSPolicy, func(o *Objects) *[]*gatewayv1.BackendTLSPolicy { return &o.Policies }),
	listOf(kindTelemetry, func(o *Objects) *[]*v1alpha1.XTelemetryPolicy { return &o.Telemetry }),
	listOf(kindBackendPolicy, func(o *Objects) *[]*appv1.BackendPolicy { return &o.BackendPolicies }),
	listOf("HTTPRoute", func(o *Objects) *[]*gatewayv1.HTTPRoute { return &o.HTTPRoutes }),
	listOf("GRPCRoute", func(o *Objects) *[]*gatewayv1.GRPCRoute { return &o.GRPCRoutes }),
	listOf("TLSRoute", func(o *Objects) *[]*gatewayv1.TLSRoute { return &o.TLSRoutes }),
	listOf("TCPRoute", func(o *Objects) *[]*gatewayv1.TCPRoute { return &o.TCPRoutes }),
	listOf("UDPRoute", func(o *Objects) *[]*gatewayv1.UDPRoute { return &o.UDPRoutes }),
}

// Add adds an object. Of other kinds, it adds none.
func (o *Objects) Add(object any) {
	for _, list := range lists {
		if list.add(o, object) {
			return
		}
	}
}

// Only returns the objects that keep selects. It is asked about owners first.
func (o *Objects) Only(keep func(kind string, object metav1.Object) bool) Objects {
	some := *o
	for _, list := range lists {
		list.keep(&some, keep)
	}
	return some
}

// Each calls f for all objects, owners first.
func (o *Objects) Each(f func(kind string, object metav1.Object)) {
	o.Only(func(kind string, object metav1.Object) bool {
		f(kind, object)
		return false
	})
}

// IsRoute reports whether objects of a kind are routes.
func IsRoute(kind string) bool {
	return slices.Contains(kinds.Routes, kind)
}

// Subject is something that proxies of a data plane may report a problem about.
type Subject struct {
	Plane  Parent
	Reason appv1.ProxyProblemReason
	// Listener is the name, in the model, of the listener that a certificate is for; "" if it is for none.
	Listener string
	// Namespace and Name name a Secret or ConfigMap. Name may be a URL. A ClusterTrustBundle has no namespace.
	Namespace, Name string
}

// Report is what proxies report about a subject.
type Report struct {
	// Problem is its problem, "" if there is none.
	Problem string
	// Unknown is why nobody knows whether anything is, "" if somebody does.
	Unknown string
}

// Result is the models of objects, and their status.
type Result struct {
	// Planes are what each data plane does, by the Gateway that it is for.
	Planes map[Parent]*model.Gateway
	Changes
	t *translator
}

// The groups and kinds of what routes belong to.
const (
	kindGateway     = "Gateway"
	kindListenerSet = "ListenerSet"
	kindClass       = "GatewayClass"
	// kindBackendPolicy is not a parent of routes. Its objects are live like theirs.
	kindBackendPolicy = "BackendPolicy"
)

// Parent is an object that routes attach to: a Gateway of one of the two groups, or a ListenerSet.
type Parent struct {
	Group, Kind, Namespace, Name string
}

// GatewayParent returns the parent that a Gateway of the Gateway API is.
func GatewayParent(namespace, name string) Parent {
	return Parent{gatewayv1.GroupName, kindGateway, namespace, name}
}

// SetParent returns the parent that a ListenerSet is.
func SetParent(namespace, name string) Parent {
	return Parent{gatewayv1.GroupName, kindListenerSet, namespace, name}
}

// OwnParent returns the parent that a Gateway of our own is.
func OwnParent(namespace, name string) Parent {
	return Parent{appv1.GroupName, kindGateway, namespace, name}
}

// translator makes a Result.
type translator struct {
	Objects
	// classes are our GatewayClasses, by name.
	classes map[string]*gatewayv1.GatewayClass
	// planes are in the order of the objects they are for.
	planes  []*plane
	parents map[Parent]*parent
	// routes are all routes, order has them by their keys, and dependents are the routes that depend on an object.
	routes     map[Object]*route
	order      tree.Editor[*route]
	dependents map[Object]few.Counts[*route]
	// translating is the route that is translated now, and isMakingPlanes reports whether data planes are made.
	translating    *route
	isMakingPlanes bool
	// making is the listener that is made now.
	making *listener
	// sets are those ListenerSets whose listeners depend on a ReferenceGrant, or what proxies report of an object.
	sets map[Object][]*parent
	// grants are the ReferenceGrants that data planes depend on by themselves.
	grants map[Object]bool
	// configs are the GatewayConfigs that are named.
	configs map[types.NamespacedName]bool
	filters map[Object]*appv1.RouteFilter
	// tlsPolicies and settings are the BackendTLSPolicies and BackendPolicies.
	tlsPolicies policies[*gatewayv1.BackendTLSPolicy]
	settings    policies[*appv1.BackendPolicy]
	// uses are where policies are used. otherUses reports whether that changed, and changes are what else did.
	uses      map[Object]*usage
	otherUses bool
	changes   Changes
	// live and compiling say what is, for the status.
	live      Live
	compiling func(plane Parent, route Object) []model.Problem
}

// plane is a data plane in the making.
type plane struct {
	parent Parent
	// gateway is the Gateway of the Gateway API that it is for; nil if it is one of our own.
	gateway *gatewayv1.Gateway
	// listeners are the listeners of the Gateway, then of the ListenerSets that it allows, in the order of precedence.
	listeners []*listener
	// sets are the ListenerSets that name it.
	sets []*parent
	// refused is why it cannot be, resolved the problems of its references.
	refused, resolved verdict
	// noCertificate is why backends cannot be shown the certificate that the Gateway names.
	noCertificate string
	to            model.Gateway
	// routes are the routes of the model.
	routes tree.Editor[*model.Route]
	// addresses are the ones that the Gateway asks for, but for cluster IPs. isInCluster reports whether it asks for
	// cluster IPs alone, and isUnreachable whether it asks for nothing that a Service can have.
	addresses                  []string
	isInCluster, isUnreachable bool
	// used are how many routes send requests and connections to Service ports, passed those that send TLS there that is
	// passed through. stale are the ports whose policies have to be chosen again.
	used, passed map[model.Backend]int
	stale        map[model.Backend]bool
	// ownPolicies are the policies of our own Gateway. choices are what is chosen of policies for Service ports.
	ownPolicies map[model.Backend]model.BackendPolicy
	choices     map[model.Backend]*choice
	// fixed are the Services, and what is reported, that it depends on without routes. asked are the Service ports that
	// filters of its listeners ask.
	fixed map[Object]bool
	asked []model.Backend
	// ownProblems are the problems of the Gateway and its listeners, policyProblems of policies, and problems of routes,
	// by their keys.
	ownProblems, policyProblems []model.Problem
	problems                    map[string][]model.Problem
	// places are the places of its listeners. atPorts are the ports of those that are served, and mounted the certificates
	// of these, with how often. isFull reports whether listeners are left out, as there are too many ports or
	// certificates.
	places  places
	atPorts map[int32]int
	mounted map[string]int
	isFull  bool
	// own is what the settings of the data plane are in: one of our own Gateways, or what a class and a Gateway ask for.
	own *appv1.GatewaySpec
	// telemetry are the policies for its traces, in the order of precedence.
	telemetry []telemetry
	// filters are the filters of its HTTP and HTTPS listeners, if it is for a Gateway of the Gateway API.
	filters source.Filters
	// proxyProtocol is the version of the PROXY headers that its listeners take.
	proxyProtocol appv1.ProxyProtocolVersion
	// tls is how its listeners that terminate TLS speak it.
	tls appv1.TLSSettings
	// ownership is which namespaces may use which hostnames.
	ownership ownership
	// budget is what each namespace may have of it.
	budget budget
	// selectors are the keys of the labels that it selects namespaces by, and selects reports whether it does; nil: they
	// have not been asked for.
	selectors map[string]bool
	selects   *bool
	attached
}

// parent is something that routes may name.
type parent struct {
	Parent
	plane     *plane
	listeners []*listener
	// set is the ListenerSet, if it is one; allowed reports whether its Gateway lets it add listeners.
	set     *gatewayv1.ListenerSet
	allowed bool
	// charged is what its listeners have of the budget.
	charged amounts
}

// before orders objects by precedence: the oldest first, then by NAMESPACE/NAME as a text.
func before(a, b metav1.Object) int {
	x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(x.Compare(y.Time), strings.Compare(a.GetNamespace()+"/", b.GetNamespace()+"/"), strings.Compare(a.GetName(), b.GetName()))
}

func sorted[T metav1.Object](objects []T) []T {
	objects = slices.Clone(objects)
	slices.SortStableFunc(objects, func(a, b T) int { return before(a, b) })
	return objects
}

// origin returns the origin of a part of the model.
func origin(kind string, object metav1.Object) model.Origin {
	return model.Origin{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Generation: object.GetGeneration()}
}
