package gatewayapi_test

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// TestAgentsSeeMandatoryFilters: agents have the filters of a GatewayConfig as the operator has them, also which are
// mandatory, and with which exceptions.
func TestAgentsSeeMandatoryFilters(t *testing.T) {
	w := &world{}
	w.addGateway()
	w.Config = func(string, string) *appv1.GatewayConfig {
		return &appv1.GatewayConfig{Spec: appv1.GatewayConfigSpec{
			MaxRequestBytes: ptr.To[int64](1),
			Filters:         []appv1.RuleFilter{{Type: "ClientAddress", ClientAddress: &appv1.ClientAddress{Deny: []appv1.AddressRange{"192.0.2.0/24"}}}},
			Shadow:          []appv1.ShadowFilter{"ClientAddress"},
			Mandatory: []appv1.MandatoryFilter{
				{Type: "ClientAddress", Exceptions: []appv1.FilterException{{Namespaces: []appv1.Name{"a"}}}}, {Type: appv1.MandatoryMaxRequestBytes},
			},
		}}
	}
	result := gatewayapi.Translate(w.Objects)
	plane := result.DataPlanes()[0]
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: plane.Gateway.Namespace, Name: plane.Name, OwnerReferences: []metav1.OwnerReference{{
		APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: plane.Gateway.Name, Controller: ptr.To(true),
	}}}, Spec: *plane.Spec}
	parent := gatewayapi.GatewayParent(plane.Gateway.Namespace, plane.Gateway.Name)
	seen := gatewayapi.AttachedTo(own, result.Attachments(parent, gatewayapi.WatchedResources))
	seen.AddAttached(plane.Gateway)
	want, got := result.Planes[parent].Listeners[0].Filters, gatewayapi.Translate(seen).For(own).Listeners[0].Filters
	if len(want.Mandatory) != 2 {
		t.Fatalf("mandatory are %v", want.Mandatory)
	}
	for i := range got.Mandatory {
		got.Mandatory[i].By = want.Mandatory[i].By // agents do not know it
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the agents have\n%+v, want\n%+v", got, want)
	}
}
