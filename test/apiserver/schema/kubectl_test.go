package schema

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

func TestDefaults(t *testing.T) {
	t.Parallel()
	const spec = `spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP, httpsRedirect: {}, allowedRoutes: {kinds: [{kind: TCPRoute}]}}
    - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: a}], clientValidation: {caCertificateRefs: [{name: b}]}, hsts: {}}}
  routes:
    - name: shop
      rules:
        - {backendRefs: [{name: a, port: 80}], retry: {}, sessionPersistence: {}}
        - {matches: [{headers: [{name: a, value: b}], queryParams: [{name: c, value: d}]}, {path: {type: Exact}}], filters: [
            {type: CORS, cors: {allowOrigins: ["*"]}}, {type: RequestRedirect, requestRedirect: {}}]}
        - {filters: [{type: DirectResponse, directResponse: {}}]}
  tcpRoutes: [{name: a, listeners: [http], rules: [{backendRefs: [{name: a, port: 80}]}]}]
  backends: [{name: a, port: 80, loadBalancing: {}, healthCheck: {}, outlierDetection: {}, connections: {maxPerEndpoint: 1}, waitForEndpoint: {}}]
`
	created, err := create(t.Context(), object(t, "defaults", spec), false)
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(created.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	everyPath := `"matches":[{"path":{"type":"PathPrefix","value":"/"}}]`
	want := `{"backends":[{"connections":{"maxPerEndpoint":1,"queueTimeout":"10s"},` +
		`"healthCheck":{"healthyThreshold":2,"interval":"5s","timeout":"2s","unhealthyThreshold":3},` +
		`"loadBalancing":{"algorithm":"Random"},"name":"a","outlierDetection":{"consecutiveErrors":5},"port":80,"waitForEndpoint":{"maxRequests":100,"timeout":"30s"}}],` +
		`"clientLimits":{"maxConnections":10000,"maxHeaderBytes":16384,"maxHeaders":100,"maxPerAddress":2500},` +
		`"drainTimeout":"1m","listeners":[{"allowedRoutes":{"kinds":[{"group":"gateway.networking.k8s.io","kind":"TCPRoute"}],"namespaces":{"from":"Same"}},"httpsRedirect":{"statusCode":301},"name":"http","port":80,"protocol":"HTTP"},{"name":"https","port":443,"protocol":"HTTPS",` +
		`"tls":{"certificateRefs":[{"name":"a"}],"cipherProfile":"Intermediate",` +
		`"clientValidation":{"caCertificateRefs":[{"name":"b"}],"mode":"Required"},"hsts":{"maxAgeSeconds":31536000},"minVersion":"TLSv1.2","mode":"Terminate"}}],` +
		`"replicas":2,"routes":[{"name":"shop","rules":[{"backendRefs":[{"name":"a","port":80,"weight":1}],` + everyPath +
		`,"retry":{"attempts":3},"sessionPersistence":{"sessionName":"gateway-session","type":"Cookie"}},` +
		`{"filters":[{"cors":{"allowOrigins":["*"],"maxAge":5},"type":"CORS"},{"requestRedirect":{"statusCode":302},"type":"RequestRedirect"}],` +
		`"matches":[{"headers":[{"name":"a","type":"Exact","value":"b"}],"path":{"type":"PathPrefix","value":"/"},` +
		`"queryParams":[{"name":"c","type":"Exact","value":"d"}]},{"path":{"type":"Exact","value":"/"}}]},` +
		`{"filters":[{"directResponse":{"contentType":"text/plain; charset=utf-8","statusCode":200},"type":"DirectResponse"}],` + everyPath + `}]}],` +
		`"service":{"type":"LoadBalancer"},"tcpRoutes":[{"listeners":["http"],"name":"a","rules":[{"backendRefs":[{"name":"a","port":80,"weight":1}]}]}]}`
	if string(got) != want {
		t.Errorf("the spec with its defaults is\n%s\nwant\n%s", got, want)
	}
	if _, has := created.Object["status"]; has {
		t.Error("a new Gateway has a status")
	}
}

// TestSubresources: who writes the status cannot change the spec, the other way round neither, and only the spec counts
// for the generation.
func TestSubresources(t *testing.T) {
	t.Parallel()
	if _, err := create(t.Context(), object(t, "sub", http+"}"), false); err != nil {
		t.Fatal(err)
	}
	change := `{"spec":{"replicas":5},"status":{"replicas":7,"selector":"a=b"}}`
	g := patch(t, "sub", change)
	if *g.Spec.Replicas != 5 || g.Status.Replicas != 0 || g.Generation != 2 {
		t.Errorf("a patch of the object made spec.replicas=%d status.replicas=%d generation=%d, want 5, 0, 2",
			*g.Spec.Replicas, g.Status.Replicas, g.Generation)
	}
	g = patch(t, "sub", `{"spec":{"replicas":6},"status":{"replicas":7,"selector":"a=b"}}`, "status")
	if *g.Spec.Replicas != 5 || g.Status.Replicas != 7 || g.Generation != 2 {
		t.Errorf("a patch of the status made spec.replicas=%d status.replicas=%d generation=%d, want 5, 7, 2",
			*g.Spec.Replicas, g.Status.Replicas, g.Generation)
	}
	client := server.App.AppV1().Gateways("default")
	raw := server.App.AppV1().RESTClient()
	var scale autoscalingv1.Scale
	if err := json.Unmarshal(must.Get(raw.Get().AbsPath("/apis/app.example.com/v1/namespaces/default/gateways/sub/scale").
		DoRaw(t.Context()))(t), &scale); err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 5 || scale.Status.Replicas != 7 || scale.Status.Selector != "a=b" {
		t.Errorf("the scale is %+v", scale)
	}
	server.Kubectl(t, "scale", "gateways.app.example.com/sub", "--replicas=3")
	g, err := client.Get(t.Context(), "sub", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if *g.Spec.Replicas != 3 {
		t.Errorf("kubectl scale made spec.replicas=%d, want 3", *g.Spec.Replicas)
	}
}

func patch(t *testing.T, name, change string, subresources ...string) *appv1.Gateway {
	t.Helper()
	g, err := server.App.AppV1().Gateways("default").Patch(
		t.Context(), name, types.MergePatchType, []byte(change), metav1.PatchOptions{}, subresources...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestPrinterColumns(t *testing.T) {
	t.Parallel()
	if _, err := create(t.Context(), object(t, "columns", http+"}"), false); err != nil {
		t.Fatal(err)
	}
	expectColumns(t, `columns\s+2\s+\d+s`)
	patch(t, "columns", `{"status":{"readyReplicas":1,"addresses":[{"type":"IPAddress","value":"192.0.2.1"}],
		"conditions":[{"type":"Programmed","status":"True","reason":"Programmed","message":"","lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`, "status")
	expectColumns(t, `columns\s+True\s+192\.0\.2\.1\s+2\s+1\s+\d+s`)
}

func expectColumns(t *testing.T, row string) {
	t.Helper()
	got := server.Kubectl(t, "get", "gateways.app.example.com", "columns")
	if !regexp.MustCompile(`^NAME\s+PROGRAMMED\s+ADDRESS\s+REPLICAS\s+READY\s+AGE\n` + row + `\n$`).MatchString(got) {
		t.Errorf("kubectl get prints\n%s\nwant a row like %s", got, row)
	}
}

// TestExplain checks that kubectl explain has a sentence for every field that is ours, and no trace of Go or of
// markers.
func TestExplain(t *testing.T) {
	t.Parallel()
	crd := crdSchema(t.Context(), t, "gateways")
	var visit func(path string, schema map[string]any)
	visit = func(path string, schema map[string]any) {
		if items, ok := schema["items"].(map[string]any); ok {
			visit(path, items)
			return
		}
		properties, _ := schema["properties"].(map[string]any)
		for name, p := range properties {
			property := p.(map[string]any)
			field := path + "." + name
			if field == ".apiVersion" || field == ".kind" || field == ".metadata" || strings.HasSuffix(path, ".conditions") ||
				slices.ContainsFunc(slices.Collect(maps.Keys(kubernetes)), func(name string) bool { return "."+strings.ReplaceAll(name, "[]", "") == path }) {
				continue
			}
			description, _ := property["description"].(string)
			if len(description) < 8 || !strings.HasSuffix(description, ".") {
				t.Errorf("%s is described as %q, want one or more sentences", field, description)
			}
			if strings.ContainsAny(description[:1], "abcdefghijklmnopqrstuvwxyz") || strings.Contains(description, "+kubebuilder") ||
				strings.Contains(description, "TODO") {
				t.Errorf("%s is described as %q, want text for users", field, description)
			}
			visit(field, property)
		}
	}
	visit("", crd)

	for field, wants := range map[string][]string{
		"routes.rules.matches.path": {"Exact: the path is the value.", "enum: Exact, PathPrefix, RegularExpression", "The path, starting with a slash."},
		"routes.rules.filters": {"enum: RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect, URLRewrite",
			"Answer with a redirect."},
		"routes.rules.filters.cors":                  {"The origins: scheme, host and port", "-required-"},
		"routes.rules.filters.requestHeaderModifier": {"Headers that replace all of their name."},
		"routes.rules.timeouts":                      {"How long one attempt may take until the answer begins."},
		"listeners.tls":                              {"The Secrets of type kubernetes.io/tls", "enum: TLSv1.2, TLSv1.3"},
		"backends.healthCheck":                       {"The path to request by GET"},
		"tcpRoutes.rules.backendRefs":                {"Connections go straight to the Service's"},
		"pods.tolerations":                           {"tolerationSeconds"},
		"trustedProxies":                             {"The CIDR ranges of the proxies"},
	} {
		got := server.Kubectl(t, "explain", "gateways.app.example.com.spec."+field)
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("kubectl explain %s lacks %q:\n%s", field, want, got)
			}
		}
	}
	if got := server.Kubectl(t, "explain", "--recursive", "gateways.app.example.com"); strings.Contains(got, "<no description>") {
		t.Errorf("kubectl explain --recursive has fields without a description:\n%s", got)
	}
}

// crdSchema is the schema of a Gateway as the API server publishes it.
func crdSchema(ctx context.Context, t *testing.T, resource string) map[string]any {
	t.Helper()
	raw := must.Get(server.Kube.Discovery().RESTClient().Get().
		AbsPath("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + resource + ".app.example.com").DoRaw(ctx))(t)
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct{ OpenAPIV3Schema map[string]any }
			}
		}
	}
	if err := json.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// TestShortNames: the names that kubectl takes for our kinds, and the columns of a GatewayProxy.
func TestShortNames(t *testing.T) {
	t.Parallel()
	if _, err := create(t.Context(), object(t, "short", http+"}"), false); err != nil {
		t.Fatal(err)
	}
	proxy := &appv1.GatewayProxy{
		ObjectMeta: metav1.ObjectMeta{Name: "short-pod"},
		Status:     appv1.GatewayProxyStatus{Gateway: appv1.ProxiedGateway{Name: "short", UID: "uid"}, ObservedGeneration: 3},
	}
	proxies := server.App.AppV1().GatewayProxies("default")
	made, err := proxies.Create(t.Context(), proxy, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status = proxy.Status
	if _, err := proxies.UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	const gatewayName, proxyName = "gateway.app.example.com/short\n", "gatewayproxy.app.example.com/short-pod\n"
	if got := server.Kubectl(t, "get", "appgw/short", "gwp/short-pod", "--output=name"); got != gatewayName+proxyName {
		t.Errorf("the short names are of %q", got)
	}
	if got := server.Kubectl(t, "get", "app-gateway", "--output=name"); !strings.Contains(got, gatewayName) || !strings.Contains(got, proxyName) {
		t.Errorf("the category has %q", got)
	}
	if got := server.Kubectl(t, "get", "gwp", "short-pod"); !regexp.MustCompile(`^NAME\s+GATEWAY\s+GENERATION\s+PROBLEM\s+AGE\nshort-pod\s+short\s+3\s+\d+s\n$`).MatchString(got) {
		t.Errorf("kubectl get prints\n%s", got)
	}
}
