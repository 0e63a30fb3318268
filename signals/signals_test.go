//go:build !windows

package signals

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// childEnv makes the test binary act as a program that uses the package; its value says what the program does once the
// context is cancelled.
const childEnv = "SIGNALS_TEST_CHILD"

func TestMain(m *testing.M) {
	if after := os.Getenv(childEnv); after != "" {
		runChild(after)
	}
	os.Exit(m.Run())
}

// runChild tells its parent on stdout how far it is.
func runChild(after string) {
	ctx := SetupSignalHandler()
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("cancelled")
	if after == "exits" {
		os.Exit(0)
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // blocks: a shutdown that never ends
}

func TestSetupSignalHandler(t *testing.T) {
	tests := map[string]struct {
		child    string
		signals  []syscall.Signal
		wantCode int
	}{
		"SIGTERM lets the program finish":            {"exits", []syscall.Signal{syscall.SIGTERM}, 0},
		"SIGINT lets the program finish":             {"exits", []syscall.Signal{syscall.SIGINT}, 0},
		"a second signal ends a shutdown that hangs": {"hangs", []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, 1},
		"the same signal twice ends it too":          {"hangs", []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := signalChild(t, test.child, test.signals); got != test.wantCode {
				t.Errorf("exit code %d, want %d", got, test.wantCode)
			}
		})
	}
}

// signalChild starts a child, sends it the signals, each after the line of output that says it is awaited, and returns
// its exit code.
func signalChild(t *testing.T, after string, signals []syscall.Signal) int {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childEnv+"="+after)
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := child.StdinPipe(); err != nil { // stays open as long as the child runs
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stdout)
	for i, signal := range signals {
		if want := []string{"ready", "cancelled"}[i]; !lines.Scan() || lines.Text() != want {
			t.Fatalf("the child said %q before signal %d, want %q", lines.Text(), i+1, want)
		}
		if err := child.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	for lines.Scan() { // until the child has closed its output: Wait must not be called before
	}
	err = child.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return child.ProcessState.ExitCode()
}

func TestSetupSignalHandlerTwicePanics(t *testing.T) {
	SetupSignalHandler()
	defer func() {
		if recover() == nil {
			t.Error("the second call did not panic")
		}
	}()
	SetupSignalHandler()
}
