package try

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"

	"gateway/cmd/kubectl-gateway/internal/logs"
)

// tailLines is how many of HAProxy's own messages are kept.
const tailLines = 20

// accessLog prints requests as HAProxy logs them, and other messages between them. It is HAProxy's standard output.
type accessLog struct {
	mu  sync.Mutex
	out io.Writer
	// partial is the beginning of a line.
	partial []byte
	// messages are HAProxy's last ones.
	messages []string
	// awaited are requests by their user agent.
	awaited map[string]chan logs.Access
	// quiet reports whether requests are not printed.
	quiet bool
}

func newAccessLog(out io.Writer) *accessLog {
	return &accessLog{out: out, awaited: map[string]chan logs.Access{}}
}

// Write takes what HAProxy writes.
func (l *accessLog) Write(content []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, content...)
	for {
		text, rest, complete := bytes.Cut(l.partial, []byte("\n"))
		if !complete {
			return len(content), nil
		}
		l.line(string(text))
		l.partial = rest
	}
}

func (l *accessLog) line(text string) {
	access, ok := logs.ParseAccess(text)
	if !ok && strings.HasPrefix(text, "[NOTICE]") {
		return // HAProxy writes one at each start
	}
	if !ok {
		l.messages = append(l.messages, text)
		l.messages = l.messages[max(0, len(l.messages)-tailLines):]
		return
	}
	if waiting, ok := l.awaited[access.UserAgent]; ok {
		delete(l.awaited, access.UserAgent)
		waiting <- access
	}
	if !l.quiet {
		_, _ = fmt.Fprintln(l.out, access)
	}
}

// await returns a channel for the request of a user agent, once HAProxy has logged it.
func (l *accessLog) await(userAgent string) <-chan logs.Access {
	l.mu.Lock()
	defer l.mu.Unlock()
	waiting := make(chan logs.Access, 1)
	l.awaited[userAgent] = waiting
	return waiting
}

// say prints a line.
func (l *accessLog) say(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = fmt.Fprintf(l.out, format+"\n", args...)
}

// tail returns HAProxy's last messages, in a line.
func (l *accessLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.messages, "; ")
}
