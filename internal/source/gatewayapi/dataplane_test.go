package gatewayapi_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// TestTheCertificateForBackendsIsThatOfTheGateway: an agent takes it from the Gateway itself, though our own says
// something else yet.
func TestTheCertificateForBackendsIsThatOfTheGateway(t *testing.T) {
	objects := read(t, "testdata/backend-certificates.yaml")
	own := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "own", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: gatewayv1.GroupVersion.String(), Kind: "Gateway", Name: "own", Controller: ptr.To(true),
	}}}}
	own.Spec.BackendClientCertificateRef = &appv1.ObjectReference{Name: "old"}
	if plane := gatewayapi.Translate(objects).For(own); plane == nil || plane.BackendCertificate != "proxies" {
		t.Errorf("got %+v, want the certificate proxies", plane)
	}
}

// TestConfigsAreMerged: a Gateway has what its own GatewayConfig sets, and else what that of its class sets.
func TestConfigsAreMerged(t *testing.T) {
	configs := map[string]*appv1.GatewayConfig{
		"class": {Spec: appv1.GatewayConfigSpec{
			Compression: &appv1.Compression{MinBytes: ptr.To[int32](1)}, DrainTimeout: "7s",
			ErrorPages: []appv1.ErrorPage{{Statuses: []appv1.ErrorStatus{503}, Body: "class"}},
		}},
		"bare": {},
		"own": {Spec: appv1.GatewayConfigSpec{
			Compression: &appv1.Compression{MinBytes: ptr.To[int32](2)}, ErrorPages: []appv1.ErrorPage{{Statuses: []appv1.ErrorStatus{404}, Body: "own"}},
		}},
	}
	objects := gatewayapi.Objects{
		Classes: []*gatewayv1.GatewayClass{{
			ObjectMeta: metav1.ObjectMeta{Name: "ours"},
			Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName, ParametersRef: &gatewayv1.ParametersReference{
				Group: appv1.GroupName, Kind: "GatewayConfig", Namespace: ptr.To[gatewayv1.Namespace]("infra"), Name: "class",
			}},
		}},
		Config: func(_, name string) *appv1.GatewayConfig { return configs[name] },
	}
	for _, name := range []string{"bare", "own"} {
		objects.Gateways = append(objects.Gateways, &gatewayv1.Gateway{
			ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: name},
			Spec: gatewayv1.GatewaySpec{
				GatewayClassName: "ours", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
				Infrastructure: &gatewayv1.GatewayInfrastructure{
					ParametersRef: &gatewayv1.LocalParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Name: name},
				},
			},
		})
	}
	planes := gatewayapi.Translate(objects).DataPlanes()
	if len(planes) != 2 {
		t.Fatalf("got %d data planes, want 2", len(planes))
	}
	for i, want := range []struct {
		minBytes int32
		page     string
	}{{1, "class"}, {2, "own"}} {
		spec := planes[i].Spec
		if spec == nil || spec.Compression == nil || *spec.Compression.MinBytes != want.minBytes || spec.DrainTimeout != "7s" ||
			len(spec.ErrorPages) != 1 || spec.ErrorPages[0].Body != want.page {
			t.Errorf("%s: got %+v, want compression from %d byte, a drainTimeout of 7s and the page %s", planes[i].Gateway.Name, spec, want.minBytes, want.page)
		}
	}
}
