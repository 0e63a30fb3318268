// Package clients runs the programs of examples/clients on a real API server, built the way a module of somebody else's
// would build them: with the clients vendored.
package clients

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/must"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// TestExamples runs each program as docs/how-to/clients.md describes it.
func TestExamples(t *testing.T) {
	programs := build(t)
	for name, test := range map[string]func(*testing.T, example){
		"create": testCreate, "dynamic": testDynamic, "queue": testQueue, "watch": testWatch, "weight": testWeight,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			must.Get(server.Kube.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}))(t)
			e := example{path: filepath.Join(programs, name), namespace: name}
			t.Run("no cluster", e.testNoCluster)
			test(t, e)
		})
	}
}

// build vendors the examples in a copy, checks that only what is public comes with the clients, and nothing that only
// the operator needs, runs their own tests, and returns the directory of the programs.
func build(t *testing.T) string {
	t.Helper()
	root, module := testbuild.MustRoot(t), t.TempDir()
	must.Do(t, os.CopyFS(module, os.DirFS(filepath.Join(root, "examples/clients"))))
	// What the examples need is in the module cache. Without -trimpath, what is compiled in one temporary directory
	// would not be found in the build cache for the next.
	offline := []string{"GOPROXY=off", "GOFLAGS=-buildvcs=false -trimpath", "GOWORK=off"}
	testenv.Run(t, module, offline, "go", "mod", "edit", "-replace=gateway="+root)
	testenv.Run(t, module, offline, "go", "mod", "vendor")
	for name, wanted := range map[string]bool{
		"gateway/generated/app/clientset/versioned": true,
		"gateway/internal":                          false,
		"github.com/golang/glog":                    false,
		"k8s.io/component-base":                     false,
		"sigs.k8s.io/controller-runtime":            false,
	} {
		if _, err := os.Stat(filepath.Join(module, "vendor", name)); (err == nil) != wanted {
			t.Errorf("%s is vendored: %v, want %v", name, err == nil, wanted)
		}
	}
	testenv.Run(t, module, offline, "go", "build", "-o", "bin/", "./...")
	testenv.Run(t, module, offline, "go", "test", "./...")
	return filepath.Join(module, "bin")
}

// example is a program, and the namespace that its test has for itself.
type example struct{ path, namespace string }

// start starts the program.
func (e example) start(t *testing.T, args ...string) *testenv.Program {
	t.Helper()
	return testenv.Start(t, nil, e.path, append([]string{"-kubeconfig", server.Kubeconfig, "-namespace", e.namespace}, args...)...)
}

// run runs the program to its end, which is to have the code, and returns what it printed.
func (e example) run(t *testing.T, code int, args ...string) string {
	t.Helper()
	program := e.start(t, args...)
	if got := program.Exit(t, 30*time.Second); got != code {
		t.Fatalf("exit code %d, want %d", got, code)
	}
	return program.Output()
}

// testNoCluster: the program reports in one line why it cannot work.
func (e example) testNoCluster(t *testing.T) {
	for args, want := range map[string]string{
		testenv.WriteKubeconfig(t, "https://127.0.0.1:1", nil, "none"): "connect: connection refused",
		filepath.Join(t.TempDir(), "none"):                             "no such file or directory",
	} {
		program := testenv.Start(t, nil, e.path, "-kubeconfig", args)
		if code := program.Exit(t, 30*time.Second); code != 1 {
			t.Errorf("exit code %d, want 1", code)
		}
		if said := program.Output(); strings.Count(said, "\n") != 1 || !strings.HasPrefix(said, e.namespace+": failed to ") || !strings.Contains(said, want) {
			t.Errorf("said %q, want one line with %q", said, want)
		}
	}
}

// wantLines waits until the program has printed the lines, each of which may be the beginning of one.
func wantLines(t *testing.T, program *testenv.Program, lines ...string) {
	t.Helper()
	testenv.Eventually(t, 20*time.Second, "the program prints "+strings.Join(lines, ", "), func(context.Context) error {
		for _, line := range lines {
			if !strings.Contains("\n"+program.Output(), "\n"+line) {
				return fmt.Errorf("no line %q", line)
			}
		}
		return nil
	})
}

// wantAnyLine waits until the program has printed one of the lines.
func wantAnyLine(t *testing.T, program *testenv.Program, lines ...string) {
	t.Helper()
	testenv.Eventually(t, 20*time.Second, "the program prints one of "+strings.Join(lines, ", "), func(context.Context) error {
		for _, line := range lines {
			if strings.Contains("\n"+program.Output(), "\n"+line) {
				return nil
			}
		}
		return fmt.Errorf("none of %q", lines)
	})
}

// wantStop checks that the signal ends the program in order.
func wantStop(t *testing.T, program *testenv.Program, signal syscall.Signal) {
	t.Helper()
	program.Signal(t, signal)
	if code := program.Exit(t, 10*time.Second); code != 0 {
		t.Errorf("exit code %d after %v, want 0", code, signal)
	}
}

// wantCounts returns a check of how often the program has printed each text.
func wantCounts(program *testenv.Program, want map[string]int) func(context.Context) error {
	return func(context.Context) error {
		for text, count := range want {
			if got := strings.Count(program.Output(), text); got != count {
				return fmt.Errorf("%d times %s, want %d", got, text, count)
			}
		}
		return nil
	}
}
