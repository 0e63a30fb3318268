package config_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/config"
	"gateway/internal/routing"
)

var (
	seed   = flag.Uint64("seed", 0, "the seed of the property tests; 0: another every time")
	tables = flag.Int("tables", 500, "how many random routing tables TestProperty tries")
)

// requestsPerTable is how many requests TestProperty sends for every table.
const requestsPerTable = 40

// TestProperty compares what real HAProxy does with what the reference matcher says it must do, for random requests to
// random routing tables.
//
// One HAProxy serves all tables: it starts with a table that has every port, backend and depth of wildcards that the
// random tables may have, so each of them is a new map and nothing more, which is also checked.
func TestProperty(t *testing.T) {
	t.Parallel()
	g := newGenerator(t)
	universe := startGateway(t, g.universe())
	running := config.Render(universe.in)
	clients := map[int32]*client{}
	for _, port := range universe.ports {
		clients[port] = newClient(t, port)
	}
	statuses, kinds := map[int]int{}, map[string]int{}
	for table := range *tables {
		spec := g.spec(universe.ports)
		in := universe.in
		in.Generation = int64(table)
		in.Table, _ = routing.Compile(&spec)
		in.Backends = g.someExist(universe.in.Backends)
		plan := config.Diff(config.Render(in), running)
		if plan.Reload != "" {
			t.Fatalf("seed %d, table %d: a reload is wanted: %s", g.seed, table, plan.Reload)
		}
		// The servers are left alone: no request is routed to those of a Service that does not exist.
		universe.replaceMaps(t, plan.Maps)
		running = plan.After
		for range requestsPerTable {
			r := g.request(spec, universe.ports)
			got := clients[r.port].send(r.bytes)
			if message := judge(in, r, got); message != "" {
				t.Fatalf("seed %d, table %d, request %q to port %d: %s\n%s", g.seed, table, r.bytes, r.port, message, describe(in.Table))
			}
			statuses[got.Status]++
			count(kinds, in, r)
		}
	}
	t.Logf("seed %d: %d pairs of table and request, by status: %v, by what matched: %v", g.seed, *tables*requestsPerTable, statuses, kinds)
	for _, kind := range []string{"exact", "prefix", "regex", "method", "header", "query", "passed by"} {
		if *tables >= 100 && kinds[kind] < *tables/4 {
			t.Errorf("only %d requests matched by %s: the test does not try enough", kinds[kind], kind)
		}
	}
	for _, status := range []int{200, 400, 404, 500, 503} {
		if *tables >= 100 && statuses[status] < *tables {
			t.Errorf("only %d answers have status %d: the test does not try enough", statuses[status], status)
		}
	}
}

// count counts the ways in which a request was matched, and whether it passed by an entry of its host and path.
func count(kinds map[string]int, in config.Input, r request) {
	host, _ := routing.NormalizeHost(r.host)
	match, ok := in.Table.Match(routing.Request{Port: r.port, Host: host, Path: r.path, Query: r.query, Method: r.method, Header: r.header})
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
	anyMethod := routing.Request{Port: r.port, Host: host, Path: r.path}
	if plain, ok := in.Table.Match(anyMethod); ok && plain.Entry != match.Entry {
		kinds["passed by"]++
	}
}

// judge returns what is wrong with an answer, or "".
func judge(in config.Input, r request, got answer) string {
	host, ok := routing.NormalizeHost(r.host)
	if !ok {
		return expect(got, "status 400")
	}
	if _, ok := routing.CanonicalPath(r.path); !ok {
		return expect(got, "status 400")
	}
	match, ok := in.Table.Match(routing.Request{Port: r.port, Host: host, Path: r.path, Query: r.query, Method: r.method, Header: r.header})
	if !ok {
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
func outcome(in config.Input, backend routing.Backend) string {
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
		for _, entry := range listener.Entries {
			fmt.Fprintf(&b, "  %q %d %s %s %v %v -> %s %d\n", entry.Hostname, entry.PathType, entry.Path, entry.Method, entry.Headers, entry.Query, entry.Rule.Route, entry.Rule.Index)
		}
	}
	return b.String()
}

// generator makes random tables and requests out of few names, so that they often meet.
type generator struct {
	*rand.Rand
	seed uint64
}

func newGenerator(t *testing.T) *generator {
	t.Helper()
	s := *seed
	if s == 0 {
		s = uint64(time.Now().UnixNano())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to repeat: -seed=%d", s)
		}
	})
	return &generator{Rand: rand.New(rand.NewPCG(s, 0)), seed: s}
}

