package haproxytest

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/testtier"
)

// startTimeout bounds how long HAProxy may take to open its sockets, on a machine that is busy with other tests.
const startTimeout = 20 * time.Second

// maxLifetime bounds how long HAProxy may run for a test. A test that takes longer hangs.
var maxLifetime = map[bool]time.Duration{false: 5 * time.Minute, true: time.Hour}[testtier.All]

// Instance is one running HAProxy. Its methods may be called from several goroutines.
type Instance struct {
	// Paths are the paths of HAProxy's files and sockets, which the files must be rendered with.
	Paths ir.Paths
	// MasterSocket and WorkerSocket are the sockets of the master's and of the worker's command line.
	MasterSocket, WorkerSocket string
	// PID is the master's process id.
	PID int

	t      testing.TB
	cmd    *exec.Cmd
	log    lockedBuffer
	exited chan struct{}
	loads  int
}

// NewPaths returns the paths of a HAProxy of this test's own, in a new directory that is removed with the test. The
// directory is not in t.TempDir because a socket's path has at most 97 characters. That of a test is in memory: what
// the agent writes there, it syncs, and that takes a busy disk seconds.
func NewPaths(t testing.TB) ir.Paths {
	t.Helper()
	parent := "/dev/shm"
	if _, ok := t.(*testing.B); ok {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "hap")
	if err != nil {
		t.Fatalf("failed to make a directory for HAProxy: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatalf("failed to make a directory for HAProxy's sockets: %v", err)
	}
	return ir.Paths{ConfigDir: filepath.Join(dir, "current"), RunDir: run}
}

// Start writes the files, starts HAProxy on them and returns when both of its sockets answer. HAProxy is stopped with
// the test. The files have to be rendered with the same paths; nil stands for those that are there already.
func Start(t testing.TB, paths ir.Paths, files map[string][]byte) *Instance {
	t.Helper()
	h := &Instance{
		Paths:        paths,
		MasterSocket: filepath.Join(paths.RunDir, "master.sock"),
		WorkerSocket: filepath.Join(paths.RunDir, "worker.sock"),
		t:            t,
		exited:       make(chan struct{}),
	}
	if files != nil {
		h.WriteFiles(files)
	}
	h.cmd = exec.Command(binary(t), append(read(paths), "-W", "-db", "-S", h.MasterSocket+",mode,600")...)
	h.cmd.Stdout, h.cmd.Stderr = &h.log, &h.log
	// A process group of its own, so that Stop reaches the workers too.
	h.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// It does not wait for processes that keep its output open beyond its end.
	h.cmd.WaitDelay = startTimeout
	if err := h.cmd.Start(); err != nil {
		t.Fatalf("failed to start HAProxy: %v", err)
	}
	h.PID = h.cmd.Process.Pid
	go func() {
		_ = h.cmd.Wait()
		close(h.exited)
	}()
	t.Cleanup(h.cleanup)
	if _, isBenchmark := t.(*testing.B); !isBenchmark { // those have the timeout of go test alone
		watchdog := time.AfterFunc(maxLifetime, h.hangs)
		t.Cleanup(func() { watchdog.Stop() })
	}
	h.waitFor(h.WorkerSocket, "show info\n")
	h.waitFor(h.MasterSocket, "show proc\n")
	return h
}

// WriteFiles writes a new directory of files and points the symlink current at it. It does not make HAProxy load them.
func (h *Instance) WriteFiles(files map[string][]byte) {
	h.t.Helper()
	h.loads++
	name := fmt.Sprintf("load-%06d", h.loads)
	files = maps.Clone(files)
	if _, ok := files[ir.LoadFile]; !ok {
		files[ir.LoadFile] = ir.LoadContent("test", "test", name)
	}
	writeDir(h.t, filepath.Join(filepath.Dir(h.Paths.ConfigDir), name), files)
	next := h.Paths.ConfigDir + ".next"
	if err := os.Symlink(name, next); err != nil {
		h.t.Fatalf("failed to write the symlink: %v", err)
	}
	if err := os.Rename(next, h.Paths.ConfigDir); err != nil {
		h.t.Fatalf("failed to swap the symlink: %v", err)
	}
}

// Worker sends a command to the worker's socket and returns the whole answer.
func (h *Instance) Worker(command string) string { return h.must(h.WorkerSocket, command) }

// Master sends a command to the master's socket and returns the whole answer.
func (h *Instance) Master(command string) string { return h.must(h.MasterSocket, command) }

// Log returns what HAProxy wrote to its standard output and standard error so far: messages and access log.
func (h *Instance) Log() string { return h.log.String() }

// Stop ends HAProxy, as SIGTERM does, and returns when the master and all workers have exited. It may be called twice.
func (h *Instance) Stop() {
	select {
	case <-h.exited:
		return
	default:
	}
	if !h.terminate() {
		h.t.Errorf("HAProxy did not stop within 5 s of SIGTERM")
	}
	// The master waits for its workers; this is for those it lost sight of.
	_ = syscall.Kill(-h.PID, syscall.SIGKILL)
	<-h.exited
}

// terminate reports whether HAProxy ended within 5 s. A SIGTERM is lost that meets its master as it starts again for a
// reload.
func (h *Instance) terminate() bool {
	for range 5 {
		_ = syscall.Kill(h.PID, syscall.SIGTERM)
		select {
		case <-h.exited:
			return true
		case <-time.After(time.Second):
		}
	}
	return false
}

// hangs ends the program. It names the test, and prints what all goroutines do and what HAProxy wrote.
func (h *Instance) hangs() {
	debug.SetTraceback("all")
	panic(fmt.Sprintf("%s has run HAProxy for %s; it wrote:\n%s", h.t.Name(), maxLifetime, tail(h.Log(), 16<<10)))
}

func (h *Instance) cleanup() {
	h.Stop()
	if h.t.Failed() {
		h.t.Logf("HAProxy wrote:\n%s", tail(h.Log(), 16<<10))
	}
}

func (h *Instance) must(socket, command string) string {
	h.t.Helper()
	answer, err := ask(socket, command+"\n")
	if err != nil {
		h.t.Fatalf("failed to send %q to HAProxy: %v", command, err)
	}
	return answer
}

// waitFor returns when the socket answers the command. The worker opens its socket before it has read the whole
// configuration, but answers only when it runs.
func (h *Instance) waitFor(socket, command string) {
	h.t.Helper()
	deadline := time.After(startTimeout)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if answer, err := ask(socket, command); err == nil && strings.TrimSpace(answer) != "" {
			return
		}
		select {
		case <-h.exited:
			h.t.Fatalf("HAProxy exited before %s answered", filepath.Base(socket))
		case <-deadline:
			h.t.Fatalf("HAProxy's %s did not answer within %s", filepath.Base(socket), startTimeout)
		case <-tick.C:
		}
	}
}

