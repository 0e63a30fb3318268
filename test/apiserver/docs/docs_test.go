// Package docs applies the YAML of the documentation to a real API server.
package docs

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"gateway/internal/must"
	"gateway/internal/plugintest"
	"gateway/internal/testbuild"
	"gateway/test/internal/examples"
	"gateway/test/internal/testenv"
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// foreign are the groups of kinds that the API server of the tests does not have. Their objects are only parsed.
var foreign = map[string]bool{"cert-manager.io": true, "flagger.app": true, "keda.sh": true, "monitoring.coreos.com": true}

// ofCluster are the kinds of objects without a namespace.
var ofCluster = map[string]bool{"Namespace": true, "GatewayClass": true, "IngressClass": true}

// TestYAML has the API server check every block of YAML in the README and in docs. The recipes have a test of their
// own.
func TestYAML(t *testing.T) {
	t.Parallel()
	server.InstallGatewayAPI(t)
	applier := must.Get(examples.NewApplier(server.Kube.Discovery(), server.Dynamic))(t)
	checked := 0
	for page, text := range pages(t) {
		if strings.Contains(page, "/recipes/") {
			continue
		}
		for i, block := range blocks(text, "yaml") {
			checked++
			t.Run(fmt.Sprintf("%s:%d", page, i), func(t *testing.T) {
				t.Parallel()
				for _, object := range objects(t, block) {
					if foreign[object.GroupVersionKind().Group] {
						continue
					}
					makeNamespace(t, object.GetNamespace())
					if err := applier.DryRun(t.Context(), object); err != nil {
						t.Errorf("%v, in\n%s", err, block)
					}
				}
			})
		}
	}
	if checked < 30 {
		t.Errorf("found only %d blocks of YAML", checked)
	}
}

// pages are the texts by their paths below the root of the project.
func pages(t *testing.T) map[string]string {
	t.Helper()
	root, all := testbuild.MustRoot(t), map[string]string{}
	for _, name := range []string{"README.md", "README.zh-CN.md", "docs"} {
		must.Do(t, filepath.WalkDir(filepath.Join(root, name), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".md" {
				return err
			}
			content, err := os.ReadFile(path)
			all[strings.TrimPrefix(path, root+"/")] = string(content)
			return err
		}))
	}
	return all
}

// blocks are the contents of the fenced blocks of a kind.
func blocks(page, kind string) []string {
	var all []string
	for _, match := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		all = append(all, match[1])
	}
	return all
}

// objects returns the objects of a block. A block without an apiVersion shows a part of a Gateway's spec.
func objects(t *testing.T, block string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for document := range bytes.SplitSeq([]byte(block), []byte("---\n")) {
		content := map[string]any{}
		if err := yaml.UnmarshalStrict(document, &content); err != nil {
			t.Fatalf("%v, in\n%s", err, block)
		}
		if content["apiVersion"] == nil {
			content = gatewayWith(content)
		}
		object := &unstructured.Unstructured{Object: content}
		if object.GetNamespace() == "" && !ofCluster[object.GetKind()] {
			object.SetNamespace("default")
		}
		all = append(all, object)
	}
	return all
}

// gatewayWith is a Gateway with a part of a spec.
func gatewayWith(spec map[string]any) map[string]any {
	if spec["listeners"] == nil {
		spec["listeners"] = []any{map[string]any{"name": "http", "port": 80, "protocol": "HTTP"}}
	}
	return map[string]any{
		"apiVersion": "app.example.com/v1", "kind": "Gateway", "metadata": map[string]any{"name": "part"}, "spec": spec,
	}
}

func makeNamespace(t *testing.T, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := server.Kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if name != "" && err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// TestFlags compares what the programs print for -help with what docs/reference/flags.md shows. With -update, it writes
// it.
func TestFlags(t *testing.T) {
	t.Parallel()
	root, bin := testbuild.MustRoot(t), t.TempDir()
	for name, pkg := range map[string]string{"gateway": ".", "gateway-key-server": "./cmd/gateway-key-server"} {
		must.Do(t, os.Symlink(testbuild.Program(t, pkg), filepath.Join(bin, name)))
	}
	run := func(command string) string { return plugintest.Shell(t, bin, root, command) }
	same := func(output string) string { return output }
	plugintest.ComparePage(t, filepath.Join(root, "docs", "reference", "flags.md"), "console programs", run, same)
}
