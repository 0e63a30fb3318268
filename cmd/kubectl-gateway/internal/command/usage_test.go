package command_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

const minimal = `
apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: %s}
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
`

func TestVersion(t *testing.T) {
	t.Parallel()
	clitest.Run(t, "", "version", "a").Want(t, 2, `unexpected argument "a"`)
	clitest.Run(t, "", "version", "--client").Want(t, 0, "kubectl-gateway ")
}

// TestUsage is about command lines that are wrong, and files that are: a line each, and an exit code.
func TestUsage(t *testing.T) {
	two := fmt.Sprintf(minimal, "one") + "---" + fmt.Sprintf(minimal, "two")
	t.Setenv("KUBECONFIG", "/nonexistent")
	for _, test := range []line{
		{"unknown command", "", []string{"expain"}, 2, `unknown command "expain", did you mean explain?`},
		{"unknown flag", "", []string{"render", "--nope"}, 2, "unknown flag: --nope: see kubectl gateway render --help"},
		{"check and write", "", []string{"render", "-f", "-", "--check", "--output-dir", "d"}, 2, "--check, --diff, --only and --output-dir do not go together"},
		{"a bad selector", "", []string{"list", "-l", "a=b=c"}, 2, "-l a=b=c: "},
		{"too many arguments", "", []string{"render", "a", "b"}, 2, `unexpected argument "b"`},
		{"a file without -f", "", []string{"render", "testdata/mistakes-own.yaml"}, 2, "testdata/mistakes-own.yaml is a file: name it with -f"},
		{"a file without -f, and a URL", "", []string{"explain", "testdata/mistakes-own.yaml", "http://a/"}, 2, "testdata/mistakes-own.yaml is a file: name it with -f"},
		{"nothing to render", "", []string{"render"}, 2, "name a Gateway of the cluster, or a file with -f"},
		{"no URL", "", []string{"explain"}, 2, "the URL is missing"},
		{"no Gateway", "", []string{"explain", "http://a/"}, 2, "name a Gateway of the cluster before the URL"},
		{"a bad URL", "", []string{"explain", "a", "ftp://a/"}, 2, `"ftp://a/" has an unknown scheme`},
		{"a bad port", "", []string{"explain", "a", "http://a:0/"}, 2, `"http://a:0/" has no good port`},
		{"a bad header", "", []string{"explain", "a", "http://a/", "-H", "x"}, 2, `the header "x" is not like NAME:VALUE`},
		{"a bad output", "", []string{"explain", "a", "http://a/", "-o", "x"}, 2, `unknown output "x"`},
		{"logs without a name", "", []string{"logs"}, 2, "name a Gateway"},
		{"a bad status", "", []string{"logs", "a", "--status", "4x"}, 2, `the status "4x" is not like 404, 4xx or 500-599`},
		{"logs as YAML", "", []string{"logs", "a", "-o", "yaml"}, 2, `unknown output "yaml": use json`},
		{"proxy-config without a name", "", []string{"proxy-config"}, 2, "name a Gateway"},
		{"two tables", "", []string{"proxy-config", "a", "--servers", "--reloads"}, 2, "--servers, --reloads and -o do not go together"},
		{"no cluster for logs", "", []string{"logs", "a"}, 1, "no cluster is configured"},
		{"no port", "", []string{"dashboard", "--port", "70000"}, 2, `invalid argument "70000" for "--port" flag`},
		{"no cluster for the dashboard", "", []string{"dashboard"}, 1, "no cluster is configured"},
		{"no cluster for proxy-config", "", []string{"proxy-config", "a"}, 1, "no cluster is configured"},
		{"several Gateways", two, []string{"render", "-f", "-"}, 2, "name one of them: one, two"},
		{"another name", two, []string{"render", "-f", "-", "three"}, 1, "there is no Gateway three in -, but one, two"},
		{"no such file", "", []string{"render", "-f", "/nonexistent"}, 1, "failed to read /nonexistent: no such file or directory"},
		{"empty file", "# nothing\n", []string{"render", "-f", "-"}, 1, "there is no object in -"},
		{"no Gateway in the file", "{apiVersion: v1, kind: Service, metadata: {name: a}}", []string{"render", "-f", "-"}, 1, "there is no Gateway"},
		{"an unknown file", fmt.Sprintf(minimal, "a"), []string{"render", "-f", "-", "--only", "x"}, 2, "there is no file x, but ["},
		{"no cluster", "", []string{"render", "a"}, 1, "no cluster is configured"},
		{"no kubeconfig", "", []string{"list", "--kubeconfig", "/nonexistent"}, 1, "failed to read how to reach the cluster: stat /nonexistent: no such file"},
		{
			"unreachable cluster", "", []string{"render", "a", "--server", "http://127.0.0.1:1"}, 1,
			"cannot reach the API server at http://127.0.0.1:1 (dial tcp 127.0.0.1:1: connect: connection refused)",
		},
	} {
		test.run(t)
	}
	clitest.Run(t, "", "version").Want(t, 1, "kubectl-gateway ", "no cluster is configured")
}

