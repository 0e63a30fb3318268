//go:build slow

package release

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const namespaceKey = "Namespace//gateway-system"

// render returns what Helm makes of the chart.
func render(t *testing.T, chart string, args ...string) map[string]map[string]any {
	t.Helper()
	rendered := objects(t, helm(t, append([]string{"template", "gateway", chart, "-n", "gateway-system"}, args...)...))
	for key, object := range rendered {
		if !strings.HasPrefix(key, "CustomResourceDefinition/") {
			continue
		}
		annotations := object["metadata"].(map[string]any)["annotations"].(map[string]any)
		if annotations["helm.sh/resource-policy"] != "keep" {
			t.Errorf("helm uninstall would delete %s", key)
		}
		delete(annotations, "helm.sh/resource-policy")
	}
	return rendered
}

// TestChart compares what Helm makes of the chart with install.yaml, object by object.
func TestChart(t *testing.T) {
	dir := testenv.MakeRelease(t, version)
	chart := filepath.Join(dir, "chart/gateway")
	if out := helm(t, "lint", "--strict", chart); !strings.Contains(out, "0 chart(s) failed") {
		t.Errorf("helm lint: %s", out)
	}
	install := objects(t, read(t, dir, "install.yaml"))
	expectSame(t, render(t, chart), install, namespaceKey)

	// Each value changes what its comment describes, and nothing else.
	values := filepath.Join(t.TempDir(), "values.yaml")
	must.Do(t, os.WriteFile(values, []byte(`
image: {repository: other/gateway, tag: v9}
haproxyImage: other/haproxy:3.4.7
replicas: 3
resources: {limits: {memory: 1Gi}}
flags: ["-v=1", "-namespace=shop"]
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: infra, operator: Exists}]
imagePullSecrets: [{name: registry}]
labels: {team: edge}
priorityClassName: system-cluster-critical
crds: false
`), 0o600))
	changed := render(t, chart, "-f", values)
	deployment := install["Deployment/gateway-system/gateway-operator"]
	spec := deployment["spec"].(map[string]any)
	spec["replicas"] = float64(3)
	pod := spec["template"].(map[string]any)["spec"].(map[string]any)
	pod["nodeSelector"] = map[string]any{"kubernetes.io/os": "linux"}
	pod["imagePullSecrets"], pod["priorityClassName"] = []any{map[string]any{"name": "registry"}}, "system-cluster-critical"
	spec["template"].(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]any)["team"] = "edge"
	pod["tolerations"] = []any{map[string]any{"key": "infra", "operator": "Exists"}}
	container := pod["containers"].([]any)[0].(map[string]any)
	container["image"] = "other/gateway:v9"
	// Helm merges values with their defaults.
	container["resources"].(map[string]any)["limits"].(map[string]any)["memory"] = "1Gi"
	arguments := container["args"].([]any)
	for i, argument := range arguments {
		arguments[i] = strings.NewReplacer("registry.example.com/gateway:"+version, "other/gateway:v9", "haproxy:3.4", "other/haproxy:3.4.7").Replace(argument.(string))
	}
	container["args"] = append(arguments, "-v=1", "-namespace=shop")
	maps.DeleteFunc(install, func(key string, _ map[string]any) bool {
		return strings.HasPrefix(key, "CustomResourceDefinition/") || key == namespaceKey
	})
	expectSame(t, changed, install)
}

// TestChartOptions: what is optional in artifacts is a value of the chart.
func TestChartOptions(t *testing.T) {
	root := testbuild.MustRoot(t)
	chart := filepath.Join(testenv.MakeRelease(t, version), "chart/gateway")
	without := render(t, chart)
	for value, files := range map[string][]string{
		"gatewayClass": {"gateway-api/gatewayclass.yaml"}, "networkPolicy": {"network-policies/operator.yaml"}, "monitoring": {"monitoring/monitors.yaml", "monitoring/rules.yaml"},
	} {
		with := render(t, chart, "--set", value+"=true")
		want := maps.Clone(without)
		for _, file := range files {
			maps.Copy(want, objects(t, read(t, root, "artifacts", file)))
		}
		expectSame(t, with, want)
	}
}

// TestValuesAreDocumented, each in docs/how-to/install.md.
func TestValuesAreDocumented(t *testing.T) {
	var values map[string]any
	must.Do(t, yaml.Unmarshal([]byte(read(t, testenv.MakeRelease(t, version), "chart/gateway/values.yaml")), &values))
	docs := read(t, testbuild.MustRoot(t), "docs/how-to/install.md")
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !strings.Contains(docs, "`"+name) {
			t.Errorf("docs/how-to/install.md says nothing of the value %s", name)
		}
	}
}

// TestChartOnServer installs a chart, upgrades it to the next, rolls it back and removes it; Gateways stay.
func TestChartOnServer(t *testing.T) {
	before := filepath.Join(testenv.MakeRelease(t, "v1.2.2"), "chart/gateway")
	chart := filepath.Join(testenv.MakeRelease(t, version), "chart/gateway")
	image := func(want string) {
		t.Helper()
		deployment := must.Get(server.Kube.AppsV1().Deployments("helm").Get(t.Context(), "gateway-operator", metav1.GetOptions{}))(t)
		if got := deployment.Spec.Template.Spec.Containers[0].Image; got != want {
			t.Errorf("the operator's image is %s, want %s", got, want)
		}
	}
	helm(t, "install", "gateway", before, "-n", "helm", "--create-namespace")
	image("registry.example.com/gateway:v1.2.2")
	helm(t, "upgrade", "gateway", chart, "-n", "helm", "--set", "replicas=1")
	image("registry.example.com/gateway:" + version)
	helm(t, "rollback", "gateway", "1", "-n", "helm")
	image("registry.example.com/gateway:v1.2.2")
	helm(t, "uninstall", "gateway", "-n", "helm")
	crds := server.Kubectl(t, "get", "crd", "-o", "name")
	if !strings.Contains(crds, "gateways.app.example.com") {
		t.Errorf("helm uninstall has removed the CRD, and with it all Gateways: there is %q", crds)
	}
	server.DeleteCRDs(t, "crd", "gateways.app.example.com")
}

// TestUnknownValue: a value that the chart does not have is refused.
func TestUnknownValue(t *testing.T) {
	chart := filepath.Join(testenv.MakeRelease(t, version), "chart/gateway")
	out, err := helmCommand(t, "template", "gateway", chart, "--set", "replica=3").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "additional properties 'replica' not allowed") {
		t.Errorf("got %v, Helm says %s", err, out)
	}
}
