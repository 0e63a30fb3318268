package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"gateway/internal/must"
)

// functions are the Helm functions that the templates call. test/apiserver/release renders them with Helm.
var functions = template.FuncMap{
	"default": func(otherwise, value string) string {
		if value == "" {
			return otherwise
		}
		return value
	},
	"nindent": func(n int, text string) string {
		return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", n))
	},
	"join": func(separator string, values []any) string {
		return strings.Trim(strings.ReplaceAll(fmt.Sprint(values), " ", separator), "[]")
	},
	"quote": func(value any) string { return fmt.Sprintf("%q", fmt.Sprint(value)) },
	"toYaml": func(value any) (string, error) {
		raw, err := yaml.Marshal(value)
		return strings.TrimSpace(string(raw)), err
	},
}

func makeRelease(t *testing.T) string {
	t.Helper()
	r := release{version: "v1.2.3", image: "registry.example.com/gateway", haproxyImage: "haproxy:3.4.7@sha256:2", digest: "sha256:1", artifacts: "../../artifacts", output: t.TempDir()}
	must.Do(t, os.WriteFile(filepath.Join(r.output, "kubectl-gateway-v1.2.3-linux-amd64.tar.gz"), nil, 0o600))
	must.Do(t, r.make())
	return r.output
}

// byName are the objects of a YAML stream by kind and name.
func byName(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	objects := must.Get(file{"stream", text}.objects())(t)
	all := map[string]map[string]any{}
	for _, object := range objects {
		u := unstructured.Unstructured{Object: object}
		all[u.GetKind()+" "+u.GetName()] = object
	}
	return all
}

// render makes the objects of the chart, with some of its values changed.
func render(t *testing.T, dir, changes string) map[string]map[string]any {
	t.Helper()
	values := map[string]any{}
	content := must.Get(os.ReadFile(filepath.Join(dir, "chart/gateway/values.yaml")))(t)
	must.Do(t, yaml.Unmarshal(content, &values))
	must.Do(t, yaml.Unmarshal([]byte(changes), &values))
	paths := must.Get(filepath.Glob(filepath.Join(dir, "chart/gateway/templates/*")))(t)
	slices.Sort(paths)
	var rendered bytes.Buffer
	for _, path := range paths {
		text := must.Get(os.ReadFile(path))(t)
		parsed := must.Get(template.New(path).Funcs(functions).Parse(string(text)))(t)
		must.Do(t, parsed.Execute(&rendered, map[string]any{
			"Values": values, "Chart": map[string]any{"AppVersion": "v1.2.3"}, "Release": map[string]any{"Namespace": "gateway-system"},
		}))
		rendered.WriteString("\n")
	}
	objects := byName(t, rendered.String())
	for name, object := range objects {
		if strings.HasPrefix(name, "CustomResourceDefinition ") {
			annotations, _, _ := unstructured.NestedMap(object, "metadata", "annotations")
			if annotations["helm.sh/resource-policy"] != "keep" {
				t.Errorf("helm uninstall would delete %s", name)
			}
			unstructured.RemoveNestedField(object, "metadata", "annotations", "helm.sh/resource-policy")
		}
	}
	return objects
}

// TestChartIsInstall: by default the chart has the objects of install.yaml, but for the namespace, which Helm makes.
func TestChartIsInstall(t *testing.T) {
	dir := makeRelease(t)
	install := must.Get(os.ReadFile(filepath.Join(dir, "install.yaml")))(t)
	want := byName(t, string(install))
	if len(want) < 8 {
		t.Errorf("install.yaml has only %d objects", len(want))
	}
	delete(want, "Namespace gateway-system")
	for _, image := range []string{"image: registry.example.com/gateway:v1.2.3@sha256:1\n", "-haproxy-image=haproxy:3.4.7@sha256:2\n"} {
		if !strings.Contains(string(install), image) {
			t.Errorf("install.yaml lacks %q", image)
		}
	}
	got := render(t, dir, "")
	for name := range want {
		if !reflect.DeepEqual(got[name], want[name]) {
			t.Errorf("%s differs: got\n%v\nwant\n%v", name, got[name], want[name])
		}
		delete(got, name)
	}
	if len(got) > 0 {
		t.Errorf("the chart has more: %v", got)
	}
}