// line is a command line, and a part of the one line that it prints.
type line struct {
	name, stdin string
	args        []string
	code        int
	want        string
}

func (l line) run(t *testing.T) {
	t.Helper()
	t.Run(l.name, func(t *testing.T) {
		result := clitest.Run(t, l.stdin, l.args...)
		result.Want(t, l.code, l.want)
		if lines := strings.Count(result.Out+result.Err, "\n"); lines != 1 {
			t.Errorf("%d lines, want one:\n%s%s", lines, result.Out, result.Err)
		}
	})
}

// TestWrongObjects: each object that is refused has a line.
func TestWrongObjects(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	stdin := fmt.Sprintf(minimal, "a") + "  replica: 2\n---\n" + fmt.Sprintf(minimal, "b") + "  routs: []\n"
	result := clitest.Run(t, stdin, "render", "-f", "-")
	result.Want(t, 1, "error: standard input:7: Gateway default/a: ", "\nerror: standard input:15: Gateway default/b: ")
}

// TestWrongFiles: the problems of a file are reported in plain words.
func TestWrongFiles(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	for _, test := range []line{
		{"bad YAML", "# none\n---\nb: 2\nb: 3\nb: 4\n", []string{"render", "-f", "-"}, 1, `standard input:4: key "b" already set in map; line 5: key "b" already set in map`},
		{"no kind", "{apiVersion: v1}", []string{"render", "-f", "-"}, 1, "standard input:1: kind is missing"},
		{"no name", "{apiVersion: v1, kind: Service}", []string{"render", "-f", "-"}, 1, "standard input:1: Service without metadata.name"},
		{
			"a name to be made", "{apiVersion: v1, kind: Service, metadata: {generateName: a-}}", []string{"render", "-f", "-"}, 1,
			"standard input:1: Service without metadata.name: generateName is for kubectl create alone",
		},
		{"a tab", "kind: Service\nmetadata:\n\tname: a\n", []string{"render", "-f", "-"}, 1, "standard input:3: found character that cannot start any token: indent by spaces, and not by tabs"},
		{"a list", "[1]", []string{"render", "-f", "-"}, 1, "standard input:1: this is no object"},
		{
			"an unknown field", fmt.Sprintf(minimal, "a") + "  replica: 2\n", []string{"render", "-f", "-"}, 1,
			`standard input:7: Gateway default/a: unknown field "spec.replica": do you mean replicas?`,
		},
		{
			"a wrong name", fmt.Sprintf(minimal, "a") + "---\n# The second one.\n" + strings.Replace(fmt.Sprintf(minimal, "1.b"), "{name: 1.b}", "\n  labels: {}\n  name: 1.b", 1), []string{"render", "-f", "-"}, 1,
			`standard input:14: Gateway default/1.b: metadata: Invalid value: metadata.name must be a DNS label`,
		},
		{
			"a name that is no name of a file", "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: a}}\n- apiVersion: v1\n  kind: Secret\n  metadata:\n    name: a/b\n", []string{"render", "-f", "-"}, 1,
			`standard input:8: metadata.name "a/b" may not contain '/'`,
		},
		{
			"no name in several lines", "\napiVersion: v1\nkind: Secret\nmetadata:\n  labels: {a: b}\n", []string{"render", "-f", "-"}, 1,
			"standard input:4: Secret without metadata.name",
		},
		{
			"a wrong key of labels", "apiVersion: app.example.com/v1\nkind: Gateway\nmetadata:\n  name: a\n  labels: &some\n    a.b/c: 'no label'\n  annotations: *some\nspec:\n  listeners: [{name: http, port: 80, protocol: HTTP}]\n", []string{"render", "-f", "-"}, 1,
			`standard input:5: Gateway default/a: metadata.labels: Invalid value: "no label"`,
		},
		{"a wrong type", fmt.Sprintf(minimal, "a") + "  replicas: two\n", []string{"render", "-f", "-"}, 1, `spec.replicas: Invalid value: "two": must be a whole number`},
		{
			"a protocol in lower case", strings.ReplaceAll(fmt.Sprintf(minimal, "a"), "HTTP}", "http}"), []string{"render", "-f", "-"}, 1,
			`spec.listeners[0].protocol: Unsupported value: "http": do you mean HTTP?`,
		},
		{
			"an address in place of a range", fmt.Sprintf(minimal, "a") + "  routes: [{name: a, rules: [{filters: [{type: ClientAddress, clientAddress: {allow: [1.2.3.4]}}]}]}]\n", []string{"render", "-f", "-"}, 1,
			`spec.routes[0].rules[0].filters[0].clientAddress.allow[0]: Invalid value: "1.2.3.4": write "1.2.3.4/32"` + "\n",
		},
		{
			"a long expression", fmt.Sprintf(minimal, "a") + "  routes: [{name: a, rules: [{matches: [{path: {value: a b}}]}]}]\n", []string{"render", "-f", "-"}, 1,
			`spec.routes[0].rules[0].matches[0].path.value: Invalid value: "a b": must have a form like /shop` + "\n",
		},
		{
			"a wrong type elsewhere", fmt.Sprintf(minimal, "a") + "---\n{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: 80}}\n", []string{"render", "-f", "-"}, 1,
			"standard input:8: Service default/s: json: cannot unmarshal number into Go struct field ServiceSpec.spec.ports of type",
		},
		{
			"a Gateway of somebody else", `{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: c}, spec: {controllerName: example.net/c}}
---
{apiVersion: gateway.networking.k8s.io/v1, kind: Gateway, metadata: {name: g}, spec: {gatewayClassName: c, listeners: [{name: a, port: 80, protocol: HTTP}]}}`,
			[]string{"render", "-f", "-"}, 1,
			"standard input:3: Gateway g is of the Gateway API, with a GatewayClass that is not of app.example.com/gateway: give it the gatewayClassName gateway\n",
		},
		{"an Ingress", "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: i}}", []string{"render", "-f", "-"}, 1, "Ingress i is no Gateway: make a Gateway of it with kubectl gateway convert"},
	} {
		test.run(t)
	}
}

