package dataplanetest_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// serve starts a server with a handler. mode may change it before it starts; with TLS, mode starts it.
func serve(t testing.TB, handler http.HandlerFunc, mode func(server *httptest.Server)) ir.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if mode != nil {
		mode(server)
	}
	if server.URL == "" {
		server.Start()
	}
	// Close waits for requests, which may wait for the end of the test.
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatalf("failed to parse the server's URL: %v", err)
	}
	port, _ := strconv.Atoi(address.Port())
	return ir.Server{Address: "127.0.0.1", Port: int32(port)}
}

// named answers every request with a name in the header Backend.
func named(name string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Backend", name) }
}

// failing answers every request with a status.
func failing(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
}

// startBackends runs HAProxy for one rule with what is given of it, and of the backend "b", whose servers are those. It
// is for every host, and for "x" by name, which ordinary requests take a shorter way to.
func startBackends(t testing.TB, rule, policy, appProtocol string, servers ...ir.Server) *gateway {
	t.Helper()
	w := rendertest.Parse(t, fmt.Sprintf(`
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - {name: r, rules: [{backendRefs: [{name: b, port: 80}] %[1]s}]}
    - {name: named, hostnames: [x], rules: [{backendRefs: [{name: b, port: 80}] %[1]s}]}
  backends: [{name: b, port: 80 %[2]s}]
backends: [{service: b, port: 80, appProtocol: "%[3]s"}]
authorities: {ca: PEM}
`, rule, policy, appProtocol))
	return startGatewayWith(t, w, func(in *render.Input) {
		in.Backends[routing.Backend{Service: "b", Port: 80}] = render.BackendState{Exists: true, AppProtocol: appProtocol, Servers: servers}
	})
}

// newServer returns a server to add to the only backend.
func (g *gateway) newServer(server ir.Server) plan.Server {
	for name, backend := range render.Render(g.in).Backends.All() {
		return plan.Server{Backend: name, Server: server, Settings: backend.Settings}
	}
	return plan.Server{}
}

// eventually asks until something holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(15 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-deadline:
			t.Fatalf("it never happened: %s", what)
		case <-tick.C:
		}
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	slow := func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}
	for _, timeouts := range []string{"{backendRequest: 50ms}", "{request: 50ms}", "{request: 10s, backendRequest: 50ms}"} {
		g := startBackends(t, ", timeouts: "+timeouts, "", "", serve(t, slow, nil))
		if got := newClient(t, g.ports[80]).send(get("x", "/")); got.Status != 504 {
			t.Errorf("%s: got %d, want 504", timeouts, got.Status)
		}
	}
}

// TestLongTimeouts: HAProxy keeps a timeout in 32 bits. One that is longer would be over before the request, or much
// sooner.
func TestLongTimeouts(t *testing.T) {
	t.Parallel()
	for _, timeouts := range []string{"{request: 576h}", "{request: 600h}", "{backendRequest: 720h}", "{request: 99999h, backendRequest: 1200h}", "{request: 99999h99999h}"} {
		g := startBackends(t, ", timeouts: "+timeouts, "", "", serve(t, named("good"), nil))
		if got := newClient(t, g.ports[80]).send(get("x", "/")); got.Status != 200 {
			t.Errorf("%s: got %d, want 200", timeouts, got.Status)
		}
		filters := string(render.Render(g.in).Content(ir.FiltersFile))
		_, filters, _ = strings.Cut(filters, "timeout=")
		filters, _, _ = strings.Cut(strings.TrimSpace(filters), "&")
		if limit, err := strconv.ParseInt(filters, 10, 32); err != nil || limit < (500*time.Hour).Milliseconds() {
			t.Errorf("%s: the limit is %d ms, %v", timeouts, limit, err)
		}
	}
}

