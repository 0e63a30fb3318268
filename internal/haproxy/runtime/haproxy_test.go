package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/must"
)

// proxy is a real HAProxy with one backend, "b", which starts empty, and a map.
type proxy struct {
	*haproxytest.Instance
	worker *Worker
	master *Master
	url    string
	port   int32
}

func (p *proxy) files(loadID, extra string) map[string][]byte {
	cfg := fmt.Sprintf(`global
    stats socket %[1]s/worker.sock mode 600 level admin expose-fd listeners
    hard-stop-after 5s
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 1s
frontend f
    bind 127.0.0.1:%[2]d
    http-request return status 200 content-type text/plain lf-string "%%[path,map_str(%[3]s,none)]" if { path_beg /map/ }
    default_backend b
backend b
    balance random(2)
%[4]s`, p.Paths.RunDir, p.port, p.Paths.Map("routes.map"), extra)
	return map[string][]byte{
		ir.LoadFile: ir.LoadContent("shop", "web", loadID), ir.ConfigFile: []byte(cfg), "routes.map": []byte("/map/a first\n"),
	}
}

func startProxy(t *testing.T) *proxy {
	t.Helper()
	port := haproxytest.FreePort(t)
	p := &proxy{port: port, url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	p.Instance = &haproxytest.Instance{Paths: haproxytest.NewPaths(t)}
	p.Instance = haproxytest.Start(t, p.Paths, p.files("one", ""))
	p.worker, p.master = NewWorker(p.WorkerSocket), NewMaster(filepath.Join(p.Paths.RunDir, "master.sock"))
	return p
}

// get returns the status and body of one request on a connection of its own.
func (p *proxy) get(t *testing.T, path string) (int, string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(p.url + path)
	if err != nil {
		t.Fatalf("failed to get %s: %v", path, err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("failed to read %s: %v", path, err)
	}
	return response.StatusCode, string(body)
}

func (p *proxy) expectStatus(t *testing.T, want int) {
	t.Helper()
	if got, body := p.get(t, "/"); got != want {
		t.Errorf("got status %d (%q), want %d", got, body, want)
	}
}

// removeIdle removes a server whose requests were answered: HAProxy ends a stream a moment after the client has the
// answer, and until then the server is busy.
func (p *proxy) removeIdle(t *testing.T, server ir.Server) {
	t.Helper()
	err := p.worker.RemoveServer(t.Context(), "b", server)
	for errors.Is(err, ErrServerBusy) {
		err = p.worker.RemoveServer(t.Context(), "b", server)
	}
	must.Do(t, err)
}

// newEndpoint is a server whose handler is called for every request.
func newEndpoint(t *testing.T, handle http.HandlerFunc) ir.Server {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	server := &http.Server{Handler: handle}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return ir.Server{Address: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)}
}

func TestServersComeAndGo(t *testing.T) {
	p := startProxy(t)
	endpoint := newEndpoint(t, func(http.ResponseWriter, *http.Request) {})
	p.expectStatus(t, http.StatusServiceUnavailable)
	must.Do(t, p.worker.AddServer(t.Context(), plan.Server{Backend: "b", Server: endpoint}))
	p.expectStatus(t, http.StatusOK)
	must.Do(t, p.worker.AddServer(t.Context(), plan.Server{Backend: "b", Server: endpoint}))
	p.expectStatus(t, http.StatusOK)
	p.removeIdle(t, endpoint)
	p.expectStatus(t, http.StatusServiceUnavailable)
	must.Do(t, p.worker.RemoveServer(t.Context(), "b", endpoint))
	must.Do(t, p.worker.AddServer(t.Context(), plan.Server{Backend: "b", Server: ir.Server{Address: "fd00::1", Port: 80}}))
	if state := p.Worker("show servers state b"); !strings.Contains(state, " fd00::1_80 fd00::1 ") {
		t.Errorf("the IPv6 server is not there: %s", state)
	}
	if err := p.worker.AddServer(t.Context(), plan.Server{Backend: "none", Server: endpoint}); err == nil {
		t.Error("a backend that does not exist got a server")
	}
}

func TestABusyServerStaysUntilItIsIdleAndComesBack(t *testing.T) {
	p := startProxy(t)
	entered, release := make(chan struct{}), make(chan struct{})
	endpoint := newEndpoint(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(entered)
			<-release
		}
	})
	must.Do(t, p.worker.AddServer(t.Context(), plan.Server{Backend: "b", Server: endpoint}))
	slow := make(chan int, 1)
	go func() {
		status, _ := p.get(t, "/slow")
		slow <- status
	}()
	<-entered
	for range 2 {
		if err := p.worker.RemoveServer(t.Context(), "b", endpoint); !errors.Is(err, ErrServerBusy) {
			t.Errorf("removing a busy server: %v, want ErrServerBusy", err)
		}
		if err := p.worker.DeleteServer(t.Context(), "b", endpoint); !errors.Is(err, ErrServerBusy) {
			t.Errorf("deleting a busy server: %v, want ErrServerBusy", err)
		}
		p.expectStatus(t, http.StatusServiceUnavailable)
	}
	must.Do(t, p.worker.AddServer(t.Context(), plan.Server{Backend: "b", Server: endpoint}))
	p.expectStatus(t, http.StatusOK)
	if err := p.worker.RemoveServer(t.Context(), "b", endpoint); !errors.Is(err, ErrServerBusy) {
		t.Errorf("removing it again: %v, want ErrServerBusy", err)
	}
	close(release)
	if status := <-slow; status != http.StatusOK {
		t.Errorf("the request on the removed server got status %d", status)
	}
	must.Do(t, p.worker.AddServer(t.Context(), plan.Server{Backend: "b", Server: endpoint}))
	p.expectStatus(t, http.StatusOK)
}

