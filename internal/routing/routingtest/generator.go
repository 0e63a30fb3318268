// Package routingtest makes random routing tables, and requests to them, for the tests that compare what HAProxy does
// with what it should do.
package routingtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/testtier"
)

// Generator makes random Gateways and requests out of few names, so that they often meet.
type Generator struct {
	*rand.Rand
	// Seed is what everything follows from.
	Seed uint64
	// Namespace is the namespace of the Services.
	Namespace string
	// without are the kinds that specs have none of.
	without map[kind]bool
}

// kind is something that specs may have.
type kind int

const (
	hostnames kind = iota
	wildcards
	paths
	pathExpressions
	methodConditions
	headerConditions
	queryConditions
	sessions
	kinds
)

// New returns a generator that starts from the seed of the test.
func New(t testing.TB) *Generator {
	t.Helper()
	seed := testtier.Seed(t)
	return &Generator{Seed: seed, Rand: rand.New(rand.NewPCG(seed, 0))}
}

// Services are those that rules have as backends, all with port 80.
var Services = []string{"one", "two", "three", "four", "empty", "missing"}

var (
	headers = []string{"x-a", "role", "cookie"}
	params  = []string{"q", "v[1]", "role"}
	values  = []string{"a", "b", "ab", "two words", "a,b", "A", "h:role", "x%41"}
	methods = []string{"GET", "POST", "OPTIONS", "DELETE", "PATCH"}
	// The expressions have what RE2 and PCRE write or do differently.
	regexes = []string{
		"a+", "^b.*$", "[^x]+", "(?i)AB?", "a|b|two.*", `\w+`, ".*", `(?:a|b){1,2}`, `a\b.*`, "[[:alpha:]]+", `\Qa\E`, "a*?b", `(?s).+`, `[\s\S]*b`,
		`\x61`, "(a)(b)?", "(?m)^a$", `[^\x00-\x60]+`, `\D+`, `a$|^b`,
	}
	pathRegexes = []string{
		"/.*a.*b.*", ".*/a.*/b", "/(.*a.*|b.*)b",
		"/a.*", "/(a|b)/[^/]+", "/ab?/?", `/.*\.b`, "(?i)/A/.*", "/[a-b]{1,2}(/.*)?", "^/a(/b){0,3}$", `/%C3%A4.*`, "/[a-z ]+(/.*)?", `.*/a b/?`, "/.+/.+", "/(a+)$",
	}
	suffixes  = []string{"test", "a.test", "b.a.test", "example.com"}
	labels    = []string{"a", "b", "x-y", "x_y", "1"}
	segments  = []string{"a", "ab", "b", "A", "%61", "a.b", "..a", "%c3%A4", "a%20b", "%25", "%5bb%22"}
	maxWeight = int32(4)
)

