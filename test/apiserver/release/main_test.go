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

	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, false) }

// helmCommand is Helm on the server.
func helmCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return testenv.HelmCommand(t, server.Kubeconfig, args...)
}

// helm returns what Helm prints.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	return testenv.Helm(t, server.Kubeconfig, args...)
}

// objects returns the objects of a YAML stream, by kind, namespace and name.
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
		must.Do(t, err)
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
	content := must.Get(os.ReadFile(filepath.Join(parts...)))(t)
	return string(content)
}
