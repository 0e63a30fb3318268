package command_test

import (
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/plugintest"
)

// TestTranscripts runs what the documentation shows and needs no cluster.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	bin := plugintest.Build(t, clitest.Root)
	run := func(command string) string {
		return plugintest.Shell(t, bin, clitest.Root, command, "KUBECONFIG=/nonexistent")
	}
	for _, page := range plugintest.Pages(t, clitest.Root, "console") {
		plugintest.ComparePage(t, page, "console", run, func(output string) string { return output })
	}
}
