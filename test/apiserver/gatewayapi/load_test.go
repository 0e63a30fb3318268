package gatewayapi

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/must"
)

const loadTeam = "load-team"

// editRounds is how often routes are edited under load.
const editRounds = 20

// testEditsUnderLoad: while routes are created, edited and deleted, requests for other routes and for the edited ones
// are answered.
func testEditsUnderLoad(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	routes, ctx := api.GatewayV1().HTTPRoutes(loadTeam), t.Context()
	createTeam(t, loadTeam)
	createService(t, loadTeam, "second")
	create := func(name, path, backend string) {
		t.Helper()
		route := newRoute(loadTeam, name, shop(), path, service(gatewayv1.ObjectName(backend)))
		must.Get(routes.Create(ctx, route, metav1.CreateOptions{}))(t)
	}
	patch := func(name, format string, args ...any) {
		t.Helper()
		must.Get(routes.Patch(ctx, name, types.JSONPatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{}))(t)
	}
	create("steady", "/steady", "api")
	create("edited", "/edited", "api")
	expectAnswer(t, port, "/steady", 200, loadTeam+"/api")
	expectAnswer(t, port, "/edited", 200, loadTeam+"/api")
	stop := sendRequests(t, port, "/steady", "/edited")
	for i := range editRounds {
		patch("edited", `[{"op":"replace","path":"/spec/rules/0/backendRefs/0/name","value":%q}]`, [2]string{"second", "api"}[i%2])
		name, path := fmt.Sprintf("new-%d", i), fmt.Sprintf("/new-%d", i)
		create(name, path, [2]string{"second", "api"}[i%2])
		expectAnswer(t, port, path, 200, loadTeam+"/")
		must.Do(t, routes.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}))
		expectAnswer(t, port, path, 404, "")
	}
	stop()
	must.Do(t, routes.Delete(ctx, "steady", metav1.DeleteOptions{}))
	must.Do(t, routes.Delete(ctx, "edited", metav1.DeleteOptions{}))
}

// sendRequests asks for paths all the time, until the function that it returns is called. Each has to be answered with
// 200.
func sendRequests(t *testing.T, port int32, paths ...string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	var answered atomic.Int64
	for _, path := range paths {
		working.Go(func() {
			for ctx.Err() == nil {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
				if err != nil {
					t.Error(err)
					return
				}
				response, err := http.DefaultClient.Do(request)
				switch {
				case ctx.Err() != nil:
				case err != nil:
					t.Errorf("a request for %s failed: %v", path, err)
				case response.StatusCode != http.StatusOK:
					t.Errorf("a request for %s is answered with %d", path, response.StatusCode)
				}
				if err == nil {
					_ = response.Body.Close()
					answered.Add(1)
				}
			}
		})
	}
	return func() {
		cancel()
		working.Wait()
		if answered.Load() < editRounds {
			t.Errorf("only %d requests were answered meanwhile", answered.Load())
		}
	}
}
