package agent

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/runtime"
)

// waitingRig sends all requests to service-0, and after edit to service-1.
type waitingRig struct {
	*passRig
	// answer is closed when the Service for ExternalAuth may answer.
	answer chan struct{}
}

// newWaitingRig returns a rig whose first configuration change has a say in.
func newWaitingRig(t *testing.T, change func(*appv1.GatewaySpec), first *endpoint) *waitingRig {
	t.Helper()
	r := &waitingRig{passRig: newPassRig(t, 2), answer: make(chan struct{})}
	auth := newEndpointFunc(t, func(http.ResponseWriter, *http.Request) { <-r.answer })
	r.put(r.followed(testServices), newService("auth"))
	r.put(r.followed(testSlices), newSlice("auth", auth.port, newReady("127.0.0.1")))
	r.put(r.followed(testSlices), newSlice("service-0", first.port, newReady("127.0.0.1")))
	r.put(r.followed(testSlices), newSlice("service-1", newEndpoint(t, "second").port, newReady("127.0.0.1")))
	r.gatewaySeen = r.gatewaySeen.DeepCopy()
	r.gatewaySeen.Spec.Routes = r.gatewaySeen.Spec.Routes[:1]
	r.gatewaySeen.Spec.Routes[0].Hostnames = nil
	change(&r.gatewaySeen.Spec)
	r.put(r.agent.watch.gateways, r.gatewaySeen)
	r.agent.pass(t.Context())
	r.haproxy = haproxytest.Start(t, r.options.Paths, nil)
	r.agent.pass(t.Context())
	return r
}

// edit sends requests elsewhere, and has HAProxy rid of what is not used any more, as often as it takes if no request
// waits.
func (r *waitingRig) edit() {
	r.t.Helper()
	running := r.process()
	r.gatewaySeen = r.gatewaySeen.DeepCopy()
	r.gatewaySeen.Generation++
	r.gatewaySeen.Spec.Routes[0].Rules[0].BackendRefs[0].Name = "service-1"
	r.put(r.agent.watch.gateways, r.gatewaySeen)
	r.agent.changed()
	r.agent.pass(r.t.Context())
	for range 3 {
		r.cleanUp()
	}
	r.expectNoReload(running)
}

// cleanUp looks for what is not used any more, as the loop does after some seconds.
func (r *waitingRig) cleanUp() {
	r.agent.cleanup = cleanup{}
	r.agent.deleteDrained(r.t.Context(), time.Now())
	r.agent.deleteUnused(r.t.Context(), time.Now())
}

// expectGone waits until the first backend is deleted.
func (r *waitingRig) expectGone() {
	r.t.Helper()
	r.eventually("the backend is deleted", func() error {
		r.cleanUp()
		if backends := r.haproxy.Worker("show backend"); strings.Contains(backends, "service-0_80") {
			return fmt.Errorf("there are %s", backends)
		}
		return nil
	})
}

// TestRequestsThatWaitKeepTheirBackend: a request that waits for somebody's word, its body or a server knows the name
// of its backend already. The edit of the rule comes while it waits.
func TestRequestsThatWaitKeepTheirBackend(t *testing.T) {
	t.Parallel()
	const whole, header, body = "GET / HTTP/1.1\r\n\r\n", "POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\n", "body"
	auth := appv1.ExternalAuth{BackendRef: appv1.ExternalAuthBackendRef{Name: "auth", Port: 80}}
	withBody := auth
	withBody.ForwardBody = &appv1.ForwardBody{}
	limits := []appv1.Backend{{Name: "service-0", Port: 80, BackendSettings: appv1.BackendSettings{
		Connections: &appv1.ConnectionLimits{MaxPerEndpoint: 1},
	}}}
	const ahead, inBackend = "be=<NONE>", "be=shop_service-0_80"
	for name, test := range map[string]struct {
		filter appv1.RuleFilter
		limits []appv1.Backend
		// begin is sent before the edit, and rest after it. waits is what HAProxy says of the request meanwhile.
		begin, rest, waits string
	}{
		"ExternalAuth": {
			filter: appv1.RuleFilter{Type: appv1.RuleFilterExternalAuth, ExternalAuth: &auth}, begin: whole, waits: ahead,
		},
		"the body for ExternalAuth": {
			filter: appv1.RuleFilter{Type: appv1.RuleFilterExternalAuth, ExternalAuth: &withBody}, begin: header, rest: body, waits: ahead,
		},
		"the body for RequestMirror": {
			filter: appv1.RuleFilter{Type: appv1.RuleFilterRequestMirror, RequestMirror: &appv1.RequestMirror{
				BackendRefs: []appv1.MirrorBackendRef{{Name: "service-1", Port: 80}},
			}}, begin: header, rest: body, waits: ahead,
		},
		"the body for a place at an endpoint": {limits: limits, begin: header, rest: body, waits: inBackend},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newWaitingRig(t, func(spec *appv1.GatewaySpec) {
				spec.Backends = test.limits
				if test.filter.Type != "" {
					spec.Routes[0].Rules[0].Filters = []appv1.RuleFilter{test.filter}
				}
			}, newEndpoint(t, "first"))
			conn := r.begin(test.begin)
			r.expectStreams(1, test.waits)
			r.edit()
			close(r.answer)
			_, err := io.WriteString(conn, test.rest)
			r.must(err)
			r.expectAnswer(conn, "first")
			r.expectGone()
		})
	}
}

