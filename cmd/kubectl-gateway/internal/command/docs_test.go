package command_test

import (
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

// TestTranscripts runs what the documentation shows and needs no cluster.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	clitest.Transcripts(t, "console", []string{"KUBECONFIG=/nonexistent"}, func(s string) string { return s })
}
