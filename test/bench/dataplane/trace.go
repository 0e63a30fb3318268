package main

import (
	"context"
	"fmt"
	"net"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/ring"
)

const (
	// maxTraceCost is how much CPU time a Gateway may take that tells once a second what requests are under way,
	// compared with one that does not.
	maxTraceCost = 1.05
	// hanging is how many requests get no answer.
	hanging = 200
	silent  = "silent.example.com"
)

// traceSubjects returns the same Gateway without and with the questions of "kubectl gateway trace", and while it hands
// over the lines of one of ten routes. A Service that takes requests and never answers is the last one.
func traceSubjects(site *site) ([]*subject, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("failed to listen: %w", err)
	}
	site.listeners = append(site.listeners, listener) // nobody accepts: the kernel does
	site.servers = append(site.servers, []ir.Server{{Address: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)}})
	spec := appv1.GatewaySpec{Routes: append(plainRoutes(10, 1, services), appv1.Route{
		Name: "silent", Hostnames: []appv1.Hostname{silent}, Rules: []appv1.RouteRule{{BackendRefs: []appv1.BackendRef{{Name: service(services), Port: 80}}}},
	})}
	without := &subject{name: "Gateway", baseline: "Gateway", proxy: gateway("silent", spec, ""), protocol: plain, requests: requestsFor(10, 1), hangs: hanging}
	asked, watched := *without, *without
	asked.name, asked.asks = "Gateway, traced", true
	watched.name, watched.watches = "Gateway, a tenth of the requests is handed over", true
	return []*subject{without, &asked, &watched}, nil
}

// hang sends requests that get no answer, and returns their connections when HAProxy has them all.
func (s *subject) hang(site *site) (all []net.Conn, err error) {
	for range s.hangs {
		conn, err := net.Dial("tcp", address(site.running[s.proxy.name].ports[0]))
		if err != nil {
			return all, fmt.Errorf("failed to connect: %w", err)
		}
		all = append(all, conn)
		if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", silent); err != nil {
			return all, fmt.Errorf("failed to send: %w", err)
		}
	}
	for count := 0; count < s.hangs; {
		if count, err = s.underWay(); err != nil {
			return all, err
		}
	}
	return all, nil
}

// ask asks for the requests under way as the agent does, while requests are sent.
func (s *subject) ask() <-chan error {
	asked := make(chan error, 1)
	if !s.asks {
		asked <- nil
		return asked
	}
	go func() {
		count, err := s.underWay()
		if err == nil && count < s.hangs {
			err = fmt.Errorf("HAProxy tells %d requests, and %d hang", count, s.hangs)
		}
		asked <- err
	}()
	return asked
}

// underWay returns how many requests are under way.
func (s *subject) underWay() (int, error) {
	requests, err := runtime.NewWorker(ir.Paths{RunDir: s.dir}.WorkerSocket()).UnderWay(context.Background(), 0)
	return len(requests), err
}

// watch has HAProxy hand over the access log's lines about routes, and about no others. They are read, and not parsed.
func (s *subject) watch(routes ...ir.MapEntry) error {
	paths := ir.Paths{RunDir: s.dir}
	if !s.watches {
		return nil
	}
	if s.watching == nil {
		var err error
		if s.watching, err = net.Listen("unix", paths.WatchedSocket()); err != nil {
			return fmt.Errorf("failed to listen: %w", err)
		}
		go ring.Serve(context.Background(), s.watching, "lines", func() func([]byte) { return func([]byte) {} })
	}
	return runtime.NewWorker(paths.WorkerSocket()).ReplaceMap(context.Background(), ir.WatchedMap, routes)
}

// checkTrace returns an error if questions cost more than they may.
func checkTrace(subjects []*subject) error {
	if cost := quantile(subjects[1].ratios(subjects[0]), 0.5); cost > maxTraceCost {
		return fmt.Errorf("a trace costs %.2f, more than %.2f", cost, maxTraceCost)
	}
	return nil
}
