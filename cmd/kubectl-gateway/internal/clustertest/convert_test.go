package clustertest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
	"gateway/internal/testtier"
)

// fixtures are what the conversion is tested with.
const fixtures = "../convert/testdata/"

// TestConvertedIsAdmitted lets the API server check what becomes of every fixture of the conversion.
func TestConvertedIsAdmitted(t *testing.T) {
	outputs, err := filepath.Glob(fixtures + "*.out.yaml")
	if err != nil || len(outputs) == 0 {
		t.Fatalf("there is no output: %v", err)
	}
	for _, output := range outputs {
		t.Run(filepath.Base(output), func(t *testing.T) {
			content, err := os.ReadFile(output) //nolint:gosec // a golden file
			if err != nil {
				t.Fatal(err)
			}
			admit(t, string(content))
		})
	}
}

// admit creates objects in the namespace default, without keeping them.
func admit(t *testing.T, documents string) {
	t.Helper()
	client := must.Get(dynamic.NewForConfig(clients.Config))(t)
	for document := range strings.SplitSeq(documents, "\n---\n") {
		object := &unstructured.Unstructured{}
		must.Do(t, yaml.UnmarshalStrict([]byte(document), &object.Object))
		object.SetNamespace(metav1.NamespaceDefault)
		resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
		resource.Resource = strings.Replace(resource.Resource, "gatewaies", "gateways", 1)
		options := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict}
		created, err := client.Resource(resource).Namespace(metav1.NamespaceDefault).Create(t.Context(), object, options)
		if err != nil {
			t.Error(err)
			continue
		}
		// Whatever the API server adds to a list, another manager of the fields would have a conflict about.
		if sent, got := textOf(t, object), textOf(t, created); got != sent {
			t.Errorf("got\n%s\nof\n%s", got, sent)
		}
	}
}

// textOf returns the spec of an object.
func textOf(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	text := must.Get(json.Marshal(object.Object["spec"]))(t)
	return string(text)
}

// carried are the annotations whose values come to be in objects.
var carried = strings.Fields(`app-root backend-protocol canary-by-cookie canary-by-header canary-by-header-pattern canary-by-header-value canary-weight
	canary-weight-total cors-allow-headers cors-allow-methods cors-allow-origin cors-expose-headers cors-max-age load-balance permanent-redirect
	permanent-redirect-code proxy-body-size proxy-next-upstream proxy-next-upstream-tries proxy-read-timeout proxy-ssl-name rewrite-target server-alias
	session-cookie-max-age session-cookie-name temporal-redirect upstream-hash-by upstream-vhost use-regex x-forwarded-prefix
	allowlist-source-range denylist-source-range whitelist-source-range limit-burst-multiplier limit-rpm limit-rps mirror-target auth-url auth-secret
	ssl-passthrough`)

// TestAnyIngressIsAdmitted converts Ingresses with values, paths and names that somebody may have thought of: the API
// server admits what becomes of them.
func TestAnyIngressIsAdmitted(t *testing.T) {
	values := []string{
		"", "*", "*.example.com", "true", "off", "A_b", "-1", "0", "7", "2147483647", "99999999999", "10g", "$1", "/ok/$2", "/../x", "/%zz", "(", "äöü", "a\nb",
		"https://user:pass@ex ample:99999/a?b#c", "https://example.com:0/", "ftp://example.com", "https://*.example.com:65536,null", "HTTPS",
		"$http_x-", "X-A,,Host", "10.0.0.1, 10.1.2.3/8,::ffff:10.0.0.0/104,::/0,fd00::1.2.3.4", "fe80::1%eth0", "error http_502 http_502 http_999 off", strings.Repeat("/long", 500), strings.Repeat("a,b", 200), numbered("host%d"), numbered("https://%d"),
	}
	for i, value := range values {
		if i%3 != 0 && !testtier.All {
			continue
		}
		t.Run(fmt.Sprintf("%.20q", value), func(t *testing.T) {
			all := ingress(t, "path", "path.example.com", value, "web", nil)
			all += ingress(t, "regex", value, "/", value, map[string]string{"rewrite-target": value, "from-to-www-redirect": "true"})
			for i, name := range carried {
				host, service := fmt.Sprintf("h%d.example.com", i), fmt.Sprintf("s%d", i)
				main := map[string]string{"enable-cors": "true", "affinity": "cookie", "backend-protocol": "HTTPS", "limit-rps": "2"}
				if name == "permanent-redirect-code" {
					main["permanent-redirect"] = "https://example.com"
				}
				canary := map[string]string{"canary": "true", "canary-by-header": "X-A"}
				main[name], canary[name] = value, value
				all += ingress(t, "main-"+name, host, "/", service, main) + ingress(t, "canary-"+name, host, "/", service, canary)
			}
			converted := clitest.Run(t, all, "convert", "-f", "-", "--name", "any")
			converted.Want(t, 3)
			admit(t, converted.Out)
		})
	}
}

// numbered returns a list of names.
func numbered(format string) string {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf(format, i))
	}
	return strings.Join(names, ",")
}

// ingress is a document.
func ingress(t *testing.T, name, host, path, service string, annotations map[string]string) string {
	t.Helper()
	type object = map[string]any
	prefixed := object{}
	for name, value := range annotations {
		prefixed["nginx.ingress.kubernetes.io/"+name] = value
	}
	backend := object{"service": object{"name": service, "port": object{"number": 443}}}
	var paths []object
	for _, pathType := range []string{"Exact", "Prefix", "ImplementationSpecific"} {
		paths = append(paths, object{"path": path, "pathType": pathType, "backend": backend})
	}
	content := must.Get(json.Marshal(object{
		"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": object{"name": name, "annotations": prefixed},
		"spec": object{
			"tls":   []object{{"hosts": []string{service}, "secretName": service}},
			"rules": []object{{"host": host, "http": object{"paths": paths}}},
		},
	}))(t)
	return string(content) + "\n---\n"
}
