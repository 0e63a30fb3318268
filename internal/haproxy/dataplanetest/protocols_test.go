package dataplanetest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/routing"
)

// cleartextHTTP2 makes a server speak HTTP/2 by prior knowledge, and nothing else.
func cleartextHTTP2(server *httptest.Server) {
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
}

// http2Client speaks HTTP/2 by prior knowledge.
func http2Client(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: answerTimeout}
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	protocol := func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }
	for _, test := range []struct{ kind, appProtocol, want string }{
		{"HTTPRoute", "kubernetes.io/h2c", "HTTP/2.0"}, {"HTTPRoute", "grpc", "HTTP/2.0"}, {"HTTPRoute", "http2", "HTTP/2.0"}, {"HTTPRoute", "h2c", "HTTP/2.0"},
		{"HTTPRoute", "kubernetes.io/ws", "HTTP/1.1"}, {"HTTPRoute", "ws", "HTTP/1.1"}, {"HTTPRoute", "http", "HTTP/1.1"}, {"HTTPRoute", "tcp", "HTTP/1.1"},
		{"HTTPRoute", "", "HTTP/1.1"}, {"GRPCRoute", "", "HTTP/2.0"}, {"GRPCRoute", "tcp", "HTTP/2.0"},
	} {
		appProtocol, want := test.appProtocol, test.want
		mode := cleartextHTTP2
		if want == "HTTP/1.1" {
			mode = nil
		}
		g := startKind(t, test.kind, appProtocol, serve(t, protocol, mode))
		for name, client := range map[string]*http.Client{"HTTP/2": http2Client(t), "HTTP/1.1": http.DefaultClient} {
			got, err := fetch(client, fmt.Sprintf("http://127.0.0.1:%d/", g.ports[80]), "x")
			if err != nil || got.Status != 200 || !strings.HasPrefix(got.Proto, name) || got.Body != want {
				t.Errorf("%s to a backend of a %s of %q: got %q (%v), want %q", name, test.kind, appProtocol, got.Body, err, want)
			}
		}
	}
}

// TestGRPCNeedsHTTP2: a Service port that takes HTTP/1.1 alone gets no call. It could not answer it.
func TestGRPCNeedsHTTP2(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "asked") }
	for _, appProtocol := range []string{"http", "ws", "kubernetes.io/ws"} {
		g := startKind(t, "GRPCRoute", appProtocol, serve(t, answer, nil))
		got, err := fetch(http2Client(t), fmt.Sprintf("http://127.0.0.1:%d/", g.ports[80]), "x")
		if err != nil || got.Status != 500 || got.Body == "asked" {
			t.Errorf("%s: got %d %q (%v), want 500", appProtocol, got.Status, got.Body, err)
		}
	}
}

// startKind runs HAProxy for a rule of a route of a kind, with a backend of an appProtocol.
func startKind(t testing.TB, kind, appProtocol string, server ir.Server) *gateway {
	t.Helper()
	const text = "spec: {listeners: [{name: http, port: 80, protocol: HTTP}], routes: [{name: r, rules: [{backendRefs: [{name: b, port: 80}]}]}]}"
	return startGatewayWith(t, rendertest.Parse(t, text), func(in *render.Input) {
		in.Table.Rules(func(_ *routing.Listener, rule *routing.Rule) { rule.Kind = kind })
		in.Backends[routing.Backend{Service: "b", Port: 80}] = render.BackendState{Exists: true, AppProtocol: appProtocol, Servers: []ir.Server{server}}
	})
}

// TestGRPC has a call in which both sides send messages in turn, and the status comes as a trailer.
func TestGRPC(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"": "", "with a limit of connections": limited} {
		t.Run(name, func(t *testing.T) { t.Parallel(); testGRPC(t, policy) })
	}
}