var (
	headers = []string{"x-a", "role", "accept"}
	params  = []string{"q", "v[1]", "role"}
	values  = []string{"a", "b", "ab", "two words", "a,b", "A", "h:role", "x%41"}
	methods = []string{"GET", "POST", "OPTIONS", "DELETE"}
	// The expressions have what RE2 and PCRE write or do differently.
	regexes = []string{
		"a+", "^b.*$", "[^x]+", "(?i)AB?", "a|b|two.*", `\w+`, ".*", `(?:a|b){1,2}`, `a\b.*`, "[[:alpha:]]+", `\Qa\E`, "a*?b", `(?s).+`, `[\s\S]*b`,
		`\x61`, "(a)(b)?", "(?m)^a$", `[^\x00-\x60]+`, `\D+`, `a$|^b`,
	}
	pathRegexes = []string{
		"/.*a.*b.*", ".*/a.*/b", "/(.*a.*|b.*)b",
		"/a.*", "/(a|b)/[^/]+", "/ab?/?", `/.*\.b`, "(?i)/A/.*", "/[a-b]{1,2}(/.*)?", "^/a(/b){0,3}$", `/%C3%A4.*`, "/.+/.+", "/(a+)$",
	}
	services  = []string{"one", "two", "three", "four", "empty", "missing"}
	suffixes  = []string{"test", "a.test", "b.a.test", "example.com"}
	labels    = []string{"a", "b", "x-y", "x_y", "1"}
	segments  = []string{"a", "ab", "b", "A", "%61", "a.b", "..a", "%c3%A4", "a%20b", "%25"}
	maxWeight = int32(4)
)

// universe returns a world of everything that random tables may have.
func (g *generator) universe() world {
	w := world{Namespace: "test", Name: "property", Generation: 1}
	for _, port := range []int32{80, 81} {
		w.Spec.Listeners = append(w.Spec.Listeners, appv1.Listener{Name: appv1.Name(fmt.Sprint("p", port)), Port: port, Protocol: appv1.ProtocolHTTP})
	}
	route := appv1.Route{Name: "universe", Rules: []appv1.RouteRule{{}}}
	for _, suffix := range suffixes {
		route.Hostnames = append(route.Hostnames, appv1.Hostname("*."+suffix))
	}
	for _, service := range services {
		route.Rules[0].BackendRefs = append(route.Rules[0].BackendRefs, appv1.BackendRef{Name: service, Port: 80})
	}
	match := appv1.RouteMatch{}
	for _, name := range headers {
		match.Headers = append(match.Headers, appv1.HeaderMatch{Name: appv1.HeaderName(name), Value: "a"})
	}
	for _, name := range params {
		match.QueryParams = append(match.QueryParams, appv1.QueryParamMatch{Name: name, Value: "a"})
	}
	route.Rules[0].Matches = []appv1.RouteMatch{match}
	w.Spec.Routes = []appv1.Route{route}
	for _, service := range services {
		backend := worldBackend{Service: service, Port: 80}
		if service != "empty" && service != "missing" {
			backend.Servers = []string{"127.0.0.1:1"}
		}
		w.Backends = append(w.Backends, backend)
	}
	return w
}

// someExist returns the state of all backends, with another Service now and then gone, and "missing" always.
func (g *generator) someExist(all map[routing.Backend]config.BackendState) map[routing.Backend]config.BackendState {
	some := map[routing.Backend]config.BackendState{}
	for i, service := range services {
		backend := routing.Backend{Service: service, Port: 80}
		if service != "missing" && g.IntN(8) != i {
			some[backend] = all[backend]
		}
	}
	return some
}

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// hostname returns a hostname of a listener or route: none, exact or a wildcard.
func (g *generator) hostname() appv1.Hostname {
	switch g.IntN(4) {
	case 0:
		return ""
	case 1:
		return appv1.Hostname("*." + pick(g, suffixes))
	default:
		return appv1.Hostname(g.hostBelow(pick(g, suffixes)))
	}
}

