package dataplanetest_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	"gateway/internal/testtier"
)

var tables = flag.Int("tables", map[bool]int{false: 100, true: 500}[testtier.All], "how many random routing tables TestProperty tries")

// requestsPerTable is how many requests TestProperty sends for every table.
const requestsPerTable = 40

// TestProperty compares what real HAProxy does with what the reference matcher says it must do, for random requests to
// random routing tables.
//
// One HAProxy serves all tables: it starts with a table that has every port, backend and depth of wildcards that the
// random tables may have, so each of them is a new map and nothing more, which is also checked.
func TestProperty(t *testing.T) {
	t.Parallel()
	g := routingtest.New(t)
	universe := startGateway(t, propertyWorld())
	running := render.Render(universe.in)
	ports := [2]int32{universe.ports[80], universe.ports[81]}
	clients := map[int32]*client{ports[0]: newClient(t, ports[0]), ports[1]: newClient(t, ports[1])}
	statuses, kinds := map[int]int{}, map[string]int{}
	for table := 0; table < *tables || table < 10**tables && missed(statuses, kinds) != ""; table++ {
		spec := g.Spec(ports)
		in := universe.in
		in.Table, _ = routingtest.Compile(&spec)
		in.Backends = someExist(g, universe.in.Backends)
		change := plan.Diff(render.Render(in), running)
		if change.Reload != "" {
			t.Fatalf("table %d: a reload is wanted: %s", table, change.Reload)
		}
		universe.change(t, change, func() {})
		running = change.After
		for range requestsPerTable {
			r := g.Request(spec, ports)
			got := clients[r.Port].send(r.Bytes)
			if message := judge(in, r, got); message != "" {
				t.Fatalf("table %d, request %q to port %d: %s\n%s", table, r.Bytes, r.Port, message, describe(in.Table))
			}
			statuses[got.Status]++
			count(kinds, in, r)
		}
	}
	t.Logf("requests by status: %v, by what matched: %v", statuses, kinds)
	if what := missed(statuses, kinds); what != "" {
		t.Errorf("%s: the test does not try enough", what)
	}
}

// missed returns what TestProperty has to try more often, or "".
func missed(statuses map[int]int, kinds map[string]int) string {
	for _, kind := range []string{"exact", "prefix", "regex", "method", "header", "query", "session", "passed by"} {
		if *tables >= 100 && kinds[kind] < *tables/4 {
			return fmt.Sprintf("only %d requests matched by %s", kinds[kind], kind)
		}
	}
	for _, status := range []int{200, 400, 404, 500, 503} {
		if *tables >= 100 && statuses[status] < *tables {
			return fmt.Sprintf("only %d answers have status %d", statuses[status], status)
		}
	}
	return ""
}

// TestPropertyOfFewKinds has tables whose rules have few kinds of conditions, each with an HAProxy of its own: its
// configuration has no rules for what the table does not need.
func TestPropertyOfFewKinds(t *testing.T) {
	t.Parallel()
	g := routingtest.New(t)
	for table := range (*tables + 9) / 10 {
		w := propertyWorld()
		g.LeaveOut()
		w.Spec = g.Spec([2]int32{80, 81})
		started := startGateway(t, w)
		ports := [2]int32{started.ports[80], started.ports[81]}
		clients := map[int32]*client{ports[0]: newClient(t, ports[0]), ports[1]: newClient(t, ports[1])}
		for range requestsPerTable {
			r := g.Request(w.Spec, ports)
			if message := judge(started.in, r, clients[r.Port].send(r.Bytes)); message != "" {
				t.Fatalf("table %d, request %q to port %d: %s\n%s", table, r.Bytes, r.Port, message, describe(started.in.Table))
			}
		}
		started.Stop()
	}
}

