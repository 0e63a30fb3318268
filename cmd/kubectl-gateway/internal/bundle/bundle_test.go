package bundle_test

import (
	"archive/tar"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
)

// secrets must not be in a bundle. They are wherever users and programs put them.
var secrets = map[string]string{
	"header":     "Bearer header-4711",
	"match":      "match-4711",
	"annotation": "annotation-4711",
	"applied":    "applied-4711",
	"variable":   "variable-4711",
	"jwks":       "oct-4711",
	"logged":     "logged-4711",
	"message":    "message-4711 second-4711",
	"cookie":     "cookie-4711",
	"url":        "user:url-4711",
	"jwt":        "eyJhbGciOiJIUzI1NiJ9.e30.jwt4711",
	"basic":      base64.StdEncoding.EncodeToString([]byte("alice:basic-4711")),
	"pem":        "cGVtLTQ3MTE=",
}

// with replaces names in braces by their secrets.
func with(text string) string {
	for name, secret := range secrets {
		text = strings.ReplaceAll(text, "{"+name+"}", secret)
	}
	return text
}

// newServer has a Gateway with a proxy, and a route of a team with all that should not be there.
func newServer(t *testing.T) string {
	t.Helper()
	objects := map[string]string{
		"/apis/app.example.com/v1/namespaces/shop/gateways": `
items:
- metadata: {name: shop, namespace: shop, uid: u, generation: 1, managedFields: [{manager: kubectl}]}
  spec: {listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]}
`,
		"/apis/app.example.com/v1/namespaces/shop/gatewayattachments": `
items: [{metadata: {name: shop.team, namespace: shop, ownerReferences: [{apiVersion: app.example.com/v1, kind: Gateway, name: shop, uid: u, controller: true}]}, spec: {gatewayName: shop, namespace: team, resources: [httproutes]},
  status: {conditions: [{type: Bound, status: "True", reason: Bound}]}}]`,
		"/apis/gateway.networking.k8s.io/v1/namespaces/team/httproutes": `
items:
- metadata: {name: web, namespace: team, annotations: {example.com/api-token: "{annotation}", kubectl.kubernetes.io/last-applied-configuration: "{applied}"}}
  spec:
    parentRefs: [{group: app.example.com, kind: Gateway, name: shop, namespace: shop}]
    hostnames: [team.example.com]
    rules:
    - matches: [{headers: [{name: X-Api-Key, value: "{match}"}]}]
      filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Authorization, value: "{header}"}, {name: X-Color, value: green-4712}]}}]
      backendRefs: [{name: api, port: 80}]
`,
		"/api/v1/namespaces/shop/pods": `
items:
- metadata: {name: shop-gateway-1, namespace: shop, labels: {app.example.com/gateway: shop}}
  spec: {containers: [{name: haproxy, env: [{name: DB_PASSWORD, value: "{variable}"}]}, {name: agent}]}
  status: {phase: Pending}
`,
		"/api/v1/namespaces/shop/events": `
items:
- {metadata: {name: a}, involvedObject: {apiVersion: app.example.com/v1, kind: Gateway, name: shop}, message: "the header is {match}"}
- {metadata: {name: b}, involvedObject: {apiVersion: v1, kind: Pod, name: billing}, message: "others-4712"}
`,
		"/api/v1/namespaces/shop/configmaps/keys": `data: {jwks: "{jwks}"}`,
		"/api/v1/pods":              `items: [{metadata: {name: operator, namespace: system}, spec: {containers: [{name: operator}]}, status: {phase: Running}}]`,
		"/apis/apps/v1/deployments": `items: []`,
	}
	for path, content := range objects {
		objects[path] = with(content)
	}
	logs := map[string]string{
		"haproxy": `2026-11-29T12:00:00Z {"host":"team.example.com","path":"/cart-4712","requestHeaders":{"authorization":"{logged}"},"termination":"--"}` + "\n",
		"agent": "2026-11-29T12:00:00Z failed: Authorization: ApiKey {message}\n2026-11-29T12:00:00Z Set-Cookie: a={cookie}; b={cookie}\n" +
			"2026-11-29T12:00:00Z https://{url}@example.com/ says {jwt}, Basic {basic}, {match}\n" +
			"2026-11-29T12:00:00Z -----BEGIN EC PRIVATE KEY----- {pem} -----END EC PRIVATE KEY-----\n",
		"operator": `2026-11-29T12:00:00Z {"msg":"started-4712, Cookie: {cookie}; b={cookie}"}` + "\n",
	}
	return clitest.NewServer(t, objects, http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		if strings.Contains(request.URL.Path, "/secrets") {
			t.Errorf("it asks for %s", request.URL.Path)
		}
		if strings.HasSuffix(request.URL.Path, "/log") {
			_, _ = fmt.Fprint(writer, with(logs[request.URL.Query().Get("container")]))
			return
		}
		http.NotFound(writer, request)
	}))
}

