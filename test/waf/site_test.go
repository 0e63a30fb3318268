// Package waf_test sends requests through HAProxy with the filter WAF, which asks gateway-waf.
package waf_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/routing"
	"gateway/internal/testbuild"
	"gateway/test/internal/testenv"
)

// site is a HAProxy whose routes have the filter WAF, the gateway-waf that it asks, and a backend.
type site struct {
	t    testing.TB
	port int32
	*haproxytest.Instance
	// socket is where gateway-waf answers, rules has the rules of users, waf is it.
	socket string
	rules  *certtest.Volume
	waf    *testenv.Program
	// got has each request that the backend gets.
	got chan string
}

// start runs a site for a world with a listener at port 80 and the Service web.
func start(t testing.TB, world string) *site {
	t.Helper()
	s := &site{t: t, port: haproxytest.FreePort(t), rules: certtest.NewVolume(t), got: make(chan string, 1000)}
	w := rendertest.Parse(t, strings.ReplaceAll(world, "port: 80,", fmt.Sprintf("port: %d,", s.port)))
	in := w.Input(t)
	in.Bind = render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: haproxytest.FreePort(t)}
	in.Paths = haproxytest.NewPaths(t)
	s.socket = filepath.Join(in.Paths.RunDir, "waf.sock")
	in.Paths.WAFSocket = s.socket
	in.Backends[routing.Backend{Service: "web", Port: 80}] = render.BackendState{Exists: true, Servers: []ir.Server{s.backend()}}
	s.Instance = haproxytest.Start(t, in.Paths, haproxytest.ShowMatches(render.Render(in).AllFiles()))
	s.startWAF()
	return s
}

// startWAF starts the program, and waits until it answers.
func (s *site) startWAF() {
	s.t.Helper()
	s.waf = testenv.Start(s.t, nil, testbuild.Program(s.t, "cmd/gateway-waf"), "-logtostderr", "-socket="+s.socket, "-rules-dir="+s.rules.Dir)
	testenv.Eventually(s.t, 30*time.Second, "gateway-waf to listen", func(context.Context) error {
		conn, err := net.Dial("unix", s.socket)
		if err == nil {
			_ = conn.Close()
		}
		return errors.Join(err, s.waf.Running())
	})
}

// backend answers 200 to all requests.
func (s *site) backend() ir.Server {
	s.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain/busy" {
			for begin := time.Now(); time.Since(begin) < 800*time.Microsecond; {
			}
		}
		var text strings.Builder
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(&text, "%s %s\n", r.Method, r.RequestURI)
		_ = r.Header.Write(&text)
		fmt.Fprintf(&text, "\n%s%v", body, map[bool]any{true: "", false: err}[err == nil])
		s.got <- text.String()
	}))
	s.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	address := must.Get(url.Parse(server.URL))(s.t)
	port := must.Get(strconv.Atoi(address.Port()))(s.t)
	return ir.Server{Address: "127.0.0.1", Port: int32(port)}
}

// client is a connection for one request after the other.
type client struct {
	conn   net.Conn
	reader *bufio.Reader
}

func (s *site) connect() *client {
	s.t.Helper()
	conn := must.Get(net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.port)))(s.t)
	s.t.Cleanup(func() { _ = conn.Close() })
	return &client{conn, bufio.NewReader(conn)}
}

// send sends requests as they are, on connections of their own, and returns the status of the last answer.
func (s *site) send(request string) int {
	s.t.Helper()
	status, err := s.connect().send(request)
	if err != nil {
		s.t.Fatalf("failed to send %.200q: %v", request, err)
	}
	return status
}

func (c *client) send(request string) (int, error) {
	if err := c.conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(c.conn, request); err != nil {
		return 0, err
	}
	for {
		status, err := c.read(request)
		if status != http.StatusContinue || err != nil {
			return status, err
		}
	}
}

// read reads an answer to a request, and returns its status.
func (c *client) read(request string) (int, error) {
	method, _, _ := strings.Cut(request, " ")
	response, err := http.ReadResponse(c.reader, &http.Request{Method: method})
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}
