package testenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"gateway/internal/must"
)

// Run runs a command in dir, with env added to the environment, and returns what it printed. Failure ends the test.
func Run(t testing.TB, dir string, env []string, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, output)
	}
	return string(output)
}

// Kubectl runs kubectl on the server as its administrator and returns what it printed.
func (s *Server) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return Run(t, "", []string{"KUBECONFIG=" + s.Kubeconfig}, filepath.Join(s.env.BinaryAssetsDirectory, "kubectl"), args...)
}

// Program is a started program.
type Program struct {
	command *exec.Cmd
	done    chan struct{}
	mu      sync.Mutex
	output  bytes.Buffer
}

// Start starts a program with env added to the environment. The end of the test kills it, and shows what it printed if
// the test failed.
func Start(t testing.TB, env []string, path string, args ...string) *Program {
	t.Helper()
	p := &Program{command: exec.CommandContext(context.WithoutCancel(t.Context()), path, args...), done: make(chan struct{})}
	p.command.Env = append(os.Environ(), env...)
	p.command.Stdout, p.command.Stderr = p, p
	must.Do(t, p.command.Start())
	go func() {
		// How it ended is in ProcessState.
		_ = p.command.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			// Go programs print what each goroutine does, and end.
			_ = p.command.Process.Signal(syscall.SIGQUIT)
			select {
			case <-p.done:
			case <-time.After(time.Second):
			}
		}
		p.Kill()
		if t.Failed() {
			t.Logf("%s %v printed:\n%s", filepath.Base(path), args, p.Output())
		}
	})
	return p
}

// Write takes what the program prints.
func (p *Program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

// Output is what the program has printed so far.
func (p *Program) Output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// Signal sends the program a signal.
func (p *Program) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(signal); err != nil {
		t.Fatalf("failed to signal the program: %v", err)
	}
}

// Kill ends the program without a chance to clean up, and waits for its end.
func (p *Program) Kill() {
	// It may have ended before.
	_ = p.command.Process.Kill()
	<-p.done
}

// Exit waits for the program's end and returns its exit code.
func (p *Program) Exit(t testing.TB, within time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
		return p.command.ProcessState.ExitCode()
	case <-time.After(within):
		t.Fatalf("the program still runs after %v", within)
		return -1
	}
}

// Done is closed when the program has ended.
func (p *Program) Done() <-chan struct{} { return p.done }

// PID is the program's process id.
func (p *Program) PID() int { return p.command.Process.Pid }

// Running is an error if the program has ended.
func (p *Program) Running() error {
	select {
	case <-p.done:
		return fmt.Errorf("the program ended: %v", p.command.ProcessState)
	default:
		return nil
	}
}