// TestOpenRequestsLast: a request that the client has not ended lasts as long as its rule allows, even if both sides
// are silent for longer than clients may otherwise be. That is a minute, which is cut short here.
func TestOpenRequestsLast(t *testing.T) {
	t.Parallel()
	talkative := func(w http.ResponseWriter, _ *http.Request) {
		control := http.NewResponseController(w)
		for _, word := range []string{"one\n", "two\n"} {
			if err := errors.Join(control.EnableFullDuplex(), control.Flush()); err != nil {
				return
			}
			<-time.After(3 * time.Second)
			_, _ = io.WriteString(w, word)
		}
	}
	g := startBackends(t, ", timeouts: {request: 0s}", "", "", serve(t, talkative, nil))
	g.Stop()
	files := render.Render(g.in).AllFiles()
	skeleton := string(files[ir.ConfigFile])
	for _, minute := range []string{"timeout client 60s\n", "-m int gt 60000 }\n"} {
		if !strings.Contains(skeleton, minute) {
			t.Fatalf("there is no %q", minute)
		}
		skeleton = strings.Replace(skeleton, minute, strings.NewReplacer("60s", "1s", "60000", "1000").Replace(minute), 1)
	}
	files[ir.ConfigFile] = []byte(skeleton)
	haproxytest.Start(t, g.in.Paths, files)
	connection := dial(t, g.ports[80])
	must.Get(io.WriteString(connection, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"))(t)
	lines, lasted := bufio.NewScanner(connection), false
	for !lasted && lines.Scan() {
		lasted = lines.Text() == "two"
	}
	if !lasted {
		t.Errorf("the answer ended early: %v", lines.Err())
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	var tries atomic.Int32
	bad := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		tries.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}, nil)
	g := startBackends(t, ", retry: {codes: [503], attempts: 2}", "", "", bad)
	c := newClient(t, g.ports[80])
	for request, want := range map[string]int32{
		get("x", "/"): 3,
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na":                                1,
		"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 30000\r\n\r\n" + strings.Repeat("a", 30000): 3,
		"PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 40000\r\n\r\n" + strings.Repeat("a", 40000): 1,
	} {
		tries.Store(0)
		if got := c.send(request); got.Status != 503 || tries.Load() != want {
			t.Errorf("%.60q: got %d after %d tries, want 503 after %d", request, got.Status, tries.Load(), want)
		}
	}
	g = startBackends(t, ", retry: {codes: [503], attempts: 5}", ", loadBalancing: {algorithm: RoundRobin}", "", bad, serve(t, named("good"), nil))
	c = newClient(t, g.ports[80])
	for range 20 {
		if got := c.send(get("x", "/")); got.Header.Get("Backend") != "good" {
			t.Errorf("got %d, though another endpoint is well", got.Status)
		}
	}
}

func TestHealthChecks(t *testing.T) {
	t.Parallel()
	const policy = `, healthCheck: {path: "/health%20z'", hostname: check.internal, interval: 100ms, timeout: 1s, unhealthyThreshold: 2, healthyThreshold: 1}, loadBalancing: {algorithm: RoundRobin}`
	var sick atomic.Bool
	sick.Store(true)
	moody := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Backend", "moody")
		if r.RequestURI == "/health%20z%27" && r.Host == "check.internal" && sick.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}
	g := startBackends(t, "", policy, "", serve(t, moody, nil), serve(t, named("well"), nil))
	c := newClient(t, g.ports[80])
	answers := func() map[string]bool {
		seen := map[string]bool{}
		for range 10 {
			seen[c.send(get("x", "/")).Header.Get("Backend")] = true
		}
		return seen
	}
	eventually(t, "an endpoint that fails its check gets no requests", func() bool { return !answers()["moody"] })
	sick.Store(false)
	eventually(t, "an endpoint that passes its check again gets requests", func() bool { return answers()["moody"] })
	// A server that is added at run time is checked, too.
	added := g.newServer(serve(t, failing(500), nil))
	must.Do(t, runtime.NewWorker(g.WorkerSocket).AddServer(t.Context(), added))
	eventually(t, "an endpoint that was added is taken out", func() bool {
		return strings.Contains(g.Worker("show stat "+added.Backend+" 4 -1"), ir.ServerName(added.Server)) && strings.Contains(g.Worker("show stat"), ",DOWN,")
	})
}

