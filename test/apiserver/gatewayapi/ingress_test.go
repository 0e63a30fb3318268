package gatewayapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
	"gateway/internal/plugintest"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// gateways is the namespace of the Gateways for Ingresses.
const gateways = "gateway-ingress"

// ingressClass is the GatewayClass, whose data planes have one proxy and no load balancer.
const ingressClass = `
apiVersion: app.example.com/v1
kind: GatewayConfig
metadata: {namespace: gateway-ingress, name: small}
spec: {replicas: 1, service: {type: ClusterIP}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: gateway}
spec:
  controllerName: app.example.com/gateway
  parametersRef: {group: app.example.com, kind: GatewayConfig, namespace: gateway-ingress, name: small}`

// shopIngress has an annotation with a difference, guardedIngress one that cannot be carried over.
const shopIngress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: front
  name: shop
  annotations: {nginx.ingress.kubernetes.io/limit-rps: "100"}
spec:
  ingressClassName: gateway
  rules: [{host: shop.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]`

const guardedIngress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  namespace: front
  name: guarded
  annotations: {nginx.ingress.kubernetes.io/server-snippet: deny all;}
spec:
  ingressClassName: gateway
  rules: [{host: guarded.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]`

// TestIngress: an Ingress of our class is served. What is made of it follows it, and goes with it.
func TestIngress(t *testing.T) {
	server.InstallGatewayAPI(t)
	server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(testbuild.MustRoot(t), "artifacts", "ingress"))
	apply(t, ingressClass)
	api := routesClient(t)
	defer server.Kubectl(t, "delete", "gatewayclass", "gateway")
	createNamespace(t, "front", nil)
	createService(t, "front", "web")
	createService(t, "front", "second")
	operator := startOperator(t, "-ingress-namespace="+gateways)
	apply(t, shopIngress)
	waitForGateway(t, gateways, "gateway")
	port := haproxytest.FreePort(t)
	startProxyThrough(t, gateways, "gateway", func(kubeconfig string) string { return otherPort(t, kubeconfig, port) })

	expectRoute(t, api, "front", "gateway-shop-test", 1, "Accepted=True", "ResolvedRefs=True", "Programmed=True")
	expectHost(t, port, "shop.test", 200, "front/web")
	expectAddress(t, api, "shop", true)
	expectEvent(t, "Ingress", "shop", corev1.EventTypeNormal, "Programmed", "All proxies run it")
	expectEvent(t, "Ingress", "shop", corev1.EventTypeWarning, "Differs", "annotation limit-rps: clients get 429, not 503")
	t.Run("a guard", func(t *testing.T) {
		apply(t, guardedIngress)
		expectHost(t, port, "guarded.test", 503, "")
		expectEvent(t, "Ingress", "guarded", corev1.EventTypeWarning, "Closed", "annotation server-snippet: ")
	})
	t.Run("an edited route", func(t *testing.T) { testEditedRoute(t, api, port) })
	t.Run("an edit", func(t *testing.T) {
		apply(t, strings.Replace(shopIngress, "name: web", "name: second", 1))
		expectHost(t, port, "shop.test", 200, "front/second")
	})
	t.Run("hosts of others", func(t *testing.T) { testHostsOfOthers(t, port) })
	t.Run("names that are taken", func(t *testing.T) { testTakenNames(t, api, port) })
	t.Run("challenges", func(t *testing.T) { testChallenges(t, port) })
	t.Run("a ConfigMap", testIngressConfigMap)
	t.Run("steady state", func(t *testing.T) { testSteadyState(t, operator) })
	t.Run("another class", func(t *testing.T) {
		apply(t, strings.Replace(guardedIngress, "ingressClassName: gateway", "ingressClassName: other", 1))
		expectHost(t, port, "guarded.test", 404, "")
		expectAddress(t, api, "guarded", false)
	})
	t.Run("the Ingress goes", func(t *testing.T) {
		apply(t, strings.NewReplacer("name: shop\n", "name: leaving\n", "shop.test", "leaving.test").Replace(shopIngress))
		expectHost(t, port, "leaving.test", 200, "front/web")
		server.Kubectl(t, "-n", "front", "delete", "ingress", "leaving")
		expectHost(t, port, "leaving.test", 404, "")
		expectNothing(t, "gateway", "leaving")
	})
	t.Run("adopted", func(t *testing.T) { testAdopted(t, api, port) })
}