func TestAMapOfManyEntriesIsReplaced(t *testing.T) {
	p := startProxy(t)
	var entries []ir.MapEntry
	for i := range 10000 {
		entries = append(entries, ir.MapEntry{
			Key:   fmt.Sprintf("/map/host-%05d.example.com/some/path", i),
			Value: fmt.Sprintf(`route;%d|with "quotes", \ and #`, i),
		})
	}
	must.Do(t, p.worker.ReplaceMap(t.Context(), p.Paths.Map("routes.map"), entries))
	for _, i := range []int{0, 4999, 9999} {
		if _, body := p.get(t, entries[i].Key); body != entries[i].Value {
			t.Errorf("%s is %q, want %q", entries[i].Key, body, entries[i].Value)
		}
	}
	if _, body := p.get(t, "/map/a"); body != "none" {
		t.Errorf("an entry of the old map is still there: %q", body)
	}
	must.Do(t, p.worker.ReplaceMap(t.Context(), p.Paths.Map("routes.map"), nil))
	if got := strings.TrimSpace(p.Worker("show map " + p.Paths.Map("routes.map"))); got != "" {
		t.Errorf("the map is not empty: %s", got)
	}
}

func TestEntriesOfAMapAreEdited(t *testing.T) {
	p := startProxy(t)
	odd := `a;b "c" \ # 'd'`
	for _, step := range []struct{ edit, path, want string }{
		{"/map/b||" + odd, "/map/b", odd},
		{"/map/a|first|second", "/map/a", "second"},
		{"/map/b|" + odd + "|plain", "/map/b", "plain"},
		{"/map/b|plain|", "/map/b", "none"},
		{"/map/c;d||odd", "/map/c;d", "odd"},
	} {
		fields := strings.Split(step.edit, "|")
		must.Do(t, p.worker.EditMap(t.Context(), p.Paths.Map("routes.map"), []plan.Edit{{Key: fields[0], Old: fields[1], New: fields[2]}}))
		if _, body := p.get(t, step.path); body != step.want {
			t.Errorf("after %q, %s is %q, want %q", step.edit, step.path, body, step.want)
		}
	}
	for _, bad := range []plan.Edit{{Key: "/map/none", Old: "a"}, {Key: "/map/none", Old: "a", New: "b"}, {Key: "/map/c;d", Old: "odd", New: "b"},
		{Key: "/map/a", Old: "second", New: "a; shutdown"}, {Key: "/map/e", New: "a\n\nshutdown"}} {
		if err := p.worker.EditMap(t.Context(), p.Paths.Map("routes.map"), []plan.Edit{bad}); err == nil {
			t.Errorf("%+v was carried out", bad)
		}
	}
	if _, body := p.get(t, "/map/a"); body != "second" {
		t.Errorf("after edits that were refused, the map has %q", body)
	}
}

func TestManyEntriesOfAMapAreEdited(t *testing.T) {
	p := startProxy(t)
	edit := func(before, after string) {
		var edits []plan.Edit
		for i := range 1000 {
			edits = append(edits, plan.Edit{Key: fmt.Sprint("/map/many/", i), Old: before, New: after})
		}
		must.Do(t, p.worker.EditMap(t.Context(), p.Paths.Map("routes.map"), edits))
		for _, i := range []int{0, 500, 999} {
			if _, body := p.get(t, edits[i].Key); body != cmp.Or(after, "none") {
				t.Errorf("%s is %q, want %q", edits[i].Key, body, after)
			}
		}
	}
	edit("", "first")
	edit("first", "second")
	edit("second", "")
	mixed := []plan.Edit{{Key: "/map/x", New: "1"}, {Key: "/map/x", Old: "1", New: "2"}, {Key: "/map/x", Old: "2"}, {Key: "/map/x", New: "3"}}
	must.Do(t, p.worker.EditMap(t.Context(), p.Paths.Map("routes.map"), mixed))
	if _, body := p.get(t, "/map/x"); body != "3" {
		t.Errorf("after edits of several kinds, the map has %q", body)
	}
}

