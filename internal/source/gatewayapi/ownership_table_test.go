package gatewayapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/source/ingress"
)

// ownTeams lets each namespace use hostnames with its name.
var ownTeams = []appv1.HostnameRule{{Hostnames: []appv1.HostnamePattern{"*.{namespace}.io", "{namespace}.io"}}}

// TestHostnameOwnership: objects come in their order, as KIND NAMESPACE HOSTNAMES. Those of the namespace infra are the
// owner's. A listener of the Gateway is at port 80, and one for *.a.io at 443.
func TestHostnameOwnership(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		rules    []appv1.HostnameRule
		isShared bool
		objects  []string
		refused  []string
		// routes is how many a namespace may have; 0: any number.
		routes int32
	}{
		{name: "as the Gateway API has it", isShared: true, objects: []string{"HTTPRoute a x.io", "HTTPRoute b x.io", "ListenerSet c x.io", "HTTPRoute c"}},
		{name: "a hostname of another namespace", objects: []string{"HTTPRoute a x.io", "HTTPRoute b x.io", "HTTPRoute a x.io", "HTTPRoute b y.io"}, refused: []string{"HTTPRoute b x.io"}},
		{name: "of two kinds", objects: []string{"GRPCRoute a x.io", "HTTPRoute b x.io"}, refused: []string{"HTTPRoute b x.io"}},
		{name: "one of several hostnames", objects: []string{"HTTPRoute a x.io", "HTTPRoute b y.io x.io", "HTTPRoute c y.io"}, refused: []string{"HTTPRoute b y.io x.io"}},
		{name: "below a wildcard", objects: []string{"HTTPRoute a *.x.io", "HTTPRoute b w.x.io", "HTTPRoute b *.w.x.io", "HTTPRoute b x.io"}, refused: []string{"HTTPRoute b w.x.io", "HTTPRoute b *.w.x.io"}},
		{name: "a wildcard above", objects: []string{"HTTPRoute a w.x.io", "HTTPRoute b *.x.io", "HTTPRoute b *.w.x.io"}, refused: []string{"HTTPRoute b *.x.io"}},
		{name: "every host", objects: []string{"HTTPRoute a x.io", "HTTPRoute b", "HTTPRoute a"}, refused: []string{"HTTPRoute b"}},
		{name: "the owner's for every host", objects: []string{"HTTPRoute infra", "HTTPRoute infra *.x.io", "HTTPRoute a w.x.io", "HTTPRoute infra w.x.io"}},
		{name: "the owner's for one host", objects: []string{"HTTPRoute infra w.x.io", "HTTPRoute a w.x.io", "HTTPRoute b *.x.io"}, refused: []string{"HTTPRoute a w.x.io", "HTTPRoute b *.x.io"}},
		{name: "a ListenerSet", objects: []string{"HTTPRoute a x.io", "ListenerSet b x.io", "ListenerSet b *.y.io", "HTTPRoute a w.y.io"}, refused: []string{"ListenerSet b x.io", "HTTPRoute a w.y.io"}},
		{name: "a ListenerSet for every host", objects: []string{"HTTPRoute a x.io", "ListenerSet b"}, refused: []string{"ListenerSet b"}},
		{name: "the owner's ListenerSet", objects: []string{"ListenerSet infra *.x.io", "HTTPRoute a w.x.io", "ListenerSet b v.x.io"}},
		{name: "TLS that is passed through", objects: []string{"TLSRoute a w.a.io", "TLSRoute b w.a.io", "TLSRoute b", "TLSRoute c v.a.io", "HTTPRoute b w.a.io"}, refused: []string{"TLSRoute b w.a.io", "TLSRoute b", "HTTPRoute b w.a.io"}},
		{name: "a redirect to a host of others", objects: []string{"HTTPRoute a x.io", "Redirect b y.io", "Redirect b x.io"}, refused: []string{"Redirect b x.io"}},
		{name: "an Ingress", objects: []string{"HTTPRoute a x.io", "Ingress b x.io", "Ingress b y.io", "Ingress b *.io"}, refused: []string{"Ingress b x.io", "Ingress b *.io"}},
		{name: "a hostname of a route beyond the budget, which keeps it", routes: 1, objects: []string{"HTTPRoute a w.io", "HTTPRoute a x.io", "HTTPRoute b x.io", "HTTPRoute c y.io"},
			refused: []string{"HTTPRoute a x.io", "HTTPRoute b x.io"}},
		{name: "rules", rules: ownTeams, isShared: true,
			objects: []string{"HTTPRoute a w.a.io", "HTTPRoute b w.a.io", "HTTPRoute b *.io", "HTTPRoute b", "HTTPRoute b *.b.io", "HTTPRoute a a.io w.b.io", "ListenerSet a w.b.io", "ListenerSet a *.a.io", "ListenerSet a", "HTTPRoute infra x.io"},
			refused: []string{"HTTPRoute b w.a.io", "HTTPRoute b *.io", "HTTPRoute b", "HTTPRoute a a.io w.b.io", "ListenerSet a w.b.io", "ListenerSet a", "HTTPRoute infra x.io"}},
		{name: "rules for TLS and Ingresses", rules: ownTeams, isShared: true,
			objects: []string{"TLSRoute a", "TLSRoute a *.io", "TLSRoute b w.a.io", "TLSRoute b", "Ingress a w.a.io", "Ingress b w.a.io", "Redirect b b.io", "Redirect b a.io"},
			refused: []string{"TLSRoute b w.a.io", "TLSRoute b", "Ingress b w.a.io", "Redirect b a.io"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			w := &world{config: appv1.AllowedHostnames{Rules: test.rules, Ownership: appv1.HostnameOwnershipFirst}}
			if test.isShared {
				w.config.Ownership = ""
			}
			if test.routes > 0 {
				w.budget = &appv1.NamespaceBudget{Routes: &test.routes}
			}
			if got := w.refusedOf(t, test.objects); !slices.Equal(got, test.refused) {
				t.Errorf("refused are %q, want %q", got, test.refused)
			}
		})
	}
}

