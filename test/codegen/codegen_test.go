// Package codegen tests what is generated from the API types, and the scripts that generate it, by changing copies of
// the tree.
package codegen

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, false) }

// inCopy is for commands in a copy of the tree. Without -trimpath, nothing that is compiled in one temporary directory
// would be found in the build cache for the next; the rest saves a third of the generators' time.
var inCopy = []string{"GOFLAGS=-buildvcs=false -trimpath -ldflags=-w", "GOGC=400"}

// checkNewField: the CRD, HAProxy's configuration and everything that is generated have the field.
func checkNewField(t *testing.T, r *recipe) {
	t.Helper()
	expectInFiles(t, r, map[string]string{
		"artifacts/crd/app.example.com_gateways.yaml": "keepAliveTimeout must be between 1s and 1h",
		"docs/reference/api.md":                       "| `keepAliveTimeout` ",
		"internal/haproxy/render/testdata/shop.cfg":   "\n    timeout http-keep-alive 30000ms\n",
		"internal/haproxy/render/testdata/empty.cfg":  "\n    timeout http-keep-alive 60000ms\n",
	})
	copyFile(t, "testdata/newfield/main.go", filepath.Join(r.tree, "newfield/main.go"))
	output := testenv.Run(t, r.tree, r.env, "go", "run", "./newfield", server.Kubeconfig)
	for _, want := range []string{"created: 2s", "applied: 3s", "extracted: 3s"} {
		if !strings.Contains(output, want) {
			t.Errorf("the program that uses the field prints\n%s\nwhich lacks %q", output, want)
		}
	}
}

// checkNewFilter: the CRDs of all kinds with filters, the API reference and HAProxy's configuration have the filter.
func checkNewFilter(t *testing.T, r *recipe) {
	t.Helper()
	expectInFiles(t, r, map[string]string{
		"artifacts/crd/app.example.com_gateways.yaml":       "- RobotsTag\n",
		"artifacts/crd/app.example.com_gatewayconfigs.yaml": "- RobotsTag\n",
		"artifacts/crd/app.example.com_routefilters.yaml":   "- RobotsTag\n",
		"docs/reference/api.md":                             "| `robotsTag` ",
		"internal/haproxy/render/testdata/filters.cfg":      "\n    http-after-response set-header X-Robots-Tag ",
		"internal/haproxy/render/testdata/filters.map":      "&robots=noindex",
	})
}

// expectInFiles checks that files of the copy have these texts.
func expectInFiles(t *testing.T, r *recipe, texts map[string]string) {
	t.Helper()
	for file, want := range texts {
		content := must.Get(os.ReadFile(filepath.Join(r.tree, file)))(t)
		if !strings.Contains(string(content), want) {
			t.Errorf("%s lacks %q", file, want)
		}
	}
}

// copyTree copies what belongs to the tree, committed or not, to a new directory.
func copyTree(t *testing.T) string {
	t.Helper()
	root, tree := testbuild.MustRoot(t), t.TempDir()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
	list.Dir = root
	names, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	pack := exec.CommandContext(t.Context(), "tar", "-c", "--null", "--ignore-failed-read", "-T", "-")
	pack.Dir, pack.Stdin = root, bytes.NewReader(names)
	archive, err := pack.Output()
	if err != nil {
		t.Fatalf("tar: %v", err)
	}
	for files := tar.NewReader(bytes.NewReader(archive)); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return tree
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(tree, header.Name)
		content, err := io.ReadAll(files)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o755)
		}
		if err == nil {
			err = os.WriteFile(path, content, header.FileInfo().Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(to), 0o755)
	}
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func replace(t *testing.T, path, from, to string) {
	t.Helper()
	content := must.Get(os.ReadFile(path))(t)
	changed := strings.Replace(string(content), from, to, 1)
	if changed == string(content) {
		t.Fatalf("%s has no %q", path, from)
	}
	must.Do(t, os.WriteFile(path, []byte(changed), 0o600))
}