// count counts the ways in which a request was matched, and whether it passed by an entry of its host and path.
func count(kinds map[string]int, in render.Input, r routingtest.Request) {
	r.Host, _ = routing.NormalizeHost(r.Host)
	match, ok := in.Table.Match(r.Request)
	if !ok {
		return
	}
	kinds[map[routing.PathType]string{routing.Exact: "exact", routing.Regex: "regex", routing.Prefix: "prefix"}[match.Entry.PathType]]++
	if match.Entry.Method != "" {
		kinds["method"]++
	}
	if len(match.Entry.Headers) > 0 {
		kinds["header"]++
	}
	if len(match.Entry.Query) > 0 {
		kinds["query"]++
	}
	if match.Entry.Session != "" {
		kinds["session"]++
	}
	anyMethod := routing.Request{Port: r.Port, Host: r.Host, Path: r.Path}
	if plain, ok := in.Table.Match(anyMethod); ok && plain.Entry != match.Entry {
		kinds["passed by"]++
	}
}

// judge returns the problems of an answer, or "".
func judge(in render.Input, r routingtest.Request, got answer) string {
	host, ok := routing.NormalizeHost(r.Host)
	if !ok {
		return expect(got, "status 400")
	}
	if _, ok := routing.CanonicalPath(r.Path); !ok {
		return expect(got, "status 400")
	}
	r.Host = host
	match, ok := in.Table.Match(r.Request)
	switch {
	case match.TooLong:
		return expect(got, "status 400")
	case !ok:
		return expect(got, "status 404")
	}
	matched := fmt.Sprintf("%s %s %d", match.Listener, match.Rule.Route, match.Rule.Index)
	if got.Header.Get("Matched") != matched {
		return fmt.Sprintf("status %d by %q, want it by %q", got.Status, got.Header.Get("Matched"), matched)
	}
	allowed := []string{}
	for _, target := range match.Rule.Targets {
		allowed = append(allowed, outcome(in, target.Backend))
	}
	if len(allowed) == 0 {
		allowed = []string{"status 500"}
	}
	return expect(got, allowed...)
}

// outcome returns what a request for a backend ends in.
func outcome(in render.Input, backend routing.Backend) string {
	switch state := in.Backends[backend]; {
	case !state.Exists:
		return "status 500"
	case len(state.Servers) == 0:
		return "status 503"
	default:
		return "backend " + backend.Service
	}
}

func expect(got answer, allowed ...string) string {
	outcome := fmt.Sprintf("status %d", got.Status)
	if got.Status == 200 {
		outcome = "backend " + got.Header.Get("Backend")
	}
	if slices.Contains(allowed, outcome) {
		return ""
	}
	return fmt.Sprintf("%s, want one of %q", outcome, allowed)
}

func describe(table routing.Table) string {
	var b strings.Builder
	for _, listener := range table.Listeners {
		fmt.Fprintf(&b, "listener %s %d %q\n", listener.Name, listener.Port, listener.Hostname)
		for entry := range listener.Entries() {
			fmt.Fprintf(&b, "  %q %d %s %s %v %v %s -> %s %d\n", entry.Hostname, entry.PathType, entry.Path, entry.Method, entry.Headers, entry.Query, entry.Session, entry.Rule.Route, entry.Rule.Index)
		}
	}
	return b.String()
}

// propertyWorld is a world of everything that random tables may have.
func propertyWorld() rendertest.World {
	w := rendertest.World{Generation: 1, Spec: routingtest.Universe([2]int32{80, 81})}
	for _, service := range routingtest.Services {
		backend := rendertest.Backend{Service: service, Port: 80}
		if service != "empty" && service != "missing" {
			backend.Servers = []string{"127.0.0.1:1"}
		}
		w.Backends = append(w.Backends, backend)
	}
	return w
}

// someExist returns the state of all backends, with another Service now and then gone, and "missing" always.
func someExist(g *routingtest.Generator, all map[routing.Backend]render.BackendState) map[routing.Backend]render.BackendState {
	some := map[routing.Backend]render.BackendState{}
	for i, service := range routingtest.Services {
		backend := routing.Backend{Service: service, Port: 80}
		if service != "missing" && g.IntN(8) != i {
			some[backend] = all[backend]
		}
	}
	return some
}
