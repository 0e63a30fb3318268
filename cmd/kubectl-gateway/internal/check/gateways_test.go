package check

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// TestRefused: what older CRDs of the Gateway API took is named before newer ones refuse it.
func TestRefused(t *testing.T) {
	name := gatewayv1.SectionName("same")
	rules := make([]gatewayv1.HTTPRouteRule, 2)
	rules[0].Name = &name
	route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: gatewayv1.HTTPRouteSpec{Rules: rules}}
	if err := refused("HTTPRoute", route); err != nil {
		t.Errorf("one name: %v", err)
	}
	rules[1].Name = &name
	if err := refused("HTTPRoute", route); err == nil || !strings.Contains(err.Error(), "Rule name must be unique within the route") {
		t.Errorf("a name twice: got %v", err)
	}
	if err := refused("ReferenceGrant", &gatewayv1.ReferenceGrant{}); err != nil {
		t.Errorf("no route: %v", err)
	}
}
