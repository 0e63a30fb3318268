package compact_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/compact"
	"gateway/internal/must"
)

// decoded returns a route as a client gets it.
func decoded(t *testing.T, i int) *gatewayv1.HTTPRoute {
	t.Helper()
	route := &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("route-", i), CreationTimestamp: metav1.NewTime(time.Unix(1, 0))},
		Spec: gatewayv1.HTTPRouteSpec{Hostnames: []gatewayv1.Hostname{"a.example.com"}, Rules: []gatewayv1.HTTPRouteRule{{
			Matches:     []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: ptr.To(gatewayv1.PathMatchPathPrefix), Value: ptr.To("/")}}},
			BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{Weight: ptr.To(int32(i))}}},
		}}},
	}
	route.Status.Parents = []gatewayv1.RouteParentStatus{{Conditions: []metav1.Condition{{Type: "Accepted", LastTransitionTime: metav1.NewTime(time.Unix(1, 0))}}}}
	encoded := must.Get(json.Marshal(route))(t)
	route = &gatewayv1.HTTPRoute{}
	must.Do(t, json.Unmarshal(encoded, route))
	route.Spec.Hostnames = append(route.Spec.Hostnames, "b")[:1]
	return route
}

// TestObject: an object stays what it is, among many others, and has what is equal together with them.
func TestObject(t *testing.T) {
	var before *gatewayv1.HTTPRoute
	for i := range 10_000 {
		route, want := decoded(t, i/2), decoded(t, i/2)
		compact.Object(route)
		if !reflect.DeepEqual(route, want) {
			t.Fatalf("got %+v, want %+v", route, want)
		}
		if cap(route.Spec.Hostnames) != 1 {
			t.Fatalf("there is room for %d hostnames", cap(route.Spec.Hostnames))
		}
		if i == 1 && (&route.Status.Parents[0].Conditions[0] != &before.Status.Parents[0].Conditions[0] || route.Spec.Rules[0].Matches[0].Path != before.Spec.Rules[0].Matches[0].Path ||
			route.Spec.Rules[0].BackendRefs[0].Weight != before.Spec.Rules[0].BackendRefs[0].Weight) {
			t.Error("equal values are not one")
		}
		before = route
	}
}

// TestInterfaces: a list whose elements may have what cannot be compared stays as it is.
func TestInterfaces(t *testing.T) {
	type element struct{ Value any }
	object := struct{ List []element }{[]element{{[]string{"a"}}}}
	for range 2 {
		compact.Object(&object)
	}
	if got := object.List[0].Value; !reflect.DeepEqual(got, []string{"a"}) {
		t.Errorf("got %v", got)
	}
}
