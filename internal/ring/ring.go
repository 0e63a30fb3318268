// Package ring takes the lines that HAProxy writes into a ring, and sends over a Unix socket.
package ring

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"gateway/internal/logging"
)

// maxLine is more than HAProxy sends at once.
const maxLine = 1 << 15

// reordered is how many numbers of lines may be missing because threads of HAProxy have taken turns.
const reordered = 64

// Serve takes connections of HAProxy's workers until ctx ends. For each, connected returns what takes its lines. A line
// is no longer valid when it returns. purpose is what waits for HAProxy while a connection is broken.
func Serve(ctx context.Context, listener net.Listener, purpose string, connected func() func(line []byte)) {
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		go func() {
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			defer func() { _ = conn.Close() }()
			if err := Read(conn, connected()); err != nil && ctx.Err() == nil {
				logging.Warningf("There are no %s until HAProxy connects again: %v", purpose, err)
			}
		}()
	}
}

// Read takes the lines of a worker, each after its length (RFC 6587, 3.4.1).
func Read(from io.Reader, take func(line []byte)) error {
	reader := bufio.NewReaderSize(from, 2*maxLine)
	for {
		prefix, err := reader.ReadSlice(' ')
		if errors.Is(err, io.EOF) && len(prefix) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("failed to read the length of a line: %w", err)
		}
		length, err := strconv.ParseInt(string(prefix[:len(prefix)-1]), 10, 64)
		if err != nil || length < 0 || length > maxLine {
			return fmt.Errorf("%q is not the length of a line", prefix)
		}
		line, err := reader.Peek(int(length))
		if err != nil {
			return fmt.Errorf("failed to read a line: %w", err)
		}
		take(bytes.TrimRight(line, "\n"))
		_, _ = reader.Discard(int(length)) // which were read
	}
}

// Counter finds out how many lines are missing by their numbers.
type Counter struct {
	last int64
	seen bool
}

// Lost returns how many lines are missing before the one with a number.
func (c *Counter) Lost(number int64) int64 {
	lost := int64(0)
	if c.seen && number > c.last+reordered {
		lost = number - c.last - 1
	}
	c.last, c.seen = max(c.last, number), true
	return lost
}
