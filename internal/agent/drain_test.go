package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/runtime"
)

// TestOldWorkersAreBounded: while old workers still have connections, reloads are spaced out, and what needs none goes
// on.
func TestOldWorkersAreBounded(t *testing.T) {
	t.Parallel()
	r, one := serving(t)
	var open []net.Conn
	services := []string{"api"}
	workers := func() int {
		n, err := runtime.NewMaster(r.options.Paths.RunDir + "/master.sock").OldWorkers(t.Context())
		r.must(err)
		return n
	}
	for len(open) < manyWorkers {
		open = append(open, r.keepOpen())
		services = append(services, fmt.Sprintf("s%d", len(open)))
		r.expectReport(r.edit(r.reloading(services...)), "")
		if n := workers(); n != len(open) {
			t.Fatalf("%d old workers have connections, want %d", n, len(open))
		}
	}
	running := r.process()
	generation := r.edit(r.reloading(append(services, "late")...))
	r.moveSlice("api", "one", newEndpoint(t, "two"))
	r.expectBody("/", "two")
	r.moveSlice("api", "one", one)
	r.expectBody("/", "one")
	r.expectNoReload(running)
	r.expectReport(generation-1, "")

	for _, conn := range open {
		_ = conn.Close()
	}
	r.expectReport(generation, "")
	// The one before says that it stops, and then ends.
	r.eventually("no old worker is left", func() error {
		if n := workers(); n != 0 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

// TestLiveOnceTheOldWorkerStops: what a reload loads is not said to be live while the worker before may go on as if
// there were no newer one. Here that one is late to hear of it.
func TestLiveOnceTheOldWorkerStops(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	unfinished := r.dial()
	_, err := io.WriteString(unfinished, "GET / HTTP/1.1\r\n")
	r.must(err)
	old, generation := r.freezeDuringReload()
	r.eventually("a new worker answers", func() error {
		// Connections that reach the old one are not answered.
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		if now, err := runtime.NewWorker(r.options.Paths.WorkerSocket()).Process(ctx); err != nil || now == old {
			return fmt.Errorf("%+v answers (%w)", now, err)
		}
		return nil
	})
	var goesOn atomic.Bool
	time.AfterFunc(200*time.Millisecond, func() {
		goesOn.Store(true)
		_ = syscall.Kill(old.PID, syscall.SIGCONT)
	})
	r.expectReport(generation, "")
	if !goesOn.Load() {
		t.Error("the generation is reported before the old worker has heard of it")
	}
	if info := r.haproxy.Master(fmt.Sprintf("@!%d show info", old.PID)); !strings.Contains(info, "\nStopping: 1\n") {
		t.Errorf("the old worker does not stop:\n%s", info)
	}
}

// TestLiveThoughTheOldWorkerHangs: a worker that does not go on answers no requests, so that nothing waits for it for
// long.
func TestLiveThoughTheOldWorkerHangs(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	_, generation := r.freezeDuringReload()
	r.expectReport(generation, "")
}

// TestAHAProxyThatDrainsIsLeftAlone: one that was told to end does not answer any more, and goes on with the
// connections that it has.
func TestAHAProxyThatDrainsIsLeftAlone(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	r.put("shop", r.authority.Issue(t, []string{"shop.example.com"}))
	r.start(r.tlsSpec(r.https("https", "shop.example.com", "shop")))
	r.expectProblems()
	r.stop()
	r.keepOpen()
	now := time.Now().Add(-time.Hour)
	r.agent.observeHAProxy(t.Context(), now) // the loop's last look may have been cut short
	r.must(syscall.Kill(r.haproxy.PID, syscall.SIGUSR1))
	r.await("HAProxy does not answer", func() bool {
		r.agent.observeHAProxy(t.Context(), now)
		return !r.agent.state.running.up
	})
	// pass returns the problems that there are some time later.
	pass := func(later time.Duration) []appv1.ProxyProblem {
		now = now.Add(later)
		r.agent.observeHAProxy(t.Context(), now)
		if !r.agent.observeInputs(t.Context(), now) {
			t.Fatal("there is no Gateway")
		}
		_, err := r.agent.act(t.Context(), r.agent.chooseAction(t.Context(), time.Now()))
		r.must(err)
		return r.agent.problems()
	}
	dirs := loadDirs(t, r.options.Paths)
	for range 3 {
		if problems := pass(downGrace + 1); len(problems) > 0 {
			t.Errorf("it reports %v", problems)
		}
	}
	if got := loadDirs(t, r.options.Paths); !slices.Equal(got, dirs) {
		t.Errorf("on the disk are %v, before %v", got, dirs)
	}
	// Another one has all the time to start.
	r.haproxy.Stop()
	if problems := pass(downGrace - 1); len(problems) > 0 {
		t.Errorf("right after its end it reports %v", problems)
	}
	if problems := pass(1); len(problems) != 1 || problems[0].Reason != appv1.ProblemHAProxyNotAnswering {
		t.Errorf("of another one that does not start it reports %v", problems)
	}
}

// TestAHAProxyThatIsToldToEndIsNotReloaded: a reload would make HAProxy forget the signal. Here the signal comes while
// the agent prepares a reload.
func TestAHAProxyThatIsToldToEndIsNotReloaded(t *testing.T) {
	t.Parallel()
	r := newPassRig(t, 1)
	r.agent.pass(t.Context())
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	r.agent.pass(t.Context())
	running := r.process().LoadID
	r.keepOpen()
	r.must(syscall.Kill(r.haproxy.PID, syscall.SIGUSR1))
	r.await("HAProxy does not answer", func() bool {
		_, err := r.agent.worker.Process(t.Context())
		return err != nil
	})
	r.gatewaySeen = r.gatewaySeen.DeepCopy()
	r.gatewaySeen.Generation++
	r.gatewaySeen.Spec.TrustedProxies = []appv1.CIDR{"192.0.2.0/24"}
	r.put(r.agent.watch.gateways, r.gatewaySeen)
	if !r.agent.state.running.up || !r.agent.observeInputs(t.Context(), time.Now()) {
		t.Fatal("the agent does not act")
	}
	if changed, err := r.agent.act(t.Context(), r.agent.chooseAction(t.Context(), time.Now())); changed || err != nil {
		t.Errorf("HAProxy runs something new: %t, %v", changed, err)
	}
	if !r.agent.master.IsDraining(t.Context()) {
		t.Errorf("HAProxy does not end:\n%s", r.haproxy.Master("show proc"))
	}
	// Another HAProxy does not start on files that this one has not loaded.
	if current, err := os.Readlink(r.options.Paths.ConfigDir); current != running || err != nil {
		t.Errorf("on the disk is %s, want %s: %v", current, running, err)
	}
}

// freezeDuringReload edits the Gateway and stops HAProxy's worker when the agent has seen that it is well. It returns
// the worker, which goes on with SIGCONT, and the generation that the agent makes HAProxy load.
func (r *rig) freezeDuringReload() (runtime.Process, int64) {
	r.t.Helper()
	old := r.process()
	r.must(syscall.Kill(r.haproxy.PID, syscall.SIGSTOP))
	generation := r.edit(r.reloading("api", "other"))
	r.await("the agent asks HAProxy's master", func() bool { return haproxytest.Connections(r.t, r.haproxy.MasterSocket) != 0 })
	r.must(syscall.Kill(old.PID, syscall.SIGSTOP))
	r.t.Cleanup(func() { _ = syscall.Kill(old.PID, syscall.SIGCONT) })
	r.must(syscall.Kill(r.haproxy.PID, syscall.SIGCONT))
	return old, generation
}

// keepOpen sends a request on a connection that stays open.
func (r *rig) keepOpen() net.Conn {
	r.t.Helper()
	conn := r.dial()
	_, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	r.must(err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	r.must(err)
	_, err = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	r.must(err)
	return conn
}

// dial opens a connection that stays open until the end of the test at the latest.
func (r *rig) dial() net.Conn {
	r.t.Helper()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.port))
	r.must(err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}
