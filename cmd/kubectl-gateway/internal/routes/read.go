package routes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/wait"
	"gateway/internal/source/ingress"
)

// Route is a route of any kind.
type Route struct {
	// Kind and Name are the object's. A route in a Gateway of our own kind is GATEWAY/ROUTE of kind Gateway.
	Kind      string   `json:"kind"`
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Hostnames []string `json:"hostnames"`
	// Gateways are those that the operator looked at the route for, as NAMESPACE/NAME.
	Gateways   []string               `json:"gateways"`
	Generation int64                  `json:"generation"`
	Programmed metav1.ConditionStatus `json:"programmed"`
	// Traffic is nil if nobody knows what requests there are.
	Traffic  *Traffic `json:"traffic,omitempty"`
	Problems []string `json:"problems,omitempty"`

	gateways []types.NamespacedName
	// log is the route's name in the access log, of requests or connections.
	log           string
	isConnections bool
}

// reader reads routes.
type reader struct {
	cli.Clients
	dynamic   dynamic.Interface
	namespace string
	// listenerSets are the Gateways of ListenerSets that routes name.
	listenerSets map[types.NamespacedName]types.NamespacedName
	// unread are the resources that the user may not list, and isRead reports whether another one could be.
	unread []string
	isRead bool
}

// resources are the kinds of routes that are objects, with their resources.
var resources = []struct{ kind, resource string }{{"HTTPRoute", "httproutes"}, {"GRPCRoute", "grpcroutes"}, {"TLSRoute", "tlsroutes"}, {"TCPRoute", "tcproutes"}}

// Read returns the routes of a namespace, "" for all, by namespace, kind and name, and the resources that the user may
// not list.
func Read(ctx context.Context, clients cli.Clients, namespace string) (routes []Route, unread []string, err error) {
	client, err := dynamic.NewForConfig(clients.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make a client: %w", err)
	}
	r := &reader{Clients: clients, dynamic: client, namespace: namespace, listenerSets: map[types.NamespacedName]types.NamespacedName{}}
	routes, err = r.read(ctx)
	return routes, r.unread, err
}

func (r *reader) read(ctx context.Context) ([]Route, error) {
	routes, err := r.own(ctx)
	if err != nil {
		return nil, err
	}
	made := map[types.NamespacedName]bool{}
	for _, of := range resources {
		objects, err := r.list(ctx, schema.GroupVersionResource{Group: gatewayv1.GroupName, Version: "v1", Resource: of.resource})
		if err != nil {
			return nil, err
		}
		for i := range objects {
			route, isOthers, err := r.attached(ctx, of.kind, &objects[i])
			if err != nil {
				return nil, err
			}
			if isOthers {
				continue
			}
			if route.Kind == "Ingress" {
				for name := range strings.SplitSeq(route.Name, ",") {
					made[types.NamespacedName{Namespace: route.Namespace, Name: name}] = true
				}
			}
			routes = append(routes, route)
		}
	}
	if !r.isRead {
		return nil, fmt.Errorf("you may list no routes: neither %s", strings.Join(r.unread, " nor "))
	}
	unserved, err := r.unserved(ctx, made)
	if err != nil {
		return nil, err
	}
	routes = append(routes, unserved...)
	slices.SortStableFunc(routes, func(a, b Route) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return routes, nil
}

// list returns objects of the namespace; none of a resource that the cluster does not have, or that the user may not
// list.
func (r *reader) list(ctx context.Context, resource schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	list, err := r.dynamic.Resource(resource).Namespace(r.namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		r.unread = append(r.unread, resource.GroupResource().String())
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("failed to list %s: %w", resource.Resource, err)
	}
	r.isRead = true
	return list.Items, nil
}

// own returns the routes in Gateways of our own kind.
func (r *reader) own(ctx context.Context) (routes []Route, err error) {
	gateways, err := r.Gateways.AppV1().Gateways(r.namespace).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		r.unread = append(r.unread, "gateways."+appv1.GroupName)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to list Gateways: %w", err)
	}
	r.isRead = true
	for i := range gateways.Items {
		gateway := &gateways.Items[i]
		name := types.NamespacedName{Namespace: gateway.Namespace, Name: gateway.Name}
		add := func(kind string, route appv1.Name, hostnames []appv1.Hostname) {
			routes = append(routes, Route{
				Kind: "Gateway", Namespace: gateway.Namespace, Name: gateway.Name + "/" + string(route), Hostnames: texts(hostnames), Gateways: []string{name.String()},
				Generation: gateway.Generation, Programmed: cli.Programmed(gateway), Problems: problems(gateway, kind, route),
				gateways: []types.NamespacedName{name}, log: string(route), isConnections: kind != "HTTPRoute",
			})
		}
		for _, route := range gateway.Spec.Routes {
			add("HTTPRoute", route.Name, route.Hostnames)
		}
		for _, route := range gateway.Spec.TLSRoutes {
			add("TLSRoute", route.Name, route.Hostnames)
		}
		for _, route := range gateway.Spec.TCPRoutes {
			add("TCPRoute", route.Name, nil)
		}
	}
	return routes, nil
}

