package runtime

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/must"
)

// newSocket listens on a Unix socket of the test's own and hands every connection to serve, which need not close it.
func newSocket(t *testing.T, serve func(conn net.Conn)) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "sock"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	listener := must.Get(net.Listen("unix", path))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close() //nolint:errcheck // the test looks at what the client saw
				serve(conn)
			}()
		}
	}()
	return path
}

// answering is a socket that answers each command, by its first line, with what the map says for its longest prefix.
func answering(t *testing.T, answers map[string]string) string {
	t.Helper()
	return newSocket(t, func(conn net.Conn) {
		command, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil {
			return
		}
		best := ""
		for prefix := range answers {
			if strings.HasPrefix(command, prefix) && len(prefix) > len(best) {
				best = prefix
			}
		}
		_, _ = io.WriteString(conn, answers[best])
	})
}

var server = ir.Server{Address: "10.0.0.1", Port: 8080}

func TestAnUnexpectedAnswerIsAnError(t *testing.T) { //nolint:funlen // a flat table
	tests := map[string]struct {
		answers map[string]string
		call    func(ctx context.Context, w *Worker) error
		want    string
	}{
		"adding to a backend that does not exist": {
			map[string]string{"add server": "No such backend.\n"},
			func(ctx context.Context, w *Worker) error {
				return w.AddServer(ctx, plan.Server{Backend: "b", Server: server})
			},
			"failed to add server b/10.0.0.1_8080: No such backend.",
		},
		"adding one whose number another has": {
			map[string]string{"add server": "'id' : custom id 7 already used at runtime:0 ('server 10.0.0.2_8080')\n", "set server": "\n"},
			func(ctx context.Context, w *Worker) error {
				return w.AddServer(ctx, plan.Server{Backend: "b", Server: server})
			},
			"failed to add server b/10.0.0.1_8080: 'id' : custom id 7 already used",
		},
		"adding without an answer": {
			map[string]string{},
			func(ctx context.Context, w *Worker) error {
				return w.AddServer(ctx, plan.Server{Backend: "b", Server: server})
			},
			"without an answer",
		},
		"enabling fails": {
			map[string]string{"add server": "New server registered.\n\n", "set server": "Require 'backend/server'.\n"},
			func(ctx context.Context, w *Worker) error {
				return w.AddServer(ctx, plan.Server{Backend: "b", Server: server})
			},
			"failed to enable server b/10.0.0.1_8080: Require",
		},
		"disabling fails": {
			map[string]string{"set server": "Permission denied\n", "del server": "Server deleted.\n"},
			func(ctx context.Context, w *Worker) error { return w.RemoveServer(ctx, "b", server) },
			"failed to disable server b/10.0.0.1_8080: Permission denied",
		},
		"deleting fails": {
			map[string]string{"set server": "\n", "del server": "Permission denied\n"},
			func(ctx context.Context, w *Worker) error { return w.RemoveServer(ctx, "b", server) },
			"failed to delete server b/10.0.0.1_8080: Permission denied",
		},
		"a backend name that would be two words": {
			map[string]string{},
			func(ctx context.Context, w *Worker) error {
				return w.AddServer(ctx, plan.Server{Backend: "b c", Server: server})
			},
			"cannot be the name of a server",
		},
		"a map that does not exist": {
			map[string]string{"prepare map": "Unknown map identifier. Please use #<id> or <file>.\n\n"},
			func(ctx context.Context, w *Worker) error { return w.ReplaceMap(ctx, "/m", nil) },
			"failed to prepare map /m: HAProxy does not have the map",
		},
		"a map that does not take an entry": {
			map[string]string{"prepare map": "New version created: 3\n\n", "add map": "Out of memory error.\n\n", "commit map": "\n"},
			func(ctx context.Context, w *Worker) error {
				return w.ReplaceMap(ctx, "/m", []ir.MapEntry{{Key: "k", Value: "v"}})
			},
			"failed to add to map /m: Out of memory error.",
		},
		"the first of two lines of edits": {
			map[string]string{"set map /m a": "entry not found.\n\n", "set map /m b": "\n"},
			func(ctx context.Context, w *Worker) error {
				long := strings.Repeat("v", maxCommand/2)
				return w.EditMap(ctx, "/m", []plan.Edit{{Key: "a", Old: "v", New: long}, {Key: "b", Old: "v", New: long}})
			},
			`failed to edit map /m from "a" on: entry not found.`,
		},
		"a lost map version": {
			map[string]string{"prepare map": "New version created: 3\n\n", "commit map": "Version number out of range.\n\n"},
			func(ctx context.Context, w *Worker) error { return w.ReplaceMap(ctx, "/m", nil) },
			"failed to commit map /m: Version number out of range.",
		},
		"an entry that would be two lines": {
			map[string]string{"prepare map": "New version created: 3\n\n"},
			func(ctx context.Context, w *Worker) error {
				return w.ReplaceMap(ctx, "/m", []ir.MapEntry{{Key: "k", Value: "v\n\nshow env"}})
			},
			"a map cannot hold the entry",
		},
		"info without a description": {
			map[string]string{"show info": "Pid: 7\nStart_time_sec: 8\n\n"},
			func(ctx context.Context, w *Worker) error { _, err := w.Process(ctx); return err },
			`description is ""`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.call(t.Context(), NewWorker(answering(t, test.answers)))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

// TestEditsFillLines: a line is as long as a command may be, its end included, and no longer.
func TestEditsFillLines(t *testing.T) {
	short := plan.Edit{Key: "a", Old: "v", New: "v"}
	const first, second = len("set map /m a v;"), len("set map /m b \n")
	for name, test := range map[string]struct {
		edits []plan.Edit
		want  []int // the lengths of the lines, none if there is an error
	}{
		"two fill a line":        {[]plan.Edit{short, editOf(maxCommand - first - second)}, []int{maxCommand}},
		"two are one byte over":  {[]plan.Edit{short, editOf(maxCommand - first - second + 1)}, []int{first, maxCommand - first + 1}},
		"one fills a line":       {[]plan.Edit{editOf(maxCommand - second)}, []int{maxCommand}},
		"one is a byte over":     {[]plan.Edit{editOf(maxCommand - second + 1)}, nil},
		"the second is too long": {[]plan.Edit{short, editOf(maxCommand)}, nil},
	} {
		lines, err := changeCommands("/m", test.edits)
		var got []int
		for _, line := range lines {
			got = append(got, len(line))
		}
		if !slices.Equal(got, test.want) || (err != nil) != (test.want == nil) {
			t.Errorf("%s: got lines of %d bytes and the error %v, want %d", name, got, err, test.want)
		}
	}
}

// editOf gives an entry a value of that many bytes.
func editOf(size int) plan.Edit {
	return plan.Edit{Key: "b", Old: "v", New: strings.Repeat("v", size)}
}

func TestMasterAnswers(t *testing.T) {
	for name, test := range map[string]struct{ reload, want string }{
		"accepts":                   {"Success=1\n--\nwarnings\n", ""},
		"rejects":                   {"Success=0\n--\n[ALERT] unknown keyword\n", "rejected the configuration: [ALERT] unknown keyword"},
		"an answer of another kind": {"Permission denied\n", `it answered "Permission denied"`},
		"lost":                      {"", `it answered ""`},
	} {
		t.Run(name, func(t *testing.T) {
			socket := newSocket(t, func(conn net.Conn) {
				answer := "#<PID> <type> <reloads> <uptime> <version>\n12991 master 9 0d00h00m51s 3.4.7\n"
				if command, _ := bufio.NewReader(conn).ReadString('\n'); strings.HasPrefix(command, "reload") {
					answer = test.reload
				}
				_, _ = io.WriteString(conn, answer)
			})
			err := NewMaster(socket).Reload(t.Context())
			if test.want == "" && err != nil {
				t.Errorf("got error %v", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestEveryCallEndsWithItsContext(t *testing.T) {
	hanging := newSocket(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn); select {} })
	worker, master := NewWorker(hanging), NewMaster(hanging)
	calls := map[string]func(ctx context.Context) error{
		"Process": func(ctx context.Context) error { _, err := worker.Process(ctx); return err },
		"AddServer": func(ctx context.Context) error {
			return worker.AddServer(ctx, plan.Server{Backend: "b", Server: server})
		},
		"RemoveServer": func(ctx context.Context) error { return worker.RemoveServer(ctx, "b", server) },
		"ReplaceMap":   func(ctx context.Context) error { return worker.ReplaceMap(ctx, "/m", nil) },
		"EditMap": func(ctx context.Context) error {
			return worker.EditMap(ctx, "/m", []plan.Edit{{Key: "k", Old: "v"}})
		},
		"Reload": master.Reload,
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got error %v, want the context's", err)
			}
		})
	}
}

func TestAWorkerThatEndsWithoutAnAnswer(t *testing.T) {
	var ended atomic.Bool
	socket := newSocket(t, func(conn net.Conn) {
		workers := "#<PID> <type>\n1 master 1 [failed: 0]\n# workers\n70 worker 0\n# old workers\n7 worker 1\n"
		switch command, _ := bufio.NewReader(conn).ReadString('\n'); {
		case strings.HasPrefix(command, "@!7 "):
			ended.Store(true)
			<-t.Context().Done()
		case ended.Load():
			workers, _, _ = strings.Cut(workers, "# old")
		}
		_, _ = io.WriteString(conn, workers)
	})
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTimeout)
	defer cancel()
	if err := NewMaster(socket).AwaitStopping(ctx, 7); err != nil || !ended.Load() {
		t.Errorf("ended %t: %v", ended.Load(), err)
	}
}

func TestPayloadsFillTheBufferAndNoMore(t *testing.T) {
	var entries []ir.MapEntry
	for range 1000 {
		entries = append(entries, ir.MapEntry{Key: strings.Repeat("k", 90), Value: "value"})
	}
	all := must.Get(payloads(entries, 1000))(t)
	lines := 0
	for _, payload := range all {
		if len(payload) > 1000 {
			t.Errorf("a payload has %d bytes", len(payload))
		}
		lines += strings.Count(payload, "\n")
	}
	if lines != 1000 || len(all) != 100 {
		t.Errorf("got %d lines in %d payloads, want 1000 in 100 (10 lines of 97 bytes each)", lines, len(all))
	}
	if _, err := payloads([]ir.MapEntry{{Key: strings.Repeat("k", 1000), Value: "v"}}, 1000); err == nil {
		t.Error("an entry longer than the limit passed")
	}
}
