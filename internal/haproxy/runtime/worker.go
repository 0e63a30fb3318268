package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
)

// ErrServerBusy means that a server takes no new requests but still has connections, so it cannot be deleted yet.
var ErrServerBusy = errors.New("server still has connections")

// HAProxy's answers to commands on servers.
const (
	serverAdded   = "New server registered."
	serverExists  = "Already exists a server with the same name in backend."
	serverDeleted = "Server deleted."
	serverUnknown = "No such server."
	serverBusy    = "Server still has connections attached to it, cannot remove it."
)

// HAProxy's answers to commands on backends.
const (
	backendAdded     = "New backend registered."
	backendExists    = "Error during backend creation : name is already used"
	backendPublished = "Backend published."
	backendDeleted   = "Backend deleted."
	backendUnknown   = "No such backend."
)

// Process identifies a worker process and what it was started on.
type Process struct {
	// LoadID is the id in the description of the configuration the worker was started on.
	LoadID string
	// PID is the process id in HAProxy's own container. A restarted container has the same ones again.
	PID int
	// Started is when the worker was started, in Unix seconds.
	Started int64
}

// Worker is the command line of HAProxy's current worker process.
type Worker struct {
	socket string
	// dir is the directory of Exclusively, "" without.
	dir string
}

// NewWorker returns the worker that listens on the socket, a path. Nothing is opened yet.
func NewWorker(socket string) *Worker { return &Worker{socket: socket} }

// Process returns the worker that answers.
func (w *Worker) Process(ctx context.Context) (Process, error) {
	reply, err := w.exchange(ctx, "show info\n")
	if err == nil {
		var process Process
		if process, err = parseInfo(reply); err == nil {
			return process, nil
		}
	}
	return Process{}, fmt.Errorf("failed to identify HAProxy's worker: %w", err)
}

const (
	// loadTimeout bounds the time from the master's word that it started a worker to that worker's answer.
	loadTimeout = 10 * time.Second
	loadPoll    = 2 * time.Millisecond
)

// AwaitLoad returns the worker that was started on a configuration, once it answers.
func (w *Worker) AwaitLoad(ctx context.Context, id string) (Process, error) {
	var process Process
	var last error
	err := wait.PollUntilContextTimeout(ctx, loadPoll, loadTimeout, true, func(ctx context.Context) (bool, error) {
		process, last = w.Process(ctx)
		return last == nil && process.LoadID == id, nil
	})
	if err == nil {
		return process, nil
	}
	return Process{}, fmt.Errorf("HAProxy's new worker did not answer: %w", cmp.Or(last, fmt.Errorf("it still runs %s", process.LoadID)))
}

// parseInfo reads the answer to "show info": one "Name: value" a line, of which it takes
//
//	Pid: 13581
//	description: gateway shop/web load=load-000007-5d41402a
//	Start_time_sec: 1795232339
func parseInfo(reply string) (Process, error) {
	fields := parseFields(reply)
	pid, err := strconv.Atoi(fields["Pid"])
	if err != nil {
		return Process{}, fmt.Errorf("unexpected answer to show info: Pid is %q", fields["Pid"])
	}
	started, err := strconv.ParseInt(fields["Start_time_sec"], 10, 64)
	if err != nil {
		return Process{}, fmt.Errorf("unexpected answer to show info: Start_time_sec is %q", fields["Start_time_sec"])
	}
	_, id, _ := strings.Cut(fields["description"], "load=")
	if id == "" {
		return Process{}, fmt.Errorf("unexpected answer to show info: description is %q", fields["description"])
	}
	return Process{LoadID: id, PID: pid, Started: started}, nil
}

// parseFields reads an answer of one "Name: value" a line.
func parseFields(reply string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(reply) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}

// AddBackend adds a backend with its servers and lets it take requests. One that exists already, from an attempt that
// failed half-way, is completed.
func (w *Worker) AddBackend(ctx context.Context, backend plan.Backend) error {
	if !isWord(backend.Name) || !isWord(backend.Defaults) {
		return fmt.Errorf("failed to add backend: %q from %q cannot be the name of one", backend.Name, backend.Defaults)
	}
	reply, err := w.exchange(ctx, fmt.Sprintf("add backend %s from %s mode %s\n", backend.Name, backend.Defaults, backend.Mode))
	if err == nil && reply != backendAdded && !strings.HasPrefix(reply, backendExists) {
		err = errors.New(firstLine(reply))
	}
	if err != nil {
		return fmt.Errorf("failed to add backend %s: %w", backend.Name, err)
	}
	for _, server := range backend.Servers {
		if err := w.AddServer(ctx, plan.Server{Backend: backend.Name, Server: server, Settings: backend.Settings}); err != nil {
			return err
		}
	}
	return w.publish(ctx, backend.Name)
}