// expectNothing waits until nothing is left of a class with a part of a name.
func expectNothing(t *testing.T, class, part string) {
	t.Helper()
	const kinds = "gateways.gateway.networking.k8s.io,listenersets,httproutes,referencegrants,gatewayconfigs,routefilters"
	testenv.Eventually(t, soon, "all of it to go", func(context.Context) error {
		left := server.Kubectl(t, "get", kinds, "-A", "-l", "app.example.com/ingress-class="+class, "-o", "name")
		if strings.Contains(left, part) {
			return fmt.Errorf("there is %s", left)
		}
		return nil
	})
}

// apply applies objects of YAML documents.
func apply(t *testing.T, documents string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	must.Do(t, os.WriteFile(file, []byte(documents), 0o600))
	server.Kubectl(t, "apply", "-f", file)
}

// testEditedRoute: what somebody changes or deletes of what was made comes back.
func testEditedRoute(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	routes := api.GatewayV1().HTTPRoutes("front")
	must.Get(routes.Patch(t.Context(), "gateway-shop-test", types.JSONPatchType,
		[]byte(`[{"op":"replace","path":"/spec/rules/0/backendRefs/0/name","value":"second"}]`), metav1.PatchOptions{FieldManager: "somebody"}))(t)
	expectRoute(t, api, "front", "gateway-shop-test", 3, "Programmed=True")
	expectHost(t, port, "shop.test", 200, "front/web")
	route := must.Get(routes.Get(t.Context(), "gateway-shop-test", metav1.GetOptions{}))(t)
	if owners := route.OwnerReferences; len(owners) != 1 || owners[0].Kind != "Ingress" || owners[0].Name != "shop" {
		t.Errorf("its owners are %+v", owners)
	}
	must.Do(t, routes.Delete(t.Context(), "gateway-shop-test", metav1.DeleteOptions{}))
	testenv.Eventually(t, soon, "a new route", func(ctx context.Context) error {
		found, err := routes.Get(ctx, "gateway-shop-test", metav1.GetOptions{})
		if err == nil && found.UID == route.UID {
			err = errors.New("it is the old one")
		}
		return err
	})
	expectRoute(t, api, "front", "gateway-shop-test", 1, "Programmed=True")
	expectHost(t, port, "shop.test", 200, "front/web")
}

// testHostsOfOthers: an Ingress closes no host that its namespace may not use, and does where namespaces may use any.
func testHostsOfOthers(t *testing.T, port int32) {
	t.Helper()
	createNamespace(t, "back", nil)
	createService(t, "back", "web")
	file := filepath.Join(t.TempDir(), "config.yaml")
	must.Do(t, os.WriteFile(file, []byte(`{apiVersion: app.example.com/v1, kind: GatewayConfig, metadata: {namespace: gateway-ingress, name: gateway},
  spec: {allowedHostnames: {rules: [{hostnames: ["*"], namespaces: {selector: {matchLabels: {kubernetes.io/metadata.name: front}}}}]}}}`), 0o600))
	server.Kubectl(t, "apply", "--server-side", "--field-manager=owner", "-f", file)
	apply(t, strings.NewReplacer("namespace: front", "namespace: back", "guarded.test", "shop.test", "path: /,", "path: /x,").Replace(guardedIngress))
	expectEvent(t, "Ingress", "guarded", corev1.EventTypeWarning, "Refused",
		"host shop.test: namespace back may use no hostname, and not shop.test: see allowedHostnames.rules of the GatewayConfig of Gateway gateway-ingress/gateway")
	expectHost(t, port, "shop.test", 200, "front/second")
	server.Kubectl(t, "-n", gateways, "patch", "gatewayconfig", "gateway", "--type=json", `-p=[{"op":"remove","path":"/spec/allowedHostnames"}]`)
	expectHost(t, port, "shop.test", 503, "")
	server.Kubectl(t, "-n", "back", "delete", "ingress", "guarded")
	expectHost(t, port, "shop.test", 200, "front/second")
}

