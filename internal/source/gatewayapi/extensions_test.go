package gatewayapi_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/source/gatewayapi"
)

// liveBut says that everything is live but an object that others use.
type liveBut struct {
	allLive
	object gatewayapi.Object
}

func (l liveBut) Missing(_ gatewayapi.Parent, needs gatewayapi.Needs) string {
	if slices.Contains(needs.Uses, l.object) {
		return "it is missing"
	}
	return ""
}

// TestRouteFiltersHaveToBeLive: a route is Programmed once the RouteFilters are live that it names, also if it was
// before they were edited. Others do not count.
func TestRouteFiltersHaveToBeLive(t *testing.T) {
	objects := read(t, "testdata/routefilters.yaml")
	for _, route := range objects.HTTPRoutes {
		route.Generation = 1
		route.Status.Parents = []gatewayv1.RouteParentStatus{{
			ParentRef: route.Spec.ParentRefs[0], ControllerName: gatewayapi.ControllerName,
			Conditions: []metav1.Condition{{Type: "Programmed", Status: metav1.ConditionTrue, Reason: "Programmed", ObservedGeneration: 1}},
		}}
	}
	for name, want := range map[string]metav1.ConditionStatus{"office": metav1.ConditionFalse, "both": metav1.ConditionFalse, "empty": metav1.ConditionTrue} {
		live := liveBut{object: gatewayapi.Object{Kind: "RouteFilter", Namespace: "team", Name: name}}
		parents := gatewayapi.Translate(objects).Status(nil, live).Routes[gatewayapi.Object{Kind: "HTTPRoute", Namespace: "team", Name: "good"}]
		c := meta.FindStatusCondition(parents[0].Conditions, "Programmed")
		if c == nil || c.Status != want || want == metav1.ConditionFalse && c.Message != "it is missing" {
			t.Errorf("without %s, Programmed is %+v, want %s", name, c, want)
		}
	}
}
