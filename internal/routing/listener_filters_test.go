package routing_test

import (
	"slices"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

const listenerFilters = `
listeners:
  - {name: a, port: 1, protocol: HTTP, maxRequestBytes: 10, filters: [{type: BasicAuth, basicAuth: {secretRef: {name: a}}}, {type: RateLimit, rateLimit: {concurrent: {requests: 5}, limits: [{requests: 1, unit: Hour}]}}]}
  - {name: b, port: 2, protocol: HTTP, filters: [{type: BasicAuth, basicAuth: {secretRef: {name: b}}}]}
  - {name: c, port: 3, protocol: HTTP}
routes:
  - name: r
    rules:
      - {matches: [{path: {value: /}}], backendRefs: [{name: web, port: 80}]}
      - {matches: [{path: {value: /stored}}], filters: [{type: Cache, cache: {}}], backendRefs: [{name: web, port: 80}]}
      - {matches: [{path: {value: /own}}], filters: [{type: RateLimit, rateLimit: {concurrent: {requests: 2}}}], maxRequestBytes: 0, backendRefs: [{name: web, port: 80}]}
  - {name: only-c, listeners: [c], rules: [{matches: [{path: {value: /c}}], backendRefs: [{name: web, port: 80}]}]}
`

// TestListenerFilters: a rule is another one at each listener that has filters.
func TestListenerFilters(t *testing.T) {
	table, problems := routing.Compile(source.Translate(&appv1.Gateway{Spec: *parseSpec(t, listenerFilters)}), filters.Problem)
	for i, want := range []struct {
		users, scope, own, stored string
		maxBody                   *int64
	}{
		{"a", "Listener/a", "HTTPRoute/r/2", "500", new(int64(10))}, {"b", "HTTPRoute/r/0", "HTTPRoute/r/2", "500", nil}, {"", "HTTPRoute/r/0", "HTTPRoute/r/2", "stored", nil},
	} {
		listener := &table.Listeners[i]
		for entry := range listener.Entries() {
			users := ""
			if entry.Rule.BasicAuth != nil {
				users = entry.Rule.BasicAuth.Secret
			}
			switch entry.Path {
			case "/stored/":
				if want.stored == "500" != (len(entry.Rule.Targets) == 0) || entry.Rule.Cache != (want.stored == "stored") {
					t.Errorf("listener %s: got %+v, want it %s", listener.Name, entry.Rule, want.stored)
				}
			case "/own/":
				if users != want.users || scopeOf(entry.Rule) != want.own || !slices.Equal(entry.Rule.RateLimits, []routing.RateLimit{{Requests: 2}}) {
					t.Errorf("listener %s: got users %q and the scope %s of %+v, want %+v", listener.Name, users, scopeOf(entry.Rule), entry.Rule.RateLimits, want)
				}
				if most := entry.Rule.MaxBody; most == nil || *most != 0 {
					t.Errorf("listener %s: bodies of the rule with a limit may have %v bytes", listener.Name, most)
				}
			case "/":
				if got := entry.Rule.MaxBody; (got == nil) != (want.maxBody == nil) || got != nil && *got != *want.maxBody {
					t.Errorf("listener %s: got the limit of bodies %v, want %v", listener.Name, got, want.maxBody)
				}
				if users != want.users || scopeOf(entry.Rule) != want.scope || listener.Name == "a" && len(entry.Rule.RateLimits) != 2 {
					t.Errorf("listener %s: got users %q and the scope %s, want %+v", listener.Name, users, scopeOf(entry.Rule), want)
				}
			}
		}
	}
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "rules[1] are answered with 500: with the filters of its listener, Cache would") {
		t.Errorf("got the problems %v, want one of rules[1]", problems)
	}
}

// scopeOf returns what a rule's first limit counts, or would.
func scopeOf(rule *routing.Rule) string {
	if len(rule.RateLimits) == 0 {
		return rule.RateLimitScope(routing.RateLimit{})
	}
	return rule.RateLimitScope(rule.RateLimits[0])
}

