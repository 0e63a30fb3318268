package dataplanetest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// vanishing takes requests and closes the connection without an answer. requests counts them.
func vanishing(requests *atomic.Int32, how func(net.Conn)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err) // the server speaks HTTP/1.1
		}
		how(conn)
	}
}

func reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// TestVanishingEndpoint: an endpoint that is gone costs no request that may be sent twice, and none is sent twice that
// may not.
func TestVanishingEndpoint(t *testing.T) {
	t.Parallel()
	var taken, answered atomic.Int32
	good := func(w http.ResponseWriter, r *http.Request) {
		answered.Add(1)
		w.Header().Set("Backend", fmt.Sprint("good, cookies of ", len(r.Header.Get("Cookie"))))
	}
	gone := ir.Server{Address: "127.0.0.1", Port: haproxytest.FreePort(t)}
	g := startBackends(t, "", ", loadBalancing: {algorithm: RoundRobin}", "", serve(t, good, nil), gone,
		serve(t, vanishing(&taken, reset), nil), serve(t, vanishing(&taken, func(c net.Conn) { _ = c.Close() }), nil))
	for i := range 40 {
		// Where HAProxy keeps the request for another try depends on its size.
		size := 300 * i
		got := newClient(t, g.ports[80]).send("GET / HTTP/1.1\r\nHost: x\r\nCookie: " + strings.Repeat("c", size) + "\r\n\r\n")
		if want := fmt.Sprint("good, cookies of ", size); got.Header.Get("Backend") != want {
			t.Errorf("GET: got %d from %q, want %q", got.Status, got.Header.Get("Backend"), want)
		}
	}
	if taken.Load() == 0 {
		t.Fatal("no endpoint closed a connection, so this shows nothing")
	}
	taken.Store(0)
	answered.Store(0)
	for range 40 {
		got := newClient(t, g.ports[80]).send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\na")
		if got.Status != http.StatusOK && got.Status != http.StatusBadGateway {
			t.Errorf("POST: got %d", got.Status)
		}
	}
	if n := taken.Load() + answered.Load(); n != 40 || answered.Load() < 10 {
		t.Errorf("40 POSTs arrived %d times, %d at the endpoint that answers", n, answered.Load())
	}
}

// TestATimeLimitIsForAllAttempts: where a rule limits the time of the request, no endpoint's time is spent twice.
func TestATimeLimitIsForAllAttempts(t *testing.T) {
	t.Parallel()
	for timeouts, want := range map[string]int32{"{request: 10s}": 1, "{request: 0s}": 4, "{backendRequest: 10s}": 4} {
		var taken atomic.Int32
		bad := serve(t, vanishing(&taken, reset), nil)
		g := startBackends(t, ", timeouts: "+timeouts, "", "", bad, serve(t, vanishing(&taken, reset), nil))
		if got := newClient(t, g.ports[80]).send(get("x", "/")); got.Status != http.StatusBadGateway || taken.Load() != want {
			t.Errorf("%s: got %d after %d attempts, want 502 after %d", timeouts, got.Status, taken.Load(), want)
		}
	}
}

const drainWorld = `
spec:
  drainTimeout: %s
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: tcp, port: 81, protocol: TCP}]
  routes: [{name: r, rules: [{backendRefs: [{name: web, port: 80}]}]}]
  tcpRoutes: [{name: t, listeners: [tcp], rules: [{backendRefs: [{name: echo, port: 80}]}]}]
backends: [{service: web, port: 80}, {service: echo, port: 80}]
`