// TestValues: each value changes what its comment describes.
func TestValues(t *testing.T) {
	dir := makeRelease(t)
	got := render(t, dir, `
image: {repository: other/gateway, tag: v9}
haproxyImage: other/haproxy:3.4.8
replicas: 3
resources: {limits: {memory: 1Gi}}
flags: [-v=1, -namespace=shop]
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: infra, operator: Exists}]
labels: {team: edge}
imagePullSecrets: [{name: registry}]
affinity: {nodeAffinity: {}}
priorityClassName: system-cluster-critical
gatewayClass: true
crds: false
networkPolicy: true
monitoring: true
`)
	for _, name := range []string{"NetworkPolicy gateway-operator", "PodMonitor gateway-proxies", "PrometheusRule gateway", "GatewayClass gateway"} {
		if got[name] == nil {
			t.Errorf("there is no %s", name)
		}
	}
	if got["CustomResourceDefinition gateways.app.example.com"] != nil {
		t.Error("there is a CRD")
	}
	rule := must.Get(yaml.Marshal(got["PrometheusRule gateway"]))(t)
	if !strings.Contains(string(rule), "{{ $labels.namespace }}/{{ $labels.pod }}") {
		t.Errorf("the alerts' own expressions are lost: %s", rule)
	}
	deployment := must.Get(yaml.Marshal(got["Deployment gateway-operator"]["spec"]))(t)
	for _, want := range []string{
		"replicas: 3", "image: other/gateway:v9", "- -agent-image=other/gateway:v9 - -haproxy-image=other/haproxy:3.4.8 - -v=1 - -namespace=shop env:",
		"affinity: nodeAffinity: {}", "imagePullSecrets: - name: registry", "priorityClassName: system-cluster-critical", "team: edge",
		"resources: limits: memory: 1Gi securityContext:", "nodeSelector: kubernetes.io/os: linux", "tolerations: - key: infra operator: Exists",
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(deployment)), " "), want) {
			t.Errorf("the Deployment lacks %q:\n%s", want, deployment)
		}
	}
}

func TestVersionIsChecked(t *testing.T) {
	for _, version := range []string{"", "0.1.0", "v1", "v1.2.3+dirty", "v01.2.3", "latest"} {
		r := release{version: version}
		if err := r.make(); err == nil {
			t.Errorf("%q is taken for a version", version)
		}
	}
}

// TestKeyServer: the chart has the key server as artifacts have it, and tells the operator of it.
func TestKeyServer(t *testing.T) {
	dir := makeRelease(t)
	without := render(t, dir, "")
	tests := map[string]struct {
		values, arguments string
		more              []string
	}{
		"all namespaces": {"keyServer: {enabled: true, resources: {}}", "-logtostderr", []string{
			"ClusterRole gateway-key-server", "ClusterRole gateway-key-server-secrets", "ClusterRoleBinding gateway-key-server",
			"ClusterRoleBinding gateway-key-server-secrets", "Deployment gateway-key-server", "PodDisruptionBudget gateway-key-server",
			"Role gateway-key-server", "RoleBinding gateway-key-server", "Service gateway-key-server", "ServiceAccount gateway-key-server",
		}},
		"two namespaces": {"keyServer: {enabled: true, namespaces: [shop, web], resources: {}}\nnetworkPolicy: true", "-logtostderr -namespaces=shop,web", []string{
			"ClusterRole gateway-key-server", "ClusterRole gateway-key-server-secrets", "ClusterRoleBinding gateway-key-server",
			"Deployment gateway-key-server", "NetworkPolicy gateway-key-server", "NetworkPolicy gateway-operator",
			"PodDisruptionBudget gateway-key-server", "Role gateway-key-server", "RoleBinding gateway-key-server",
			"Service gateway-key-server", "ServiceAccount gateway-key-server",
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := render(t, dir, test.values)
			var more []string
			for name := range got {
				if without[name] == nil {
					more = append(more, name)
				}
			}
			if slices.Sort(more); !slices.Equal(more, test.more) {
				t.Errorf("the chart has more: %q", more)
			}
			arguments := func(name string) string {
				containers, _, err := unstructured.NestedSlice(got["Deployment "+name], "spec", "template", "spec", "containers")
				must.Do(t, err)
				return strings.Trim(fmt.Sprint(containers[0].(map[string]any)["args"]), "[]")
			}
			if got := arguments(keyServer); got != test.arguments {
				t.Errorf("the key server has %s, want %s", got, test.arguments)
			}
			if got := arguments("gateway-operator"); !strings.Contains(got, " -key-server=gateway-key-server.gateway-system.svc:8443") {
				t.Errorf("the operator has %s", got)
			}
		})
	}
}
