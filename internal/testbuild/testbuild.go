// Package testbuild builds programs for tests.
package testbuild

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"

	"gateway/internal/must"
)

// flags are GO_BUILD's in the Makefile, so that images and tests share compiled packages.
var flags = []string{"-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-tags=no_fs_access"}

// Root returns the directory of the project's go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "artifacts", "crd")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("these tests have to run inside the project's tree")
}

// MustRoot is Root, or the end of the test.
func MustRoot(t testing.TB) string {
	t.Helper()
	root := must.Get(Root())(t)
	return root
}

// Program builds the program in a directory of the project, such as "." or "cmd/gateway-agent", and returns its path.
// All packages' tests have the same one: go build links it only if it has changed.
func Program(t testing.TB, dir string) string {
	t.Helper()
	return build(t, dir, ".", filepath.Base(filepath.Join("gateway", dir)))
}

// built are the programs that this process has built; building guards it.
var (
	building sync.Mutex
	built    = map[string]bool{}
)

// major is the last element of a path of a module whose major version is above 1.
var major = regexp.MustCompile(`/v\d+$`)

// Tool builds a program that a go.mod of the project names, such as hack/tools/go.mod, and returns its path.
func Tool(t testing.TB, mod, pkg string) string {
	t.Helper()
	return build(t, ".", pkg, filepath.Base(major.ReplaceAllString(pkg, "")), "-modfile="+mod)
}

func build(t testing.TB, dir, pkg, name string, more ...string) string {
	t.Helper()
	root := MustRoot(t)
	// Each has a directory of its own: the plugin looks for others beside it.
	bin := filepath.Join(root, "bin", "tests", name)
	program := filepath.Join(bin, name)
	building.Lock()
	defer building.Unlock()
	if built[program] {
		return program
	}
	must.Do(t, os.MkdirAll(bin, 0o700))
	lock := must.Get(os.Open(bin))(t)
	defer func() { _ = lock.Close() }()
	must.Do(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	args := append(append([]string{"build", "-o", bin + "/"}, flags...), more...)
	command := exec.CommandContext(t.Context(), "go", append(args, pkg)...) //nolint:gosec // of tests
	command.Dir, command.Env = filepath.Join(root, dir), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", command, err, output)
	}
	built[program] = true
	return program
}