// Check makes HAProxy check the files, which must be rendered with the given paths. It returns an error with HAProxy's
// output if HAProxy refuses them or has a warning.
func Check(t testing.TB, paths ir.Paths, files map[string][]byte) error {
	t.Helper()
	writeDir(t, paths.ConfigDir, files)
	out, err := exec.Command(binary(t), append(read(paths), "-c")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("haproxy -c: %w:\n%s", err, out)
	}
	if bytes.Contains(out, []byte("WARNING")) {
		return fmt.Errorf("haproxy -c has warnings:\n%s", out)
	}
	return nil
}

// read returns the arguments by which HAProxy reads the configuration: as in a pod, but that LoadFile need not be there
// for a check.
func read(paths ir.Paths) []string {
	var arguments []string
	for _, name := range []string{ir.LoadFile, ir.ConfigFile} {
		file := filepath.Join(paths.ConfigDir, name)
		if _, err := os.Stat(file); err == nil {
			arguments = append(arguments, "-f", file)
		}
	}
	return arguments
}

func writeDir(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatalf("failed to make a directory for the configuration: %v", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatalf("failed to write %s: %v", name, err)
		}
	}
}

// binary returns the path of the HAProxy on the PATH, which has to be of the one version that is rendered for.
func binary(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath("haproxy")
	if err != nil {
		t.Fatalf("this test needs HAProxy 3.4: PATH=$(hack/haproxy.sh):$PATH: %v", err)
	}
	if version := versionOf(path); !strings.HasPrefix(version, "HAProxy version 3.4.") {
		t.Fatalf("this test needs HAProxy 3.4, and %s is %q: PATH=$(hack/haproxy.sh):$PATH", path, version)
	}
	return path
}

var versions sync.Map // by path

func versionOf(path string) string {
	if version, ok := versions.Load(path); ok {
		return version.(string)
	}
	output, err := exec.Command(path, "-v").Output()
	if err != nil {
		return err.Error()
	}
	version, _, _ := strings.Cut(string(output), "\n")
	versions.Store(path, version)
	return version
}

// Connections returns how many connections a socket, a path, has that were not accepted yet, or not closed.
func Connections(t testing.TB, socket string) int {
	t.Helper()
	// The listener itself is in it too.
	sockets, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatalf("failed to read which sockets are connected: %v", err)
	}
	return strings.Count(string(sockets), socket) - 1
}

// ask sends one request to a command line of HAProxy, which closes the connection after its answer; the master does so
// only if we close our side.
func ask(socket, request string) (string, error) {
	conn, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		return "", err
	}
	answer, err := io.ReadAll(conn)
	return string(answer), err
}

// tail returns the end of s, at most size bytes of it.
func tail(s string, size int) string {
	if len(s) <= size {
		return s
	}
	return "...\n" + s[len(s)-size:]
}

// lockedBuffer is a buffer that HAProxy's output is copied to while a test reads it.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