// TestUnknownKinds: kinds and versions that nobody knows are named in all commands, with what was meant.
func TestUnknownKinds(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	for _, test := range []struct{ version, kind, want string }{
		{"app.example.com/v1", "BackendPolicies", "there is no kind BackendPolicies of app.example.com/v1: use BackendPolicy"},
		{"app.example.com/v1", "Policy", "there is no kind Policy of app.example.com: there are BackendPolicy, Gateway, GatewayConfig, GatewayProxy, RouteFilter"},
		{"app.example.com/v1alpha1", "RouteFilter", "there is no version v1alpha1 of the kind: use apiVersion app.example.com/v1"},
		{"gateway.networking.k8s.io/v1", "HttpRoute", "there is no kind HttpRoute of gateway.networking.k8s.io/v1: use HTTPRoute"},
		{"gateway.networking.k8s.io/v9", "HTTPRoute", "there is no version v9 of the kind: use apiVersion gateway.networking.k8s.io/v1"},
		{"v2", "Service", "there is no version v2 of the kind: use apiVersion v1"},
		{"v1", "Secrets", "there is no kind Secrets of v1: use Secret"},
		{"discovery.k8s.io/v1beta1", "EndpointSlice", "there is no version v1beta1 of the kind: use apiVersion discovery.k8s.io/v1"},
	} {
		input := fmt.Sprintf(minimal, "a") + fmt.Sprintf("---\n{apiVersion: %s, kind: %s, metadata: {name: x}}\n", test.version, test.kind)
		want := fmt.Sprintf("standard input:8: %s x: %s\n", test.kind, test.want)
		for _, args := range fileCommands {
			clitest.Run(t, input, args...).Want(t, 1, want)
		}
	}
	for _, kind := range []string{"{apiVersion: v1, kind: Pod", "{apiVersion: gateway.networking.k8s.io/v1beta1, kind: ReferenceGrant", "{apiVersion: example.net/v1, kind: HttpRoute"} {
		input := fmt.Sprintf(minimal, "a") + "---\n" + kind + ", metadata: {name: x}, spec: {from: [{group: '', kind: a, namespace: a}], to: [{group: '', kind: a}]}}\n"
		clitest.Run(t, input, "render", "-f", "-", "--only", "hosts.map").Want(t, 0)
	}
}

// fileCommands are those that read files and need no cluster.
var fileCommands = [][]string{
	{"render", "-f", "-", "--check"}, {"explain", "-f", "-", "http://a.test/"}, {"try", "-f", "-", "--once"}, {"convert", "-f", "-"},
}

