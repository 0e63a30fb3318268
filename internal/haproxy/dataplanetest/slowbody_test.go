package dataplanetest_test

import (
	"bufio"
	"crypto/sha1" //nolint:gosec // RFC 6455 wants it
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/must"
)

const (
	limited  = ", connections: {maxPerEndpoint: 1, queueTimeout: 1s}"
	h2c      = "kubernetes.io/h2c"
	preface  = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	bodySize = 10_000
)

// readAll answers when it has read the whole body, with its length.
func readAll(w http.ResponseWriter, r *http.Request) {
	n, _ := io.Copy(io.Discard, r.Body)
	_, _ = fmt.Fprint(w, n)
}

// overHTTP2 is a request of stream 1 with a part of its body.
func overHTTP2(body string, lines ...[2]string) string {
	return preface + frame(frameSettings, 0, "") + frame(frameHeaders, flagEndHeaders, fields(lines...)) + frame(frameData, 0, body)
}

func field(name, value string) [2]string { return [2]string{name, value} }

// arrived returns how many requests the section of Service b got, those that wait for their body among them.
func (g *gateway) arrived(t testing.TB) string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(strings.TrimSpace(strings.TrimPrefix(g.Worker("show stat "+g.newServer(ir.Server{}).Backend+" 2 -1"), "# ")))).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("got %v: %v", rows, err)
	}
	for i, name := range rows[0] {
		if name == "stot" {
			return rows[1][i]
		}
	}
	t.Fatal("HAProxy does not count requests")
	return ""
}

// TestSlowBodies: a request takes no slot of an endpoint before its body has arrived, or 15 KiB of it.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	part := strings.Repeat("a", bodySize)
	post := [][2]string{field(":method", "POST"), field(":scheme", "http"), field(":path", "/a"), field(":authority", "x")}
	of := func(method string, lines [][2]string, more ...[2]string) [][2]string {
		return append(append([][2]string{field(":method", method)}, lines[1:]...), more...)
	}
	for name, request := range map[string]string{
		"a length":                      "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 12000\r\n\r\n" + part,
		"chunks":                        "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2EE0\r\n" + part,
		"another upgrade with a length": "GET /a HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: other\r\nContent-Length: 12000\r\n\r\n" + part,
		"POST with an upgrade":          "POST /a HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: other\r\nContent-Length: 12000\r\n\r\n" + part,
		"gRPC to HTTP/1.1":              "POST /a HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n2EE0\r\n" + part,
		"trailers that do not end":      "POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nA: b\r\n",
		"HTTP/2":                        overHTTP2(part, post...),
		"HTTP/2 with a length":          overHTTP2(part, of("POST", post, field("content-length", "12000"))...),
		"HTTP/2 with GET":               overHTTP2(part, of("GET", post)...),
		"HTTP/2 with gRPC to HTTP/1.1":  overHTTP2(part, of("POST", post, field("content-type", "application/grpc"))...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testSlowBody(t, "", request)
		})
	}
	t.Run("a rule with a timeout", func(t *testing.T) {
		t.Parallel()
		testSlowBody(t, ", timeouts: {request: 30s}", "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 12000\r\n\r\n"+part)
	})
	t.Run("long headers, and the longest body that is waited for", func(t *testing.T) {
		t.Parallel()
		long := strings.Repeat("a", 16000)
		testSlowBody(t, ", maxRequestBytes: 15360", "POST /a HTTP/1.1\r\nHost: x\r\nA: "+long+"\r\nContent-Length: 15360\r\n\r\n"+long[:15359])
	})
}

func testSlowBody(t *testing.T, rule, request string) {
	t.Helper()
	g := startBackends(t, rule, limited, "", serve(t, readAll, nil))
	for range 3 {
		_, _ = io.WriteString(dial(t, g.ports[80]), request)
	}
	eventually(t, "the slow requests are there", func() bool { return g.arrived(t) == "3" })
	if got := newClient(t, g.ports[80]).send(get("x", "/")); got.Status != 200 {
		t.Errorf("another client gets %d", got.Status)
	}
}

