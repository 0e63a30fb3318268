// Package codegen tests what is generated from the API types, and the scripts that generate it: in copies of the tree,
// and from a module that vendors the clients.
package codegen

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gateway/test/internal/testenv"
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// offline makes go use the module cache only: what the tests need is there, because the tests themselves need it. Without
// -trimpath, nothing that is compiled in one temporary directory would be found in the build cache for the next.
var offline = []string{"GOPROXY=off", "GOFLAGS=-mod=mod -buildvcs=false -trimpath", "GOWORK=off"}

// TestNewField goes the way of someone who adds a field to the API, in a copy of the tree: the check that generated files
// are current fails and says what to run; that makes clients and a CRD which have the field, and the server stores it.
// That the check passes where nothing has changed is shown by CI, which runs it on the tree.
func TestNewField(t *testing.T) {
	tree := copyTree(t)
	replace(t, filepath.Join(tree, "api/app/v1/types.go"), "type GatewaySpec struct {\n",
		"type GatewaySpec struct {\n\t// A note for people.\n\t// +optional\n\t// +kubebuilder:validation:MaxLength=80\n"+
			"\tNote *string `json:\"note,omitempty\"`\n\n")
	extra := filepath.Join(tree, "generated/app/extra.go")
	if err := os.WriteFile(extra, []byte("package app\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expectStale(t, tree)

	testenv.Run(t, tree, nil, "make", "generate", "manifests")
	if _, err := os.Stat(extra); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that nothing generates is still there: %v", err)
	}
	crd := filepath.Join(tree, "artifacts/crd")
	text, err := os.ReadFile(filepath.Join(crd, "app.example.com_gateways.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte("description: A note for people.\n                maxLength: 80\n                type: string\n")) {
		t.Error("the CRD lacks spec.note")
	}

	copyFile(t, "testdata/newfield/main.go", filepath.Join(tree, "newfield/main.go"))
	server.Kubectl(t, "apply", "--server-side", "--force-conflicts", "-f", crd)
	output := testenv.Run(t, tree, offline, "go", "run", "./newfield", server.Kubeconfig)
	for _, want := range []string{"created: typed", "applied: applied", "extracted: applied"} {
		if !strings.Contains(output, want) {
			t.Errorf("the program that uses the field prints\n%s\nwhich lacks %q", output, want)
		}
	}
}

// expectStale checks that verify-codegen.sh finds what TestNewField has changed.
func expectStale(t *testing.T, tree string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "hack/verify-codegen.sh")
	command.Dir = tree
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("verify-codegen.sh on stale files: %v, want exit status 1\n%s", err, output)
	}
	for _, want := range []string{"WithNote", "artifacts/crd/app.example.com_gateways.yaml", "docs/api.md", "generated/app/extra.go",
		"generated files are not current. Run: make generate manifests api-docs"} {
		if !bytes.Contains(output, []byte(want)) {
			t.Errorf("verify-codegen.sh does not mention %s:\n%s", want, output)
		}
	}
}

// copyTree copies what belongs to the tree, committed or not, to a new directory.
func copyTree(t *testing.T) string {
	t.Helper()
	root, tree := testenv.MustRoot(t), t.TempDir()
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
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(content), from, to, 1)
	if changed == string(content) {
		t.Fatalf("%s has no %q", path, from)
	}
	if err := os.WriteFile(path, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}