// DeleteBackend deletes a backend without servers that gets no more requests. It returns false, and leaves the backend
// unchanged, if it still has a request or server. The caller asks again later. A missing backend is no error.
func (w *Worker) DeleteBackend(ctx context.Context, name string) (deleted bool, err error) {
	if !isWord(name) {
		return false, fmt.Errorf("failed to delete backend: %q cannot be the name of one", name)
	}
	reply, err := w.exchange(ctx, "unpublish backend "+name+";del backend "+name+"\n")
	if err != nil {
		return false, fmt.Errorf("failed to delete backend %s: %w", name, err)
	}
	if strings.HasSuffix(reply, backendDeleted) || strings.HasSuffix(reply, backendUnknown) {
		return true, nil
	}
	return false, w.publish(ctx, name)
}

func (w *Worker) publish(ctx context.Context, backend string) error {
	reply, err := w.exchange(ctx, "publish backend "+backend+"\n")
	if err == nil && reply != backendPublished && reply != "" {
		err = errors.New(firstLine(reply))
	}
	if err != nil {
		return fmt.Errorf("failed to publish backend %s: %w", backend, err)
	}
	return nil
}

// AddServer adds a server to a backend and lets it take requests. One that exists already, in maintenance after a
// RemoveServer that found it busy, takes requests again.
func (w *Worker) AddServer(ctx context.Context, change plan.Server) error {
	name, err := serverPath(change.Backend, change.Server)
	if err != nil {
		return fmt.Errorf("failed to add server: %w", err)
	}
	reply, err := w.exchange(ctx, ir.AddServer(change.Backend, change.Server, change.Settings)+"\n")
	if err == nil && reply != serverAdded && !isThere(reply, change.Server) {
		err = errors.New(firstLine(reply))
	}
	if err != nil {
		return fmt.Errorf("failed to add server %s: %w", name, err)
	}
	commands := []string{"set server " + name + " state ready\n"}
	if change.Settings.Check {
		// A server that was added has its checks off, whatever its options say.
		commands = append(commands, "enable health "+name+"\n")
	}
	if key := change.Settings.CookieKey; key != "" {
		// The cookies' values are computed when the key is set, for the servers there are then.
		commands = append(commands, "set dynamic-cookie-key backend "+change.Backend+" "+key+"\n")
	}
	for _, command := range commands {
		if err := w.expectSilence(ctx, command); err != nil {
			return fmt.Errorf("failed to enable server %s: %w", name, err)
		}
	}
	return nil
}

// isThere reports whether "add server" was refused because the server exists. HAProxy checks the number first, and
// names the server that has it.
func isThere(reply string, server ir.Server) bool {
	return reply == serverExists || strings.Contains(reply, "already used") && strings.Contains(reply, "'server "+ir.ServerName(server)+"'")
}

// RemoveServer stops new requests to a server and deletes it. It returns ErrServerBusy if the server cannot be deleted
// because it still has connections. The caller asks again later. A missing server is no error.
func (w *Worker) RemoveServer(ctx context.Context, backend string, server ir.Server) error {
	name, err := serverPath(backend, server)
	if err != nil {
		return fmt.Errorf("failed to remove server: %w", err)
	}
	reply, err := w.exchange(ctx, "set server "+name+" state maint\n")
	switch {
	case err != nil:
		return fmt.Errorf("failed to disable server %s: %w", name, err)
	case reply == serverUnknown:
		return nil
	case reply != "":
		return fmt.Errorf("failed to disable server %s: %s", name, firstLine(reply))
	}
	return w.delete(ctx, name)
}

// DeleteServer deletes a server that RemoveServer found busy, or returns ErrServerBusy again. HAProxy holds all its
// threads meanwhile.
func (w *Worker) DeleteServer(ctx context.Context, backend string, server ir.Server) error {
	name, err := serverPath(backend, server)
	if err != nil {
		return fmt.Errorf("failed to delete server: %w", err)
	}
	return w.delete(ctx, name)
}

func (w *Worker) delete(ctx context.Context, name string) error {
	reply, err := w.exchange(ctx, "del server "+name+"\n")
	switch {
	case err != nil:
		return fmt.Errorf("failed to delete server %s: %w", name, err)
	case reply == serverDeleted, reply == serverUnknown:
		return nil
	case reply == serverBusy:
		return fmt.Errorf("failed to delete server %s: %w", name, ErrServerBusy)
	default:
		return fmt.Errorf("failed to delete server %s: %s", name, firstLine(reply))
	}
}

// AnnounceStop makes the worker close HTTP/1.1 connections after their next answer.
func (w *Worker) AnnounceStop(ctx context.Context) error {
	if err := w.expectSilence(ctx, "experimental-mode on; set var "+ir.StopVariable+" bool(true)\n"); err != nil {
		return fmt.Errorf("failed to set %s: %w", ir.StopVariable, err)
	}
	return nil
}

// expectSilence sends a command that HAProxy answers with an empty line when it is done.
func (w *Worker) expectSilence(ctx context.Context, command string) error {
	reply, err := w.exchange(ctx, command)
	if err == nil && reply != "" {
		err = errors.New(firstLine(reply))
	}
	return err
}

func serverPath(backend string, server ir.Server) (string, error) {
	name := ir.ServerName(server)
	if !isWord(backend) || !isWord(name) || !isWord(ir.ServerAddress(server)) {
		return "", fmt.Errorf("%q cannot be the name of a server", backend+"/"+name)
	}
	return backend + "/" + name, nil
}
