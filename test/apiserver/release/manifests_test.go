package release

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

const version = "v1.2.3"

// expectSame compares two sets of objects, but for those whose keys are ignored.
func expectSame(t *testing.T, got, want map[string]map[string]any, ignored ...string) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !slices.Contains(ignored, key) && !reflect.DeepEqual(got[key], want[key]) {
			t.Errorf("%s differs: got\n%v\nwant\n%v", key, text(t, got[key]), text(t, want[key]))
		}
	}
	for key := range got {
		if want[key] == nil {
			t.Errorf("there is %s, too", key)
		}
	}
}

// text is the object in YAML, or its beginning.
func text(t *testing.T, object map[string]any) string {
	t.Helper()
	raw := must.Get(yaml.Marshal(object))(t)
	return string(raw[:min(len(raw), 4000)])
}

// TestEverythingIsInstalled: whatever make deploy applies is in the kustomization, and so in all that is made of it.
func TestEverythingIsInstalled(t *testing.T) {
	artifacts := filepath.Join(testbuild.MustRoot(t), "artifacts")
	kustomization := read(t, artifacts, "kustomization.yaml")
	for _, dir := range []string{"crd", "rbac", "operator"} {
		paths, err := filepath.Glob(filepath.Join(artifacts, dir, "*.yaml"))
		if err != nil || len(paths) == 0 {
			t.Fatalf("artifacts/%s has no manifests (%v)", dir, err)
		}
		for _, path := range paths {
			if name := dir + "/" + filepath.Base(path); !strings.Contains(kustomization, "  - "+name+"\n") {
				t.Errorf("artifacts/kustomization.yaml lacks %s", name)
			}
		}
	}
}

// TestInstall applies install.yaml, and compares it with what kubectl makes of the kustomize base.
func TestInstall(t *testing.T) {
	dir := testenv.MakeRelease(t, version)
	install := read(t, dir, "install.yaml")
	if strings.Contains(install, "gateway:dev") || !strings.Contains(install, "image: registry.example.com/gateway:"+version) ||
		!strings.Contains(install, "- -agent-image=registry.example.com/gateway:"+version) {
		t.Error("install.yaml does not name the images of the release")
	}
	expectSame(t, objects(t, server.Kubectl(t, "kustomize", filepath.Join(dir, "kustomize"))), objects(t, install))
	server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(dir, "install.yaml"))
	defer remove(t, filepath.Join(dir, "install.yaml"))
	if out := server.Kubectl(t, "apply", "--server-side", "-f", filepath.Join(dir, "install.yaml")); strings.Contains(out, "created") {
		t.Errorf("the second time something is created: %s", out)
	}
}

// TestKustomization is about the base in the repository: kubectl apply -k artifacts.
func TestKustomization(t *testing.T) {
	root := testbuild.MustRoot(t)
	dir := testenv.MakeRelease(t, version)
	install := strings.ReplaceAll(read(t, dir, "install.yaml"), "registry.example.com/gateway:"+version, "gateway:dev")
	expectSame(t, objects(t, server.Kubectl(t, "kustomize", filepath.Join(root, "artifacts"))), objects(t, install))
}

// TestKrew: the manifest has each archive with its digest.
func TestKrew(t *testing.T) {
	var manifest struct {
		Spec struct {
			Version   string
			Platforms []struct {
				URI, Sha256, Bin string
				Selector         struct{ MatchLabels map[string]string }
			}
		}
	}
	must.Do(t, yaml.Unmarshal([]byte(read(t, testenv.MakeRelease(t, version), "krew/gateway.yaml")), &manifest))
	if manifest.Spec.Version != version || len(manifest.Spec.Platforms) != 1 {
		t.Fatalf("got %+v", manifest)
	}
	// printf archive | sha256sum
	const digest = "0eb3e36bfb24dcd9bb1d1bece1531216b59539a8fde17ee80224af0653c92aa3"
	platform := manifest.Spec.Platforms[0]
	if platform.URI != "https://example.com/releases/v1.2.3/kubectl-gateway-v1.2.3-linux-amd64.tar.gz" || platform.Sha256 != digest ||
		platform.Bin != "kubectl-gateway" || platform.Selector.MatchLabels["os"] != "linux" || platform.Selector.MatchLabels["arch"] != "amd64" {
		t.Errorf("got %+v", platform)
	}
}

// remove deletes what was applied, for the tests that follow. The server has no controllers, so namespaces stay.
func remove(t *testing.T, path string) {
	t.Helper()
	var crds, others []string
	for key, object := range objects(t, read(t, path)) {
		raw := must.Get(yaml.Marshal(object))(t)
		switch {
		case strings.HasPrefix(key, "CustomResourceDefinition/"):
			crds = append(crds, string(raw))
		case !strings.HasPrefix(key, "Namespace/"):
			others = append(others, string(raw))
		}
	}
	write := func(name string, documents []string) string {
		file := filepath.Join(t.TempDir(), name)
		must.Do(t, os.WriteFile(file, []byte(strings.Join(documents, "---\n")), 0o600))
		return file
	}
	server.DeleteCRDs(t, "-f", write("crds.yaml", crds))
	server.Kubectl(t, "delete", "--ignore-not-found", "-f", write("others.yaml", others))
}
