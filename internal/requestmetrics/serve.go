package requestmetrics

import (
	"bytes"
	"context"
	"net"
	"strconv"

	"gateway/internal/ring"
)

// Serve takes in the lines of HAProxy's workers until ctx ends.
func (c *Collector) Serve(ctx context.Context, listener net.Listener) {
	ring.Serve(ctx, listener, "histograms of requests", c.connected)
}

// connected returns what takes in the lines of a worker.
func (c *Collector) connected() func(line []byte) {
	numbers := map[string]*ring.Counter{}
	return func(line []byte) { c.take(line, numbers) }
}

// take takes in a line. numbers are the numbers of the lines so far, by frontend.
func (c *Collector) take(line []byte, numbers map[string]*ring.Counter) {
	frontend, rest, _ := bytes.Cut(line, []byte(" "))
	text, rest, isRequest := bytes.Cut(rest, []byte(" "))
	n, ok := number(text)
	if !ok {
		return
	}
	counter := numbers[string(frontend)]
	if counter == nil {
		counter = &ring.Counter{}
		numbers[string(frontend)] = counter
	}
	c.lost.Add(float64(counter.Lost(n)))
	if r, ok := parse(rest); isRequest && ok {
		c.observe(r)
	}
}

// request is what a line says about a request. Times are in milliseconds, -1 for what did not happen.
type request struct {
	status, duration, response, received, sent int64
	// trace is the ID of its trace, if it was sampled.
	trace       []byte
	route, rule []byte
	// key is the part of the line with the route and the rule, behind the class of the status.
	key []byte
}

// parse reads a line like
//
//	200 12 11 345 6789 01 0af7651916cd43dd8448eb211c80319c shop/web 0
//
// Between the numbers and the route are the flags of the trace, "-" if the request was not sampled, and its ID.
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
	flags, line, _ := bytes.Cut(line, []byte(" "))
	trace, line, _ := bytes.Cut(line, []byte(" "))
	if named(flags) != nil {
		r.trace = trace
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
