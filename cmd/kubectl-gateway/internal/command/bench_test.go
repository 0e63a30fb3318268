package command_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/plugintest"
)

// BenchmarkStart starts the program for nothing but its help.
func BenchmarkStart(b *testing.B) { benchmark(b, "--help") }

// BenchmarkRender renders a Gateway with 1,000 routes, each for a host and a Service of its own.
func BenchmarkRender(b *testing.B) {
	var file strings.Builder
	fmt.Fprintf(&file, minimal+"  routes:\n", "many")
	for i := range 1000 {
		fmt.Fprintf(&file, "    - {name: r%d, hostnames: [h%d.example.com], rules: [{matches: [{path: {value: /p%d}}], backendRefs: [{name: s%d, port: 80}]}]}\n", i, i, i, i)
	}
	benchmark(b, "render", "-f", clitest.WriteFile(b, "many.yaml", file.String()))
}

// benchmark measures from the start of the built program to its end.
func benchmark(b *testing.B, args ...string) {
	b.Helper()
	program := filepath.Join(plugintest.Build(b, clitest.Root), "kubectl-gateway")
	for b.Loop() {
		if out, err := exec.CommandContext(b.Context(), program, args...).CombinedOutput(); err != nil { //nolint:gosec // ours
			b.Fatalf("%v\n%s", err, out)
		}
	}
}
