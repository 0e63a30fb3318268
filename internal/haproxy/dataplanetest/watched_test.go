package dataplanetest_test

import (
	"encoding/json"
	"net"
	"slices"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/ring"
)

const watchedWorld = `
spec:
  tracing: {endpoint: "collector.example:4318", samplingRatePerMillion: 0}
  trustedProxies: [127.0.0.0/8]
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
  - name: web
    hostnames: [web.example]
    rules:
    - {matches: [{path: {value: /plain}}], backendRefs: [{name: web, port: 80}]}
    - {matches: [{path: {value: /header}, headers: [{name: X-A, value: "1"}]}], backendRefs: [{name: web, port: 80}]}
    - {matches: [{path: {value: /split}}], backendRefs: [{name: web, port: 80, weight: 1}, {name: other, port: 80, weight: 1}]}
    - {matches: [{path: {value: /denied}}], filters: [{type: ClientAddress, clientAddress: {allow: [10.0.0.0/8]}}], backendRefs: [{name: web, port: 80}]}
    - {matches: [{path: {value: /down}}], backendRefs: [{name: down, port: 80}]}
  - {name: other, hostnames: [other.example], rules: [{backendRefs: [{name: web, port: 80}]}]}
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
  - {service: other, port: 80, servers: ["127.0.0.1:1"]}
  - {service: down, port: 80, servers: []}
`

// lines serves a socket where HAProxy sends lines.
func linesOf(t *testing.T, socket string) <-chan string {
	t.Helper()
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "unix", socket))(t)
	lines := make(chan string, 100)
	go ring.Serve(t.Context(), listener, "lines", func() func([]byte) { return func(line []byte) { lines <- string(line) } })
	return lines
}

// TestWatchedRoutes: HAProxy hands over the access log's lines about a watched route, whatever became of a request, and
// none about another. A sampled request of another route is none.
func TestWatchedRoutes(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, watchedWorld))
	lines, count := linesOf(t, g.in.Paths.WatchedSocket()), 0
	send := func(host, path string) {
		t.Helper()
		newClient(t, g.ports[80]).send(get(host, path))
		count++
		g.accessLog(t, count)
	}
	watch := func(routes ...ir.MapEntry) {
		t.Helper()
		must.Do(t, runtime.NewWorker(g.WorkerSocket).ReplaceMap(t.Context(), ir.WatchedMap, routes))
	}
	send("web.example", "/plain/before")
	watch(ir.MapEntry{Key: "web", Value: "1"})
	want := []string{"/plain", "/header", "/split", "/denied", "/down"}
	for _, path := range want {
		send("other.example", path)
		send("web.example\r\nX-A: 1", path)
		send("nobody.example", path)
	}
	send("other.example\r\ntraceparent: 00-"+traceID+"-"+parentID+"-01", "/sampled")
	watch()
	send("web.example", "/plain/after")
	watch(ir.MapEntry{Key: "web", Value: "1"})
	send("web.example", "/plain/last")
	want = append(want, "/plain/last")
	logged := g.accessLog(t, count)
	for _, path := range want {
		var text string
		select {
		case text = <-lines:
		case <-time.After(10 * time.Second):
			t.Fatalf("there is no line about %s", path)
		}
		var line struct{ Route, Path string }
		if err := json.Unmarshal([]byte(text), &line); err != nil || line.Route != "web" || line.Path != path {
			t.Errorf("got %s, want %s of the route: %v", text, path, err)
		}
		if !slices.Contains(logged, text) {
			t.Errorf("%s is not the line of the access log", text)
		}
	}
}
