package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/cmd/kubectl-gateway/internal/command"
	"gateway/internal/must"
	"gateway/internal/proxyconfig"
	"gateway/internal/proxypod"
)

// answer answers with an object.
func answer(object any) http.HandlerFunc {
	return func(writer http.ResponseWriter, _ *http.Request) {
		writer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(writer).Encode(object)
	}
}

// newCluster is an API server with a Gateway that has a proxy which answers, one that does not, and one that is to
// come.
func newCluster(t *testing.T) *httptest.Server {
	t.Helper()
	pod := func(name string, phase corev1.PodPhase) corev1.Pod {
		return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: proxypod.SelectorLabels("shop")}, Status: corev1.PodStatus{Phase: phase}}
	}
	agent := answer(proxyconfig.Config{HAProxy: &proxyconfig.HAProxy{
		Started: time.Now().Add(-time.Hour), Sessions: 42, Servers: []proxyconfig.Server{{Backend: "shop_cart_80", Address: "192.0.2.1:80", State: "no check"}},
	}})
	metrics := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if request.URL.RequestURI() != "/metrics?scope=frontend&metrics=haproxy_frontend_http_responses_total" {
			http.NotFound(writer, request)
			return
		}
		_, _ = io.WriteString(writer, "# TYPE haproxy_frontend_http_responses_total counter\nhaproxy_frontend_http_responses_total{proxy=\"80\",code=\"2xx\"} 7\n")
	})
	mux := http.NewServeMux()
	mux.Handle("/apis/app.example.com/v1/namespaces/shop/gateways", answer(appv1.GatewayList{
		TypeMeta: metav1.TypeMeta{APIVersion: "app.example.com/v1", Kind: "GatewayList"}, Items: []appv1.Gateway{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "shop"}}},
	}))
	mux.Handle("/api/v1/namespaces/shop/pods", answer(corev1.PodList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{pod("good", corev1.PodRunning), pod("deaf", corev1.PodRunning), pod("new", corev1.PodPending)},
	}))
	list := func(text string) http.HandlerFunc { return answer(json.RawMessage(text)) }
	mux.Handle("/apis/app.example.com/v1/namespaces/shop/gatewayattachments", list(`{"kind": "GatewayAttachmentList", "apiVersion": "app.example.com/v1",
		"items": [{"metadata": {"namespace": "shop", "name": "shop.team"}, "spec": {"gatewayName": "shop", "namespace": "team"}}]}`))
	mux.Handle("/apis/app.example.com/v1/namespaces/team/gateways", list(`{"kind": "GatewayList", "apiVersion": "app.example.com/v1", "items": []}`))
	mux.Handle("/apis/gateway.networking.k8s.io/v1/namespaces/team/httproutes", list(`{"kind": "HTTPRouteList", "apiVersion": "gateway.networking.k8s.io/v1",
		"items": [{"metadata": {"namespace": "team", "name": "api", "generation": 1}, "status": {"parents": [{"controllerName": "app.example.com/gateway",
		"parentRef": {"name": "shop", "namespace": "shop"}, "conditions": [{"type": "Programmed", "status": "True", "observedGeneration": 1}]}]}}]}`))
	mux.Handle("/apis/networking.k8s.io/v1/ingressclasses", list(`{"kind": "IngressClassList", "apiVersion": "networking.k8s.io/v1", "items": []}`))
	mux.Handle("/api/v1/namespaces/shop/pods/good/portforward", clitest.PortForward(map[int]http.Handler{8405: agent, 8404: metrics}))
	mux.Handle("/api/v1/namespaces/shop/pods/deaf/portforward", clitest.PortForward(nil))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// TestDashboard runs the command, and reads its page.
func TestDashboard(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	reader, writer := io.Pipe()
	var problems strings.Builder
	options := cli.NewOptions(genericiooptions.IOStreams{In: strings.NewReader(""), Out: writer, ErrOut: &problems})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		code := cli.Execute(ctx, command.New(options), options, []string{"dashboard", "-n", "shop", "--server", newCluster(t).URL})
		_ = writer.Close()
		ended <- code
	}()
	line, err := bufio.NewReader(reader).ReadString('\n')
	url := regexp.MustCompile(`^The dashboard is at (http://127\.0\.0\.1:\d+/) until you press Ctrl-C\n$`).FindStringSubmatch(line)
	if url == nil {
		t.Fatalf("it says %q (%v)", line, err)
	}
	request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url[1], nil))(t)
	response, err := http.DefaultClient.Do(request)
	must.Do(t, err)
	defer response.Body.Close() //nolint:errcheck // all was read
	page := must.Get(io.ReadAll(response.Body))(t)
	for _, want := range []string{", namespace shop</p>", "no operator has looked at it", `good<td class="n">–<td class="n">–<td class="n">42<td class="n">1/1`, "nobody listens", "it is Pending", "shop_cart_80", "team/api<td>HTTPRoute<td>*<td>True"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	cancel()
	if code := <-ended; code != 0 || problems.Len() > 0 {
		t.Errorf("exit code %d: %s", code, problems.String())
	}
}