// Universe returns a spec with every backend, condition and depth of wildcards that the others may have, and the two
// ports.
func Universe(ports [2]int32) appv1.GatewaySpec {
	var spec appv1.GatewaySpec
	for i, port := range ports {
		spec.Listeners = append(spec.Listeners, appv1.Listener{Name: appv1.Name(fmt.Sprint("l", i)), Port: port, Protocol: appv1.ProtocolHTTP})
	}
	route := appv1.Route{Name: "universe", Rules: []appv1.RouteRule{{}}}
	for _, suffix := range suffixes {
		route.Hostnames = append(route.Hostnames, appv1.Hostname("*."+suffix))
	}
	for _, service := range Services {
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
	sessions := appv1.RouteRule{BackendRefs: route.Rules[0].BackendRefs, SessionPersistence: &appv1.SessionPersistence{}}
	route.Rules = append(route.Rules, sessions)
	// A host of the longest suffix has the routes of all wildcards, and of all hosts.
	route.Hostnames = append(route.Hostnames, "universe.b.a.test")
	spec.Routes = []appv1.Route{route, {Name: "all", Rules: route.Rules}}
	return spec
}

// LeaveOut chooses one to three kinds. Specs have none of the others until it is called again.
func (g *Generator) LeaveOut() {
	g.without = map[kind]bool{}
	for i, other := range g.Perm(int(kinds)) {
		g.without[kind(other)] = i > g.IntN(3)
	}
}

// oneIn reports whether there is to be something of a kind, as it is in one of n cases if the kind is not left out.
func (g *Generator) oneIn(n int, kind kind) bool { return !g.without[kind] && g.IntN(n) == 0 }

func pick[T any](g *Generator, from []T) T { return from[g.IntN(len(from))] }

// hostname returns a hostname of a listener or route: none, exact or a wildcard.
func (g *Generator) hostname() appv1.Hostname {
	switch {
	case g.IntN(4) == 0:
		return ""
	case g.oneIn(3, wildcards):
		return appv1.Hostname("*." + pick(g, suffixes))
	case g.without[hostnames]:
		return ""
	default:
		return appv1.Hostname(g.hostBelow(pick(g, suffixes)))
	}
}

// hostBelow returns a host of up to two labels more.
func (g *Generator) hostBelow(suffix string) string {
	for range g.IntN(3) {
		suffix = pick(g, labels) + "." + suffix
	}
	return suffix
}

func (g *Generator) path() string {
	var b strings.Builder
	for range g.IntN(4) {
		b.WriteString("/" + pick(g, segments))
	}
	if b.Len() == 0 || g.IntN(4) == 0 {
		b.WriteString("/")
	}
	return b.String()
}

// Spec returns the spec of a Gateway that has at least one listener on each of the ports.
func (g *Generator) Spec(ports [2]int32) appv1.GatewaySpec {
	var spec appv1.GatewaySpec
	for _, port := range ports {
		taken := map[appv1.Hostname]bool{}
		for range 1 + g.IntN(4) {
			hostname := g.hostname()
			if !taken[hostname] {
				taken[hostname] = true
				spec.Listeners = append(spec.Listeners, appv1.Listener{
					Name: appv1.Name(fmt.Sprint("l", len(spec.Listeners))), Port: port, Protocol: appv1.ProtocolHTTP, Hostname: hostname,
				})
			}
		}
	}
	for i := range 4 + g.IntN(12) {
		spec.Routes = append(spec.Routes, g.route(fmt.Sprint("r", i), spec.Listeners))
	}
	return spec
}

// Edit returns a copy of a spec with one thing changed: a route is new, gone, elsewhere or another one, or a rule has
// another backend or weight, or a listener another hostname.
func (g *Generator) Edit(spec appv1.GatewaySpec) appv1.GatewaySpec {
	spec = *spec.DeepCopy()
	i, j := g.IntN(len(spec.Routes)), g.IntN(len(spec.Routes))
	switch g.IntN(6) {
	case 0:
		spec.Routes = slices.Insert(spec.Routes, i, g.route(fmt.Sprint("e", g.Uint32()), spec.Listeners))
	case 1:
		if len(spec.Routes) > 1 {
			spec.Routes = slices.Delete(spec.Routes, i, i+1)
		}
	case 2:
		spec.Routes[i], spec.Routes[j] = spec.Routes[j], spec.Routes[i]
	case 3:
		spec.Routes[i] = g.route(string(spec.Routes[i].Name), spec.Listeners)
	case 4:
		weight := g.Int32N(maxWeight + 1)
		if refs := spec.Routes[i].Rules[0].BackendRefs; g.IntN(2) == 0 && len(refs) > 0 {
			refs[0].Name = pick(g, Services)
		} else if len(refs) > 0 {
			refs[0].Weight = &weight
		}
	default:
		listener, hostname := &spec.Listeners[g.IntN(len(spec.Listeners))], g.hostname()
		if !slices.ContainsFunc(spec.Listeners, func(l appv1.Listener) bool { return l.Port == listener.Port && l.Hostname == hostname }) {
			listener.Hostname = hostname
		}
	}
	return spec
}

func (g *Generator) route(name string, listeners []appv1.Listener) appv1.Route {
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
			ref := appv1.BackendRef{Name: pick(g, Services), Port: 80}
			if weight := g.Int32N(maxWeight + 1); weight != 1 {
				ref.Weight = &weight
			}
			rule.BackendRefs = append(rule.BackendRefs, ref)
		}
		if g.oneIn(4, sessions) {
			rule.SessionPersistence = &appv1.SessionPersistence{}
		}
		route.Rules = append(route.Rules, rule)
	}
	return route
}

// match returns a match, half of the time with more than a path.
func (g *Generator) match() appv1.RouteMatch {
	match := appv1.RouteMatch{Path: appv1.PathMatch{Value: "/"}}
	switch {
	case g.oneIn(5, pathExpressions):
		match.Path = appv1.PathMatch{Type: appv1.PathMatchRegularExpression, Value: pick(g, pathRegexes)}
	case !g.without[paths]:
		match.Path.Value = g.path()
		if g.IntN(2) == 0 {
			match.Path.Type = appv1.PathMatchExact
		}
	}
	if g.IntN(2) == 0 {
		return match
	}
	if g.oneIn(3, methodConditions) {
		match.Method = appv1.HTTPMethod(pick(g, methods))
	}
	for _, name := range headers {
		if g.oneIn(4, headerConditions) {
			kind, value := g.value()
			match.Headers = append(match.Headers, appv1.HeaderMatch{Type: kind, Name: appv1.HeaderName(g.upperSome(name)), Value: value})
		}
	}
	for _, name := range params {
		if g.oneIn(4, queryConditions) {
			kind, value := g.value()
			match.QueryParams = append(match.QueryParams, appv1.QueryParamMatch{Type: kind, Name: name, Value: value})
		}
	}
	return match
}

func (g *Generator) value() (appv1.ValueMatchType, string) {
	if g.IntN(2) == 0 {
		return appv1.ValueMatchRegularExpression, pick(g, regexes)
	}
	return appv1.ValueMatchExact, pick(g, values)
}
