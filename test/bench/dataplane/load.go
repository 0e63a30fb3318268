package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/time/rate"
)

// protocol is how clients talk to a proxy.
type protocol string

const (
	plain protocol = "HTTP"
	https protocol = "HTTPS"
	h2    protocol = "HTTP/2"
)

// request is a GET of a path at a host, with the header lines that all have and perhaps more. With a body, it is a
// POST.
type request struct {
	host, path string
	headers    []string
	body       string
	// complete reports whether headers are all that it has.
	complete bool
}

// lines are the headers, of which one of a request replaces the usual one.
func (r request) lines() []string {
	if r.complete {
		return r.headers
	}
	var all []string
	for _, line := range usual {
		name, _, _ := strings.Cut(line, ":")
		if !slices.ContainsFunc(r.headers, func(own string) bool { return strings.HasPrefix(own, name+":") }) {
			all = append(all, line)
		}
	}
	return append(all, r.headers...)
}

// usual are the header lines of every request: about what a browser sends.
var usual = []string{
	"User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
	"Accept-Language: en-US,en;q=0.5",
	"Accept-Encoding: gzip, deflate, br, zstd",
	"Cookie: session=0123456789abcdef0123456789abcdef",
}

// load sends requests over connections that stay open, on each one after the other.
type load struct {
	requests    []request
	texts       [][]byte
	protocol    protocol
	port        int
	connections int
	// pace is when requests may be sent.
	pace *rate.Limiter
	// next is the number of the next request.
	next atomic.Int64
}

// limit is how long a client waits for an answer: one that comes much too late is a failure, not a high figure.
const limit = 5 * time.Second

// client is a connection, or a share of one with HTTP/2. send sends request number i and returns when it has the
// answer.
type client struct {
	send  func(i int64) error
	close func() error
}

func newLoad(proto protocol, port int, o options, requests []request) *load {
	l := &load{requests: requests, protocol: proto, port: port, connections: o.connections, pace: rate.NewLimiter(rate.Every(o.every), 1)}
	for _, r := range requests {
		method := "GET "
		if r.body != "" {
			method = "POST "
		}
		lines := append([]string{method + r.path + " HTTP/1.1", "Host: " + r.host}, r.lines()...)
		l.texts = append(l.texts, []byte(strings.Join(lines, "\r\n")+"\r\n\r\n"+r.body))
	}
	return l
}

// connect opens the connections. They are for one turn: until the next one, a proxy would close them.
func (l *load) connect() ([]client, error) {
	var clients []client
	for len(clients) < l.connections {
		conn, err := dial(l.protocol, l.port)
		if err != nil {
			return clients, fmt.Errorf("failed to connect: %w", err)
		}
		if l.protocol != h2 {
			clients = append(clients, l.clientHTTP1(conn))
			continue
		}
		c, err := l.clientHTTP2(conn)
		if err != nil {
			return clients, err
		}
		// Four requests at once on each connection.
		clients = append(clients, c, c, c, c)
	}
	return clients, nil
}

func (l *load) clientHTTP1(conn net.Conn) client {
	reader := bufio.NewReader(conn)
	send := func(i int64) error {
		if err := conn.SetDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		n := i % int64(len(l.texts))
		if _, err := conn.Write(l.texts[n]); err != nil {
			return err
		}
		return readAnswer(reader, l.requests[n].path == textPath)
	}
	return client{send: send, close: conn.Close}
}

func dial(proto protocol, port int) (net.Conn, error) {
	if proto == plain {
		return net.Dial("tcp", address(port))
	}
	settings := &tls.Config{InsecureSkipVerify: true, ServerName: hostname(0), MinVersion: tls.VersionTLS13}
	if proto == h2 {
		settings.NextProtos = []string{"h2"}
	}
	return tls.Dial("tcp", address(port), settings)
}

// readAnswer reads an answer that has to be that of a backend, and compressed or not.
func readAnswer(reader *bufio.Reader, compressed bool) error {
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return err
	}
	if !bytes.HasPrefix(line, []byte("HTTP/1.1 200 ")) {
		return fmt.Errorf("the answer is %q", line)
	}
	isCompressed := false
	for len(bytes.TrimSpace(line)) > 0 {
		if line, err = reader.ReadSlice('\n'); err != nil {
			return err
		}
		isCompressed = isCompressed || bytes.EqualFold(line, []byte("Content-Encoding: gzip\r\n"))
	}
	if isCompressed != compressed {
		return fmt.Errorf("the answer is compressed: %t", isCompressed)
	}
	if !compressed {
		_, err = reader.Discard(len(body))
		return err
	}
	// The text, and the empty line after it.
	_, err = io.Copy(io.Discard, httputil.NewChunkedReader(reader))
	if err == nil {
		_, err = reader.Discard(2)
	}
	return err
}

func (l *load) clientHTTP2(conn net.Conn) (client, error) {
	connection, err := (&http2.Transport{DisableCompression: true}).NewClientConn(conn) //nolint:staticcheck // one of net/http cannot be given a connection
	if err != nil {
		return client{}, fmt.Errorf("failed to connect: %w", err)
	}
	send := func(i int64) error {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		r := l.requests[i%int64(len(l.requests))]
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.host+r.path, nil)
		if err != nil {
			return err
		}
		for _, line := range r.lines() {
			name, value, _ := strings.Cut(line, ": ")
			req.Header.Set(name, value)
		}
		resp, err := connection.RoundTrip(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		got, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || string(got) != body {
			return errors.Join(fmt.Errorf("the answer is %s: %q", resp.Status, got), err)
		}
		return err
	}
	return client{send: send, close: connection.Close}, nil
}

// send sends n requests with all clients at once.
func (l *load) send(clients []client, n int) error {
	var left atomic.Int64
	left.Store(int64(n))
	failures := make([]error, len(clients))
	var wait sync.WaitGroup
	for i, client := range clients {
		wait.Go(func() {
			for failures[i] == nil && left.Add(-1) >= 0 {
				if failures[i] = l.pace.Wait(context.Background()); failures[i] == nil {
					failures[i] = client.send(l.next.Add(1))
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(failures...)
}
