package agent

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/runtime"
)

// standIn puts a socket in front of HAProxy's worker that answers what answer does not return "" for.
func standIn(t *testing.T, r *rig, answer func(request string) string) *runtime.Worker {
	t.Helper()
	path := filepath.Join(r.options.Paths.RunDir, "front.sock")
	listener, err := net.Listen("unix", path)
	r.must(err)
	t.Cleanup(func() { _ = listener.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close() //nolint:errcheck // the agent sees what was sent
		request, err := io.ReadAll(conn)
		if err != nil {
			return
		}
		if reply := answer(string(request)); reply != "" {
			_, _ = io.WriteString(conn, reply)
			return
		}
		back, err := net.Dial("unix", r.options.Paths.WorkerSocket())
		if err != nil {
			return
		}
		defer back.Close() //nolint:errcheck // it was read
		_, _ = back.Write(request)
		_, _ = io.Copy(conn, back)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return runtime.NewWorker(path)
}

// refuseCommands has a command to HAProxy's worker answered with an error, as often as told.
func refuseCommands(t *testing.T, r *rig, command string, times *atomic.Int64) *runtime.Worker {
	t.Helper()
	return standIn(t, r, func(request string) string {
		if strings.HasPrefix(request, command) && times.Add(-1) >= 0 {
			return "Permission denied\n"
		}
		return ""
	})
}

func TestCommandsThatFailEndInAReload(t *testing.T) {
	r := newRig(t)
	r.createService("api")
	r.createSlice("api", "one", newEndpoint(t, "one"))
	r.createGateway(r.spec("api"))
	var refusals atomic.Int64
	r.startAgent(func(a *Agent) { a.worker = refuseCommands(t, r, "add server", &refusals) })
	r.startHAProxy()
	r.expectBody("/", "one")
	r.expectReport(1, "")
	reloads := metric(t, "gateway_agent_loads_total", `reason="runtime commands failed"`)
	refusals.Store(1)
	r.moveSlice("api", "one", newEndpoint(t, "two"))
	r.expectBody("/", "two")
	r.eventually("the reload is counted", func() error {
		if got := metric(t, "gateway_agent_loads_total", `reason="runtime commands failed"`) - reloads; got != 1 {
			return fmt.Errorf("%v reloads", got)
		}
		return nil
	})
	r.moveSlice("api", "one", newEndpoint(t, "three"))
	r.expectBody("/", "three")
}

// newSlowEndpoint answers /slow when release is closed; entered is closed when the request is there.
func newSlowEndpoint(t *testing.T) (e *endpoint, entered, release chan struct{}) {
	t.Helper()
	entered, release = make(chan struct{}), make(chan struct{})
	e = newEndpointFunc(t, func(w http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/slow" {
			close(entered)
			<-release
		}
		_, _ = io.WriteString(w, "slow")
	})
	return e, entered, release
}

// getSlow sends a request for /slow and returns where its outcome comes. Until the endpoints before it are gone, one of
// them may answer.
func (r *rig) getSlow(entered chan struct{}) chan error {
	r.t.Helper()
	answered := make(chan error, 1)
	r.eventually("the request is at the slow endpoint", func() error {
		go func() {
			status, _, err := r.getWithin("/slow", 10*timeout)
			if err == nil && status != http.StatusOK {
				err = fmt.Errorf("status %d", status)
			}
			answered <- err
		}()
		select {
		case <-entered:
			return nil
		case err := <-answered:
			return fmt.Errorf("it was answered by another (%w)", err)
		}
	})
	return answered
}

// HAProxy counts loads that it refused against the worker that goes on, and at its limit (mworker-max-reloads, by
// default 50 in 3.4) ends that worker, requests and all, at the next load that succeeds.
func TestARequestOutlivesRefusedLoadsAndTheNextGoodOne(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	slow, entered, release := newSlowEndpoint(t)
	r.moveSlice("api", "one", slow)
	r.expectBody("/", "slow")
	answered := r.getSlow(entered)
	r.stop()

	good, _, err := r.agent.store.open()
	r.must(err)
	r.must(r.agent.store.write("load-bad", sources(ir.ConfigFile, "defaults\n    nonsense\n"), nil, true, false))
	r.must(r.agent.store.point("load-bad"))
	master := runtime.NewMaster(r.haproxy.MasterSocket)
	for range 60 {
		if err := master.Reload(t.Context()); !errors.As(err, new(*runtime.RejectedError)) {
			t.Fatalf("a bad configuration was loaded: %v", err)
		}
	}
	r.must(r.agent.store.point(good))
	r.must(master.Reload(t.Context()))
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("a request under way was lost: %v", err)
	}
}

