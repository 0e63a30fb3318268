package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/plugintest"
	"gateway/internal/source/gatewayapi"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const infra = "infra"

func shop() gatewayv1.ParentReference {
	return gatewayv1.ParentReference{Namespace: ptr.To(gatewayv1.Namespace(infra)), Name: "shop"}
}

func service(name gatewayv1.ObjectName) gatewayv1.BackendObjectReference {
	return gatewayv1.BackendObjectReference{Name: name, Port: ptr.To[gatewayv1.PortNumber](80)}
}

// TestGatewayAPI: a Gateway of the Gateway API is a working one. Routes of other namespaces are, where it lets them,
// and its agents may read where there is something for it, and nowhere else.
func TestGatewayAPI(t *testing.T) {
	operator := startOperator(t)
	server.InstallGatewayAPI(t) // it begins when they appear
	api, ctx := routesClient(t), t.Context()
	createNamespace(t, infra, nil)
	createTeam(t, "team")
	createTeam(t, filterTeam)
	createNamespace(t, "stranger", nil)
	createNamespace(t, "data", nil)
	for namespace, name := range map[string]string{infra: "web", "stranger": "secret", "data": "rows"} {
		createService(t, namespace, name)
	}
	port := haproxytest.FreePort(t)
	createShop(t, api, port)
	expectDataPlane(t, api)
	haproxy := startProxy(t, infra, "shop")
	expectGateway(t, api, 1, "Accepted=True", "Programmed=True")

	must.Get(api.GatewayV1().HTTPRoutes("team").Create(ctx, newRoute("team", "web", shop(), "/api", service("api")), metav1.CreateOptions{}))(t)
	must.Get(api.GatewayV1().HTTPRoutes("stranger").Create(ctx, newRoute("stranger", "web", shop(), "/", service("secret")), metav1.CreateOptions{}))(t)
	expectRoute(t, api, "team", "web", 1, "Accepted=True", "ResolvedRefs=True", "Programmed=True")
	expectAnswer(t, port, "/api", 200, "team/api")
	expectRoute(t, api, "stranger", "web", 1, "Accepted=False/NotAllowedByListeners")
	expectAnswer(t, port, "/other", 404, "")
	expectAccess(t, "team", true)
	expectAccess(t, "stranger", false)

	t.Run("an edit", func(t *testing.T) {
		must.Get(api.GatewayV1().HTTPRoutes("team").Patch(t.Context(), "web", types.JSONPatchType,
			[]byte(`[{"op":"replace","path":"/spec/rules/0/matches/0/path/value","value":"/moved"}]`), metav1.PatchOptions{}))(t)
		expectRoute(t, api, "team", "web", 2, "Accepted=True", "Programmed=True")
		expectAnswer(t, port, "/moved", 200, "team/api")
		expectAnswer(t, port, "/api", 404, "")
	})
	t.Run("the plugin", func(t *testing.T) { testPlugin(t, port) })
	t.Run("a backend of another namespace", func(t *testing.T) { testGrant(t, api, port) })
	t.Run("the first RouteFilter", func(t *testing.T) { testFirstRouteFilter(t, api, port) })
	t.Run("a RouteFilter", func(t *testing.T) { testRouteFilters(t, api, haproxy, port) })
	t.Run("a BackendPolicy", func(t *testing.T) { testBackendPolicies(t, api, port) })
	if !testenv.IsOldGatewayAPI() {
		t.Run("an XTelemetryPolicy", func(t *testing.T) { testTelemetry(t, api) })
		t.Run("an address in the cluster", func(t *testing.T) { testClusterAddress(t, api) })
	}
	t.Run("filters of all listeners", func(t *testing.T) { testListenerFilters(t, api, haproxy, port) })
	t.Run("a ServiceImport", func(t *testing.T) { testImports(t, api, port) })
	t.Run("an ExternalAuth", func(t *testing.T) { testExternalAuth(t, api, port) })
	t.Run("cert-manager", func(t *testing.T) { testSolver(t, api, port) })
	t.Run("cert-manager for a ListenerSet", func(t *testing.T) { testSolverOfSet(t, api, port) })
	t.Run("external-dns", func(t *testing.T) { testTargets(t, api) })
	t.Run("edits under load", func(t *testing.T) { testEditsUnderLoad(t, api, port) })
	t.Run("a route for a Gateway of our own", func(t *testing.T) { testOwnParent(t, api) })
	t.Run("the last route goes", func(t *testing.T) {
		must.Do(t, api.GatewayV1().HTTPRoutes("team").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		expectAnswer(t, port, "/moved", 404, "")
		expectAccess(t, "team", false)
	})
	t.Run("informers", testInformers)
	t.Run("steady state", func(t *testing.T) { testSteadyState(t, operator) })
	t.Run("another class", func(t *testing.T) { testOtherClass(t, api) })
}

// testInformers: they get all objects by watch-lists wherever the API server has those.
func testInformers(t *testing.T) {
	for user, needed := range map[string][]string{
		"gateway-system:gateway-operator": {"gateways", "httproutes", "services", "endpointslices", "namespaces", "deployments"},
		infra + ":shop-gateway":           {"gateways", "httproutes", "services", "endpointslices"},
	} {
		informers := server.Informers(t, "system:serviceaccount:"+user)
		for resource, byWatchLists := range informers {
			if byWatchLists != *testenv.WatchLists {
				t.Errorf("%s gets %s by watch-lists: %v", user, resource, byWatchLists)
			}
		}
		for _, resource := range needed {
			if _, is := informers[resource]; !is {
				t.Errorf("%s has no informer for %s", user, resource)
			}
		}
	}
}

// testOtherClass: our Gateway goes with the class.
func testOtherClass(t *testing.T, api routesclient.Interface) {
	t.Helper()
	must.Get(api.GatewayV1().Gateways(infra).Patch(t.Context(), "shop", types.MergePatchType, []byte(`{"spec":{"gatewayClassName":"other"}}`), metav1.PatchOptions{}))(t)
	testenv.Eventually(t, soon, "our Gateway to go", func(ctx context.Context) error {
		_, err := server.App.AppV1().Gateways(infra).Get(ctx, "shop", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

// testPlugin asks the plugin about the route of another namespace.
func testPlugin(t *testing.T, port int32) {
	t.Helper()
	plugin := filepath.Join(plugintest.Build(t, testbuild.MustRoot(t)), "kubectl-gateway")
	url := fmt.Sprintf("http://shop.example.com:%d/moved", port)
	out := testenv.Run(t, ".", nil, plugin, "explain", "shop", url, "-n", infra, "--kubeconfig", server.Kubeconfig)
	if want := "100% to Service team/api port 80, ready: "; !strings.Contains(out, want) {
		t.Errorf("it does not say %q:\n%s", want, out)
	}
}

// createShop makes a class, whose data planes have one proxy and no load balancer, and a Gateway of it.
func createShop(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	ctx := t.Context()
	must.Get(server.App.AppV1().GatewayConfigs(infra).Create(ctx, &appv1.GatewayConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "small"},
		Spec:       appv1.GatewayConfigSpec{Replicas: ptr.To[int32](1), Service: &appv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}},
	}, metav1.CreateOptions{}))(t)
	must.Get(api.GatewayV1().GatewayClasses().Create(ctx, &gatewayv1.GatewayClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gateway"},
		Spec: gatewayv1.GatewayClassSpec{ControllerName: gatewayapi.ControllerName, ParametersRef: &gatewayv1.ParametersReference{
			Group: appv1.GroupName, Kind: "GatewayConfig", Namespace: ptr.To(gatewayv1.Namespace(infra)), Name: "small",
		}},
	}, metav1.CreateOptions{}))(t)
	from := gatewayv1.NamespacesFromSelector
	must.Get(api.GatewayV1().Gateways(infra).Create(ctx, &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: gatewayv1.GatewaySpec{GatewayClassName: "gateway", AllowedListeners: &gatewayv1.AllowedListeners{
			Namespaces: &gatewayv1.ListenerNamespaces{From: ptr.To(gatewayv1.NamespacesFromAll)},
		}, Listeners: []gatewayv1.Listener{{
			Name: "http", Port: port, Protocol: gatewayv1.HTTPProtocolType,
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{
				From: &from, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}},
			}},
		}}},
	}, metav1.CreateOptions{}))(t)
}

