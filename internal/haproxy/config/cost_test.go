package config_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gateway/internal/haproxy/config"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/routing"
)

// BenchmarkRequest measures what a request costs HAProxy, in microseconds of its CPU: with few routes, with many, and
// with rules that look nothing up, for comparison. The backends have no endpoints, so what is measured is routing and an
// answer of 503. Requests alternate between the three, so that a busy machine disturbs them alike.
func BenchmarkRequest(b *testing.B) {
	subjects := []*subject{
		newSubject(b, "none", 10, withoutLookups),
		newSubject(b, "10-routes", 10, nil),
		newSubject(b, "3000-routes", 3000, nil),
	}
	i := 0
	for b.Loop() {
		i++
		for _, s := range subjects {
			if got := s.client.send(get(fmt.Sprintf("host-%d.example.com", i%s.routes), "/some/path")); got.Status != 503 {
				b.Fatalf("%s: got %d", s.name, got.Status)
			}
		}
	}
	for _, s := range subjects {
		// A tick is 10 ms on every Linux that matters.
		b.ReportMetric(float64(cpuTicks(b, s.worker)-s.before)*10_000/float64(i), s.name+"-us/op")
	}
}

// subject is a HAProxy that is measured.
type subject struct {
	name   string
	routes int
	client *client
	// worker is the process id of the worker, before the CPU time it had used before the first request.
	worker string
	before int
}

func newSubject(b *testing.B, name string, routes int, change func(skeleton string) string) *subject {
	b.Helper()
	in := bigInput(routes)
	port := haproxytest.FreePort(b)
	in.Table.Listeners[0].Port = port
	in.Paths = haproxytest.NewPaths(b)
	in.Bind = config.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: haproxytest.FreePort(b)}
	for backend := range in.Backends {
		in.Backends[backend] = config.BackendState{Exists: true}
	}
	in.Backends[routing.Backend{Service: "canary", Port: 80}] = config.BackendState{Exists: true}
	rendered := config.Render(in)
	if change != nil {
		rendered.Skeleton = change(rendered.Skeleton)
	}
	h := haproxytest.Start(b, in.Paths, rendered.Files("x"))
	worker := workerPID(b, h)
	return &subject{name: name, routes: routes, client: newClient(b, port), worker: worker, before: cpuTicks(b, worker)}
}

// withoutLookups returns a skeleton without rules that use the maps or what was found there: all goes to one backend.
func withoutLookups(skeleton string) string {
	var kept strings.Builder
	for line := range strings.Lines(skeleton) {
		lookup := slices.ContainsFunc([]string{"map_", "txn.hit", "txn.torn", "txn.target", "txn.node", "txn.facts"}, func(s string) bool { return strings.Contains(line, s) })
		if !lookup || strings.Contains(line, "log-format") {
			kept.WriteString(strings.Replace(line, "default_backend 404", "default_backend service-1_80", 1))
		}
	}
	return kept.String()
}

func workerPID(b *testing.B, h *haproxytest.Instance) string {
	b.Helper()
	for line := range strings.Lines(h.Worker("show info")) {
		if pid, ok := strings.CutPrefix(line, "Pid: "); ok {
			return strings.TrimSpace(pid)
		}
	}
	b.Fatal("show info has no Pid")
	return ""
}

// cpuTicks returns the CPU time a process used.
func cpuTicks(b *testing.B, pid string) int {
	b.Helper()
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		b.Fatalf("failed to read the CPU time: %v", err)
	}
	// The name, in parentheses, may have spaces; utime and stime are the 12th and 13th field after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return user + system
}