// TestChecksOfAddedServers: an endpoint is asked whether it is well in the way in which it is sent requests, also if it
// came at run time.
func TestChecksOfAddedServers(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	for policy, mode := range map[string]func(*httptest.Server){
		"tls: {caCertificateRefs: [{name: ca}], hostname: good.internal}": func(server *httptest.Server) {
			server.TLS = &tls.Config{Certificates: []tls.Certificate{pair(t, ca, "good.internal")}}
			server.StartTLS()
		},
		"proxyProtocol: V1": func(server *httptest.Server) { server.Listener = proxied{server.Listener} },
	} {
		g := startGatewayWith(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: r, rules: [{backendRefs: [{name: b, port: 80}]}]}]
  backends: [{name: b, port: 80, `+policy+`, healthCheck: {path: /health, interval: 100ms, unhealthyThreshold: 1}}]
backends: [{service: b, port: 80}]
`), func(in *render.Input) { in.Authorities["ca"] = ca.PEM })
		checks := make(chan struct{}, 1000)
		handler := func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/health" {
				checks <- struct{}{}
			}
		}
		added := g.newServer(serve(t, handler, mode))
		must.Do(t, runtime.NewWorker(g.WorkerSocket).AddServer(t.Context(), added))
		eventually(t, policy+": it was asked twice whether it is well", func() bool { return len(checks) > 1 })
		if got := newClient(t, g.ports[80]).send(get("x", "/")); got.Status != 200 {
			t.Errorf("%s: got %d, want 200", policy, got.Status)
		}
	}
}

// proxied takes connections that begin with a PROXY protocol header of version 1, and no others.
type proxied struct{ net.Listener }

func (l proxied) Accept() (net.Conn, error) {
	for {
		connection, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		var header []byte
		for b := make([]byte, 1); !bytes.HasSuffix(header, []byte("\n")) && err == nil; header = append(header, b...) {
			_, err = io.ReadFull(connection, b)
		}
		if bytes.HasPrefix(header, []byte("PROXY ")) {
			return connection, nil
		}
		_ = connection.Close()
	}
}

func TestOutlierDetection(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	bad := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}, nil)
	// Checks by connection alone pass, and too seldom to matter here.
	g := startBackends(t, "", ", healthCheck: {interval: 1h}, outlierDetection: {consecutiveErrors: 3}, loadBalancing: {algorithm: RoundRobin}", "",
		bad, serve(t, named("good"), nil))
	c := newClient(t, g.ports[80])
	for range 50 {
		c.send(get("x", "/"))
	}
	if n := requests.Load(); n < 3 || n > 10 {
		t.Errorf("an endpoint that fails every request got %d of 50, want it taken out after 3", n)
	}
}

func TestConnectionLimits(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}, 10), make(chan struct{})
	blocking := func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-leave
	}
	g := startBackends(t, "", ", connections: {maxPerEndpoint: 1, queueTimeout: 100ms}", "", serve(t, blocking, nil))
	var first sync.WaitGroup
	c := newClient(t, g.ports[80])
	first.Go(func() {
		if got, err := c.try(get("x", "/")); err != nil || got.Status != 200 {
			t.Errorf("the first request: got %d: %v", got.Status, err)
		}
	})
	<-entered
	if got := newClient(t, g.ports[80]).send(get("x", "/")); got.Status != 503 {
		t.Errorf("a request that has to wait too long: got %d, want 503", got.Status)
	}
	close(leave)
	first.Wait()
	if len(entered) != 0 {
		t.Error("the endpoint got more requests than it may")
	}
}

// TestAddedServersGetRequests: those that are added at run time get their share, too.
func TestAddedServersGetRequests(t *testing.T) {
	t.Parallel()
	g := startBackends(t, "", "", "")
	worker := runtime.NewWorker(g.WorkerSocket)
	for i := range 4 {
		added := g.newServer(serve(t, named(fmt.Sprint(i)), nil))
		must.Do(t, worker.AddServer(t.Context(), added))
	}
	c, counts := newClient(t, g.ports[80]), map[string]int{}
	for range 400 {
		counts[c.send(get("x", "/")).Header.Get("Backend")]++
	}
	for i := range 4 {
		if n := counts[fmt.Sprint(i)]; n < 20 {
			t.Errorf("server %d got %d of 400 requests: %v", i, n, counts)
		}
	}
}

func TestBackendTLS(t *testing.T) {
	t.Parallel()
	ca := certtest.NewAuthority(t)
	names := make(chan string, 100)
	secure := func(certificate tls.Certificate) ir.Server {
		return serve(t, named("secure"), func(server *httptest.Server) {
			server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
				names <- hello.ServerName
				return nil, nil
			}}
			server.StartTLS()
		})
	}
	tests := map[string]struct {
		server ir.Server
		status int
	}{
		"a certificate for the name":         {secure(pair(t, ca, "good.internal")), 200},
		"a certificate for another name":     {secure(pair(t, ca, "bad.internal")), 503},
		"a certificate of another authority": {secure(pair(t, certtest.NewAuthority(t), "good.internal")), 503},
		"no TLS":                             {serve(t, named("clear"), nil), 503},
	}
	// HAProxy pauses between its attempts to connect. So the requests run at the same time.
	var requests sync.WaitGroup
	for name, test := range tests {
		for _, appProtocol := range []string{"", "https", "kubernetes.io/wss"} {
			g := startGatewayWith(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: r, rules: [{backendRefs: [{name: b, port: 80}]}]}]
  backends: [{name: b, port: 80, tls: {caCertificateRefs: [{name: ca}], hostname: good.internal}}]
backends: [{service: b, port: 80}]
`), func(in *render.Input) {
				in.Authorities["ca"] = ca.PEM
				in.Backends[routing.Backend{Service: "b", Port: 80}] = render.BackendState{Exists: true, AppProtocol: appProtocol, Servers: []ir.Server{test.server}}
			})
			client := newClient(t, g.ports[80])
			requests.Go(func() {
				if got, err := client.try(get("x", "/")); err != nil || got.Status != test.status {
					t.Errorf("%s, %q: got %d (%v), want %d", name, appProtocol, got.Status, err, test.status)
				}
			})
		}
	}
	requests.Wait()
	for range len(names) {
		if asked := <-names; asked != "good.internal" {
			t.Errorf("an endpoint was asked for %q", asked)
		}
	}
}

