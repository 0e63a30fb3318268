package gatewayapi_test

import (
	"fmt"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// TestAsManyListenersAsThereMayBe: a Gateway of our own kind with 64 listeners serves routes at each.
func TestAsManyListenersAsThereMayBe(t *testing.T) {
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "own"}}
	for i := range 64 {
		own.Spec.Listeners = append(own.Spec.Listeners, appv1.Listener{
			Name: appv1.Name(fmt.Sprintf("l%d", i)), Port: 80, Protocol: appv1.ProtocolHTTP, Hostname: appv1.Hostname(fmt.Sprintf("l%d.io", i)),
		})
	}
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "r"}}
	group, kind := gatewayv1.Group(appv1.GroupName), gatewayv1.Kind("Gateway")
	route.Spec.ParentRefs = []gatewayv1.ParentReference{{Group: &group, Kind: &kind, Name: "own"}}
	seen := gatewayapi.Objects{Own: []*appv1.Gateway{own}}
	seen.Add(route)
	plane := gatewayapi.Translate(seen).For(own)
	if plane == nil || len(plane.Listeners) != 64 || plane.Routes.Len() != 1 || len(slices.Collect(plane.Routes.Values())[0].Listeners) != 64 {
		t.Errorf("got %+v, want a route at 64 listeners", plane)
	}
}
