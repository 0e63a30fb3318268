package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	// exchangeTimeout bounds one command and its answer. HAProxy answers in under a millisecond; the largest map swap
	// seen took 28 ms.
	exchangeTimeout = 5 * time.Second
	// maxReply bounds what is read of an answer, so that a confused peer cannot fill the memory.
	maxReply = 1 << 20
	// maxCommand is how long a command may be, without its payload. HAProxy has to hold it in one buffer (tune.bufsize,
	// at least 16384) and does not say so when it cannot.
	maxCommand = 15 << 10
	// maxPayload is the same for a payload, which HAProxy keeps elsewhere (tune.cli.max-payload-size).
	maxPayload = 127 << 10
)

// errNoAnswer means that HAProxy took a command and closed the connection without an answer.
var errNoAnswer = errors.New("closed the connection without an answer")

// exchange sends one command and returns the whole answer, without the line breaks around it, within exchangeTimeout.
//
// HAProxy's management guide, section 9.3: "The non-interactive mode is the default when socat connects to the socket.
// In this mode, a single line may be sent. It is processed as a whole, responses are sent back, and the connection
// closes after the end of the response." A command that has nothing to say answers with an empty line, so no byte at
// all means that it was not carried out. The master keeps the connection open for more commands until our side of it is
// closed.
func exchange(ctx context.Context, socket, command string) (string, error) {
	line, payload, _ := strings.Cut(command, "\n")
	if len(line) >= maxCommand || len(payload) > maxPayload+len("\n\n") {
		return "", fmt.Errorf("command of %d bytes with a payload of %d is longer than HAProxy's buffers", len(line), len(payload))
	}
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	reply, err := roundTrip(ctx, socket, command)
	if err != nil {
		return "", err
	}
	if reply == "" {
		return "", errNoAnswer
	}
	return strings.Trim(reply, "\n"), nil
}

// roundTrip sends the command, closes the sending side and returns every byte until the other side closes too.
func roundTrip(ctx context.Context, socket, command string) (string, error) {
	var reply []byte
	err := converse(ctx, socket, command, func(answer io.Reader) (err error) {
		reply, err = io.ReadAll(io.LimitReader(answer, maxReply))
		return err
	})
	return string(reply), err
}

// converse sends the command, closes the sending side and passes the answer to read. The answer ends when the other
// side closes too. The context limits the time.
func converse(ctx context.Context, socket, command string, read func(answer io.Reader) error) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is lost with a connection that was read to its end or given up
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := io.WriteString(conn, command); err != nil {
		return withCause(ctx, err)
	}
	// HAProxy gives up a payload that is longer than its buffer when it sees the end of what we send.
	if !strings.Contains(command, " <<\n") {
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
			return withCause(ctx, err)
		}
	}
	if err := read(conn); err != nil {
		return withCause(ctx, err)
	}
	return nil
}

// withCause prefers the reason why the context ended to the resulting I/O error.
func withCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// isWord reports whether s can stand in a command as one argument. The command line splits at spaces and semicolons,
// and interprets backslashes. Quotation marks are as good as letters to it; single quotes are not wanted.
func isWord(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`;\'#`, r)
	})
}
