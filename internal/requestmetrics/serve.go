package requestmetrics

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
const maxLine = 4096

// reordered is how many numbers of lines may be missing because threads of HAProxy have taken turns.
const reordered = 64

// Serve takes connections of HAProxy's workers until ctx ends.
func (c *Collector) Serve(ctx context.Context, listener net.Listener) {
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
			if err := c.read(conn); err != nil && ctx.Err() == nil {
				logging.Warningf("Requests are not measured until HAProxy connects again: %v", err)
			}
		}()
	}
}

// read takes in the lines of a worker, each after its length (RFC 6587, 3.4.1).
func (c *Collector) read(from io.Reader) error {
	reader, numbers := bufio.NewReaderSize(from, 1<<16), map[string]int64{}
	for {
		prefix, err := reader.ReadSlice(' ')
		if errors.Is(err, io.EOF) && len(prefix) == 0 {
			return nil
		}
		if err != nil {
			return fmt.Errorf("failed to read the length of a line: %w", err)
		}
		length, ok := number(prefix[:len(prefix)-1])
		if !ok || length > maxLine {
			return fmt.Errorf("%q is not the length of a line", prefix)
		}
		line, err := reader.Peek(int(length))
		if err != nil {
			return fmt.Errorf("failed to read a line: %w", err)
		}
		c.take(bytes.TrimRight(line, "\n"), numbers)
		_, _ = reader.Discard(int(length)) // which were read
	}
}

// take takes in a line. numbers are the highest of the lines so far, by frontend.
func (c *Collector) take(line []byte, numbers map[string]int64) {
	frontend, rest, _ := bytes.Cut(line, []byte(" "))
	text, rest, isRequest := bytes.Cut(rest, []byte(" "))
	n, ok := number(text)
	if !ok {
		return
	}
	if last, seen := numbers[string(frontend)]; seen && n > last+reordered {
		c.lost.Add(float64(n - last - 1))
	}
	if n > numbers[string(frontend)] {
		numbers[string(frontend)] = n
	}
	if r, ok := parse(rest); isRequest && ok {
		c.observe(r)
	}
}

// request is what a line says about a request. Times are in milliseconds, -1 for what did not happen.
type request struct {
	status, duration, response, received, sent int64
	route, rule                                []byte
	// key is the part of the line with the route and the rule, behind the class of the status.
	key []byte
}

// parse reads a line like
//
//	200 12 11 345 6789 shop/web 0
func parse(line []byte) (request, bool) {
	var r request
	for _, value := range []*int64{&r.status, &r.duration, &r.response, &r.received, &r.sent} {
		field, rest, found := bytes.Cut(line, []byte(" "))
		n, ok := number(field)
		if !found || !ok {
			return r, false
		}
		*value, line = n, rest
	}
	r.key = append(strconv.AppendInt(make([]byte, 0, 64), r.status/100, 10), line...)
	route, rule, ok := bytes.Cut(line, []byte(" "))
	r.route, r.rule = named(route), named(rule)
	return r, ok
}

// named returns nothing for "-", which stands for no route.
func named(text []byte) []byte {
	if string(text) == "-" {
		return nil
	}
	return text
}

// class returns the class of the status, like 2xx.
func (r request) class() string { return strconv.FormatInt(r.status/100, 10) + "xx" }

// number reads a number as HAProxy writes it: with a plus where it may have grown since.
func number(text []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(bytes.TrimPrefix(text, []byte("+"))), 10, 64)
	return n, err == nil
}