// expectDataPlane waits for the Gateway of our own that belongs to Gateway shop.
func expectDataPlane(t *testing.T, api routesclient.Interface) {
	t.Helper()
	testenv.Eventually(t, soon, "our Gateway", func(ctx context.Context) error {
		gateway, err := api.GatewayV1().Gateways(infra).Get(ctx, "shop", metav1.GetOptions{})
		if err != nil {
			return err
		}
		own, err := server.App.AppV1().Gateways(infra).Get(ctx, "shop", metav1.GetOptions{})
		switch {
		case err != nil:
			return err
		case !metav1.IsControlledBy(own, gateway):
			return fmt.Errorf("its owners are %+v", own.OwnerReferences)
		case *own.Spec.Replicas != 1 || own.Spec.Service.Type != corev1.ServiceTypeClusterIP:
			return fmt.Errorf("it has %d replicas and a Service of type %s", *own.Spec.Replicas, own.Spec.Service.Type)
		}
		service, err := server.Kube.CoreV1().Services(infra).Get(ctx, "shop-gateway", metav1.GetOptions{})
		if err == nil && service.Labels[gatewayv1.GatewayNameLabelKey] != "shop" {
			err = fmt.Errorf("the labels of its Service are %v", service.Labels)
		}
		return err
	})
}

