// Package server answers HAProxy's questions about requests.
package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/internal/logging"
	"gateway/internal/turns"
	"gateway/internal/waf"
)

const (
	// readTime is how long a question may take to come, and an answer to go, waitTime how long a question may wait for
	// its turn. HAProxy waits longer.
	readTime = 2 * time.Second
	waitTime = 2 * time.Second
	// mostAtOnce is how many requests are looked at at a time, at most. Each may take some MiB. mostWaiting is how many
	// wait for their turn. Namespaces take turns, and in each its clients. One has three quarters of those at a time.
	mostAtOnce, mostWaiting = 32, 512
	// mostConnections is how many connections there may be. HAProxy has one for each question, and keeps some.
	mostConnections = 2048
	// maxQuestion is the longest request: HAProxy lets no more headers through than half of its buffer has.
	maxQuestion = waf.MaxBody + 256<<10
)

// Judge returns the verdict about a request.
type Judge func(settings waf.Settings, request *engine.Request) (engine.Verdict, error)

// Server answers questions.
type Server struct {
	judge Judge
	turns *turns.Queue
}

// New returns a Server that asks a judge.
func New(judge Judge) *Server {
	atOnce := min(4*runtime.GOMAXPROCS(0), mostAtOnce)
	return &Server{judge, turns.New(atOnce, atOnce*3/4, mostWaiting)}
}

// Serve answers questions until ctx ends.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var connections sync.WaitGroup
	defer connections.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	room := make(chan struct{}, mostConnections)
	for {
		conn, err := listener.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("failed to answer questions about requests: %w", err)
		}
		select {
		case room <- struct{}{}:
			connections.Go(func() {
				defer func() { <-room }()
				s.converse(ctx, conn)
			})
		default:
			_ = conn.Close()
		}
	}
}

// failed is the answer to a question that nobody can decide about. Without an answer, HAProxy would ask again over each
// connection that it has kept.
const failed = "failed"

// converse answers the questions of a connection. It ends with the first that nobody can decide about: HAProxy refuses
// the request then.
func (s *Server) converse(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReaderSize(conn, 16<<10)
	for {
		if _, err := reader.Peek(1); err != nil {
			return // HAProxy closed the connection
		}
		if err := conn.SetDeadline(time.Now().Add(readTime)); err != nil {
			return
		}
		number, settings, text, err := read(reader)
		if err != nil {
			logging.Warningf("A question cannot be read: %v", err)
			return
		}
		answer, decideErr := s.decide(ctx, settings, text)
		if decideErr != nil {
			logging.Warningf("A request cannot be decided about: %v", decideErr)
			answer = failed
		}
		// No deadline for the next question: HAProxy keeps connections.
		err = conn.SetDeadline(time.Now().Add(idleTime))
		if err == nil {
			_, err = fmt.Fprintf(conn, "%d %s\n", number, answer)
		}
		if err != nil || decideErr != nil {
			return
		}
	}
}

// decide returns the answer to a question: a verdict, and what to log about it.
func (s *Server) decide(ctx context.Context, settings waf.Settings, text []byte) (answer string, err error) {
	team, request, err := parse(text)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	client := turns.Client{Team: team, Name: turnOf(request.Client)}
	if !s.turns.Enter(ctx, client) {
		return "", errors.New("too many requests are being looked at")
	}
	defer s.turns.Leave(client)
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	verdict, err := s.judge(settings, request)
	if err != nil {
		return "", err
	}
	log, err := json.Marshal(verdict)
	if err != nil {
		return "", err
	}
	word := waf.Allow
	if verdict.Denied {
		word = waf.Deny
	}
	return fmt.Sprintf("%s %s", word, log), nil
}

// turnOf returns whose turn the requests of a client take: IPv6 clients have networks of 64 bits.
func turnOf(client string) string {
	address, err := netip.ParseAddr(client)
	if err != nil || address.Is4() {
		return client
	}
	return netip.PrefixFrom(address, 64).Masked().String()
}

// idleTime is how long a connection is kept without a question.
const idleTime = 2 * time.Minute

// read reads a question, whose number the answer has, too:
//
//	SIZE NUMBER SETTINGS
//	as many bytes
func read(reader *bufio.Reader) (number int, settings waf.Settings, text []byte, err error) {
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return 0, settings, nil, err
	}
	words := strings.Split(string(line[:len(line)-1]), " ")
	if len(words) != 3 {
		return 0, settings, nil, errors.New("it has no settings")
	}
	n, err := strconv.Atoi(words[0])
	if err != nil || n < 0 || n > maxQuestion {
		return 0, settings, nil, errors.New("it has no valid size")
	}
	if number, err = strconv.Atoi(words[1]); err != nil {
		return 0, settings, nil, errors.New("it has no valid number")
	}
	if settings, err = waf.ParseQuestion(words[2]); err != nil {
		return 0, settings, nil, fmt.Errorf("it has no valid settings: %w", err)
	}
	text = make([]byte, n)
	_, err = io.ReadFull(reader, text)
	return number, settings, text, err
}

// parse returns the request of a question, and the namespace of its rule, "" if that is the Gateway's:
//
//	CLIENT TEAM METHOD VERSION URI
//	NAME: VALUE
//	...
//
//	BODY
//
// Lines end as in HTTP. HAProxy lets no line break into any of them, and spaces only into values.
func parse(text []byte) (team string, request *engine.Request, err error) {
	head, body, found := bytes.Cut(text, []byte("\r\n\r\n"))
	lines := strings.Split(string(head), "\r\n")
	first := strings.Split(lines[0], " ")
	if !found || len(first) != 5 {
		return "", nil, errors.New("the question has no request")
	}
	request = &engine.Request{Client: first[0], Method: first[2], Version: first[3], URI: first[4], Body: body}
	for _, line := range lines[1:] {
		name, value, found := strings.Cut(line, ": ")
		if !found || name == "" {
			return "", nil, errors.New("the question has a header without a name")
		}
		request.Headers = append(request.Headers, engine.Header{Name: name, Value: value})
	}
	return strings.TrimPrefix(first[1], "-"), request, nil
}