// TestLastCounts: if files have an object twice, the last one counts, as with kubectl apply, and there is a warning.
func TestLastCounts(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	route := "  routes: [{name: r, rules: [{backendRefs: [{name: %s, port: 80}]}]}]\n"
	input := fmt.Sprintf(minimal, "a") + fmt.Sprintf(route, "first") + "---" + fmt.Sprintf(minimal, "a, namespace: default") + fmt.Sprintf(route, "last")
	const warning = "standard input:1: Gateway default/a is also in standard input:9: the last one counts, as with kubectl apply\n"
	clitest.Run(t, input, "explain", "-f", "-", "http://a.test/").Want(t, 0, "100% to Service last port 80", warning)
	ingress := `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a}
spec: {defaultBackend: {service: {name: %s, port: {number: 80}}}}
`
	result := clitest.Run(t, fmt.Sprintf(ingress, "first")+"---"+fmt.Sprintf(ingress, "last"), "convert", "-f", "-")
	if !strings.Contains(result.Out, "name: last") || strings.Contains(result.Out, "first") {
		t.Errorf("the first one counts:\n%s", result.Out)
	}
}

// TestNamespaceChooses has two Gateways of one name, of which one is in whatever namespace is given.
func TestNamespaceChooses(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	file := fmt.Sprintf(minimal, "one, namespace: a") + "---" + strings.Replace(fmt.Sprintf(minimal, "one"), "port: 80", "port: 81", 1)
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"render one -n b", 0, "bind :81,:::81 "},
		{"render -n b", 0, "bind :81,:::81 "},
		{"render --check -n b", 0, "b/one: HAProxy accepts it\n"},
		{"explain one -n b http://a:81", 3, "gateway   b/one\n"},
		{"explain one http://a", 2, "there are several Gateways in -, name one of them with -n: a/one, default/one"},
		{"render", 2, "name one of them with -n: a/one, default/one"},
		{"render two", 1, "there is no Gateway two in -, but a/one, default/one"},
	} {
		result := clitest.Run(t, file, append(strings.Fields(test.args), "-f", "-")...)
		result.Want(t, test.code, test.want)
		if strings.Contains(test.args, "-n b") && strings.Contains(result.Out, "a/one") {
			t.Errorf("%s: the other Gateway is there too:\n%s", test.args, result.Out)
		}
	}
	clitest.Run(t, fmt.Sprintf(minimal, "one, namespace: a"), "render", "-f", "-", "-n", "b").Want(t, 1, "there is no Gateway of namespace b in -, but a/one")
}

// TestCompletion lets the shell's completion ask for commands and flags.
func TestCompletion(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	clitest.Run(t, "", "__complete", "re").Want(t, 0, "render\tShow what HAProxy gets")
	clitest.Run(t, "", "__complete", "render", "--ch").Want(t, 0, "--check\t")
	// Without a cluster there are no names, and no complaints.
	clitest.Run(t, "", "__complete", "render", "").Want(t, 0, ":4")
}

// TestExamplesPass lets HAProxy check all examples.
func TestExamplesPass(t *testing.T) {
	t.Parallel()
	result := clitest.Run(t, "", "render", "--check", "-f", filepath.Join(clitest.Root, "artifacts/examples"))
	result.Want(t, 0, "shop/tls-passthrough: HAProxy accepts it", "shop/client-certificates: HAProxy accepts it")
	files, _ := filepath.Glob(clitest.Root + "/artifacts/examples/*.yaml")
	if lines := strings.Count(result.Out, "accepts it\n"); lines != len(files) {
		t.Errorf("%d were checked of %d", lines, len(files))
	}
}

// TestUnusedBackendIsANote: an entry of spec.backends may come before its route, so it keeps no check from passing.
func TestUnusedBackendIsANote(t *testing.T) {
	t.Parallel()
	const note = `note: standard input:7: default/a: no route or listener refers to spec.backends[0] "api" port 443: correct its name or port, or remove it` + "\n"
	file := fmt.Sprintf(minimal, "a") + "  backends: [{name: api, port: 443, proxyProtocol: V2}]\n"
	for args, want := range map[string]string{
		"render":                  "#### haproxy.cfg\n",
		"render --check":          "default/a: HAProxy accepts it\n",
		"render --check a":        "default/a: HAProxy accepts it\n",
		"render --only hosts.map": "80/ http\n",
	} {
		result := clitest.Run(t, file, append(strings.Fields(args), "-f", "-", "-n", "default")...)
		result.Want(t, 0, want)
		if result.Err != note {
			t.Errorf("%s: it notes %q, want %q", args, result.Err, note)
		}
	}
}

