package gatewayapi_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// lagging says that a proxy runs no object by its newest version, as one that has just started.
type lagging struct {
	allLive
	addresses []gatewayv1.GatewayStatusAddress
}

func (lagging) Missing(_ gatewayapi.Parent, needs gatewayapi.Needs) string {
	if needs.WasLive {
		return ""
	}
	return "not all proxies run it yet"
}

func (l lagging) Addresses(gatewayapi.Parent) []gatewayv1.GatewayStatusAddress { return l.addresses }

// TestWhatWasProgrammedStaysSo by its generation, also while an address is missing, and not by another one.
func TestWhatWasProgrammedStaysSo(t *testing.T) {
	address := []gatewayv1.GatewayStatusAddress{{Value: "192.0.2.1"}}
	for _, test := range []struct {
		name       string
		before     metav1.Condition
		addresses  []gatewayv1.GatewayStatusAddress
		wantStatus metav1.ConditionStatus
		wantReason string
	}{
		{"programmed", metav1.Condition{Status: "True", Reason: "Programmed", ObservedGeneration: 3}, address, "True", "Programmed"},
		{"programmed, and the address goes", metav1.Condition{Status: "True", Reason: "Programmed", ObservedGeneration: 3}, nil, "False", "AddressNotAssigned"},
		{"without an address", metav1.Condition{Status: "False", Reason: "AddressNotAssigned", ObservedGeneration: 3}, nil, "False", "AddressNotAssigned"},
		{"the address comes", metav1.Condition{Status: "False", Reason: "AddressNotAssigned", ObservedGeneration: 3}, address, "True", "Programmed"},
		{"pending", metav1.Condition{Status: "False", Reason: "Pending", ObservedGeneration: 3}, address, "False", "Pending"},
		{"an older generation", metav1.Condition{Status: "True", Reason: "Programmed", ObservedGeneration: 2}, address, "False", "Pending"},
		{"an older generation without an address", metav1.Condition{Status: "False", Reason: "AddressNotAssigned", ObservedGeneration: 2}, nil, "False", "Pending"},
	} {
		objects := parseAll(t, []byte(oneGateway))
		gateway := objects.Gateways[0]
		test.before.Type, gateway.Generation = "Programmed", 3
		gateway.Status.Conditions = []metav1.Condition{test.before}
		status := gatewayapi.Translate(objects).Status(nil, lagging{addresses: test.addresses}).
			Gateways[types.NamespacedName{Namespace: "infra", Name: "gw"}]
		if c := meta.FindStatusCondition(status.Conditions, "Programmed"); c.Status != test.wantStatus || c.Reason != test.wantReason {
			t.Errorf("%s: it is %s %s, want %s %s", test.name, c.Status, c.Reason, test.wantStatus, test.wantReason)
		}
	}
}

// TestAgentsSeeTheNamespacesThatTheOperatorSelects: agents cannot read namespaces, so that the operator tells them the
// labels that matter: to a listener, or to the choice of ListenerSets.
func TestAgentsSeeTheNamespacesThatTheOperatorSelects(t *testing.T) {
	const selector = `{from: Selector, selector: {matchLabels: {team: edge}}}`
	for _, test := range []struct{ name, gateway, other string }{
		{
			"of ListenerSets",
			"allowedListeners: {namespaces: " + selector + "}, listeners: [{name: http, port: 80, protocol: HTTP}]",
			"kind: ListenerSet\nmetadata: {name: s, namespace: team}\nspec: {parentRef: {name: gw, namespace: infra}, " +
				"listeners: [{name: more, port: 81, protocol: HTTP}]}",
		},
		{
			"of a listener's routes",
			"listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: " + selector + "}}]",
			"kind: HTTPRoute\nmetadata: {name: r, namespace: team}\nspec: {parentRefs: [{name: gw, namespace: infra}]}",
		},
	} {
		seen := parseAll(t, []byte("kind: GatewayClass\nmetadata: {name: ours}\nspec: {controllerName: app.example.com/gateway}\n---\n"+
			"apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {name: gw, namespace: infra}\n"+
			"spec: {gatewayClassName: ours, "+test.gateway+"}\n---\n"+test.other))
		seen.Namespaces["team"] = map[string]string{"team": "edge"}
		seen.Namespaces["infra"] = map[string]string{}
		parent := gatewayapi.GatewayParent("infra", "gw")
		operator := gatewayapi.Translate(seen)
		own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "gw", OwnerReferences: ownedBy("gw")}}
		own.Spec = *operator.DataPlanes()[0].Spec
		agents := gatewayapi.AttachedTo(own, operator.Attachments(parent, gatewayapi.WatchedResources))
		agents.Gateways, agents.Classes, agents.ListenerSets, agents.HTTPRoutes = seen.Gateways, seen.Classes, seen.ListenerSets, seen.HTTPRoutes
		got, want := gatewayapi.Translate(agents).Planes[parent], operator.Planes[parent]
		if len(got.Listeners) != len(want.Listeners) || got.Routes.Len() != want.Routes.Len() || len(want.Listeners)+want.Routes.Len() != 2 {
			t.Errorf("%s: agents have %d listeners and %d routes, the operator %d and %d", test.name,
				len(got.Listeners), got.Routes.Len(), len(want.Listeners), want.Routes.Len())
		}
	}
}
