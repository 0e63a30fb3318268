package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// startTimeout bounds the start of a master: its worker may answer before it does.
	startTimeout = 5 * time.Second
	// reloadTimeout bounds a reload: HAProxy takes tens of milliseconds for a small configuration, seconds for 10,000
	// backends.
	reloadTimeout = 30 * time.Second
	// reloadPoll is how often a master that is starting anew, or busy with another reload, is asked again, and a worker
	// that does not stop yet.
	reloadPoll = 2 * time.Millisecond
	// firstStopTimeout bounds the first question to a worker that may have ended. HAProxy answers in under a millisecond
	// if it has a processor.
	firstStopTimeout = 50 * time.Millisecond
)

// RejectedError means that HAProxy did not accept a configuration. Its workers go on with the previous one.
type RejectedError struct {
	// Log is what HAProxy said about it.
	Log string
}

func (e *RejectedError) Error() string { return "HAProxy rejected the configuration: " + e.Log }

// Master is the command line of HAProxy's master process.
type Master struct {
	socket string
	// hung are old workers that did not answer ObserveOldWorkers.
	hung map[int]bool
}

// NewMaster returns the master that listens on the socket, a path. Nothing is opened yet.
func NewMaster(socket string) *Master { return &Master{socket: socket} }

// Reload makes HAProxy load its configuration files anew and returns when the master has either started a worker with
// it or refused it, with a *RejectedError. That the new worker answers is for the caller to see, by its load id.
//
// The master answers "Success=1" or "Success=0", a line of two dashes, and its messages (management guide, section
// 9.4). A request that arrives while the master starts anew for a reload that an earlier agent asked for is lost with
// its connection, or refused. So the master has to have answered just before.
func (m *Master) Reload(ctx context.Context) error {
	if err := m.awaitAnswer(ctx); err != nil {
		return fmt.Errorf("failed to ask HAProxy's master for a reload: %w", err)
	}
	reply, err := m.request(ctx)
	if err != nil {
		return fmt.Errorf("failed to ask HAProxy's master for a reload: %w", err)
	}
	switch status, log, _ := strings.Cut(reply, "\n"); status {
	case "Success=1":
		return nil
	case "Success=0":
		return &RejectedError{Log: strings.TrimSpace(strings.TrimPrefix(log, "--\n"))}
	}
	return fmt.Errorf("failed to ask HAProxy's master for a reload: it answered %q", firstLine(reply))
}

// AwaitStopping returns when the worker with the PID stops or is gone. If ctx ends first, it returns an error. A worker
// that stops takes no new connections, and its next answer on an existing one says that it is the last. HAProxy's
// master sends the signal for that when the newer worker is ready. The old one may take the signal later than the newer
// one answers.
//
// The master of HAProxy 3.4.7 does not always answer a question about a worker that ends, and always lists the workers.
// Each question keeps one of its few connections. So a worker that hangs is asked three times at most.
func (m *Master) AwaitStopping(ctx context.Context, pid int) error {
	timeout, last := firstStopTimeout, error(nil)
	err := wait.PollUntilContextCancel(ctx, reloadPoll, true, func(ctx context.Context) (stops bool, _ error) {
		if stops, last = m.stops(ctx, pid, timeout); errors.Is(last, context.DeadlineExceeded) {
			timeout *= 10
		}
		return stops, nil
	})
	if err != nil {
		return fmt.Errorf("worker %d did not say that it stops: %w", pid, cmp.Or(last, err))
	}
	return nil
}

// stops reports whether the worker with the PID reports in time that it stops, or is gone.
func (m *Master) stops(ctx context.Context, pid int, timeout time.Duration) (bool, error) {
	workers, err := exchange(ctx, m.socket, "show proc\n")
	if err != nil || !strings.Contains(workers, fmt.Sprintf("\n%d ", pid)) {
		return err == nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	info, err := exchange(ctx, m.socket, fmt.Sprintf("@!%d show info\n", pid))
	return err == nil && parseFields(info)["Stopping"] == "1", err
}

// IsDraining reports whether HAProxy is stopping and waits for its connections to end: no worker takes new ones.
func (m *Master) IsDraining(ctx context.Context) bool {
	reply, err := exchange(ctx, m.socket, "show proc\n")
	if err != nil {
		return false
	}
	workers := workerLines(reply, currentWorkers)
	for _, line := range workers {
		pid, _, _ := strings.Cut(line, " ")
		info, err := exchange(ctx, m.socket, "@!"+pid+" show info\n")
		if err != nil || parseFields(info)["Stopping"] != "1" {
			return false
		}
	}
	// An idle worker is gone before an older one that has connections.
	return len(workers)+len(workerLines(reply, oldWorkers)) > 0
}

// request asks for a reload, retrying while another one runs, and returns the answer, which comes after the load.
func (m *Master) request(ctx context.Context) (string, error) {
	reply, isOver := "", false
	err := wait.PollUntilContextTimeout(ctx, reloadPoll, reloadTimeout, true, func(ctx context.Context) (_ bool, err error) {
		reply, err = roundTrip(ctx, m.socket, "reload\n")
		isOver = err != nil || !strings.Contains(reply, "\nAnother reload is still in progress.")
		return isOver, err
	})
	if !isOver {
		return "", fmt.Errorf("%w: another reload is still in progress", err)
	}
	return reply, err
}

// awaitAnswer asks until the master answers.
func (m *Master) awaitAnswer(ctx context.Context) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, reloadPoll, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = exchange(ctx, m.socket, "show proc\n")
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w; last: %w", err, cmp.Or(last, err))
	}
	return nil
}

// OldWorkers returns the number of workers that wait for their connections to end after a newer one has taken over.
func (m *Master) OldWorkers(ctx context.Context) (int, error) {
	reply, err := exchange(ctx, m.socket, "show proc\n")
	if err != nil {
		return 0, fmt.Errorf("failed to ask HAProxy's master for its workers: %w", err)
	}
	return len(workerLines(reply, oldWorkers)), nil
}

// The lines that begin parts of the answer to "show proc".
const (
	currentWorkers = "# workers\n"
	oldWorkers     = "# old workers\n"
)

// workerLines returns the lines of a part of the answer to "show proc".
func workerLines(reply, part string) []string {
	_, lines, _ := strings.Cut(reply, part)
	lines, _, _ = strings.Cut(lines, "#")
	return strings.FieldsFunc(lines, func(r rune) bool { return r == '\n' })
}

// firstLine is the part of an answer that an error message shows.
func firstLine(reply string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(reply), "\n")
	return line
}
