package dataplanetest_test

import (
	"encoding/json"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/ring"
	"gateway/internal/routing"
)

const tracesWorld = `
spec:
  trustedProxies: [192.0.2.0/24]
  tracing: {endpoint: "collector.example:4318", samplingRatePerMillion: 0}
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: web, rules: [{backendRefs: [{name: web, port: 80}]}]}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
`

// tracing is a running world with one backend.
type tracing struct {
	*gateway
	t *testing.T
	// got are the headers that the backend gets.
	got chan http.Header
	// count is how many requests were sent.
	count int
}

// startTracing runs tracesWorld with something else in place of a part of it.
func startTracing(t *testing.T, edits ...string) *tracing {
	t.Helper()
	g := &tracing{t: t, got: make(chan http.Header, 1)}
	g.gateway = startGatewayWith(t, rendertest.Parse(t, strings.NewReplacer(edits...).Replace(tracesWorld)), func(in *render.Input) {
		in.Backends[routing.Backend{Service: "web", Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{
			serve(t, func(_ http.ResponseWriter, r *http.Request) { g.got <- r.Header }, nil),
		}}
	})
	return g
}

// logged is what the access log says about a trace.
type loggedTrace struct{ TraceID, SpanID, TraceFlags string }

// send sends a request with headers. It returns what the backend got, and what was logged.
func (g *tracing) send(headers string) (header http.Header, logged loggedTrace) {
	g.t.Helper()
	newClient(g.t, g.ports[80]).send("GET / HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n")
	header = <-g.got
	g.count++
	if line := g.accessLog(g.t, g.count)[g.count-1]; json.Unmarshal([]byte(line), &logged) != nil {
		g.t.Fatalf("a line of the access log is not JSON: %q", line)
	}
	return header, logged
}

const (
	trustsLoopback = "127.0.0.0/8"
	traceID        = "4bf92f3577b34da6a3ce929d0e0e4736"
	parentID       = "00f067aa0ba902b7"
)

// TestTraceContext: backends get a traceparent of version 00 with a new span ID. A valid one of a client stays in its
// trace, with its state. A trusted proxy decides whether it is sampled, and nobody else does.
func TestTraceContext(t *testing.T) {
	t.Parallel()
	const parent, state = "traceparent: 00-" + traceID + "-" + parentID, "tracestate: a=1,b=2\r\n"
	isContext := regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-(0[01])$`)
	for _, trusting := range []struct {
		name, trusted, rate string
		// flags are the flags of a new trace, of one whose parent is sampled, and of one whose parent is not.
		flags [3]string
	}{
		{"nobody is trusted, nothing sampled", "192.0.2.0/24", "0", [3]string{"00", "00", "00"}},
		{"nobody is trusted, all is sampled", "192.0.2.0/24", "1000000", [3]string{"01", "01", "01"}},
		{"nobody can be trusted", "", "0", [3]string{"00", "00", "00"}},
		{"clients are trusted, nothing sampled", trustsLoopback, "0", [3]string{"00", "01", "00"}},
		{"clients are trusted, all is sampled", trustsLoopback, "1000000", [3]string{"01", "01", "00"}},
	} {
		g := startTracing(t, "192.0.2.0/24", trusting.trusted, "samplingRatePerMillion: 0", "samplingRatePerMillion: "+trusting.rate)
		for headers, want := range map[string]struct {
			continued bool
			flags     string
		}{
			"":                 {false, trusting.flags[0]},
			parent + "-01\r\n": {true, trusting.flags[1]},
			parent + "-00\r\n": {true, trusting.flags[2]},
			parent + "-03\r\n": {true, trusting.flags[1]},
			parent + "-fe\r\n": {true, trusting.flags[2]},
			"traceparent:  01" + parent[15:] + "-01-later\r\n":                        {true, trusting.flags[1]},
			"traceparent: cc" + parent[15:] + "-01\r\n":                               {true, trusting.flags[1]},
			"traceparent: cc" + parent[15:] + "-01.later\r\n":                         {false, trusting.flags[0]},
			"traceparent: ff" + parent[15:] + "-01\r\n":                               {false, trusting.flags[0]},
			parent + "-01-later\r\n":                                                  {false, trusting.flags[0]},
			parent + "\r\n":                                                           {false, trusting.flags[0]},
			strings.ToUpper(parent) + "-01\r\n":                                       {false, trusting.flags[0]},
			strings.Replace(parent, traceID, strings.Repeat("0", 32), 1) + "-01\r\n":  {false, trusting.flags[0]},
			strings.Replace(parent, parentID, strings.Repeat("0", 16), 1) + "-01\r\n": {false, trusting.flags[0]},
			parent + "-01\r\n" + parent + "-01\r\n":                                   {false, trusting.flags[0]},
			"traceparent: \r\n":                                                       {false, trusting.flags[0]},
			"traceparent: 00-%[src]\r\n":                                              {false, trusting.flags[0]},
		} {
			header, logged := g.send(headers + state)
			got := isContext.FindStringSubmatch(strings.Join(header.Values("Traceparent"), ", "))
			if got == nil {
				t.Errorf("%s: after %q, the backend gets %q", trusting.name, headers, header.Values("Traceparent"))
				continue
			}
			wantState := ""
			if want.continued {
				wantState = "a=1,b=2"
			}
			if continued := got[1] == traceID; continued != want.continued || got[3] != want.flags || header.Get("Tracestate") != wantState || got[2] == parentID {
				t.Errorf("%s: after %q, the backend gets %q with the state %q", trusting.name, headers, got[0], header.Get("Tracestate"))
			}
			if logged != (loggedTrace{got[1], got[2], strings.Replace(got[3], "00", "-", 1)}) {
				t.Errorf("%s: after %q, the backend gets %q, and logged is %v", trusting.name, headers, got[0], logged)
			}
		}
	}
}

// TestTraceIDsAreNew: two requests have no ID in common, also if a trusted proxy gives them the same request ID.
func TestTraceIDsAreNew(t *testing.T) {
	t.Parallel()
	g := startTracing(t, "192.0.2.0/24", trustsLoopback)
	_, a := g.send("X-Request-Id: same\r\n")
	_, b := g.send("X-Request-Id: same\r\n")
	if a.TraceID == b.TraceID || a.SpanID == b.SpanID {
		t.Errorf("two requests have %v and %v", a, b)
	}
}

// TestWithoutTracing: traceparent is a header as any other.
func TestWithoutTracing(t *testing.T) {
	t.Parallel()
	g := startTracing(t, `tracing: {endpoint: "collector.example:4318", samplingRatePerMillion: 0}`, "")
	header, logged := g.send("traceparent: anything\r\n")
	if got := header.Values("Traceparent"); strings.Join(got, ",") != "anything" || logged != (loggedTrace{}) {
		t.Errorf("the backend gets %q, and logged is %v", got, logged)
	}
}

// TestSampledRequests: HAProxy sends the agent a line about each sampled request, and about no other. Lines are
// numbered as they come, and JSON, whatever a client sends.
func TestSampledRequests(t *testing.T) {
	t.Parallel()
	g := startTracing(t, "192.0.2.0/24", trustsLoopback)
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "unix", g.in.Paths.TracesSocket()))(t)
	lines := make(chan string, 10)
	go ring.Serve(t.Context(), listener, "spans", func() func([]byte) {
		return func(line []byte) { lines <- string(line) }
	})
	const traceparent = "\r\ntraceparent: 00-" + traceID + "-" + parentID + "-"
	longest := "/" + strings.Repeat("\"", 1100)
	for _, request := range []string{
		get("x"+traceparent+"01", "/sampled"), get("x"+traceparent+"00", "/not"), get("x", "/new"), get("x"+traceparent+"01", "/a%22b?query"),
		get("x"+traceparent+"01\r\nUser-Agent: "+strings.Repeat("\"", 300), longest), get("x"+traceparent+"01", "/last"),
	} {
		newClient(t, g.ports[80]).send(request)
		g.count++
		g.accessLog(t, g.count)
		select {
		case <-g.got:
		default: // the proxy has answered
		}
	}
	for i, path := range []string{"/sampled", "/a%22b", longest[:1024], "/last"} {
		var line struct {
			Number, Start, End, MsTotal      int
			TraceID, ParentID, Path, Version string
		}
		var text string
		select {
		case text = <-lines:
		case <-time.After(10 * time.Second):
			t.Fatalf("there is no line about %s", path)
		}
		if json.Unmarshal([]byte(text), &line) != nil {
			t.Errorf("a line is not JSON: %q", text)
		}
		if line.Number != i+1 || line.Path != path || line.TraceID != traceID || line.ParentID != parentID || line.Version != "1.1" {
			t.Errorf("line %d is %+v, want the path %s", i+1, line, path)
		}
		if took := line.End - line.Start; took <= 0 || took/1000 > line.MsTotal+1 {
			t.Errorf("a request takes %d us and %d ms", took, line.MsTotal)
		}
	}
}
