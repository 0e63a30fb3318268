package try_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/yaml"

	"gateway/cmd/kubectl-gateway/internal/admission"
	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/cmd/kubectl-gateway/internal/explain"
	"gateway/cmd/kubectl-gateway/internal/try"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/model"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// inputs are files with Gateways: the examples, what packages have goldens for, and others that once had several
// answers.
var inputs = []string{
	"artifacts/examples/*.yaml", "artifacts/gateway-api/*.yaml", "internal/haproxy/render/testdata/*.in.yaml", "internal/source/gatewayapi/testdata/*.yaml",
	"cmd/kubectl-gateway/internal/convert/testdata/*.out.yaml", "cmd/kubectl-gateway/internal/try/testdata/*.yaml",
}

// TestCommandsAgree asks real proxies for every route of each input: explain foretells the answers, and render --check
// names what try finds not to be served.
func TestCommandsAgree(t *testing.T) {
	try.TakePorts(func() int32 { return haproxytest.FreePort(t) })
	t.Parallel()
	gateways := 0
	for _, pattern := range inputs {
		paths, err := filepath.Glob(filepath.Join(clitest.Root, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("there is nothing like %s: %v", pattern, err)
		}
		for _, path := range paths {
			file := asObjects(t, path)
			options := newOptions("")
			sites, err := options.FromFiles(cli.Files{Paths: []string{file}})
			if err != nil {
				refused(t, path, file, err)
				continue
			}
			for _, site := range sites {
				gateways++
				t.Run(filepath.Base(path)+" "+site.Name(), func(t *testing.T) {
					t.Parallel()
					compare(t, file, site)
				})
			}
		}
	}
	if gateways < 100 {
		t.Errorf("there are only %d Gateways", gateways)
	}
}

func newOptions(namespace string) *cli.Options {
	out := &output{}
	options := cli.NewOptions(genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: out})
	*options.Flags.Namespace = namespace
	return options
}

// asObjects returns a file with the objects of an input that an API server admits. The renderer's inputs are only the
// spec of a Gateway, and its Gateway API objects have no apiVersion.
func asObjects(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path) //nolint:gosec // of the project
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(path, ".in.yaml") && !strings.Contains(path, "gatewayapi/testdata/") {
		return path
	}
	var all []string
	for text := range strings.SplitSeq("\n"+string(content), "\n---") {
		object := &unstructured.Unstructured{}
		must.Do(t, yaml.Unmarshal([]byte(text), &object.Object))
		if object.Object == nil {
			continue
		}
		version, ok := versions[object.GetKind()]
		switch {
		case object.GetAPIVersion() != "":
			version = object.GetAPIVersion()
		case !ok:
			version = "gateway.networking.k8s.io/v1"
		}
		if object.GetKind() == "" {
			object.Object = map[string]any{"kind": "Gateway", "metadata": map[string]any{"name": "golden", "namespace": "shop"}, "spec": object.Object["spec"]}
		}
		object.SetAPIVersion(version)
		delete(object.Object, "status")
		content := must.Get(object.MarshalJSON())(t)
		if isAdmitted(t, content) {
			all = append(all, string(content))
		}
	}
	return clitest.WriteFile(t, filepath.Base(path), strings.Join(all, "\n---\n"))
}

// versions are the apiVersions of kinds that are not of the Gateway API. A spec without a kind is a Gateway's of our
// own.
var versions = map[string]string{
	"": "app.example.com/v1", "RouteFilter": "app.example.com/v1", "GatewayConfig": "app.example.com/v1",
	"Service": "v1", "Secret": "v1", "ConfigMap": "v1", "Namespace": "v1", "ServiceImport": "multicluster.x-k8s.io/v1beta1",
}

func isAdmitted(t *testing.T, content []byte) bool {
	t.Helper()
	object := &unstructured.Unstructured{}
	must.Do(t, object.UnmarshalJSON(content))
	var refusal *admission.Refusal
	return !admission.Knows(object.GroupVersionKind().GroupKind()) || !errors.As(admission.Admit(object), &refusal)
}

// complete returns a file with the Secrets and ConfigMaps that a Gateway names, but for certificates, which try makes.
func complete(t *testing.T, site *cli.Site) string {
	t.Helper()
	table, _ := site.Compile()
	data := map[string]any{
		"auth": "alice:$2a$05$QE0m3.MWcLhXf12kB2Y5xuyF6BVa1HT2H.yJcxsoZSBAM2JgO.CNG", "ca.crt": string(certtest.NewAuthority(t).PEM),
		"rules.conf": `SecRule ARGS "a" "id:1,deny"`,
		"jwks":       `{"keys":[{"kid":"a","kty":"EC","crv":"P-256","x":"RRBtXB3hOAbYDKm7UnEt_Zr_-ey4whvVOryn3jLg5sQ","y":"MZaSEzCbFdKWdDDLEMNp9n0FRHPpuRWZCM1COgAwcC4"}]}`,
	}
	all := []string{"{apiVersion: v1, kind: Namespace, metadata: {name: unused}}"}
	add := func(kind, field, name string) {
		content := must.Get(json.Marshal(map[string]any{
			"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": site.Gateway.Namespace}, field: data,
		}))(t)
		all = append(all, string(content))
	}
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		for _, mount := range rule.Mounts() {
			if mount.Secret != "" {
				add("Secret", "stringData", mount.Secret)
			}
		}
	})
	for _, name := range cli.TrustBundles(table) {
		bundle, _ := model.TrustBundleOf(name)
		content := must.Get(json.Marshal(map[string]any{
			"apiVersion": "certificates.k8s.io/v1", "kind": "ClusterTrustBundle", "metadata": map[string]any{"name": bundle},
			"spec": map[string]any{"trustBundle": data["ca.crt"]},
		}))(t)
		all = append(all, string(content))
	}
	for _, name := range slices.Concat(cli.AuthorityNames(table), cli.KeySetNames(table), cli.RuleSetNames(table)) {
		add("ConfigMap", "data", name)
	}
	return clitest.WriteFile(t, "complete.yaml", strings.Join(all, "\n---\n"))
}