// refusedOf returns those objects that are not accepted because of their hostnames or a budget. Nothing is served of
// them.
func (w *world) refusedOf(t *testing.T, objects []string) []string {
	t.Helper()
	w.addGateway()
	for i, text := range objects {
		words := strings.Fields(text)
		w.add(t, words[0], metav1.ObjectMeta{
			Namespace: words[1], Name: fmt.Sprintf("o%d", i), CreationTimestamp: metav1.NewTime(time.Unix(int64(i), 0)),
		}, words[2:])
	}
	result := gatewayapi.Translate(w.Objects)
	compareAgent(t, w.Objects, result)
	status := result.Status(nil, allLive{})
	refused := map[string]bool{}
	note := func(name string, conditions []metav1.Condition) {
		accepted := meta.FindStatusCondition(conditions, string(gatewayv1.RouteConditionAccepted))
		if accepted.Status == metav1.ConditionFalse && slices.Contains([]string{appv1.ReasonHostnameNotAllowed, appv1.ReasonBudgetExceeded}, accepted.Reason) {
			refused[name] = true
		} else if accepted.Status != metav1.ConditionTrue {
			t.Errorf("%s: %+v", name, accepted)
		}
	}
	for id, parents := range status.Routes {
		note(id.Name, parents[0].Conditions)
	}
	for id, set := range status.ListenerSets {
		note(id.Name, set.Listeners[0].Conditions)
	}
	for _, plane := range result.Planes {
		for route := range plane.Routes.Values() {
			if refused[route.Origin.Name] {
				t.Errorf("%s is served", route.Name)
			}
		}
		for _, l := range plane.Listeners {
			if refused[l.Origin.Name] {
				t.Errorf("listener %s of %s is served", l.Name, l.Origin.Name)
			}
		}
	}
	var all []string
	for i, text := range objects {
		if refused[fmt.Sprintf("o%d", i)] {
			all = append(all, text)
		}
	}
	return all
}

// addGateway adds the Gateway of the owner.
func (w *world) addGateway() {
	all := &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}}
	w.Classes = []*gatewayv1.GatewayClass{{ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Spec: gatewayv1.GatewayClassSpec{
		ControllerName: gatewayapi.ControllerName,
		ParametersRef:  &gatewayv1.ParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Namespace: ptr.To[gatewayv1.Namespace]("infra"), Name: "shared"},
	}}}
	w.Config = func(string, string) *appv1.GatewayConfig {
		return &appv1.GatewayConfig{Spec: appv1.GatewayConfigSpec{AllowedHostnames: &w.config, NamespaceBudget: w.budget}}
	}
	w.Gateways = []*gatewayv1.Gateway{{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "shared"}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "ours", AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)}},
		Listeners: []gatewayv1.Listener{
			{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType, AllowedRoutes: all},
			{Name: "tls", Port: 443, Protocol: gatewayv1.TLSProtocolType, Hostname: ptr.To[gatewayv1.Hostname]("*.a.io"), AllowedRoutes: all, TLS: &gatewayv1.ListenerTLSConfig{Mode: ptr.To(gatewayv1.TLSModePassthrough)}},
		},
	}}}
}

