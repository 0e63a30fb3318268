package faultproxy

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"gateway/internal/must"
)

// Socket passes commands on to one of HAProxy's sockets. To the agent it is HAProxy.
type Socket struct {
	target   string
	mu       sync.Mutex
	fault    SocketFault
	commands []string
}

// SocketFault answers a command in place of HAProxy, which answers through forward. Nil is no answer.
type SocketFault func(command string, forward func() []byte) []byte

// StartSocket listens on a path for the agent and passes on to another. It ends with the test.
func StartSocket(t *testing.T, path, target string) *Socket {
	t.Helper()
	listener := must.Get(net.Listen("unix", path))(t)
	s := &Socket{target: target}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			go s.serve(conn)
		}
	}()
	return s
}

// Set makes a fault apply to every command. Nil stands for none.
func (s *Socket) Set(fault SocketFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Hang makes commands wait for an answer until the returned function is called; they go on then.
func (s *Socket) Hang() (end func()) {
	over := make(chan struct{})
	s.Set(func(_ string, forward func() []byte) []byte {
		<-over
		return forward()
	})
	return sync.OnceFunc(func() {
		s.Set(nil)
		close(over)
	})
}

// Commands are those that came, in order.
func (s *Socket) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.commands...)
}

// serve answers one command.
func (s *Socket) serve(conn net.Conn) {
	defer conn.Close() //nolint:errcheck // there is nobody to tell
	command, err := readCommand(conn)
	if err != nil || len(command) == 0 {
		return
	}
	s.mu.Lock()
	fault := s.fault
	s.commands = append(s.commands, string(command))
	s.mu.Unlock()
	forward := func() []byte { return s.ask(command) }
	var reply []byte
	if fault == nil {
		reply = forward()
	} else {
		reply = fault(string(command), forward)
	}
	_, _ = conn.Write(reply) // the agent may be gone
}

// readCommand reads until the agent closes its side or, of a command with a payload, until the empty line that ends it:
// the agent keeps its side open then.
func readCommand(conn net.Conn) ([]byte, error) {
	var command []byte
	buffer := make([]byte, 4096)
	for !hasPayload(command) || !bytes.HasSuffix(command, []byte("\n\n")) {
		n, err := conn.Read(buffer)
		command = append(command, buffer[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	return command, nil
}

// hasPayload reports whether a command is followed by a payload (HAProxy's management guide, section 9.3).
func hasPayload(command []byte) bool { return bytes.Contains(command, []byte(" <<\n")) }

// ask returns HAProxy's answer, nil if it does not listen: the agent sees the connection end without one. While HAProxy
// loads it does not listen for a moment; the agent would try again then, but here it has been let in already.
func (s *Socket) ask(command []byte) []byte {
	conn, err := net.Dial("unix", s.target)
	for deadline := time.Now().Add(2 * time.Second); err != nil && time.Now().Before(deadline); {
		<-time.After(5 * time.Millisecond)
		conn, err = net.Dial("unix", s.target)
	}
	if err != nil {
		return nil
	}
	defer conn.Close() //nolint:errcheck // everything was read
	if _, err := conn.Write(command); err != nil {
		return nil
	}
	if !hasPayload(command) {
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
			return nil
		}
	}
	reply, _ := io.ReadAll(conn) // a master that starts anew hangs up in between
	return reply
}