func startDraining(t *testing.T, drainTimeout string, web http.HandlerFunc) *gateway {
	t.Helper()
	return startGatewayWith(t, rendertest.Parse(t, fmt.Sprintf(drainWorld, drainTimeout)), func(in *render.Input) {
		for name, server := range map[string]ir.Server{"web": serve(t, web, nil), "echo": startEcho(t, "echo", nil)} {
			in.Backends[routing.Backend{Service: name, Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{server}}
		}
	})
}

// reload makes HAProxy load its configuration anew, and returns when a new worker answers.
func (g *gateway) reload(t *testing.T) {
	t.Helper()
	worker := runtime.NewWorker(g.WorkerSocket)
	old, err := worker.Process(t.Context())
	if err == nil {
		err = runtime.NewMaster(g.MasterSocket).Reload(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "a new worker runs", func() bool {
		process, err := worker.Process(t.Context())
		return err == nil && process.PID != old.PID
	})
}

// TestIdleConnectionOutlivesReload: a request on a connection of an old worker is answered, and the connection ends
// then.
func TestIdleConnectionOutlivesReload(t *testing.T) {
	t.Parallel()
	g := startDraining(t, "1m", named("web"))
	for range 3 {
		c := newClient(t, g.ports[80])
		c.send(get("x", "/"))
		g.reload(t)
		if got, err := c.try(get("x", "/")); err != nil || got.Status != http.StatusOK {
			t.Errorf("after a reload: got %d, %v", got.Status, err)
		}
		if c.conn != nil {
			t.Error("the answer did not say that the connection ends")
		}
	}
}

// TestDrainTimeout: connections of an old worker last for the drainTimeout, and then end in order.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	const drainTimeout = 2 * time.Second
	upgrade := func(w http.ResponseWriter, _ *http.Request) {
		conn, rest, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err) // the server speaks HTTP/1.1
		}
		defer func() { _ = conn.Close() }()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\necho\n")
		_, _ = io.Copy(conn, rest)
	}
	g := startDraining(t, drainTimeout.String(), upgrade)
	open := map[string]*line{
		"a WebSocket":      dialLine(t, g.ports[80], "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"),
		"a TCP connection": dialLine(t, g.ports[81], ""),
	}
	for _, l := range open {
		l.expect(t, "echo\n")
	}
	begin := time.Now()
	g.reload(t)
	for _, l := range open {
		l.exchange(t, "still here\n")
	}
	for name, l := range open {
		err := l.end()
		if took := time.Since(begin); !errors.Is(err, io.EOF) || took < drainTimeout {
			t.Errorf("%s ended after %v with %v, want an end in order after %v", name, took, err, drainTimeout)
		}
	}
}

// line is a connection to something that sends lines back.
type line struct {
	conn   net.Conn
	reader *bufio.Reader
}

func dialLine(t *testing.T, port int32, greeting string) *line {
	t.Helper()
	conn := must.Get(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	must.Get(io.WriteString(conn, greeting))(t)
	return &line{conn, bufio.NewReader(conn)}
}

// expect reads until a line has come.
func (l *line) expect(t *testing.T, want string) {
	t.Helper()
	for {
		got, err := l.reader.ReadString('\n')
		if err != nil {
			t.Fatalf("waiting for %q: %v", want, err)
		}
		if got == want {
			return
		}
	}
}

func (l *line) exchange(t *testing.T, text string) {
	t.Helper()
	must.Get(io.WriteString(l.conn, text))(t)
	l.expect(t, text)
}

// end waits for the end of the connection and returns why it ended: io.EOF if in order.
func (l *line) end() error {
	_, err := l.reader.ReadByte()
	return err
}

// TestIdleConnections: where there are trusted proxies, connections last for longer, so that none is closed while such
// a proxy sends a request on it. Here one second stands for a minute or so.
func TestIdleConnections(t *testing.T) {
	t.Parallel()
	for _, trusted := range [][]string{nil, {"127.0.0.0/8"}} {
		t.Run(fmt.Sprint(trusted), func(t *testing.T) {
			t.Parallel()
			g := startGatewayWith(t, rendertest.Parse(t, shopWorld), func(in *render.Input) { in.Table.TrustedProxies = trusted })
			g.Stop()
			files := render.Render(g.in).AllFiles()
			cfg := strings.NewReplacer("http-keep-alive 60s", "http-keep-alive 1s", "http-keep-alive 620s", "http-keep-alive 10s").Replace(string(files[ir.ConfigFile]))
			files[ir.ConfigFile] = []byte(cfg)
			haproxytest.Start(t, g.in.Paths, files)
			c := newClient(t, g.ports[81])
			c.send(get("inner", "/"))
			must.Do(t, c.conn.SetReadDeadline(time.Now().Add(3*time.Second)))
			if _, err := c.reader.ReadByte(); errors.Is(err, io.EOF) == (trusted != nil) {
				t.Errorf("an idle connection ended with %v", err)
			}
		})
	}
}