// refused is for a file that the API server refuses, or without a Gateway: all commands say so.
func refused(t *testing.T, path, file string, err error) {
	t.Helper()
	for _, args := range [][]string{{"explain", "-f", file, "http://a.test/"}, {"render", "-f", file, "--check"}, {"try", "-f", file, "--once"}} {
		if result := clitest.Run(t, "", args...); result.Code != cli.ExitFailed || !strings.Contains(result.Err, err.Error()) {
			t.Errorf("%s: %s says %d and\n%s, want\n%v", path, args[0], result.Code, result.Err, err)
		}
	}
}

func compare(t *testing.T, file string, site *cli.Site) {
	t.Helper()
	files := []string{complete(t, site), file} // what the file has counts
	tried := must.Get(try.Start(t.Context(), newOptions(site.Gateway.Namespace), files, site.Gateway.Name))(t)
	defer tried.Stop()
	code := 0
	if len(tried.Problems) > 0 || tried.HasWarnings {
		code = cli.ExitNo
	}
	about := []string{"-f", files[0], "-f", files[1], "-n", site.Gateway.Namespace, site.Gateway.Name}
	clitest.Run(t, "", append([]string{"render", "--check"}, about...)...).Want(t, code, tried.Problems...)
	for _, request := range requests(tried.Table) {
		method, address, _ := strings.Cut(request, " ")
		got := must.Get(tried.Send(t.Context(), method, address))(t)
		explained := clitest.Run(t, "", slices.Concat([]string{"explain", "-o", "json", "--client-address", "127.0.0.1", "-X", method}, about, []string{address})...)
		var e explain.Explanation
		if err := json.Unmarshal([]byte(explained.Out), &e); err != nil {
			t.Fatalf("%s: %v: %s", request, err, explained.Err)
		}
		if want := foretold(&e, tried.Table); !want[got] {
			t.Errorf("%s: the proxy answers %s, which is none of %v:\n%s", request, got, want, explained.Out)
		}
	}
}

// foretold returns the answers that explain says there may be, as Send has them. The backends here speak no TLS,
// nobody has keys at URLs, and no program logs users in or looks at requests: all are answered with 503.
func foretold(e *explain.Explanation, table routing.Table) map[string]bool {
	want := map[string]bool{}
	for _, policy := range table.Policies {
		want["503"] = want["503"] || policy.TLS != nil
	}
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		want["503"] = want["503"] || rule.OIDC != nil || rule.WAF != nil || rule.JWT != nil && slices.ContainsFunc(rule.JWT.Issuers, func(i model.Issuer) bool { return i.KeysFrom.URL != "" })
	})
	if status, _, ok := strings.Cut(e.Answer, ": "); ok && len(status) == 3 {
		want[status] = true
		return want
	}
	if e.Answer != "" {
		want["none"] = true
		return want
	}
	for _, backend := range e.Backends {
		if status, _, ok := strings.Cut(backend.Answer, ": "); ok {
			want[status] = true
			continue
		}
		_, service, ok := strings.Cut(backend.Service, "/")
		if !ok {
			service = backend.Service
		}
		want["200:"+service] = true
	}
	return want
}

// maxRequests is how many requests a Gateway gets.
const maxRequests = 12

// requests returns one for each path of a table's HTTP listeners.
func requests(table routing.Table) []string {
	var all []string
	for i := range table.Listeners {
		listener := &table.Listeners[i]
		if !strings.HasPrefix(listener.Protocol, "HTTP") || listener.ProxyProtocol || listener.TLS != nil && listener.TLS.ClientRequired {
			continue // the requests have no PROXY header and no certificate
		}
		for entry := range listener.Entries() {
			host, path, method := entry.Hostname, entry.Path, entry.Method
			if host == "" {
				host = "any.test"
			}
			host = strings.Replace(host, "*", "a", 1)
			if entry.PathType == routing.Regex || path == "" {
				path = "/"
			}
			if method == "" {
				method = "GET"
			}
			request := fmt.Sprintf("%s %s://%s:%d%s", method, strings.ToLower(listener.Protocol), host, listener.Port, path)
			if !slices.Contains(all, request) && len(all) < maxRequests {
				all = append(all, request)
			}
		}
	}
	return all
}
