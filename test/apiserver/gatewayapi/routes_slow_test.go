//go:build slow

package gatewayapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/source/gatewayapi"
	"gateway/test/internal/testenv"
)

const (
	many     = "many"
	manySize = 3000
	// edits is how many changes of each kind are measured.
	edits = 100
)

// TestManyRoutes measures how long changes take among 3,000 HTTPRoutes, each with a hostname and a Service of its own:
// from before the API write to the first answer by the new state, and until the route is Programmed.
func TestManyRoutes(t *testing.T) {
	operator := startOperator(t)
	server.InstallGatewayAPI(t)
	api, port := routesClient(t), haproxytest.FreePort(t)
	createNamespace(t, many, nil)
	createManyGateway(t, api, port)
	testenv.Eventually(t, soon, "our Gateway", func(ctx context.Context) error {
		_, err := server.App.AppV1().Gateways(many).Get(ctx, many, metav1.GetOptions{})
		return err
	})
	createService(t, many, "echo")
	start := time.Now()
	inParallel(manySize, func(i int) {
		_, err := api.GatewayV1().HTTPRoutes(many).Create(t.Context(), manyRoute(i, "/"), metav1.CreateOptions{})
		must(t, err)
	})
	t.Logf("%d routes created in %v", manySize, time.Since(start))
	startProxy(t, many, many)
	testenv.Eventually(t, 5*time.Minute, "all routes to be Programmed", func(ctx context.Context) error {
		return allProgrammed(ctx, api)
	})
	t.Logf("all Programmed %v after the first was created", time.Since(start))

	measure(t, "edit a path", port, func(i int) (host, path string) {
		path = fmt.Sprintf("/edited-%d", i)
		patch := fmt.Sprintf(`[{"op":"replace","path":"/spec/rules/0/matches/0/path/value","value":%q}]`, path)
		_, err := api.GatewayV1().HTTPRoutes(many).Patch(t.Context(), fmt.Sprintf("route-%d", i), types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
		must(t, err)
		return fmt.Sprintf("route-%d.example.com", i), path
	})
	measure(t, "create a route with a new hostname", port, func(i int) (host, path string) {
		_, err := api.GatewayV1().HTTPRoutes(many).Create(t.Context(), manyRoute(manySize+i, "/"), metav1.CreateOptions{})
		must(t, err)
		return fmt.Sprintf("route-%d.example.com", manySize+i), "/"
	})
	must(t, operator.Running())
}

func manyRoute(i int, path string) *gatewayv1.HTTPRoute {
	route := newRoute(many, fmt.Sprintf("route-%d", i), gatewayv1.ParentReference{Name: many}, path, service("echo"))
	route.Spec.Hostnames = []gatewayv1.Hostname{gatewayv1.Hostname(fmt.Sprintf("route-%d.example.com", i))}
	return route
}

func createManyGateway(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	_, err := api.GatewayV1().GatewayClasses().Create(t.Context(), &gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: many}, Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName},
	}, metav1.CreateOptions{})
	must(t, err)
	_, err = api.GatewayV1().Gateways(many).Create(t.Context(), &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: many},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: many, Listeners: []gatewayv1.Listener{{Name: "http", Port: port, Protocol: gatewayv1.HTTPProtocolType}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
}

// inParallel calls a function for the numbers below n, eight at a time.
func inParallel(n int, do func(i int)) {
	var working sync.WaitGroup
	for worker := range 8 {
		working.Go(func() {
			for i := worker; i < n; i += 8 {
				do(i)
			}
		})
	}
	working.Wait()
}

func allProgrammed(ctx context.Context, api routesclient.Interface) error {
	routes, err := api.GatewayV1().HTTPRoutes(many).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range routes.Items {
		route := &routes.Items[i]
		if len(route.Status.Parents) != 1 {
			return fmt.Errorf("%s has no status", route.Name)
		}
		if err := expect(route.Status.Parents[0].Conditions, route.Generation, "Programmed=True"); err != nil {
			return fmt.Errorf("%s: %w", route.Name, err)
		}
	}
	return nil
}

// measure makes changes one after the other, and prints how long it takes until they are live.
func measure(t *testing.T, what string, port int32, change func(i int) (host, path string)) {
	t.Helper()
	var took []time.Duration
	for i := range edits {
		start := time.Now()
		host, path := change(i)
		for !isLive(t, port, host, path) {
			if time.Since(start) > soon {
				t.Fatalf("%s: %s%s is not live after %v", what, host, path, soon)
			}
			time.Sleep(500 * time.Microsecond)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	t.Logf("%s among %d: p50 %v, p99 %v", what, manySize, took[len(took)/2], took[len(took)*99/100])
}

func isLive(t *testing.T, port int32, host, path string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	must(t, err)
	request.Host = host
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