// TestUnusedBackendWithTLS: nothing is sent to what the entry may be meant for, and that keeps a check from passing.
func TestUnusedBackendWithTLS(t *testing.T) {
	t.Parallel()
	file := fmt.Sprintf(minimal, "a") + `  routes: [{name: r, rules: [{backendRefs: [{name: api, port: 8443}]}]}]
  backends: [{name: api, port: 443, tls: {caCertificateRefs: [{name: ca}], hostname: api.internal}}]
`
	clitest.Run(t, file, "render", "--check", "-f", "-", "-n", "default").Want(t, 3, "but there are warnings")
	clitest.Run(t, file, "explain", "http://a.test/", "-f", "-", "-n", "default").Want(t, 3,
		"Service api port 8443, answered with 500: an entry of spec.backends that has tls and the same Service, or the same port and almost the same name, may be meant for it")
}

// TestWritesFiles renders into a directory.
func TestWritesFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	clitest.Run(t, fmt.Sprintf(minimal, "a"), "render", "-f", "-", "--output-dir", dir).Want(t, 0)
	content, err := os.ReadFile(filepath.Join(dir, "haproxy.cfg"))
	if err != nil || !strings.Contains(string(content), "bind :80,:::80") {
		t.Errorf("haproxy.cfg (%v):\n%s", err, content)
	}
}

// TestFileHasMore renders with the Services and EndpointSlices of the file.
func TestFileHasMore(t *testing.T) {
	t.Parallel()
	file := fmt.Sprintf(minimal, "a") + `  routes:
    - name: r
      rules: [{backendRefs: [{name: s, port: 80}, {name: s, port: 81}, {name: tls, port: 443}]}]
---
apiVersion: v1
kind: List
items:
  - {apiVersion: v1, kind: Service, metadata: {name: s}, spec: {ports: [{name: web, port: 80}]}}
  - {apiVersion: v1, kind: Service, metadata: {name: tls}, spec: {ports: [{port: 443, appProtocol: https}]}}
  - apiVersion: discovery.k8s.io/v1
    kind: EndpointSlice
    metadata: {name: s-1, labels: {kubernetes.io/service-name: s}}
    addressType: IPv4
    ports: [{name: web, port: 8080}]
    endpoints:
      - {addresses: [192.0.2.1]}
      - {addresses: [192.0.2.2], conditions: {ready: false}}
`
	path := clitest.WriteFile(t, "file.yaml", file)
	rendered := clitest.Run(t, "", "render", "-f", path)
	rendered.Want(t, 0, "server 192.0.2.1_8080 192.0.2.1:8080")
	if strings.Contains(rendered.Out, "192.0.2.2") {
		t.Errorf("an endpoint that is not ready is there:\n%s", rendered.Out)
	}
	clitest.Run(t, "", "explain", "-f", path, "http://a/").Want(t, 0, "33.33% to Service s port 80, ready: 192.0.2.1:8080",
		"Service s port 81, answered with 500: Service default/s has no TCP port 81: add it or change the route",
		`Service tls port 443, answered with 500: port 443 of Service default/tls has appProtocol "https", which is over TLS, and spec.backends does not say how to verify it`)
}

// TestOddServers is about API servers that do not do: a line each that says what to do.
func TestOddServers(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	t.Setenv("KUBECACHEDIR", t.TempDir())
	unauthorized := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	withoutTLS := httptest.NewTLSServer(unauthorized)
	withoutTLS.URL = strings.Replace(withoutTLS.URL, "https:", "http:", 1)
	for _, test := range []struct {
		server *httptest.Server
		want   string
	}{
		{httptest.NewServer(http.NotFoundHandler()), "does not know Gateways: install the CRD"},
		{httptest.NewServer(unauthorized), "does not know who is asking: check the credentials"},
		{httptest.NewTLSServer(unauthorized), "cannot trust the API server at https://127.0.0.1:"},
		{withoutTLS, "does not understand the request: check whether its address has to begin with https"},
	} {
		for _, args := range [][]string{{"list"}, {"check"}, {"dashboard"}, {"get", "a"}, {"logs", "a"}, {"proxy-config", "a"}, {"explain", "a", "http://a/"}} {
			result := clitest.Run(t, "", append(args, "--server", test.server.URL)...)
			result.Want(t, 1, "error: ", test.want)
			if strings.Count(result.Out+result.Err, "\n") != 1 {
				t.Errorf("more than a line:\n%s", result.Err)
			}
		}
		test.server.Close()
	}
}
