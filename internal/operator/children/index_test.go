package children

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appv1 "gateway/api/app/v1"
)

func TestBackendKeysAreOfRoutesOfEveryKind(t *testing.T) {
	connections := func(service string) []appv1.ConnectionRule {
		return []appv1.ConnectionRule{{BackendRefs: []appv1.ConnectionBackendRef{{Name: service, Port: 1}, {Name: "shared", Port: 1}}}}
	}
	gateway := &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop"}, Spec: appv1.GatewaySpec{
		Routes:    []appv1.Route{{Rules: []appv1.RouteRule{{BackendRefs: []appv1.BackendRef{{Name: "http"}, {Name: "shared"}}}}}},
		TCPRoutes: []appv1.TCPRoute{{Rules: connections("tcp")}},
		TLSRoutes: []appv1.TLSRoute{{Rules: connections("tls")}},
	}}
	got, err := BackendKeys(gateway)
	if want := []string{"web/http", "web/shared", "web/tcp", "web/tls"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