func testGRPC(t *testing.T, policy string) {
	t.Helper()
	const message = "\x00\x00\x00\x00\x05hello"
	call := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		buffer := make([]byte, len(message))
		for {
			if _, err := io.ReadFull(r.Body, buffer); err != nil {
				break
			}
			_, _ = w.Write(buffer)
			w.(http.Flusher).Flush()
		}
		w.Header().Set("Grpc-Status", "7")
	}
	g := startBackends(t, "", policy, "kubernetes.io/h2c", serve(t, call, cleartextHTTP2))
	reader, writer := io.Pipe()
	request := must.Get(http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/pkg.Service/Method", g.ports[80]), reader))(t)
	request.Header.Set("Content-Type", "application/grpc")
	request.Header.Set("Te", "trailers")
	sent := make(chan error, 1)
	go func() { _, err := io.WriteString(writer, message); sent <- err }()
	response, err := http2Client(t).Do(request)
	must.Do(t, err)
	defer response.Body.Close() //nolint:errcheck // it is read to its end
	buffer := make([]byte, len(message))
	for i := range 3 {
		must.Do(t, <-sent)
		if _, err := io.ReadFull(response.Body, buffer); err != nil || string(buffer) != message {
			t.Fatalf("message %d: got %q: %v", i, buffer, err)
		}
		go func() { _, err := io.WriteString(writer, message); sent <- err }()
	}
	_ = <-sent //nolint:staticcheck // the other side may have stopped reading
	_ = writer.Close()
	must.Get(io.Copy(io.Discard, response.Body))(t)
	if status := response.Trailer.Get("Grpc-Status"); status != "7" {
		t.Errorf("the trailer is %q", status)
	}
}

// TestWebSocket upgrades a connection and talks over it in both directions.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	upgrade := func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		conn, stream, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // the end of the test
		_, _ = conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"))
		for {
			line, err := stream.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "echo "+line)
		}
	}
	for appProtocol, policy := range map[string]string{"": "", "kubernetes.io/ws": limited} {
		g := startBackends(t, ", timeouts: {request: 200ms}", policy, appProtocol, serve(t, upgrade, nil))
		conn := dial(t, g.ports[80])
		reader := bufio.NewReader(conn)
		_, _ = io.WriteString(conn, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
		response, err := http.ReadResponse(reader, nil) //nolint:bodyclose // an upgrade has none
		if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%q: the upgrade failed: %v", appProtocol, err)
		}
		for i := range 3 {
			_, _ = fmt.Fprintf(conn, "message %d\n", i)
			if got, err := reader.ReadString('\n'); err != nil || got != fmt.Sprintf("echo message %d\n", i) {
				t.Errorf("%q: got %q: %v", appProtocol, got, err)
			}
		}
	}
}

// TestServerSentEvents wants each event when it was sent, not when the answer ends.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	next := make(chan int)
	events := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			select {
			case i := <-next:
				_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				return
			}
		}
	}
	g := startBackends(t, "", "", "", serve(t, events, nil))
	conn := dial(t, g.ports[80])
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.WriteString(conn, get("x", "/events"))
	reader := bufio.NewReader(conn)
	for i := range 3 {
		next <- i
		for {
			line := must.Get(reader.ReadString('\n'))(t)
			if line == fmt.Sprintf("data: %d\n", i) {
				break
			}
		}
	}
}

// TestUpgradeToHTTP2 would give a client a connection to the backend that no rule looks at.
func TestUpgradeToHTTP2(t *testing.T) {
	t.Parallel()
	seen := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "upgrade=%s settings=%s", r.Header.Get("Upgrade"), r.Header.Get("Http2-Settings"))
	}
	g := startBackends(t, "", "", "", serve(t, seen, nil))
	for _, upgrade := range []string{"h2c", "H2C", "other, h2c"} {
		got := newClient(t, g.ports[80]).send("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " + upgrade + "\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
		// HAProxy removes it from a list by itself.
		if got.Status != 200 || got.Body != "upgrade= settings=" && got.Body != "upgrade=other settings=" {
			t.Errorf("%s: got %d %q", upgrade, got.Status, got.Body)
		}
	}
}

// TestConnectionNamesNoHeader: a proxy behind this one would remove what it names.
func TestConnectionNamesNoHeader(t *testing.T) {
	t.Parallel()
	seen := func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, strings.Join(r.Header["Connection"], ";"))
	}
	g := startBackends(t, "", "", "", serve(t, seen, nil))
	for sent, want := range map[string]string{
		"X-Forwarded-For, Forwarded":                          "",
		"close, X-Forwarded-For":                              "",
		"keep-alive,x-user ,\tcookie":                         "",
		"keep-alive\r\nConnection: Upgrade-Not, upgrad, te-x": "",
		"X-User, TE": "TE",
		"X-Forwarded-For, Upgrade, x-user\r\nUpgrade: other":       "Upgrade",
		"Cookie\r\nConnection: upgrade\r\nUpgrade: something-else": "upgrade",
	} {
		if got := newClient(t, g.ports[80]).send("GET / HTTP/1.1\r\nHost: x\r\nConnection: " + sent + "\r\n\r\n"); got.Status != 200 || got.Body != want {
			t.Errorf("of %q the backend gets %d %q, want %q", sent, got.Status, got.Body, want)
		}
	}
}

