package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a proxy that runs, with those it has started.
type process struct {
	cmd *exec.Cmd
}

// start runs a proxy and returns when it accepts connections on the port. What it prints, the access log, goes to /dev/null, what it
// complains of to our standard error.
func start(cmd *exec.Cmd, port int) (*process, error) {
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("failed to run %s: %w", cmd.Path, err)
	}
	p := &process{cmd: cmd}
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("tcp", address(port))
		if err == nil {
			_ = conn.Close()
			return p, nil
		}
	}
	p.stop()
	return nil, errors.New("it does not accept connections")
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

func (p *process) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
}

// pids returns the process and its children.
func (p *process) pids() []string {
	all := []string{strconv.Itoa(p.cmd.Process.Pid)}
	for i := 0; i < len(all); i++ {
		lists, _ := filepath.Glob("/proc/" + all[i] + "/task/*/children")
		for _, list := range lists {
			children, _ := os.ReadFile(list)
			all = append(all, strings.Fields(string(children))...)
		}
	}
	return all
}

// cpu returns the CPU time that was used, in user space and the kernel.
func (p *process) cpu() time.Duration {
	total := time.Duration(0)
	for _, pid := range p.pids() {
		tasks, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
		for _, task := range tasks {
			content, _ := os.ReadFile(task)
			if fields := strings.Fields(string(content)); len(fields) > 0 {
				nanoseconds, _ := strconv.ParseInt(fields[0], 10, 64)
				total += time.Duration(nanoseconds)
			}
		}
	}
	return total
}
