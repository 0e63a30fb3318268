package check

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesfake "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned/fake"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/must"
	"gateway/internal/source/gatewayapi"
)

// TestUnserved: a Gateway of the Gateway API without proxies is named with the listeners that keep it from having them.
func TestUnserved(t *testing.T) {
	gateway := func(name, class string, listeners ...gatewayv1.ListenerStatus) *gatewayv1.Gateway {
		return &gatewayv1.Gateway{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: gatewayv1.GatewaySpec{GatewayClassName: gatewayv1.ObjectName(class)},
			Status: gatewayv1.GatewayStatus{Listeners: listeners},
		}
	}
	https := gatewayv1.ListenerStatus{Name: "https", Conditions: []metav1.Condition{
		{Type: "Programmed", Status: metav1.ConditionFalse, Reason: "Invalid", Message: "tls.certificateRefs names no certificate"},
	}}
	isController := true
	served := appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "served", OwnerReferences: []metav1.OwnerReference{
		{APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: "served", Controller: &isController},
	}}}
	classes := []runtime.Object{
		&gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "ours"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName}},
		&gatewayv1.GatewayClass{ObjectMeta: metav1.ObjectMeta{Name: "theirs"}, Spec: gatewayv1.GatewayClassSpec{ControllerName: "example.com/theirs"}},
	}
	clients := cli.Clients{Routes: routesfake.NewSimpleClientset(classes...)}
	for _, g := range []*gatewayv1.Gateway{gateway("bare", "ours", https), gateway("new", "ours"), gateway("served", "ours", https), gateway("other", "theirs", https)} {
		must.Get(clients.Routes.GatewayV1().Gateways("shop").Create(t.Context(), g, metav1.CreateOptions{}))(t)
	}
	findings := must.Get(unserved(t.Context(), clients, "shop", []appv1.Gateway{served}))(t)
	var got []string
	for _, f := range findings {
		got = append(got, string(f.Level)+" "+f.About+": "+f.Says)
	}
	want := "wrong Gateway shop/bare: listener https is not served: tls.certificateRefs names no certificate\nwrong Gateway shop/new: it has no proxies yet"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

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