func TestReload(t *testing.T) {
	p := startProxy(t)
	before := must.Get(p.worker.Process(t.Context()))(t)
	if before.LoadID != "one" {
		t.Errorf("the load id is %q", before.LoadID)
	}

	p.WriteFiles(p.files("two", ""))
	p.reload(t, before.PID)
	after := must.Get(p.worker.Process(t.Context()))(t)
	if after.LoadID != "two" || after.PID == before.PID {
		t.Errorf("after a reload %+v answers", after)
	}

	p.WriteFiles(p.files("three", "    no-such-keyword\n"))
	for range 3 {
		if err := p.master.Reload(t.Context()); !errors.As(err, new(*RejectedError)) {
			t.Errorf("a bad configuration was loaded: %v", err)
		}
	}
	if still, err := p.worker.Process(t.Context()); err != nil || still != after {
		t.Errorf("after rejected loads %+v answers (%v), want %+v", still, err, after)
	}

	p.WriteFiles(p.files("four", ""))
	must.Do(t, p.master.Reload(t.Context()))
	p.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := p.master.Reload(ctx); err == nil {
		t.Error("a master that is gone reloaded")
	}
	if _, err := p.worker.Process(t.Context()); err == nil {
		t.Error("a worker that is gone answered")
	}
}

// reload returns when the worker of the PID takes no more connections: until then either may answer.
func (p *proxy) reload(t *testing.T, old int) {
	t.Helper()
	must.Do(t, p.master.Reload(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), exchangeTimeout)
	defer cancel()
	must.Do(t, p.master.AwaitStopping(ctx, old))
}

// An idle worker ends at once, at times while its master asks it.
func TestTheEndOfAnIdleWorkerIsSeen(t *testing.T) {
	p := startProxy(t)
	for i := range 30 {
		before := must.Get(p.worker.Process(t.Context()))(t)
		p.WriteFiles(p.files(fmt.Sprint(i), ""))
		p.reload(t, before.PID)
	}
}

// hangAndReload has the worker hang, and starts another one. It returns the PID of the one that hangs.
func (p *proxy) hangAndReload(t *testing.T) int {
	t.Helper()
	old := must.Get(p.worker.Process(t.Context()))(t)
	must.Do(t, syscall.Kill(old.PID, syscall.SIGSTOP))
	t.Cleanup(func() { _ = syscall.Kill(old.PID, syscall.SIGCONT) })
	p.WriteFiles(p.files("two", ""))
	must.Do(t, p.master.Reload(t.Context()))
	return old.PID
}

// A worker that hangs keeps the connections on which it was asked, of which HAProxy's master has ten.
func TestAHungWorkerIsNotAskedOften(t *testing.T) {
	t.Parallel()
	p := startProxy(t)
	old := p.hangAndReload(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := p.master.AwaitStopping(ctx, old); err == nil {
		t.Error("a worker that hangs is said to stop")
	}
	if open := haproxytest.Connections(t, p.MasterSocket); open > 3 {
		t.Errorf("the master keeps %d connections", open)
	}
}

// Nor is it by who looks at the old workers again and again.
func TestAHungWorkerIsObservedOnce(t *testing.T) {
	t.Parallel()
	p := startProxy(t)
	old := p.hangAndReload(t)
	for range 3 {
		workers, err := p.master.ObserveOldWorkers(t.Context(), time.Now())
		if err != nil || len(workers) != 1 || workers[0].PID != old {
			t.Errorf("observed were %+v: %v", workers, err)
		}
	}
	if open := haproxytest.Connections(t, p.MasterSocket); open > 1 {
		t.Errorf("the master keeps %d connections", open)
	}
}

// A reload that was asked for by somebody else, and is not carried out yet, must not swallow the next one.
func TestReloadAfterAnother(t *testing.T) {
	p := startProxy(t)
	must.Do(t, syscall.Kill(p.PID, syscall.SIGSTOP))
	another := must.Get(net.Dial("unix", p.MasterSocket))(t)
	defer another.Close() //nolint:errcheck // nothing depends on it
	must.Get(io.WriteString(another, "reload\n"))(t)

	p.WriteFiles(p.files("two", ""))
	reloaded := make(chan error, 1)
	go func() { reloaded <- p.master.Reload(t.Context()) }()
	for haproxytest.Connections(t, p.MasterSocket) < 2 {
		goruntime.Gosched()
	}
	must.Do(t, syscall.Kill(p.PID, syscall.SIGCONT))
	must.Do(t, <-reloaded)
	if loads := strings.Fields(p.Master("show proc"))[7]; loads != "2" {
		t.Errorf("HAProxy's master was reloaded %s times, want 2", loads)
	}
}

// A load may take longer than any other command: the answer comes after it. Here the master takes so long to begin.
func TestSlowReload(t *testing.T) {
	t.Parallel()
	p := startProxy(t)
	must.Do(t, syscall.Kill(p.PID, syscall.SIGSTOP))
	time.AfterFunc(exchangeTimeout+500*time.Millisecond, func() { _ = syscall.Kill(p.PID, syscall.SIGCONT) })
	if _, err := p.master.request(t.Context()); err != nil {
		t.Error(err)
	}
}