// recorder is a backend that answers each request it reads, and notes how many there were and what it could not read.
type recorder struct {
	requests chan string
}

func startRecorder(t testing.TB) (*recorder, net.Listener) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("failed to listen: %v", err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	r := &recorder{requests: make(chan string, 100)}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go r.serve(conn)
		}
	}()
	return r, listener
}

func (r *recorder) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	for {
		request, err := http.ReadRequest(reader)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			r.requests <- "unreadable: " + err.Error()
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			r.requests <- "unreadable body: " + err.Error()
			return
		}
		received := fmt.Sprintf("%s %s %q", request.Method, request.RequestURI, body)
		if request.Host != "x" {
			received += " for " + request.Host
		}
		r.requests <- received
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}

// received returns what the backend got so far.
func (r *recorder) received() string {
	var all []string
	for {
		select {
		case request := <-r.requests:
			all = append(all, request)
		default:
			return strings.Join(all, "; ")
		}
	}
}

// manyHeaders are the headers of a message beside Host, or beside an answer's usual ones.
var manyHeaders = map[string]http.Header{
	"a hundred": {"X-A": slices.Repeat([]string{"a"}, 99)}, "one more": {"X-A": slices.Repeat([]string{"a"}, 100)},
	"nine hundred": {"X-A": slices.Repeat([]string{"a"}, 900)}, "16,000 bytes": {"X-A": {strings.Repeat("a", 16000)}},
	"17,000 bytes": {"X-A": {strings.Repeat("a", 17000)}}, "30,000 bytes": {"X-A": slices.Repeat([]string{strings.Repeat("a", 3000)}, 10)},
}

// TestManyHeaders: a request with more headers than the API says is answered, over HTTP/2 too, and others go on.
func TestManyHeaders(t *testing.T) {
	t.Parallel()
	waiting, done := make(chan struct{}), make(chan struct{})
	g := startBackends(t, "", "", "", serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			close(waiting)
			<-done
		}
		maps.Copy(w.Header(), manyHeaders[r.URL.Query().Get("shape")])
	}, nil))
	url1, h2 := fmt.Sprintf("http://127.0.0.1:%d/", g.ports[80]), http2Client(t)
	h1 := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableCompression: true}}
	h2.Timeout = 15 * time.Second
	h2.Transport.(*http.Transport).DisableCompression = true
	other := make(chan error, 1)
	go func() {
		got, err := fetch(h2, url1+"wait", "x")
		if err == nil && got.Status != 200 {
			err = fmt.Errorf("it gets %d", got.Status)
		}
		other <- err
	}()
	<-waiting
	for version, client := range map[string]*http.Client{"HTTP/1.1": h1, "HTTP/2": h2} {
		for shape, status := range map[string]int{"a hundred": 200, "one more": 431, "nine hundred": 431, "16,000 bytes": 200, "17,000 bytes": 431, "30,000 bytes": 431} {
			request := must.Get(http.NewRequest(http.MethodGet, url1, nil))(t)
			request.Host, request.Header = "x", manyHeaders[shape].Clone()
			request.Header.Set("User-Agent", "")
			response, err := client.Do(request)
			if err != nil {
				t.Errorf("%s: a request with %s headers: %v", version, shape, err)
				continue
			}
			_ = response.Body.Close()
			if response.StatusCode != status {
				t.Errorf("%s: a request with %s headers gets %d, want %d", version, shape, response.StatusCode, status)
			}
			if got, err := fetch(client, url1+"?shape="+url.QueryEscape(shape), "x"); err != nil || got.Status != 200 || len(got.Header["X-A"]) != len(manyHeaders[shape]["X-A"]) {
				t.Errorf("%s: an answer with %s headers becomes %d with %d of them (%v)", version, shape, got.Status, len(got.Header["X-A"]), err)
			}
		}
	}
	for length, status := range map[int]int{16000: 200, 17000: 431, 30000: 431} {
		if got := newClient(t, g.ports[80]).send("GET /" + strings.Repeat("a", length/2) + " HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("a", length/2) + "\r\n\r\n"); got.Status != status {
			t.Errorf("a request with a URL and a header of %d bytes gets %d, want %d", length, got.Status, status)
		}
	}
	close(done)
	if err := <-other; err != nil {
		t.Errorf("another request of the connection: %v", err)
	}
}

const headersWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  clientLimits: {maxHeaders: 300, maxHeaderBytes: 65536}
  routes:
    - name: r
      rules:
        - filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: one}]}}]
          backendRefs: [{name: one, port: 80}]
backends: [{service: one, port: 80}]
`

// TestHeaderLimits: a Gateway admits more and larger headers, over HTTP/2 too, and the backend gets all of them.
func TestHeaderLimits(t *testing.T) {
	t.Parallel()
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		bytes := 0
		for _, value := range r.Header["X-A"] {
			bytes += len(value)
		}
		w.Header().Set("X-A", strings.Repeat("a", bytes))
		_, _ = fmt.Fprintf(w, "%d headers, %d bytes, X-Set: %s", len(r.Header["X-A"]), bytes, r.Header.Get("X-Set"))
	}, nil)
	g := startGatewayWith(t, rendertest.Parse(t, headersWorld), func(in *render.Input) {
		in.Backends[routing.Backend{Service: "one", Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{server}}
	})
	h1 := &http.Client{Timeout: 15 * time.Second, Transport: &http.Transport{DisableCompression: true, MaxResponseHeaderBytes: 1 << 20}}
	h2 := http2Client(t)
	h2.Transport.(*http.Transport).DisableCompression = true
	for version, client := range map[string]*http.Client{"HTTP/1.1": h1, "HTTP/2": h2} {
		for _, test := range []struct{ headers, bytes, status int }{
			{299, 1, 200}, {300, 1, 431}, {10, 6400, 200}, {1, 64000, 200}, {10, 6600, 431}, {1, 100000, 431},
		} {
			request := must.Get(http.NewRequest(http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", g.ports[80]), nil))(t)
			request.Header = http.Header{"X-A": slices.Repeat([]string{strings.Repeat("a", test.bytes)}, test.headers), "User-Agent": {""}}
			response, err := client.Do(request)
			if err != nil {
				t.Errorf("%s: a request with %d headers of %d bytes: %v", version, test.headers, test.bytes, err)
				continue
			}
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			want := fmt.Sprintf("%d headers, %d bytes, X-Set: one", test.headers, test.headers*test.bytes)
			if response.StatusCode != test.status || err != nil || test.status == 200 && string(body) != want {
				t.Errorf("%s: a request with %d headers of %d bytes gets %d with %.80q (%v), want %d", version, test.headers, test.bytes, response.StatusCode, body, err, test.status)
			}
			if test.status == 200 && len(response.Header.Get("X-A")) != test.headers*test.bytes {
				t.Errorf("%s: an answer with a header of %d bytes has %d", version, test.headers*test.bytes, len(response.Header.Get("X-A")))
			}
		}
	}
}

// TestRequestTrailers: what is removed as a header, or set by a filter, must not come as a trailer, which some backends
// add to the headers.
func TestRequestTrailers(t *testing.T) {
	t.Parallel()
	seen := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %v %v", r.Proto, body, r.Trailer["Client-Cert"], err)
	}
	for appProtocol, mode := range map[string]func(*httptest.Server){"": nil, "kubernetes.io/h2c": cleartextHTTP2} {
		g := startBackends(t, "", "", appProtocol, serve(t, seen, mode))
		want := map[string]string{"": "HTTP/1.1", "kubernetes.io/h2c": "HTTP/2.0"}[appProtocol] + " a [] <nil>"
		got := newClient(t, g.ports[80]).send("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: Client-Cert\r\n\r\n" +
			"1\r\na\r\n0\r\nClient-Cert: forged\r\nX-Forwarded-For: 1.1.1.1\r\n\r\n")
		if got.Body != want {
			t.Errorf("chunks with trailers: the backend got %q, want %q", got.Body, want)
		}
		request := must.Get(http.NewRequest(http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/", g.ports[80]), io.MultiReader(strings.NewReader("a"))))(t)
		request.Trailer = http.Header{"Client-Cert": {"forged"}}
		response, err := http2Client(t).Do(request)
		must.Do(t, err)
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if string(body) != want {
			t.Errorf("HTTP/2 with trailers: the backend got %q, want %q", body, want)
		}
	}
}
