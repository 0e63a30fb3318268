package testenv

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gateway/internal/must"
)

// The parts of the control plane.
const (
	APIServer = "kube-apiserver"
	Etcd      = "etcd"
)

// Kill ends a part of the control plane without a chance to clean up, and returns what starts it again as it was: with
// its port, its certificates and its data.
func (s *Server) Kill(t testing.TB, part string) (start func()) {
	t.Helper()
	pid := s.PID(t, part)
	arguments := must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)))(t)
	path := filepath.Join(s.env.BinaryAssetsDirectory, part)
	list := strings.Split(strings.TrimSuffix(string(arguments), "\x00"), "\x00")[1:]
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("failed to kill %s: %v", part, err)
	}
	Eventually(t, 10*time.Second, part+" is gone", func(context.Context) error {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err == nil {
			return fmt.Errorf("process %d still exists", pid)
		}
		return nil
	})
	return func() {
		t.Helper()
		command := exec.Command(path, list...)
		if err := command.Start(); err != nil {
			t.Fatalf("failed to start %s again: %v", part, err)
		}
		done := make(chan struct{})
		go func() {
			_ = command.Wait() // it is killed
			close(done)
		}()
		s.restarted = append(s.restarted, func() {
			_ = command.Process.Kill() // it may have been killed before
			<-done
		})
	}
}

// Ready waits until the API server and its etcd answer.
func (s *Server) Ready(t testing.TB) {
	t.Helper()
	Eventually(t, time.Minute, "the API server is ready", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return s.Kube.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
	})
}

// EtcdURL is where etcd listens.
func (s *Server) EtcdURL() string { return s.env.ControlPlane.Etcd.URL.String() }

// CPU is the processor time that the API server has used.
func (s *Server) CPU(t testing.TB) time.Duration {
	t.Helper()
	return CPU(s.PID(t, APIServer))
}

// CPU is the processor time that a process has used, in steps of the kernel's 10 ms; 0 if it has ended.
func CPU(pid int) time.Duration {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	var ticks int64
	if fields := strings.Fields(after); len(fields) > 12 {
		for _, field := range fields[11:13] { // user and system
			n, _ := strconv.ParseInt(field, 10, 64)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// Memory is what a process has of its own and shares (VmRSS), in MiB; 0 if it has ended.
func Memory(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib float64
	_, _ = fmt.Sscan(rest, &kib)
	return kib / 1024
}

// PID is the process id of a part of the control plane.
func (s *Server) PID(t testing.TB, name string) int {
	t.Helper()
	children := must.Get(filepath.Glob("/proc/[0-9]*/stat"))(t)
	for _, path := range children {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it ended meanwhile
		}
		// PID (COMMAND) STATE PPID
		before, after, _ := strings.Cut(string(stat), ") ")
		pid, command, _ := strings.Cut(before, " (")
		if fields := strings.Fields(after); command == name && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && fields[0] != "Z" {
			number := must.Get(strconv.Atoi(pid))(t)
			return number
		}
	}
	t.Fatalf("there is no process %s of this test", name)
	return 0
}
