package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync/atomic"

	"gateway/internal/haproxy/ir"
)

// What every backend answers, but to requests for textPath, to which it is a long text, for cachedPath, to which it may
// be kept, and for checkPath, to which it may be kept, too, and is empty: after a body, nginx would close the
// connection of a question.
const (
	body       = "hello, world\n"
	textPath   = "/app/text"
	cachedPath = "/app/cached"
	checkPath  = "/check"
)

var (
	answer       = answerOf(body, "no-store")
	longAnswer   = answerOf(longText(), "no-store")
	cachedAnswer = answerOf(body, "max-age=60")
	emptyAnswer  = answerOf("", "max-age=60")

	lengthHeader = []byte("Content-Length:")
)

func answerOf(body, cacheControl string) []byte {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nCache-Control: %s\r\nServer: backend\r\nContent-Length: %d\r\n\r\n%s"
	return fmt.Appendf(nil, head, cacheControl, len(body), body)
}

// longText returns 20 KiB about as compressible as JSON is: lines that differ in numbers and words.
func longText() string {
	var text strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	for text.Len() < 20<<10 {
		fmt.Fprintf(&text, `{"id": %d, "name": "item %x", "price": %d.%02d, "inStock": %t}`+"\n",
			random.IntN(1e6), random.Uint32(), random.IntN(1000), random.IntN(100), random.IntN(2) == 0)
	}
	return text.String()[:20<<10]
}

const (
	services  = 10
	endpoints = 3
)

// site is what all proxies are in front of: Services, each with endpoints that do as little as they can.
type site struct {
	dir string
	// servers are those of each Service.
	servers [][]ir.Server
	// opened counts the connections that endpoints have accepted.
	opened    atomic.Int64
	listeners []net.Listener
	running   map[string]running
	nextPort  int
}

// running is a proxy that was started, its ports and its directory.
type running struct {
	process *process
	ports   [2]int
	dir     string
}

func newSite(dir string) (*site, error) {
	s := &site{dir: dir, running: map[string]running{}, nextPort: 9500}
	for i := range services {
		s.servers = append(s.servers, nil)
		for range endpoints {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return nil, fmt.Errorf("failed to listen: %w", err)
			}
			s.listeners = append(s.listeners, listener)
			s.servers[i] = append(s.servers[i], ir.Server{Address: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)})
			go s.accept(listener)
		}
	}
	return s, nil
}

func (s *site) accept(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		s.opened.Add(1)
		go serve(conn)
	}
}

// serve answers requests without bodies, and POSTs with one of a length or in chunks, until the other side closes.
func serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	next, hasBody, length := answer, false, 0
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return
		}
		switch {
		case bytes.HasPrefix(line, []byte("GET "+textPath+" ")):
			next = longAnswer
		case bytes.HasPrefix(line, []byte("GET "+checkPath+" ")):
			next = emptyAnswer
		case bytes.HasPrefix(line, []byte("GET "+cachedPath+" ")):
			next = cachedAnswer
		case bytes.HasPrefix(line, []byte("POST ")):
			hasBody = true
		case len(line) > len(lengthHeader) && bytes.EqualFold(line[:len(lengthHeader)], lengthHeader):
			length, _ = strconv.Atoi(string(bytes.TrimSpace(line[len(lengthHeader):])))
			hasBody = false
		case hasBody && bytes.Equal(line, []byte("\r\n")):
			hasBody = false // An empty line is the end of the last chunk, too.
		case bytes.Equal(line, []byte("\r\n")):
			if _, err := reader.Discard(length); err != nil {
				return
			}
			if _, err := conn.Write(next); err != nil {
				return
			}
			next, length = answer, 0
		}
	}
}

// port returns a port on which nothing listens. It is below those that the kernel gives to who asks for any.
func (s *site) port() (int, error) {
	for ; s.nextPort < 10_000; s.nextPort++ {
		listener, err := net.Listen("tcp", address(s.nextPort))
		if err == nil {
			_ = listener.Close()
			s.nextPort++
			return s.nextPort - 1, nil
		}
	}
	return 0, errors.New("no port is free")
}

// twoPorts returns those for HTTP and for HTTPS.
func (s *site) twoPorts() (ports [2]int, err error) {
	for i := range ports {
		if ports[i], err = s.port(); err != nil {
			return ports, err
		}
	}
	return ports, nil
}

func (s *site) stop() {
	for _, r := range s.running {
		r.process.stop()
	}
	for _, listener := range s.listeners {
		_ = listener.Close()
	}
}