// TestUnusableBackends: what cannot be done as asked is not done in another way.
func TestUnusableBackends(t *testing.T) {
	t.Parallel()
	server := serve(t, named("b"), nil)
	for _, test := range []struct{ policy, appProtocol string }{
		{"", "https"},
		{"", "kubernetes.io/wss"},
		{"", "example.com/own"},
		{", tls: {caCertificateRefs: [{name: missing}], hostname: a.b}", ""},
		{", tls: {hostname: a.b}", ""},
	} {
		g := startBackends(t, "", test.policy, test.appProtocol, server)
		if got := newClient(t, g.ports[80]).send(get("x", "/")); got.Status != 500 {
			t.Errorf("%+v: got %d, want 500", test, got.Status)
		}
	}
}

// TestATypoInTheEntryWithTLS: no request and no connection goes in plain text to a backend that may be meant.
func TestATypoInTheEntryWithTLS(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	plain := serve(t, func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }, nil)
	for _, entry := range []string{"name: bb, port: 80", "name: b, port: 81"} {
		g := startGatewayWith(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: tcp, port: 81, protocol: TCP}]
  routes: [{name: r, rules: [{backendRefs: [{name: b, port: 80}]}]}, {name: named, hostnames: [x], rules: [{backendRefs: [{name: b, port: 80}]}]}]
  tcpRoutes: [{name: t, listeners: [tcp], rules: [{backendRefs: [{name: b, port: 80}]}]}]
  backends: [{`+entry+`, tls: {caCertificateRefs: [{name: ca}], hostname: good.internal}}]
backends: [{service: b, port: 80}]
authorities: {ca: PEM}
`), func(in *render.Input) {
			in.Backends[routing.Backend{Service: "b", Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{plain}}
		})
		for _, host := range []string{"x", "y"} {
			if got := newClient(t, g.ports[80]).send(get(host, "/")); got.Status != 500 {
				t.Errorf("%s, host %s: got %d, want 500", entry, host, got.Status)
			}
		}
		if got, err := talk(t, dial(t, g.ports[81]), "GET /tcp HTTP/1.0\n", 1); err == nil {
			t.Errorf("%s: the connection is answered %q", entry, got)
		}
	}
	if len(asked) > 0 {
		t.Errorf("the backend was asked for %s", <-asked)
	}
}
