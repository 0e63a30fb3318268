package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/must"
	"gateway/test/internal/testenv"
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
	must.Get(routes.Create(ctx, route, metav1.CreateOptions{}))(t)
	expectRoute(t, api, authTeam, "asked", 1, "Accepted=True", "ResolvedRefs=True", "Programmed=True")
	expectAnswer(t, port, "/asked", 200, authTeam+"/api")

	patch := func(filter string) {
		t.Helper()
		must.Get(routes.Patch(ctx, "asked", types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/rules/0/filters/0/externalAuth","value":`+filter+`}]`), metav1.PatchOptions{}))(t)
	}
	patch(`{"protocol":"HTTP","backendRef":{"name":"rows","namespace":"data","port":80},"http":{}}`)
	expectRoute(t, api, authTeam, "asked", 2, "Accepted=True", "ResolvedRefs=False/RefNotPermitted")
	expectAnswer(t, port, "/asked", 500, "")
	grant := &gatewayv1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Name: "auth"}, Spec: gatewayv1.ReferenceGrantSpec{
		From: []gatewayv1.ReferenceGrantFrom{{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: authTeam}},
		To:   []gatewayv1.ReferenceGrantTo{{Kind: "Service", Name: ptr.To[gatewayv1.ObjectName]("rows")}},
	}}
	must.Get(api.GatewayV1().ReferenceGrants("data").Create(ctx, grant, metav1.CreateOptions{}))(t)
	expectRoute(t, api, authTeam, "asked", 2, "ResolvedRefs=True", "Programmed=True")
	expectAnswer(t, port, "/asked", 200, authTeam+"/api")
	must.Do(t, api.GatewayV1().ReferenceGrants("data").Delete(ctx, "auth", metav1.DeleteOptions{}))
	expectAnswer(t, port, "/asked", 500, "")

	patch(`{"protocol":"GRPC","backendRef":{"name":"auth","port":80},"grpc":{}}`)
	expectRoute(t, api, authTeam, "asked", 3, "Accepted=False/UnsupportedValue")
	expectAnswer(t, port, "/asked", 500, "")
	must.Do(t, routes.Delete(ctx, "asked", metav1.DeleteOptions{}))
	expectAnswer(t, port, "/asked", 404, "")
	expectAccess(t, "data", false)
	if !testenv.IsOldGatewayAPI() {
		t.Run("before a rule is chosen", func(t *testing.T) { testPreRouting(t, api, port) })
	}
}

const askingTeam = "asking-team"

// testPreRouting: a Service decides about all requests to a listener before a rule is chosen, and rules match headers
// of its answer. Without it, no request passes.
func testPreRouting(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	ctx := t.Context()
	createTeam(t, askingTeam)
	createService(t, askingTeam, "blue")
	set := &gatewayv1.ListenerSet{ObjectMeta: metav1.ObjectMeta{Name: "asked"}, Spec: gatewayv1.ListenerSetSpec{
		ParentRef: gatewayv1.ParentGatewayReference{Namespace: ptr.To(gatewayv1.Namespace(infra)), Name: "shop"},
		Listeners: []gatewayv1.ListenerEntry{{
			Name: "asked", Port: port, Protocol: gatewayv1.HTTPProtocolType, Hostname: ptr.To(gatewayv1.Hostname("asked.example.com")),
			Filters: &gatewayv1.ListenerFilters{Requests: []gatewayv1.ListenerFilter{{
				Type: gatewayv1.ListenerFilterExternalAuth, ExternalAuth: &gatewayv1.HTTPExternalAuthFilter{
					ExternalAuthProtocol: gatewayv1.HTTPRouteExternalAuthHTTPProtocol, BackendRef: service("gate"),
					HTTPAuthConfig: &gatewayv1.HTTPAuthConfig{Path: "/team", AllowedResponseHeaders: []string{"X-Team"}},
				},
			}}},
		}},
	}}
	must.Get(api.GatewayV1().ListenerSets(askingTeam).Create(ctx, set, metav1.CreateOptions{}))(t)
	route := newRoute(askingTeam, "asked", gatewayv1.ParentReference{Kind: ptr.To(gatewayv1.Kind("ListenerSet")), Name: "asked"}, "/", service("api"))
	blue := *route.Spec.Rules[0].DeepCopy()
	blue.Matches[0].Headers, blue.BackendRefs[0].Name = []gatewayv1.HTTPHeaderMatch{{Name: "X-Team", Value: "blue"}}, "blue"
	route.Spec.Rules = append(route.Spec.Rules, blue)
	must.Get(api.GatewayV1().HTTPRoutes(askingTeam).Create(ctx, route, metav1.CreateOptions{}))(t)
	answers := func(authorization string, status int, text string) {
		t.Helper()
		testenv.Eventually(t, soon, fmt.Sprintf("%q to be answered with %d %s", authorization, status, text), func(ctx context.Context) error {
			return askedAs(ctx, port, authorization, status, text)
		})
	}
	answers("blue", http.StatusInternalServerError, "")
	testenv.Eventually(t, soon, "the missing Service in the status", func(ctx context.Context) error {
		set, err := api.GatewayV1().ListenerSets(askingTeam).Get(ctx, "asked", metav1.GetOptions{})
		if err != nil || len(set.Status.Listeners) != 1 {
			return fmt.Errorf("%v: %w", set, errors.Join(err, errors.New("no status")))
		}
		return expect(set.Status.Listeners[0].Conditions, 1, "Accepted=True", "ResolvedRefs=False/BackendNotFound")
	})

	gate, _ := serveBy(t, func(w http.ResponseWriter, r *http.Request) {
		team := r.Header.Get("Authorization")
		if w.Header().Set("X-Team", team); team == "" || !strings.HasPrefix(r.URL.Path, "/team/") {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	must.Get(server.Kube.CoreV1().Services(askingTeam).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "gate"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	}, metav1.CreateOptions{}))(t)
	createSlice(t, askingTeam, "gate-1", map[string]string{discoveryv1.LabelServiceName: "gate"}, gate)
	answers("", http.StatusUnauthorized, "")
	answers("red", http.StatusOK, askingTeam+"/api")
	answers("blue", http.StatusOK, askingTeam+"/blue")
	must.Do(t, api.GatewayV1().ListenerSets(askingTeam).Delete(ctx, "asked", metav1.DeleteOptions{}))
	answers("blue", http.StatusNotFound, "")
}

// askedAs sends a request to the listener.
func askedAs(ctx context.Context, port int32, authorization string, status int, text string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/any", port), http.NoBody)
	if err != nil {
		return err
	}
	request.Host = "asked.example.com"
	if authorization != "" {
		request.Header.Set("Authorization", authorization)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(response.Body)
	if response.StatusCode != status || !strings.Contains(string(body), text) {
		err = errors.Join(err, fmt.Errorf("got %d %q", response.StatusCode, body))
	}
	return errors.Join(err, response.Body.Close())
}
