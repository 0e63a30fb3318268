package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

// TestRefused has a HAProxy that refuses everything.
func TestRefused(t *testing.T) {
	fakeHAProxy(t, "3.4.7")
	clitest.Run(t, everything, "render", "-f", "-", "--check").Want(t, 3, "default/all: HAProxy refuses it: ", "parsing [haproxy.cfg:1]: no")
}

// TestOtherVersion: a HAProxy of another version is not asked.
func TestOtherVersion(t *testing.T) {
	fakeHAProxy(t, "3.2.7")
	skipWithHAProxy(t)
	clitest.Run(t, everything, "render", "-f", "-", "--check").Want(t, 1, "there is neither HAProxy 3.4 on the PATH nor docker")
}

// TestDockerDoesNotRun has docker installed, and nothing that runs containers.
func TestDockerDoesNotRun(t *testing.T) {
	skipWithHAProxy(t)
	onlyProgram(t, "docker", "echo Client:; echo failed to connect to the docker API; exit 1")
	clitest.Run(t, everything, "render", "-f", "-", "--check").Want(t, 1,
		"there is no HAProxy 3.4 on the PATH, and docker is not running: install HAProxy, or start docker: failed to connect to the docker API")
}

func skipWithHAProxy(t *testing.T) {
	t.Helper()
	if out, _ := exec.Command("/usr/sbin/haproxy", "-v").Output(); len(out) > 0 {
		t.Skip("there is another HAProxy")
	}
}

// fakeHAProxy has the PATH lead to a HAProxy of a version alone, which refuses everything.
func fakeHAProxy(t *testing.T, version string) {
	t.Helper()
	onlyProgram(t, "haproxy", `if [ "$1" = -v ]; then echo "HAProxy version `+version+`"; exit; fi
echo '[ALERT]    (1) : config : parsing [haproxy.cfg:1]: no'
exit 1`)
}

// onlyProgram has the PATH lead to one program, a script.
func onlyProgram(t *testing.T, name, script string) {
	t.Helper()
	program := clitest.WriteFile(t, name, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(program, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(program))
}
