package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	source "gateway/internal/source/appv1"
)

func conditionsOf(conditions []metav1.Condition) string {
	var all []string
	for _, c := range conditions {
		all = append(all, fmt.Sprintf("%s=%s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(all, " | ")
}

func TestListeners(t *testing.T) {
	gateway := newGateway(withListener("https", []string{"good", "bad", "worse"}, []string{"staff"}), func(gateway *appv1.Gateway) {
		gateway.Spec.Listeners = append(gateway.Spec.Listeners,
			appv1.Listener{Name: "http", Protocol: appv1.ProtocolHTTP, HTTPSRedirect: &appv1.HTTPSRedirect{}},
			appv1.Listener{Name: "tcp", Protocol: appv1.ProtocolTCP})
		gateway.Spec.Listeners[0].Protocol = appv1.ProtocolHTTPS
	}, withRoute("shop"), withRoute("blog"), withConnections(appv1.ProtocolTCP, "db", 5432))
	observed := reporting(slicesOf(ready("a")), leavingOut("a",
		problem("https", "ConfigMap", "staff", "no ca.crt"), problem("https", "Secret", "bad", "it expired"), problem("https", "Secret", "worse", "no key")))
	observed.Routes = source.Translate(gateway).Routes
	var got []string
	for _, listener := range Compute(gateway, observed, now).Listeners {
		got = append(got, fmt.Sprintf("%s %d %s", listener.Name, listener.AttachedRoutes, conditionsOf(listener.Conditions)))
	}
	want := []string{"https 2 ResolvedRefs=False InvalidCertificateRef: it expired; no key; no ca.crt", "http 0 ", "tcp 1 "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	// The objects that its filters name are reported there, too.
	gateway.Spec.Listeners[1].Filters = []appv1.RuleFilter{{
		Type: appv1.RuleFilterExternalAuth, ExternalAuth: &appv1.ExternalAuth{BackendRef: appv1.ExternalAuthBackendRef{Name: "gone", Port: 80}},
	}}
	const told = `ResolvedRefs=False BackendNotFound: listener "http": Service web/gone does not exist: create it or change the listener`
	if got := conditionsOf(Compute(gateway, observed, now).Listeners[1].Conditions); got != told {
		t.Errorf("got %q, want %q", got, told)
	}
	// But not if it is for a Gateway of the Gateway API, which tells it itself.
	gateway.OwnerReferences = []metav1.OwnerReference{{APIVersion: "gateway.networking.k8s.io/v1", Kind: "Gateway", Name: "shop", Controller: new(true)}}
	if got := conditionsOf(Compute(gateway, observed, now).Listeners[1].Conditions); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

func TestRoutes(t *testing.T) {
	gateway := newGateway(withRoute("fine"), withRoute("db", to("cart", 80), to("till", 80)), withConnections(appv1.ProtocolTCP, "db", 5432))
	observed := Observed{Problems: []model.Problem{
		{RouteKind: "TCPRoute", Route: "db", Reason: model.ReasonNoMatchingListenerHostname, Message: "no listener"},
		{RouteKind: "TCPRoute", Route: "db", Reason: model.ReasonUnsupportedValue, Message: "no such thing"},
		{Reason: model.ReasonUnusedBackend, Message: "about no route"},
	}}
	var got []string
	for _, route := range Compute(gateway, observed, now).Routes {
		got = append(got, fmt.Sprintf("%s %s %s", route.Kind, route.Name, conditionsOf(route.Conditions)))
	}
	want := []string{
		"TCPRoute db Accepted=False NoMatchingListenerHostname: no listener; no such thing | " +
			`ResolvedRefs=False BackendNotFound: TCP route "db": Service web/db does not exist: create it or change the route`,
		`HTTPRoute db ResolvedRefs=False BackendNotFound: route "db": Service web/cart does not exist: create it or change the route; ` +
			`route "db": Service web/till does not exist: create it or change the route`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFiltersInShadow: the condition Shadow names them, and is not there without any.
func TestFiltersInShadow(t *testing.T) {
	shadow := []appv1.ShadowFilter{"RateLimit", "maxRequestBytes"}
	gateway := newGateway(withRoute("a"), withRoute("b"), func(g *appv1.Gateway) {
		g.Spec.Listeners = []appv1.Listener{{Name: "http"}, {Name: "open", Shadow: shadow}}
		g.Spec.Routes[1].Rules[0].MaxRequestBytes = new(int64(1))
		g.Spec.Routes[1].Rules[0].Shadow = shadow // It has no RateLimit.
	})
	routes := source.Translate(gateway).Routes
	got := meta.FindStatusCondition(Compute(gateway, Observed{Routes: routes}, now).Conditions, appv1.ConditionShadow)
	const want = `what these would refuse is let through: listener "open": RateLimit, maxRequestBytes; route "b" rules[0]: maxRequestBytes`
	if got == nil || got.Status != metav1.ConditionTrue || got.Reason != ReasonShadow || got.Message != want {
		t.Errorf("got %+v, want %s", got, want)
	}
	if got := meta.FindStatusCondition(Compute(newGateway(withRoute("a")), Observed{}, now).Conditions, appv1.ConditionShadow); got != nil {
		t.Errorf("got %+v without any", got)
	}
}

// A condition of a route or listener that stays False keeps its time.
func TestRoutesKeepTheirTransitionTime(t *testing.T) {
	gateway := newGateway(withListener("https", []string{"bad"}, nil), withRoute("shop", to("cart", 80)))
	observed := reporting(slicesOf(ready("a")), leavingOut("a", problem("https", "Secret", "bad", "it expired")))
	gateway.Status = Compute(gateway, observed, before)
	gateway.Generation++
	again := Compute(gateway, observed, now)
	for _, conditions := range [][]metav1.Condition{again.Routes[0].Conditions, again.Listeners[0].Conditions} {
		if c := conditions[0]; !c.LastTransitionTime.Time.Equal(before) || c.ObservedGeneration != 8 {
			t.Errorf("got %+v", c)
		}
	}
}

// The status of 3,000 routes with problems stays small.
func TestManyRoutesWithProblems(t *testing.T) {
	gateway, observed := newGateway(), Observed{}
	for i := range 3000 {
		name := fmt.Sprintf("route-%d", i)
		withRoute(name, to(strings.Repeat("x", 63), 80))(gateway)
		observed.Problems = append(observed.Problems, model.Problem{RouteKind: "HTTPRoute", Route: name, Message: strings.Repeat("x", 5000)})
	}
	routes := Compute(gateway, observed, now).Routes
	if len(routes) != maxRoutes || routes[0].Name != "route-0" || len(routes[0].Conditions[0].Message) != maxRouteMessage || len(routes[0].Conditions) != 2 {
		t.Errorf("got %d routes, the first is %+v", len(routes), routes[0])
	}
}

// TestUnreachableRules: rules that get no requests are named by a condition of their own, and the routes are accepted.
func TestUnreachableRules(t *testing.T) {
	observed := Observed{Unreachable: []model.Problem{{RouteKind: source.HTTPRoute, Route: "b", Message: "rules[0] gets no requests"}}}
	conditions := Compute(newGateway(withRoute("a"), withRoute("b")), observed, now).Conditions
	const want = `UnreachableRules=True UnreachableRules: route "b": rules[0] gets no requests`
	if got := conditionsOf(conditions); !strings.HasSuffix(got, want) || !meta.IsStatusConditionTrue(conditions, appv1.ConditionAccepted) {
		t.Errorf("got %q, want %q at the end", got, want)
	}
	if got := meta.FindStatusCondition(Compute(newGateway(withRoute("a")), Observed{}, now).Conditions, appv1.ConditionUnreachableRules); got != nil {
		t.Errorf("there is %v without such rules", got)
	}
}