// TestAQueueKeepsItsServers: requests that wait for a place at an endpoint get one after the edit, too.
func TestAQueueKeepsItsServers(t *testing.T) {
	t.Parallel()
	first, entered, release := newSlowEndpoint(t)
	r := newWaitingRig(t, func(spec *appv1.GatewaySpec) {
		spec.Backends = []appv1.Backend{{Name: "service-0", Port: 80, BackendSettings: appv1.BackendSettings{
			Connections: &appv1.ConnectionLimits{MaxPerEndpoint: 1},
		}}}
	}, first)
	served := r.begin("GET /slow HTTP/1.1\r\n\r\n")
	<-entered
	queued := r.begin("GET / HTTP/1.1\r\n\r\n")
	r.expectStreams(2, "be=shop_service-0_80")
	r.edit()
	close(release)
	r.expectAnswer(served, "slow")
	r.expectAnswer(queued, "slow")
	r.expectGone()
}

// TestAQueuedRequestGetsAnEndpointThatComes: HAProxy gives no queued request to a server without maxconn that becomes
// ready. So all servers of a backend have maxconn: in the file, added later, and after an edit.
func TestAQueuedRequestGetsAnEndpointThatComes(t *testing.T) {
	t.Parallel()
	limit := func(n int32) []appv1.Backend {
		return []appv1.Backend{{Name: "service-0", Port: 80, BackendSettings: appv1.BackendSettings{Connections: &appv1.ConnectionLimits{MaxPerEndpoint: n}}}}
	}
	for name, test := range map[string]struct {
		before []appv1.Backend
		// wasThere: the endpoint was one before, and comes back while it is busy.
		wasThere bool
	}{
		"a limit from the start":              {before: limit(1)},
		"a limit that is new":                 {before: nil},
		"another limit":                       {before: limit(2)},
		"an endpoint that comes back":         {before: limit(1), wasThere: true},
		"one that comes back, a limit is new": {before: nil, wasThere: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, entered, release := newSlowEndpoint(t)
			defer close(release)
			r := newWaitingRig(t, func(spec *appv1.GatewaySpec) { spec.Backends = test.before }, first)
			if !reflect.DeepEqual(test.before, limit(1)) {
				r.gatewaySeen = r.gatewaySeen.DeepCopy()
				r.gatewaySeen.Generation++
				r.gatewaySeen.Spec.Backends = limit(1)
				r.put(r.agent.watch.gateways, r.gatewaySeen)
				r.agent.pass(t.Context())
			}
			second, busy, done := newSlowEndpoint(t)
			var earlier io.Reader
			if test.wasThere {
				r.setEndpoints(second)
				earlier = r.begin("GET /slow HTTP/1.1\r\n\r\n")
				<-busy
			}
			r.setEndpoints(first)
			r.begin("GET /slow HTTP/1.1\r\n\r\n")
			<-entered
			queued := r.begin("GET / HTTP/1.1\r\n\r\n")
			r.await("a request is in the queue", func() bool { return strings.Contains(r.haproxy.Worker("show stat"), "BACKEND,1,1,") })
			r.setEndpoints(first, second)
			close(done)
			if test.wasThere {
				r.expectAnswer(earlier, "slow")
			}
			r.expectAnswer(queued, "slow")
		})
	}
}

