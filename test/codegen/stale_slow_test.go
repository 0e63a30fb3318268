//go:build slow

package codegen

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gateway/internal/must"
)

// TestStale: in a copy of the tree whose API has changed, the check that generated files are current fails, names what
// is not, also what nothing generates, and says what to run. That it passes where nothing has changed is shown by CI,
// which runs it on the tree.
func TestStale(t *testing.T) {
	t.Parallel()
	tree := copyTree(t)
	replace(t, filepath.Join(tree, "api/app/v1/types.go"), "type GatewaySpec struct {\n",
		"type GatewaySpec struct {\n\t// A note for people.\n\t// +optional\n\tNote *string `json:\"note,omitempty\"`\n\n")
	for file, content := range map[string]string{
		"generated/app/extra.go": "package app\n",
		// Somebody's, who works on a program on the clients, too.
		"go.work": "go 1.26.0\n\nuse (\n\t.\n\t./examples/clients\n)\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(tree, file), []byte(content), 0o600))
	}
	command := exec.CommandContext(t.Context(), "hack/verify-codegen.sh")
	command.Dir, command.Env = tree, append(os.Environ(), inCopy...)
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("verify-codegen.sh on stale files: %v, want exit status 1\n%s", err, output)
	}
	for _, want := range []string{"WithNote", "artifacts/crd/app.example.com_gateways.yaml", "docs/reference/api.md",
		"\n-package app\n",
		"generated files are not current. Run: make generate manifests api-docs"} {
		if !bytes.Contains(output, []byte(want)) {
			t.Errorf("verify-codegen.sh does not mention %s:\n%s", want, output)
		}
	}
}