func expectGateway(t *testing.T, api routesclient.Interface, generation int64, wanted ...string) {
	t.Helper()
	testenv.Eventually(t, soon, fmt.Sprintf("Gateway shop to be %v", wanted), func(ctx context.Context) error {
		gateway, err := api.GatewayV1().Gateways(infra).Get(ctx, "shop", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(gateway.Status.Addresses) == 0 || len(gateway.Status.Listeners) != 1 {
			return fmt.Errorf("the status is %+v", gateway.Status)
		}
		return errors.Join(expect(gateway.Status.Conditions, generation, wanted...), expect(gateway.Status.Listeners[0].Conditions, generation, wanted...))
	})
}

// testGrant: a Service of another namespace gets requests as long as a ReferenceGrant lets it.
func testGrant(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	ctx := t.Context()
	rows := service("rows")
	rows.Namespace = ptr.To[gatewayv1.Namespace]("data")
	must.Get(api.GatewayV1().HTTPRoutes("team").Create(ctx, newRoute("team", "rows", shop(), "/rows", rows), metav1.CreateOptions{}))(t)
	expectRoute(t, api, "team", "rows", 1, "Accepted=True", "ResolvedRefs=False/RefNotPermitted")
	expectAnswer(t, port, "/rows", 500, "")
	expectAccess(t, "data", false)

	grants := api.GatewayV1().ReferenceGrants("data")
	must.Get(grants.Create(ctx, &gatewayv1.ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: gatewayv1.ReferenceGrantSpec{
		From: []gatewayv1.ReferenceGrantFrom{{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: "team"}},
		To:   []gatewayv1.ReferenceGrantTo{{Kind: "Service"}},
	}}, metav1.CreateOptions{}))(t)
	expectRoute(t, api, "team", "rows", 1, "ResolvedRefs=True", "Programmed=True")
	expectAnswer(t, port, "/rows", 200, "data/rows")
	expectAccess(t, "data", true)

	must.Do(t, grants.Delete(ctx, "team", metav1.DeleteOptions{}))
	expectAnswer(t, port, "/rows", 500, "")
	expectRoute(t, api, "team", "rows", 1, "ResolvedRefs=False/RefNotPermitted")
	expectAccess(t, "data", false)
	must.Do(t, api.GatewayV1().HTTPRoutes("team").Delete(ctx, "rows", metav1.DeleteOptions{}))
}

// testOwnParent: routes attach to Gateways of our own, too.
func testOwnParent(t *testing.T, api routesclient.Interface) {
	t.Helper()
	ctx, port := t.Context(), haproxytest.FreePort(t)
	must.Get(server.App.AppV1().Gateways(infra).Create(ctx, &appv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Spec: appv1.GatewaySpec{
		Replicas: ptr.To[int32](1), Service: appv1.ServiceSpec{Type: corev1.ServiceTypeClusterIP},
		Listeners: []appv1.Listener{{Name: "http", Port: port, Protocol: appv1.ProtocolHTTP}},
		Routes: []appv1.Route{{Name: "first", Rules: []appv1.RouteRule{{
			Matches: []appv1.RouteMatch{{Path: appv1.PathMatch{Value: "/first"}}}, BackendRefs: []appv1.BackendRef{{Name: "web", Port: 80}},
		}}}},
	}}, metav1.CreateOptions{}))(t)
	startProxy(t, infra, "own")
	expectAnswer(t, port, "/first", 200, "infra/web")
	parent := gatewayv1.ParentReference{Group: ptr.To[gatewayv1.Group](appv1.GroupName), Name: "own"}
	must.Get(api.GatewayV1().HTTPRoutes(infra).Create(ctx, newRoute(infra, "second", parent, "/second", service("web")), metav1.CreateOptions{}))(t)
	expectAnswer(t, port, "/second", 200, "infra/web")
	expectAnswer(t, port, "/first", 200, "infra/web")
	expectRoute(t, api, infra, "second", 1, "Accepted=True", "ResolvedRefs=True", "Programmed=True")
	// Filters of its listener are for both.
	must.Get(server.App.AppV1().Gateways(infra).Patch(ctx, "own", types.JSONPatchType, []byte(`[{"op":"add","path":"/spec/listeners/0/filters","value":[
		{"type":"ClientAddress","clientAddress":{"deny":["127.0.0.0/8"]}}]}]`), metav1.PatchOptions{}))(t)
	expectAnswer(t, port, "/first", 403, "")
	expectAnswer(t, port, "/second", 403, "")
	must.Do(t, api.GatewayV1().HTTPRoutes(infra).Delete(ctx, "second", metav1.DeleteOptions{}))
	expectAnswer(t, port, "/second", 404, "")
}

// testSteadyState: where nothing changes, nothing is written.
func testSteadyState(t *testing.T, operator *testenv.Program) {
	t.Helper()
	must.Do(t, operator.Running())
	user := "system:serviceaccount:gateway-system:gateway-operator"
	testenv.Eventually(t, soon, "a second without writes", func(context.Context) error {
		since := time.Now()
		time.Sleep(time.Second)
		for _, write := range server.Writes(t, user, since) {
			if !strings.Contains(write.String(), "leases") {
				return fmt.Errorf("the operator wrote %s", write)
			}
		}
		return nil
	})
}