// problems returns the problems of a route of a Gateway, and what keeps the Gateway from being live.
func problems(gateway *appv1.Gateway, kind string, name appv1.Name) []string {
	all := cli.RouteProblems(gateway, kind, name)
	if len(all) > 0 {
		return all
	}
	for _, c := range cli.BadConditions(gateway) {
		if c.Type == "" || c.Type == appv1.ConditionProgrammed {
			all = append(all, c.Message)
		}
	}
	return all
}

// attached returns a route that is an object, or what the operator made of Ingresses, and whether it belongs to other
// controllers alone.
func (r *reader) attached(ctx context.Context, kind string, object *unstructured.Unstructured) (Route, bool, error) {
	state, err := wait.Look(object)
	if err != nil {
		return Route{}, false, fmt.Errorf("%s %s/%s: %w", kind, object.GetNamespace(), object.GetName(), err)
	}
	parents, _, _ := unstructured.NestedSlice(object.Object, "status", "parents")
	hostnames, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "hostnames")
	name := object.GetNamespace() + "/" + object.GetName()
	route := Route{
		Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Hostnames: append([]string{}, hostnames...), Generation: object.GetGeneration(),
		Gateways: []string{}, Programmed: state.Programmed, log: name, isConnections: kind == "TLSRoute" || kind == "TCPRoute",
	}
	if kind == "GRPCRoute" {
		route.log = kind + "/" + name
	}
	if object.GetLabels()[ingress.LabelClass] != "" {
		var owners []string
		for _, owner := range object.GetOwnerReferences() {
			owners = append(owners, owner.Name)
		}
		if len(owners) > 0 {
			route.Kind, route.Name = "Ingress", strings.Join(owners, ",")
		}
	}
	if state.Why != "" {
		route.Problems = append(route.Problems, state.Why)
	}
	for _, problem := range state.Problems {
		if !strings.Contains(state.Why, problem) {
			route.Problems = append(route.Problems, problem)
		}
	}
	for _, parent := range state.Parents {
		if gateway := r.gateway(ctx, parent, route.Namespace); !slices.Contains(route.gateways, gateway) {
			route.gateways, route.Gateways = append(route.gateways, gateway), append(route.Gateways, gateway.String())
		}
	}
	return route, len(state.Parents) == 0 && len(parents) > 0, nil
}

// gateway returns the Gateway of a parent of a route.
func (r *reader) gateway(ctx context.Context, parent gatewayv1.ParentReference, namespace string) types.NamespacedName {
	name := types.NamespacedName{Namespace: namespace, Name: string(parent.Name)}
	if parent.Namespace != nil {
		name.Namespace = string(*parent.Namespace)
	}
	if parent.Kind == nil || *parent.Kind != "ListenerSet" {
		return name
	}
	if known, ok := r.listenerSets[name]; ok {
		return known
	}
	of := name // nobody knows better, if it may not be read
	if set, err := r.Routes.GatewayV1().ListenerSets(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{}); err == nil {
		of.Name = string(set.Spec.ParentRef.Name)
		if set.Spec.ParentRef.Namespace != nil {
			of.Namespace = string(*set.Spec.ParentRef.Namespace)
		}
	}
	r.listenerSets[name] = of
	return of
}

// unserved returns the Ingresses of the operator's classes of which nothing was made, if the user may read Ingresses
// and classes.
func (r *reader) unserved(ctx context.Context, made map[types.NamespacedName]bool) (routes []Route, err error) {
	version := networkingv1.SchemeGroupVersion
	classes, err := r.dynamic.Resource(version.WithResource("ingressclasses")).List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("failed to list IngressClasses: %w", err)
	}
	ours := map[string]bool{}
	for i := range classes.Items {
		controller, _, _ := unstructured.NestedString(classes.Items[i].Object, "spec", "controller")
		_, isAdopted := classes.Items[i].GetAnnotations()[ingress.AnnotationAdopted]
		ours[classes.Items[i].GetName()] = controller == ingress.Controller && !isAdopted
	}
	objects, err := r.list(ctx, version.WithResource("ingresses"))
	if err != nil {
		return nil, err
	}
	for i := range objects {
		object := &objects[i]
		class, _, _ := unstructured.NestedString(object.Object, "spec", "ingressClassName")
		if !ours[class] || made[types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}] {
			continue
		}
		route := Route{
			Kind: "Ingress", Namespace: object.GetNamespace(), Name: object.GetName(), Hostnames: []string{}, Gateways: []string{}, Generation: object.GetGeneration(),
			Programmed: metav1.ConditionFalse,
			Problems:   []string{fmt.Sprintf("it has no routes: see its events: kubectl -n %s describe ingress %s", object.GetNamespace(), object.GetName())},
		}
		rules, _, _ := unstructured.NestedSlice(object.Object, "spec", "rules")
		for _, rule := range cli.Maps(rules) {
			if host, ok := rule["host"].(string); ok {
				route.Hostnames = append(route.Hostnames, host)
			}
		}
		routes = append(routes, route)
	}
	return routes, nil
}

func texts[S ~string](all []S) []string {
	some := []string{}
	for _, s := range all {
		some = append(some, string(s))
	}
	return some
}
