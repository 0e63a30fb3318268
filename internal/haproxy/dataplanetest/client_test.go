package dataplanetest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/must"
)

// answerTimeout bounds how long a client waits, so that a test which hangs fails and says where.
const answerTimeout = time.Minute

// client sends requests to one port, byte for byte, over a connection it keeps as long as HAProxy does.
type client struct {
	t      testing.TB
	port   int32
	conn   net.Conn
	reader *bufio.Reader
}

// answer is a response, with its body read.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

func newClient(t testing.TB, port int32) *client {
	t.Helper()
	c := &client{t: t, port: port}
	t.Cleanup(c.close)
	return c
}

// newClientFrom returns a client with another of this machine's addresses.
func newClientFrom(t testing.TB, address string, port int32) *client {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	conn := must.Get(dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)))(t)
	c := newClient(t, port)
	c.conn, c.reader = conn, bufio.NewReader(conn)
	return c
}

// send sends the bytes of one request and returns the answer to it.
func (c *client) send(request string) answer {
	c.t.Helper()
	got, err := c.try(request)
	if err != nil {
		c.t.Fatalf("failed to send %q to port %d: %v", request, c.port, err)
	}
	return got
}

func (c *client) try(request string) (answer, error) {
	if c.conn == nil {
		conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(c.port))))
		if err != nil {
			return answer{}, err
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	if err := c.conn.SetDeadline(time.Now().Add(15 * time.Second)); err != nil {
		return answer{}, err
	}
	if _, err := io.WriteString(c.conn, request); err != nil {
		return answer{}, err
	}
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(c.reader, &http.Request{Method: method})
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return answer{}, err
	}
	if response.Close {
		c.close()
	}
	return answer{Status: response.StatusCode, Header: response.Header, Body: string(body)}, nil
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// get returns a request for a host and path.
func get(host, path string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host)
}

// startServer starts an HTTP server that answers every request with its own name in the header Backend and what it
// received in the body.
func startServer(t testing.TB, name string) ir.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Backend", name)
		_, _ = fmt.Fprintf(w, "%s %s\nHost: %s\n", r.Method, r.RequestURI, r.Host)
		_ = r.Header.Write(w)
	}))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatalf("failed to parse the server's URL: %v", err)
	}
	port, err := strconv.Atoi(address.Port())
	if err != nil {
		t.Fatalf("failed to parse the server's port: %v", err)
	}
	return ir.Server{Address: "127.0.0.1", Port: int32(port)}
}
