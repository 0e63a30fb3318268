// Package release tests what a release is installed by, install.yaml, the kustomize base and the Helm chart, with
// kubectl and Helm on a real API server that has nothing of the project yet.
package release

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"

	"gateway/test/internal/testenv"
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, false) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// makeRelease makes the files of a release that hack/release writes, with one archive of the plugin, and returns their
// directory.
func makeRelease(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "kubectl-gateway-"+version+"-linux-amd64.tar.gz"), []byte("archive"), 0o600))
	testenv.Run(t, testenv.MustRoot(t), nil, "go", "run", "-trimpath", "./hack/release", "-version", version,
		"-image", "registry.example.com/gateway", "-url", "https://example.com/releases", "-o", dir)
	return dir
}

// helmCommand is Helm on the server. Go builds it once, and keeps it in its cache.
func helmCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	home := t.TempDir()
	command := exec.CommandContext(t.Context(), "go", append([]string{"tool", "-modfile=hack/helm/go.mod", "helm"}, args...)...)
	command.Dir = testenv.MustRoot(t)
	command.Env = append(os.Environ(), "GOWORK=off",
		"KUBECONFIG="+server.Kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
	return command
}

// helm returns what Helm prints.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	command := helmCommand(t, args...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("helm %v: %v\n%s", args, err, stderr.String())
	}
	return string(out)
}

// objects are those of a YAML stream, by kind, namespace and name.
func objects(t *testing.T, stream string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(stream), 4096)
	for {
		object := map[string]any{}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		if len(object) == 0 {
			continue
		}
		metadata := object["metadata"].(map[string]any)
		namespace, _ := metadata["namespace"].(string)
		key := strings.Join([]string{object["kind"].(string), namespace, metadata["name"].(string)}, "/")
		if all[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		all[key] = object
	}
}

func read(t *testing.T, parts ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(parts...))
	must(t, err)
	return string(content)
}
