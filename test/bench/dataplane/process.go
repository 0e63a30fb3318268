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

// process is a proxy that runs, with those it has started, and with programs that it needs.
type process struct {
	cmds []*exec.Cmd
}

// start runs a proxy and returns when it accepts connections on the port. What it prints, the access log, goes to
// /dev/null, what it complains of to our standard error. More programs are started before it.
func start(port int, cmds ...*exec.Cmd) (*process, error) {
	p := &process{}
	for _, cmd := range cmds {
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		if err := cmd.Start(); err != nil {
			p.stop()
			return nil, fmt.Errorf("failed to run %s: %w", cmd.Path, err)
		}
		p.cmds = append(p.cmds, cmd)
	}
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
	for _, cmd := range p.cmds {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	}
}

// pids returns the processes and their children.
func (p *process) pids() []string {
	var all []string
	for _, cmd := range p.cmds {
		all = append(all, strconv.Itoa(cmd.Process.Pid))
	}
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