// TestShadowOfListeners: what a listener has in shadow refuses nothing. A rule's own filter of the type refuses, and
// the rule's shadow does not open what the rule has of its listener.
func TestShadowOfListeners(t *testing.T) {
	const spec = `
listeners:
  - name: a
    port: 1
    protocol: HTTP
    maxRequestBytes: 10
    filters: [{type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour}]}}, {type: BasicAuth, basicAuth: {secretRef: {name: a}}}, {type: ClientAddress, clientAddress: {deny: [192.0.2.0/24]}}]
    shadow: [RateLimit, maxRequestBytes, BasicAuth]
routes:
  - name: r
    rules:
      - {matches: [{path: {value: /}}], backendRefs: [{name: web, port: 80}]}
      - {matches: [{path: {value: /own}}], filters: [{type: RateLimit, rateLimit: {concurrent: {requests: 2}}}], maxRequestBytes: 0, backendRefs: [{name: web, port: 80}]}
      - {matches: [{path: {value: /both}}], filters: [{type: RateLimit, rateLimit: {concurrent: {requests: 2}}}], shadow: [RateLimit, ClientAddress], backendRefs: [{name: web, port: 80}]}
      - {matches: [{path: {value: /token}}], filters: [{type: JWT, jwt: {issuers: [{issuer: a, audiences: [a], keys: {configMapRef: {name: a}}}]}}], backendRefs: [{name: web, port: 80}]}
`
	want := map[string][]string{
		"/": {"BasicAuth", "RateLimit", "maxRequestBytes"}, "/own/": {"BasicAuth"}, "/both/": {"BasicAuth", "RateLimit", "maxRequestBytes"},
		"/token/": {"RateLimit", "maxRequestBytes"},
	}
	table, problems := routing.Compile(source.Translate(&appv1.Gateway{Spec: *parseSpec(t, spec)}), filters.Problem)
	for entry := range table.Listeners[0].Entries() {
		if got := slices.Sorted(slices.Values(entry.Rule.Shadow)); !slices.Equal(got, want[entry.Path]) {
			t.Errorf("%s: in shadow are %v, want %v", entry.Path, got, want[entry.Path])
		}
		delete(want, entry.Path)
	}
	if len(want)+len(problems) > 0 {
		t.Errorf("missing are %v; problems are %v", want, problems)
	}
}

// TestUnusableListenerFilters: what cannot be done of the filters of a listener closes it, and is named there.
func TestUnusableListenerFilters(t *testing.T) {
	const spec = `
listeners:
  - {name: a, port: 1, protocol: HTTP, filters: [{type: ClientAddress, clientAddress: {deny: [300.0.0.0/8]}}]}
  - {name: b, port: 2, protocol: HTTP, httpsRedirect: {}, filters: [{type: ClientAddress, clientAddress: {deny: [300.0.0.0/8]}}]}
routes:
  - name: r
    rules:
      - {matches: [{path: {value: /}}], backendRefs: [{name: web, port: 80}]}
      - {matches: [{path: {value: /own}}], filters: [{type: ClientAddress, clientAddress: {deny: [192.0.2.0/24]}}], backendRefs: [{name: web, port: 80}]}
`
	table, problems := routing.Compile(source.Translate(&appv1.Gateway{Spec: *parseSpec(t, spec)}), filters.Problem)
	for i := range table.Listeners {
		for entry := range table.Listeners[i].Entries() {
			if isOpen := len(entry.Rule.Targets) > 0 || entry.Rule.Redirect != nil; isOpen != (entry.Path == "/own/") {
				t.Errorf("listener %s: got %+v at %s", table.Listeners[i].Name, entry.Rule, entry.Path)
			}
		}
	}
	var got []string
	for _, problem := range problems {
		got = append(got, problem.Listener+": "+problem.Message)
	}
	const rest = "clientAddress.deny[0] is no range of addresses: write one such as 10.0.0.0/8 or fd00::/8"
	want := []string{
		`: httpsRedirect of listener "b": requests for rules[0] are answered with 500: with the filters of its listener, ` + rest,
		`: route "r": requests for rules[0] are answered with 500: with the filters of its listener, ` + rest,
		`a: listener "a": ` + rest, `b: listener "b": ` + rest,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestListenerFiltersAreKept: a host is compiled again only if the filters of its listener say something else.
func TestListenerFiltersAreKept(t *testing.T) {
	gateway := source.Translate(&appv1.Gateway{Spec: *parseSpec(t, listenerFilters)})
	compile := func(compiler *routing.Compiler, secret string) []*routing.Host {
		same := *gateway
		same.Listeners = slices.Clone(gateway.Listeners)
		for i := range same.Listeners[:2] {
			filters := *same.Listeners[i].Filters
			same.Listeners[i].Filters = &filters
		}
		same.Listeners[1].Filters.BasicAuth = &model.BasicAuth{Secret: secret}
		table, _ := compiler.Compile(&same)
		var hosts []*routing.Host
		for i := range table.Listeners {
			hosts = append(hosts, table.Listeners[i].ByPrecedence()...)
		}
		return hosts
	}
	compiler := &routing.Compiler{Check: filters.Problem}
	before, same, after := compile(compiler, "b"), compile(compiler, "b"), compile(compiler, "other")
	if !slices.Equal(before, same) {
		t.Errorf("hosts are compiled again though nothing changed")
	}
	if all := compile(compiler, "a"); all[0].Entries[0].Rule == all[1].Entries[0].Rule {
		t.Errorf("listeners whose filters differ have the same rules")
	}
	if after[0] != same[0] || after[1] == same[1] || after[2] != same[2] {
		t.Errorf("got %v after %v, want another host of the second listener", after, same)
	}
}