// setEndpoints makes these the endpoints of service-0.
func (r *waitingRig) setEndpoints(endpoints ...*endpoint) {
	r.t.Helper()
	for _, name := range []string{"service-0-1", "service-0-2"} {
		slice := newSlice("service-0", 1)
		slice.Name = name
		if len(endpoints) > 0 {
			slice = newSlice("service-0", endpoints[0].port, newReady("127.0.0.1"))
			slice.Name, endpoints = name, endpoints[1:]
		}
		r.put(r.followed(testSlices), slice)
	}
	r.agent.pass(r.t.Context())
}

// TestNothingWaitsForARequestForLong: no longer than a reload would let it go on, and only for those that began before
// the edit.
func TestNothingWaitsForARequestForLong(t *testing.T) {
	t.Parallel()
	const since = 10 * time.Second
	unused := plan.Unused{Backends: map[string]bool{"old": true}}
	for _, test := range []struct {
		streams string
		drain   time.Duration
		want    bool
	}{
		{streams: "", drain: time.Minute, want: false},
		{streams: "fe=80 be=<NONE> srv=<none> age=9s", drain: time.Minute, want: false},
		{streams: "fe=80 be=<NONE> srv=<none> age=10s", drain: time.Minute, want: true},
		{streams: "fe=80 be=<NONE> srv=<none> age=1d2h", drain: time.Minute, want: true},
		{streams: "fe=80 be=<NONE> srv=<none> age=1d2h", drain: since, want: false},
		{streams: "fe=80 be=old srv=<none> age=10s", drain: time.Minute, want: true},
		{streams: "fe=80 be=old srv=<none> age=10s", drain: since, want: false},
		{streams: "fe=80 be=other srv=<none> age=10s", drain: time.Minute, want: false},
		{streams: "fe=80 be=old srv=a age=10s", drain: time.Minute, want: false},
		{streams: "fe=GLOBAL be=<NONE> srv=<none> age=10s", drain: time.Minute, want: false},
	} {
		a := &Agent{state: newState(), worker: standIn(t, newRig(t), func(command string) string {
			if !strings.HasPrefix(command, "show sess older 9s") {
				t.Errorf("HAProxy is asked to %q", command)
			}
			return "0x7f3a3f679d00: proto=tcpv4 src=127.0.0.1:38594 " + test.streams + " calls=1\n\n"
		})}
		a.state.disk.table.DrainTimeout = test.drain
		if got := a.isAwaited(t.Context(), unused, since); got != test.want {
			t.Errorf("%q with a drainTimeout of %s: got %t", test.streams, test.drain, got)
		}
	}
	silent := &Agent{state: newState(), worker: runtime.NewWorker("/nowhere")}
	silent.state.disk.table.DrainTimeout = time.Minute
	if !silent.isAwaited(t.Context(), unused, since) {
		t.Error("something is deleted of which HAProxy does not say who waits for it")
	}
}

// begin sends the beginning of a request, or all of it, without a Host.
func (r *waitingRig) begin(text string) io.ReadWriter {
	r.t.Helper()
	conn := r.dial()
	_, err := io.WriteString(conn, strings.Replace(text, "\r\n", "\r\nHost: a.example\r\n", 1))
	r.must(err)
	return conn
}

// expectStreams waits until HAProxy says something of a number of requests.
func (r *waitingRig) expectStreams(n int, text string) {
	r.t.Helper()
	r.eventually("requests wait", func() error {
		found := 0
		for line := range strings.Lines(r.haproxy.Worker("show sess")) {
			if strings.Contains(line, fmt.Sprintf("fe=%d ", r.port)) && strings.Contains(line, text) {
				found++
			}
		}
		if found != n {
			return fmt.Errorf("%d have %s", found, text)
		}
		return nil
	})
}

// expectAnswer waits for an answer.
func (r *waitingRig) expectAnswer(from io.Reader, want string) {
	r.t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(from), nil)
	r.must(err)
	body, err := io.ReadAll(response.Body)
	r.must(err)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || string(body) != want {
		r.t.Errorf("the answer is %d %q, want %q", response.StatusCode, body, want)
	}
}
