package convert

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// TestGolden compares what becomes of testdata/NAME.in.yaml with NAME.out.yaml and NAME.notes.txt. That an API server
// admits it, that HAProxy accepts it, and what it does is tested in packages clustertest and command.
func TestGolden(t *testing.T) {
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("there is no input: %v", err)
	}
	for _, input := range inputs {
		name := strings.TrimSuffix(input, ".in.yaml")
		t.Run(filepath.Base(name), func(t *testing.T) {
			var out, errOut bytes.Buffer
			options := cli.NewOptions(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &errOut})
			command := NewCommand(options)
			command.SilenceUsage, command.SilenceErrors = true, true
			*options.Flags.Namespace = "default"
			command.SetArgs([]string{"-f", input})
			_ = command.Execute() // the notes tell
			compareGolden(t, name+".out.yaml", out.Bytes())
			var notes bytes.Buffer
			for line := range strings.Lines(errOut.String()) {
				if object, _, ok := strings.Cut(line, ": "); ok && strings.Contains(object, "/") {
					notes.WriteString(line)
				}
			}
			compareGolden(t, name+".notes.txt", notes.Bytes())
		})
	}
}

func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil { //nolint:gosec // as the others
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path) //nolint:gosec // a golden file
	if err != nil {
		t.Fatalf("failed to read the golden file (-update writes it): %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (if it should, run the test with -update); got:\n%s", path, got)
	}
}