// hostBelow returns a host of up to two labels more.
func (g *generator) hostBelow(suffix string) string {
	for range g.IntN(3) {
		suffix = pick(g, labels) + "." + suffix
	}
	return suffix
}

func (g *generator) path() string {
	var b strings.Builder
	for range g.IntN(4) {
		b.WriteString("/" + pick(g, segments))
	}
	if b.Len() == 0 || g.IntN(4) == 0 {
		b.WriteString("/")
	}
	return b.String()
}

// spec returns the spec of a Gateway that has at least one listener on each port.
func (g *generator) spec(ports map[int32]int32) appv1.GatewaySpec {
	var spec appv1.GatewaySpec
	for _, world := range []int32{80, 81} {
		taken := map[appv1.Hostname]bool{}
		for range 1 + g.IntN(4) {
			hostname := g.hostname()
			if !taken[hostname] {
				taken[hostname] = true
				spec.Listeners = append(spec.Listeners, appv1.Listener{
					Name: appv1.Name(fmt.Sprint("l", len(spec.Listeners))), Port: ports[world], Protocol: appv1.ProtocolHTTP, Hostname: hostname,
				})
			}
		}
	}
	for i := range 4 + g.IntN(12) {
		spec.Routes = append(spec.Routes, g.route(fmt.Sprint("r", i), spec.Listeners))
	}
	return spec
}

func (g *generator) route(name string, listeners []appv1.Listener) appv1.Route {
	route := appv1.Route{Name: appv1.Name(name)}
	for range g.IntN(3) {
		route.Listeners = append(route.Listeners, pick(g, listeners).Name)
	}
	slices.Sort(route.Listeners)
	route.Listeners = slices.Compact(route.Listeners)
	for range g.IntN(4) {
		if hostname := g.hostname(); hostname != "" && !slices.Contains(route.Hostnames, hostname) {
			route.Hostnames = append(route.Hostnames, hostname)
		}
	}
	for range 1 + g.IntN(3) {
		var rule appv1.RouteRule
		for range g.IntN(4) {
			match := g.match()
			rule.Matches = append(rule.Matches, match)
		}
		for range g.IntN(4) {
			ref := appv1.BackendRef{Name: pick(g, services), Port: 80}
			if weight := g.Int32N(maxWeight + 1); weight != 1 {
				ref.Weight = &weight
			}
			rule.BackendRefs = append(rule.BackendRefs, ref)
		}
		route.Rules = append(route.Rules, rule)
	}
	return route
}

// match returns a match, half of the time with more than a path.
func (g *generator) match() appv1.RouteMatch {
	match := appv1.RouteMatch{Path: appv1.PathMatch{Value: g.path()}}
	switch g.IntN(5) {
	case 0, 1:
		match.Path.Type = appv1.PathMatchExact
	case 2:
		match.Path = appv1.PathMatch{Type: appv1.PathMatchRegularExpression, Value: pick(g, pathRegexes)}
	}
	if g.IntN(2) == 0 {
		return match
	}
	if g.IntN(3) == 0 {
		match.Method = appv1.HTTPMethod(pick(g, methods))
	}
	for _, name := range headers {
		if g.IntN(4) == 0 {
			kind, value := g.value()
			match.Headers = append(match.Headers, appv1.HeaderMatch{Type: kind, Name: appv1.HeaderName(upperSome(g.Rand, name)), Value: value})
		}
	}
	for _, name := range params {
		if g.IntN(4) == 0 {
			kind, value := g.value()
			match.QueryParams = append(match.QueryParams, appv1.QueryParamMatch{Type: kind, Name: name, Value: value})
		}
	}
	return match
}

func (g *generator) value() (appv1.ValueMatchType, string) {
	if g.IntN(2) == 0 {
		return appv1.ValueMatchRegularExpression, pick(g, regexes)
	}
	return appv1.ValueMatchExact, pick(g, values)
}
