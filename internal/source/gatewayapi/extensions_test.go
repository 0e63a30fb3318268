package gatewayapi_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/source/gatewayapi"
)

// liveBut says that everything is live but the objects of a resource with certain names.
type liveBut struct {
	allLive
	resource string
	names    []string
}

func (l liveBut) Object(_ gatewayapi.Parent, resource string, object metav1.Object, _ gatewayapi.Object) bool {
	return resource != l.resource || !slices.Contains(l.names, object.GetName())
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
		live := liveBut{resource: "routefilters", names: []string{name}}
		parents := gatewayapi.Translate(objects).Status(nil, live).Routes[gatewayapi.Object{Kind: "HTTPRoute", Namespace: "team", Name: "good"}]
		c := meta.FindStatusCondition(parents[0].Conditions, "Programmed")
		if c == nil || c.Status != want || want == metav1.ConditionFalse && c.Message != "not all proxies run RouteFilter "+name+" yet" {
			t.Errorf("without %s, Programmed is %+v, want %s", name, c, want)
		}
	}
}