// testTakenNames: objects of others are left alone. Routes get other names, a class whose Gateway is taken waits.
func testTakenNames(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	elsewhere := gatewayv1.ParentReference{Name: "elsewhere"}
	mine := must.Get(api.GatewayV1().HTTPRoutes("front").Create(t.Context(), newRoute("front", "gateway-taken-test", elsewhere, "/", service("second")), metav1.CreateOptions{}))(t)
	ingress := strings.NewReplacer("name: shop\n", "name: taken\n", "shop.test", "taken.test").Replace(shopIngress)
	apply(t, ingress)
	expectRoute(t, api, "front", "gateway-taken-test-02", 1, "Programmed=True")
	expectHost(t, port, "taken.test", 200, "front/web")
	found, err := api.GatewayV1().HTTPRoutes("front").Get(t.Context(), mine.Name, metav1.GetOptions{})
	if err != nil || found.ResourceVersion != mine.ResourceVersion {
		t.Errorf("the route of somebody else has changed: %v", err)
	}

	must.Get(api.GatewayV1().Gateways(gateways).Create(t.Context(), &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Name: "second"}, Spec: gatewayv1.GatewaySpec{
		GatewayClassName: "elsewhere", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
	}}, metav1.CreateOptions{}))(t)
	apply(t, "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: second}\nspec: {controller: app.example.com/ingress}")
	apply(t, strings.Replace(ingress, "ingressClassName: gateway", "ingressClassName: second", 1))
	expectEvent(t, "IngressClass", "second", corev1.EventTypeWarning, "Waiting",
		"Gateway gateway-ingress/second exists and was not made of IngressClass second: delete or rename one of them")
	expectHost(t, port, "taken.test", 404, "")
	server.Kubectl(t, "-n", "front", "delete", "ingress", "taken")
}

// testIngressConfigMap: a class with a ConfigMap has its settings, and waits until there is one.
func testIngressConfigMap(t *testing.T) {
	const class = `
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: third}
spec:
  controller: app.example.com/ingress
  parameters: {kind: ConfigMap, scope: Namespace, namespace: gateway-ingress, name: third}`
	apply(t, class)
	ingress := strings.NewReplacer("name: shop\n", "name: third\n", "shop.test", "third.test", "ingressClassName: gateway", "ingressClassName: third").Replace(shopIngress)
	apply(t, ingress)
	expectEvent(t, "IngressClass", "third", corev1.EventTypeWarning, "Waiting", "spec.parameters: there is no ConfigMap gateway-ingress/third: create it")
	apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: gateway-ingress, name: third}\ndata: {worker-shutdown-timeout: 90s}")
	testenv.Eventually(t, soon, "the setting of the ConfigMap", func(ctx context.Context) error {
		config, err := server.App.AppV1().GatewayConfigs(gateways).Get(ctx, "third", metav1.GetOptions{})
		if err == nil && config.Spec.DrainTimeout != "90s" {
			err = fmt.Errorf("drainTimeout is %q", config.Spec.DrainTimeout)
		}
		return err
	})
	server.Kubectl(t, "-n", "front", "delete", "ingress", "third")
	expectNothing(t, "third", "third")
	server.Kubectl(t, "delete", "ingressclass", "third")
}

// testAdopted: what was made of the Ingresses of a class stays without them, and is as it was.
func testAdopted(t *testing.T, api routesclient.Interface, port int32) {
	t.Helper()
	plugin := filepath.Join(plugintest.Build(t, testbuild.MustRoot(t)), "kubectl-gateway")
	before := must.Get(api.GatewayV1().Gateways(gateways).Get(t.Context(), "gateway", metav1.GetOptions{}))(t)
	out := testenv.Run(t, ".", nil, plugin, "adopt", "gateway", "--kubeconfig", server.Kubeconfig)
	if !strings.Contains(out, "HTTPRoute front/gateway-shop-test\n") || !strings.HasPrefix(out, "Gateway gateway-ingress/gateway\nGatewayConfig gateway-ingress/gateway\n") {
		t.Errorf("it adopts\n%s", out)
	}
	expectEvent(t, "IngressClass", "gateway", corev1.EventTypeWarning, "Waiting", "what was made of its Ingresses was adopted: delete them, and the IngressClass")
	server.Kubectl(t, "-n", "front", "delete", "ingress", "shop", "guarded")
	server.Kubectl(t, "delete", "ingressclass", "gateway")
	expectHost(t, port, "shop.test", 200, "front/second")
	after, err := api.GatewayV1().Gateways(gateways).Get(t.Context(), "gateway", metav1.GetOptions{})
	if err != nil || after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("the Gateway has changed: %v", err)
	}
	routes := must.Get(api.GatewayV1().HTTPRoutes("front").List(t.Context(), metav1.ListOptions{}))(t)
	for _, route := range routes.Items {
		if len(route.OwnerReferences) > 0 || strings.HasSuffix(route.Name, "-02") {
			t.Errorf("HTTPRoute %s has the owners %v", route.Name, route.OwnerReferences)
		}
	}
}

