package gatewayapi_test

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
	"gateway/internal/source/gatewayapi"
)

// TestPrecedence: of routes and ListenerSets as old as each other, the first one by NAMESPACE/NAME counts, as a text:
// "shop-dev/web" is before "shop/web".
func TestPrecedence(t *testing.T) {
	w := &world{}
	w.addGateway()
	for _, namespace := range []string{"shop", "shop-dev"} {
		w.addRoute("TLSRoute", metav1.ObjectMeta{Namespace: namespace, Name: "web"})
		set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namespace}}
		set.Spec.ParentRef = gatewayv1.ParentGatewayReference{Name: "shared", Namespace: ptr.To[gatewayv1.Namespace]("infra")}
		set.Spec.Listeners = []gatewayv1.ListenerEntry{{Name: "web", Port: 9000, Protocol: gatewayv1.HTTPProtocolType}}
		w.ListenerSets = append(w.ListenerSets, set)
	}
	result := gatewayapi.Translate(w.Objects)
	if accepted := acceptedIn(result); !accepted["shop-dev/web"] || accepted["shop/web"] {
		t.Errorf("accepted are %v", accepted)
	}
	var names []string
	for route := range result.Planes[gatewayapi.GatewayParent("infra", "shared")].Routes.Values() {
		names = append(names, route.Name)
	}
	if want := []string{"shop-dev/web", "shop/web"}; !slices.Equal(names, want) {
		t.Errorf("routes are in the order %q, want %q", names, want)
	}
}

// TestSecondPolicies: a BackendTLSPolicy that has no effect, as another one comes first, is a problem.
func TestSecondPolicies(t *testing.T) {
	var late []model.Problem
	for _, plane := range gatewayapi.Translate(read(t, "testdata/policies.yaml")).Planes {
		for _, problem := range plane.Problems {
			if problem.Origin.Kind == "BackendTLSPolicy" && problem.Origin.Name == "late" {
				late = append(late, problem)
			}
		}
	}
	const want = "BackendTLSPolicy team/late: another policy for the same Service port comes first"
	if len(late) != 1 || late[0].Message != want || late[0].Reason != "Conflicted" {
		t.Errorf("got %+v, want %q", late, want)
	}
}
