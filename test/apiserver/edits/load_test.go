package edits

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"gateway/internal/routing/routingtest"
)

// answer is a response, with its body read.
type answer struct {
	// Last reports whether HAProxy wants no more requests on the connection.
	Last   bool
	Status int
	Header http.Header
	Body   string
}

// client sends requests over connections that it keeps as long as HAProxy does, or over new ones. It sends nothing a
// second time.
type client struct {
	dial func() (net.Conn, error)
	once bool
	// since is what was live when the connection was opened, or the request before was answered.
	since  *state
	conn   net.Conn
	reader *bufio.Reader
}

func (c *client) send(request string) (answer, error) {
	if c.conn == nil {
		conn, err := c.dial()
		if err != nil {
			return answer{}, err
		}
		c.conn, c.reader = conn, bufio.NewReader(conn)
	}
	_ = c.conn.SetDeadline(time.Now().Add(timeout))
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
	if err != nil || response.Close || c.once {
		c.close()
	}
	return answer{Last: response.Close, Status: response.StatusCode, Header: response.Header, Body: string(body)}, err
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// pace is how often each sender sends a request.
const pace = 20 * time.Millisecond

// load sends requests until the returned function is called.
func (s *site) load() (stop func()) {
	ctx, cancel := context.WithCancel(s.t.Context())
	var group sync.WaitGroup
	senders := uint64(0)
	config := &tls.Config{RootCAs: s.authority.Pool(), ServerName: "tls.test"}
	secure := func(int32) (net.Conn, error) {
		return (&tls.Dialer{Config: config}).Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.https))
	}
	plain := func(port int32) (net.Conn, error) { return net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)) }
	start := func(ports [2]int32, once bool, dial func(port int32) (net.Conn, error)) {
		senders++
		g := &routingtest.Generator{Rand: rand.New(rand.NewPCG(s.g.Seed, senders)), Namespace: namespace}
		clients := map[int32]*client{}
		for _, port := range ports {
			clients[port] = &client{once: once, dial: func() (net.Conn, error) { return dial(port) }}
		}
		group.Go(func() { s.send(ctx, g, ports, clients) })
	}
	start(s.http, false, plain)
	start(s.http, true, plain)
	start([2]int32{s.fixed, s.http[0]}, false, plain)
	start([2]int32{s.https, s.https}, false, secure)
	start([2]int32{s.https, s.https}, true, secure)
	stop = sync.OnceFunc(func() {
		cancel()
		group.Wait()
	})
	s.t.Cleanup(stop)
	return stop
}

func (s *site) send(ctx context.Context, g *routingtest.Generator, ports [2]int32, clients map[int32]*client) {
	tick := time.NewTicker(pace)
	defer tick.Stop()
	defer func() {
		for _, c := range clients {
			c.close()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		live := s.live.Load()
		about := live
		if next := live.next.Load(); next != nil && g.IntN(2) == 0 {
			about = next
		}
		r := g.Request(about.spec, ports)
		if r.Port == s.https && strings.Contains(r.Bytes, "http://") {
			continue // the scheme is another
		}
		c := clients[r.Port]
		if c.conn == nil {
			c.since = live
		}
		got, err := c.send(r.Bytes)
		from := live
		if got.Last {
			// It may be of an old worker, which closes a connection that was idle after its next answer.
			from = c.since
		}
		c.since = s.live.Load()
		if err != nil {
			c.close()
			s.t.Errorf("request %q to port %d: %v", r.Bytes, r.Port, err)
		} else if message := from.judge(r, got); message != "" {
			s.t.Errorf("request %q to port %d: %s", r.Bytes, r.Port, message)
		}
		s.mu.Lock()
		s.statuses[got.Status]++
		s.mu.Unlock()
	}
}