// expectHost waits until a request for a host is answered with a status and a text.
func expectHost(t *testing.T, port int32, host string, status int, text string) {
	t.Helper()
	testenv.Eventually(t, soon, fmt.Sprintf("%s to be answered with %d %s", host, status, text), func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
		if err != nil {
			return err
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close() //nolint:errcheck // it was read
		body, err := io.ReadAll(response.Body)
		if err == nil && (response.StatusCode != status || !strings.Contains(string(body), text)) {
			err = fmt.Errorf("got %d %q", response.StatusCode, body)
		}
		return err
	})
}

// expectAddress waits until the status of an Ingress has the address of the Gateway, or none.
func expectAddress(t *testing.T, api routesclient.Interface, name string, want bool) {
	t.Helper()
	testenv.Eventually(t, soon, fmt.Sprintf("Ingress %s to have an address: %t", name, want), func(ctx context.Context) error {
		gateway, err := api.GatewayV1().Gateways(gateways).Get(ctx, "gateway", metav1.GetOptions{})
		if err != nil {
			return err
		}
		ingress, err := server.Kube.NetworkingV1().Ingresses("front").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		var wanted []networkingv1.IngressLoadBalancerIngress
		if want && len(gateway.Status.Addresses) == 1 {
			wanted = []networkingv1.IngressLoadBalancerIngress{{IP: gateway.Status.Addresses[0].Value}}
		}
		if got := ingress.Status.LoadBalancer.Ingress; len(got) != len(wanted) || want && (len(got) != 1 || got[0].IP != wanted[0].IP) {
			return fmt.Errorf("it has %+v, want %+v", got, wanted)
		}
		return nil
	})
}

// expectEvent waits for an event of an object, and sees that it was recorded once.
func expectEvent(t *testing.T, kind, name, eventType, reason, message string) {
	t.Helper()
	testenv.Eventually(t, soon, "the event "+message, func(ctx context.Context) error {
		list, err := server.Kube.CoreV1().Events("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var others []string
		for i := range list.Items {
			event := &list.Items[i]
			if event.InvolvedObject.Kind != kind || event.InvolvedObject.Name != name {
				continue
			}
			if event.Type == eventType && event.Reason == reason && strings.Contains(event.Message, message) {
				if event.Count != 1 {
					t.Errorf("%q was recorded %d times", message, event.Count)
				}
				return nil
			}
			others = append(others, event.Reason+": "+event.Message)
		}
		return fmt.Errorf("there are the events %q", others)
	})
}

// otherPort returns a kubeconfig for an agent to which Gateways seem to listen on another port than 80, which this
// machine may not have.
func otherPort(t *testing.T, kubeconfig string, port int32) string {
	t.Helper()
	target := must.Get(url.Parse(server.Admin.Host))(t)
	transport := must.Get(rest.TransportFor(rest.AnonymousClientConfig(server.Admin)))(t)
	through := httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:   func(request *httputil.ProxyRequest) { request.SetURL(target) },
		Transport: transport, FlushInterval: -1,
		ModifyResponse: func(response *http.Response) error {
			if !strings.HasSuffix(response.Request.URL.Path, "/gateways") {
				return nil
			}
			body, reader := response.Body, bufio.NewReader(response.Body)
			read, write := io.Pipe()
			go func() {
				for {
					line, err := reader.ReadString('\n')
					_, _ = io.WriteString(write, strings.ReplaceAll(line, `"port":80,`, fmt.Sprintf(`"port":%d,`, port)))
					if err != nil {
						_ = write.CloseWithError(err)
						_ = body.Close()
						return
					}
				}
			}()
			response.Body = read
			response.Header.Del("Content-Length")
			return nil
		},
	})
	t.Cleanup(func() { through.CloseClientConnections(); through.Close() })
	content := must.Get(os.ReadFile(kubeconfig))(t)
	var kept []string
	for line := range strings.Lines(strings.ReplaceAll(string(content), server.Admin.Host, through.URL)) {
		if !strings.Contains(line, "certificate-authority-data") {
			kept = append(kept, line)
		} else {
			kept = append(kept, strings.Repeat(" ", len(line)-len(strings.TrimLeft(line, " ")))+"insecure-skip-tls-verify: true\n")
		}
	}
	must.Do(t, os.WriteFile(kubeconfig, []byte(strings.Join(kept, "")), 0o600))
	return kubeconfig
}