// add adds an object with hostnames.
func (w *world) add(t *testing.T, kind string, named metav1.ObjectMeta, names []string) {
	t.Helper()
	parents := gatewayv1.CommonRouteSpec{ParentRefs: []gatewayv1.ParentReference{{Namespace: ptr.To[gatewayv1.Namespace]("infra"), Name: "shared"}}}
	var hostnames []gatewayv1.Hostname
	for _, name := range names {
		hostnames = append(hostnames, gatewayv1.Hostname(name))
	}
	switch kind {
	case "HTTPRoute":
		w.HTTPRoutes = append(w.HTTPRoutes, &gatewayv1.HTTPRoute{ObjectMeta: named, Spec: gatewayv1.HTTPRouteSpec{CommonRouteSpec: parents, Hostnames: hostnames}})
	case "Redirect":
		to := gatewayv1.HTTPRouteRule{Filters: []gatewayv1.HTTPRouteFilter{{
			Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: &gatewayv1.HTTPRequestRedirectFilter{Hostname: ptr.To[gatewayv1.PreciseHostname]("x.io")},
		}}}
		w.HTTPRoutes = append(w.HTTPRoutes, &gatewayv1.HTTPRoute{ObjectMeta: named, Spec: gatewayv1.HTTPRouteSpec{CommonRouteSpec: parents, Hostnames: hostnames, Rules: []gatewayv1.HTTPRouteRule{to}}})
	case "GRPCRoute":
		w.GRPCRoutes = append(w.GRPCRoutes, &gatewayv1.GRPCRoute{ObjectMeta: named, Spec: gatewayv1.GRPCRouteSpec{CommonRouteSpec: parents, Hostnames: hostnames}})
	case "TLSRoute":
		parents.ParentRefs[0].SectionName = ptr.To[gatewayv1.SectionName]("tls")
		w.TLSRoutes = append(w.TLSRoutes, &gatewayv1.TLSRoute{ObjectMeta: named, Spec: gatewayv1.TLSRouteSpec{CommonRouteSpec: parents, Hostnames: hostnames, Rules: []gatewayv1.TLSRouteRule{{}}}})
	case "ListenerSet":
		set := &gatewayv1.ListenerSet{ObjectMeta: named}
		set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Namespace: ptr.To[gatewayv1.Namespace]("infra"), Name: "shared"}
		l := gatewayv1.ListenerEntry{Name: "http", Port: 8080, Protocol: gatewayv1.HTTPProtocolType}
		if len(hostnames) > 0 {
			l.Hostname = &hostnames[0]
		}
		set.Spec.Listeners = []gatewayv1.ListenerEntry{l}
		w.ListenerSets = append(w.ListenerSets, set)
	case "Ingress":
		w.addIngress(t, named, names[0])
	default:
		t.Fatalf("unknown kind %s", kind)
	}
}

// addIngress adds the HTTPRoute that an Ingress becomes, as old as it.
func (w *world) addIngress(t *testing.T, named metav1.ObjectMeta, host string) {
	t.Helper()
	rule := networkingv1.IngressRule{Host: host, IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{Paths: []networkingv1.HTTPIngressPath{{
		Path: "/", PathType: ptr.To(networkingv1.PathTypePrefix),
		Backend: networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}}},
	}}}}}
	one := &networkingv1.Ingress{ObjectMeta: named, Spec: networkingv1.IngressSpec{IngressClassName: ptr.To("nginx"), Rules: []networkingv1.IngressRule{rule}}}
	made := 0
	for _, object := range ingress.Translate(ingress.Input{Ingresses: []*networkingv1.Ingress{one}, Name: "shared", Namespace: "infra", Class: "nginx"}).Objects {
		if route, ok := object.(*gatewayv1.HTTPRoute); ok && route.Namespace == named.Namespace {
			route.Name, route.CreationTimestamp = named.Name, named.CreationTimestamp
			w.HTTPRoutes = append(w.HTTPRoutes, route)
			made++
		}
	}
	if made != 1 {
		t.Fatalf("the Ingress became %d HTTPRoutes", made)
	}
}