// unpack returns the files of an archive.
func unpack(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := os.Open(path) //nolint:gosec // of the test
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // it is read
	compressed := must.Get(gzip.NewReader(file))(t)
	files := map[string]string{}
	for archive := tar.NewReader(compressed); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		content, readErr := io.ReadAll(archive)
		if err = errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		files[strings.TrimPrefix(header.Name, "gateway-bundle/")] = string(content)
	}
}

// TestBundle: all that helps is in the archive, and nothing that is secret.
func TestBundle(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	result := clitest.Run(t, "", "bundle", "-n", "shop", "--server", newServer(t), "--output-file", path)
	result.Want(t, 3, path+" has ", "warning: gateways/shop/shop/shop-gateway-1/proxy-config.json: it is Pending", " parts could not be read")
	files := unpack(t, path)
	for name, wants := range map[string][]string{
		"version.json": {`"plugin": `},
		"objects/shop/gateways.app.example.com.yaml":             {"name: shop", "allowedRoutes"},
		"objects/team/httproutes.gateway.networking.k8s.io.yaml": {"team.example.com", "green-4712", "value: REDACTED"},
		"objects/shop/pods.yaml":                                 {"DB_PASSWORD"},
		"objects/shop/events.yaml":                               {"the header is REDACTED"},
		"gateways/shop/shop/haproxy/haproxy.cfg":                 {"frontend 80"},
		"gateways/shop/shop/haproxy/hosts.map":                   {"moc.elpmaxe.maet!"},
		"gateways/shop/shop/shop-gateway-1/agent.log":            {"Authorization: REDACTED"},
		"gateways/shop/shop/shop-gateway-1/haproxy.log":          {"/cart-4712", `"authorization":"REDACTED"`},
		"operators/operator/operator.log":                        {"started-4712"},
	} {
		for _, want := range wants {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s has no %q:\n%.2000s", name, want, files[name])
			}
		}
	}
	for name, content := range files {
		for what, secret := range secrets {
			for word := range strings.FieldsSeq(secret) {
				if strings.Contains(word, "4711") && strings.Contains(content, word) || strings.Contains(content, secret) {
					t.Errorf("%s has the secret of %s:\n%s", name, what, content)
				}
			}
		}
		if strings.Contains(content, "others-4712") || strings.Contains(content, "managedFields") {
			t.Errorf("%s has what nobody needs:\n%s", name, content)
		}
	}
	// It replaces no file.
	clitest.Run(t, "", "bundle", "-n", "shop", "--server", newServer(t), "--output-file", path).Want(t, 1, "failed to make the archive: ", "file exists")
	other := filepath.Join(t.TempDir(), "c.tar.gz")
	clitest.Run(t, "", "bundle", "-n", "shop", "--server", newServer(t), "--output-file", other, "-o", "json").Want(t, 3, `"missing": [`, `"name": "objects/team/httproutes.gateway.networking.k8s.io.yaml"`)
	clitest.Run(t, "", "bundle", "shop", "-A").Want(t, 2, "names do not go together with -A")
}

// TestTeam: whoever may read the routes of a namespace alone has them in an archive, which tells what is missing.
func TestTeam(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	server := clitest.NewServer(t, nil, http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) {
		writer.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(request.URL.Path, "/namespaces/team/httproutes") {
			_, _ = fmt.Fprint(writer, `{"apiVersion":"gateway.networking.k8s.io/v1","kind":"HTTPRouteList","items":[{"metadata":{"name":"web","namespace":"team"}}]}`)
			return
		}
		writer.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(writer, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"no","code":403}`)
	}))
	path := filepath.Join(t.TempDir(), "b.tar.gz")
	clitest.Run(t, "", "bundle", "-n", "team", "--server", server, "--output-file", path).Want(t, 3, "warning: objects/team/gateways.app.example.com.yaml: ")
	files := unpack(t, path)
	for _, name := range []string{"objects/team/httproutes.gateway.networking.k8s.io.yaml", "routes.json"} {
		if !strings.Contains(files[name], "web") {
			t.Errorf("%s is %q", name, files[name])
		}
	}
	clitest.Run(t, "", "bundle", "-A", "--server", server, "--output-file", path+"2").Want(t, 1, "failed to list Gateways")
}
