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
	if out, _ := exec.Command("/usr/sbin/haproxy", "-v").Output(); len(out) > 0 {
		t.Skip("there is another HAProxy")
	}
	clitest.Run(t, everything, "render", "-f", "-", "--check").Want(t, 1, "there is neither HAProxy 3.4 on the PATH nor docker")
}

// fakeHAProxy has the PATH lead to a HAProxy of a version alone, which refuses everything.
func fakeHAProxy(t *testing.T, version string) {
	t.Helper()
	haproxy := clitest.WriteFile(t, "haproxy", `#!/bin/sh
if [ "$1" = -v ]; then echo "HAProxy version `+version+`"; exit; fi
echo '[ALERT]    (1) : config : parsing [haproxy.cfg:1]: no'
exit 1
`)
	if err := os.Chmod(haproxy, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(haproxy))
}
