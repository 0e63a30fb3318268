package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gateway/test/internal/testenv"
)

// stubs makes a directory of programs, by the shell commands that each of them runs.
func stubs(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, commands := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+commands+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// script runs commands of bash at the top of the tree, with the programs of dir first on the PATH. It returns what they
// print, and whether they succeed.
func script(t *testing.T, dir, commands string, env ...string) (string, bool) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "-c", commands)
	command.Dir = testenv.MustRoot(t)
	command.Env = append(append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH")), env...)
	output, err := command.CombinedOutput()
	return string(output), err == nil
}

// TestVulnerabilitiesWithoutADatabase: without the database, there is no answer that looks like a good one.
func TestVulnerabilitiesWithoutADatabase(t *testing.T) {
	output, ok := script(t, stubs(t, map[string]string{"curl": "exit 6"}), "hack/vuln.sh")
	if want := "the vulnerability database https://vuln.go.dev cannot be reached"; ok || !strings.Contains(output, want) {
		t.Errorf("it succeeds: %v, and prints\n%s\nwant %q", ok, output, want)
	}
}
