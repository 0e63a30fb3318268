package gatewayapi

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"
)

const authTeam = "auth-team"

// testExternalAuth: a Service decides about the requests of an HTTPRoute. Where it must not be asked, or not be asked
// so, they are answered with 500.
func testExternalAuth(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	ctx, routes := t.Context(), api.GatewayV1().HTTPRoutes(authTeam)
	createTeam(t, authTeam)
	createService(t, authTeam, "auth")
	route := newRoute(authTeam, "asked", shop(), "/asked", service("api"))
	route.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterExternalAuth, ExternalAuth: &gatewayv1.HTTPExternalAuthFilter{
		ExternalAuthProtocol: gatewayv1.HTTPRouteExternalAuthHTTPProtocol, BackendRef: service("auth"),
		HTTPAuthConfig: &gatewayv1.HTTPAuthConfig{Path: "/check", AllowedResponseHeaders: []string{"X-User"}},
	}}}
	_, err := routes.Create(ctx, route, metav1.CreateOptions{})
	must(t, err)
	expectRoute(t, api, authTeam, "asked", 1, "Accepted=True", "ResolvedRefs=True", "Programmed=True")
	expectAnswer(t, port, "/asked", 200, authTeam+"/api")

	patch := func(filter string) {
		t.Helper()
		_, err := routes.Patch(ctx, "asked", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/rules/0/filters/0/externalAuth","value":`+filter+`}]`), metav1.PatchOptions{})
		must(t, err)
	}
	patch(`{"protocol":"HTTP","backendRef":{"name":"rows","namespace":"data","port":80},"http":{}}`)
	expectRoute(t, api, authTeam, "asked", 2, "Accepted=True", "ResolvedRefs=False/RefNotPermitted")
	expectAnswer(t, port, "/asked", 500, "")
	grant := &gatewayv1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Name: "auth"}, Spec: gatewayv1.ReferenceGrantSpec{
		From: []gatewayv1.ReferenceGrantFrom{{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: authTeam}},
		To:   []gatewayv1.ReferenceGrantTo{{Kind: "Service", Name: ptr.To[gatewayv1.ObjectName]("rows")}},
	}}
	_, err = api.GatewayV1().ReferenceGrants("data").Create(ctx, grant, metav1.CreateOptions{})
	must(t, err)
	expectRoute(t, api, authTeam, "asked", 2, "ResolvedRefs=True", "Programmed=True")
	expectAnswer(t, port, "/asked", 200, authTeam+"/api")
	must(t, api.GatewayV1().ReferenceGrants("data").Delete(ctx, "auth", metav1.DeleteOptions{}))
	expectAnswer(t, port, "/asked", 500, "")

	patch(`{"protocol":"GRPC","backendRef":{"name":"auth","port":80},"grpc":{}}`)
	expectRoute(t, api, authTeam, "asked", 3, "Accepted=False/UnsupportedValue")
	expectAnswer(t, port, "/asked", 500, "")
	must(t, routes.Delete(ctx, "asked", metav1.DeleteOptions{}))
	expectAnswer(t, port, "/asked", 404, "")
	expectAccess(t, "data", false)
}
