package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"gateway/test/internal/testenv"
)

// process is what the kernel tells of a process.
type process struct{ pid int }

// child finds the process of that name which this one has started.
func child(name string) (*process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it ended meanwhile
		}
		// PID (COMMAND) STATE PPID
		before, after, _ := strings.Cut(string(stat), ") ")
		pid, command, _ := strings.Cut(before, " (")
		if fields := strings.Fields(after); command == name && len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) {
			number, err := strconv.Atoi(pid)
			return &process{number}, err
		}
	}
	return nil, fmt.Errorf("there is no child process %s", name)
}

// cpu is the processor time that the process has used.
func (p *process) cpu() time.Duration { return testenv.CPU(p.pid) }

// memory are the bytes in the line "VmRSS" (resident now) or "VmHWM" (at most so far) of the process's status.
func (p *process) memory(line string) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.pid))
	for text := range strings.Lines(string(status)) {
		if name, value, _ := strings.Cut(text, ":"); name == line {
			kibibytes, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kibibytes * 1024
		}
	}
	return 0
}

// controller is a running controller of Gateways: the operator or the plain one.
type controller struct {
	process
	command *exec.Cmd
	done    chan struct{}
	// begun is when it was started.
	begun time.Time

	mu     sync.Mutex
	output strings.Builder
}

// What the controllers log: where their metrics are, and that they begin to work.
const (
	logAddress = "health and metrics on "
	logLeading = "Looking after Gateways"
)

// memoryLimit is what artifacts/operator sets: from there on, the garbage collector works harder.
const memoryLimit = "GOMEMLIMIT=768MiB"

func startController(path string, arguments ...string) (*controller, error) {
	c := &controller{command: exec.Command(path, arguments...), done: make(chan struct{}), begun: time.Now()}
	c.command.Env = append(os.Environ(), memoryLimit)
	c.command.Stdout, c.command.Stderr = c, c
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	c.pid = c.command.Process.Pid
	go func() {
		_ = c.command.Wait() // how it ended does not matter here
		close(c.done)
	}()
	return c, nil
}

// Write takes what the controller prints.
func (c *controller) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.Write(b)
}

func (c *controller) printed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.output.String()
}

// await waits for a text in what the controller prints.
func (c *controller) await(ctx context.Context, text string) error {
	return poll(ctx, 5*time.Millisecond, func(context.Context) (bool, error) {
		select {
		case <-c.done:
			return false, fmt.Errorf("%s ended:\n%s", c.command.Path, c.printed())
		default:
			return strings.Contains(c.printed(), text), nil
		}
	})
}

// stop ends the controller in order.
func (c *controller) stop() error {
	if err := c.command.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.done
	return nil
}

// metrics asks the controller for its metrics.
func (c *controller) metrics(ctx context.Context) (metrics, error) {
	raw, err := c.get(ctx, "/metrics")
	return parseMetrics(raw), err
}

// get asks the controller's health server.
func (c *controller) get(ctx context.Context, path string) (string, error) {
	if err := c.await(ctx, logAddress); err != nil {
		return "", err
	}
	_, address, _ := strings.Cut(c.printed(), logAddress)
	address, _, _ = strings.Cut(address, "\n")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	return string(raw), err
}