func TestAServerThatIsBusyIsDeletedLater(t *testing.T) {
	t.Parallel()
	r, _ := serving(t)
	slow, entered, release := newSlowEndpoint(t)
	r.moveSlice("api", "one", slow)
	r.expectBody("/", "slow")
	answered := r.getSlow(entered)
	running := r.process()
	// Gone and back while it is busy, then gone for good.
	r.moveSlice("api", "one", newEndpoint(t, "two"))
	r.expectBody("/", "two")
	r.moveSlice("api", "one", slow)
	r.expectBody("/", "slow")
	r.moveSlice("api", "one", newEndpoint(t, "three"))
	r.expectBody("/", "three")
	close(release)
	if err := <-answered; err != nil {
		t.Errorf("the request on the removed server was lost: %v", err)
	}
	r.eventually("the server is deleted", func() error {
		if state := r.haproxy.Worker("show servers state shop_api_80"); strings.Contains(state, fmt.Sprintf("127.0.0.1_%d ", slow.port)) {
			return errors.New(state)
		}
		return nil
	})
	r.expectNoReload(running)
}

// Each try holds all of HAProxy's threads.
func TestFewServersThatAreBusyAreTriedAtOnce(t *testing.T) {
	t.Parallel()
	var requests []string
	answer := "Server still has connections attached to it, cannot remove it.\n"
	a := &Agent{state: newState(), worker: standIn(t, newRig(t), func(request string) string {
		requests = append(requests, request)
		return answer
	})}
	a.state.running.draining = map[backendServer]bool{}
	const busy = 2*maxDrained + 1
	for port := range int32(busy) {
		a.state.running.draining[backendServer{"shop_api_80", ir.Server{Address: "10.0.0.1", Port: port + 1}}] = true
	}
	now := time.Unix(1000, 0)
	round := func(wantTries, wantLeft int) {
		t.Helper()
		now, requests = now.Add(checkInterval), nil
		a.deleteDrained(t.Context(), now)
		if len(requests) != wantTries || len(a.state.running.draining) != wantLeft {
			t.Errorf("%d are left after %q, want %d after %d", len(a.state.running.draining), requests, wantLeft, wantTries)
		}
	}
	round(maxDrained, busy)
	if !strings.HasPrefix(requests[0], "del server shop_api_80/") {
		t.Errorf("the first request is %q", requests[0])
	}
	answer = "Server deleted.\n"
	round(maxDrained, busy-maxDrained)
	round(maxDrained, 1)
	round(1, 0)
	round(0, 0)
}

// TestWhatIsWrittenWhileHAProxyDoesNotAnswerIsLoaded: a worker that was only slow does not have it.
func TestWhatIsWrittenWhileHAProxyDoesNotAnswerIsLoaded(t *testing.T) {
	t.Parallel()
	r := newPassRig(t, 1)
	r.agent.pass(t.Context())
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	r.agent.pass(t.Context())
	worker, slice := r.agent.worker, newSlice("service-0", 1001, newReady("127.0.0.1"))
	r.agent.worker = runtime.NewWorker("/nowhere")
	r.put(r.followed(testSlices), slice)
	r.agent.pass(t.Context())
	r.must(r.onDisk("127.0.0.1:1001"))
	r.agent.worker = worker
	r.agent.pass(t.Context())
	if state := r.haproxy.Worker("show servers state shop_service-0_80"); !strings.Contains(state, " 127.0.0.1_1001 ") {
		t.Errorf("the server is not there: %s", state)
	}
}

// TestWhatHAProxyRejectsIsTriedLessAndLess, as each try may cost something. What it said nothing about is tried again
// soon.
func TestWhatHAProxyRejectsIsTriedLessAndLess(t *testing.T) {
	for want, reason := range map[time.Duration]error{lastRetry: &runtime.RejectedError{}, lastSoonRetry: errors.New("no answer")} {
		a := &Agent{state: newState()}
		for range 20 {
			a.refuse(&a.state.disk.configuration, reason, true)
		}
		if refused, _ := a.state.refused.of(&a.state.disk.configuration); refused.delay != want {
			t.Errorf("after %v, the next try is in %s, want %s", reason, refused.delay, want)
		}
	}
}