// TestBodiesOfLimitedBackends: what arrives in time gets where it shall, of whatever size.
func TestBodiesOfLimitedBackends(t *testing.T) {
	t.Parallel()
	small := startBackends(t, ", maxRequestBytes: 8192", limited, "", serve(t, readAll, nil))
	for n, status := range map[int]int{8192: 200, 8193: 413} {
		if got := newClient(t, small.ports[80]).send(fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("a", n))); got.Status != status {
			t.Errorf("%d bytes where 8192 are allowed: got %d", n, got.Status)
		}
	}
	for appProtocol, mode := range map[string]func(*httptest.Server){"": nil, h2c: cleartextHTTP2} {
		g := startBackends(t, "", limited, appProtocol, serve(t, readAll, mode))
		for _, size := range []int{0, 1, bodySize, 300_000} {
			body := strings.Repeat("a", size)
			for name, request := range map[string]string{
				"a length": fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, body),
				"chunks":   fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n%x\r\na%s\r\n0\r\n\r\n", size+1, body),
			} {
				if got, n := newClient(t, g.ports[80]).send(request), map[string]int{"chunks": 2}[name]+size; got.Status != 200 || got.Body != fmt.Sprint(n) {
					t.Errorf("%s, %d bytes: got %d %q", name, size, got.Status, got.Body)
				}
			}
			response, err := http2Client(t).Post(fmt.Sprintf("http://127.0.0.1:%d/", g.ports[80]), "", io.MultiReader(strings.NewReader(body)))
			must.Do(t, err)
			got, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK || string(got) != fmt.Sprint(size) {
				t.Errorf("HTTP/2, %d bytes: got %d %q", size, response.StatusCode, got)
			}
		}
	}
}

// TestUpgradesWithBodies are refused, as rules do not wait for what follows an upgrade.
func TestUpgradesWithBodies(t *testing.T) {
	t.Parallel()
	backend, listener := startRecorder(t)
	g := startBackends(t, "", limited, "", ir.Server{Address: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)})
	for _, body := range []string{"Content-Length: 5\r\n\r\n", "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"} {
		for _, method := range []string{"GET", "POST"} {
			conn := dial(t, g.ports[80])
			_, _ = io.WriteString(conn, method+" / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"+body+"abcde")
			if got, _ := io.ReadAll(conn); strings.Contains(string(got), " 200 ") {
				t.Errorf("%s %q: got %q", method, body, got)
			}
		}
	}
	for protocol, more := range map[string][][2]string{"websocket": {field("content-length", "5")}, "other": {field("content-length", "5")}, "h2c": nil} {
		conn := dial(t, g.ports[80])
		_, _ = io.WriteString(conn, overHTTP2("abcde", append(webSocket(protocol), more...)...))
		if answered(t, conn) {
			t.Errorf("over HTTP/2, an upgrade to %s with a body is answered", protocol)
		}
	}
	if got := backend.received(); got != "" {
		t.Errorf("the backend received %s", got)
	}
}

// webSocket is the header of a request for an upgrade (RFC 8441).
func webSocket(protocol string) [][2]string {
	return [][2]string{field(":method", "CONNECT"), field(":protocol", protocol), field(":scheme", "http"), field(":path", "/a"), field(":authority", "x")}
}

// TestWebSocketOverHTTP2 talks in both directions.
func TestWebSocketOverHTTP2(t *testing.T) {
	t.Parallel()
	upgrade := func(w http.ResponseWriter, r *http.Request) {
		key := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455 wants it
		conn, stream, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close() //nolint:errcheck // the end of the test
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: "+
			base64.StdEncoding.EncodeToString(key[:])+"\r\n\r\n")
		line, _ := stream.ReadString('\n')
		_, _ = io.WriteString(conn, "echo "+line)
	}
	for _, policy := range []string{"", limited} {
		g := startBackends(t, "", policy, "", serve(t, upgrade, nil))
		conn := dial(t, g.ports[80])
		_, _ = io.WriteString(conn, preface+frame(frameSettings, 0, "")+frame(frameHeaders, flagEndHeaders, fields(webSocket("websocket")...)))
		if !answered(t, conn) {
			t.Fatalf("%q: the upgrade failed", policy)
		}
		_, _ = io.WriteString(conn, frame(frameData, 0, "hello\n"))
		reader := bufio.NewReader(conn)
		if got, err := reader.ReadString('\n'); !strings.HasSuffix(got, "echo hello\n") {
			t.Errorf("%q: got %q: %v", policy, got, err)
		}
	}
}
