package routing_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

const mandatoryFilters = `
listeners:
  - name: a
    port: 1
    protocol: HTTP
    maxRequestBytes: 10
    filters:
      - {type: ClientAddress, clientAddress: {allow: [10.0.0.0/8], deny: [10.9.0.0/16]}}
      - {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour}]}}
      - {type: WAF, waf: {}}
      - {type: BasicAuth, basicAuth: {secretRef: {name: a}}}
      - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Env, value: listener}], remove: [X-Debug]}}
      - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-Env, value: listener}]}}
      - {type: CORS, cors: {allowOrigins: ["https://a.io"]}}
    mandatory:
      - {type: ClientAddress}
      - {type: RateLimit}
      - {type: maxRequestBytes}
      - {type: RequestHeaderModifier}
      - type: WAF
        exceptions: [{paths: [/upload]}, {namespaces: [other]}, {hostnames: ["*.io"], paths: [/io]}, {namespaces: [here], hostnames: [x.org]}]
      - {type: BasicAuth, exceptions: [{paths: [/.well-known/acme-challenge/]}]}
routes:
  - name: r
    hostnames: [a.io, b.org]
    rules:
      - matches: [{path: {value: /}}, {path: {value: /upload}}, {path: {value: /uploads}}, {path: {value: //upload/%61}}, {path: {value: /io}}, {path: {type: RegularExpression, value: /upload/.*}}, {path: {type: Exact, value: /.well-known/acme-challenge/x}}]
        backendRefs: [{name: web, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Env, value: backend}, {name: X_Env, value: backend}, {name: X-Own, value: backend}]}}]}]
      - matches: [{path: {value: /addresses}}]
        filters: [{type: ClientAddress, clientAddress: {allow: [10.1.0.0/16, 192.0.2.0/24], deny: [10.1.1.0/24]}}]
      - matches: [{path: {value: /nobody}}]
        filters: [{type: ClientAddress, clientAddress: {allow: [192.0.2.0/24]}}]
      - matches: [{path: {value: /limits}}]
        filters: [{type: RateLimit, rateLimit: {concurrent: {requests: 2}}}]
        maxRequestBytes: 20
      - matches: [{path: {value: /same-limits}}]
        filters: [{type: RateLimit, rateLimit: {limits: [{requests: 1000, unit: Hour}]}}]
        maxRequestBytes: 5
      - matches: [{path: {value: /waf}}, {path: {value: /upload/waf}}]
        filters: [{type: WAF, waf: {}}]
      - matches: [{path: {value: /key}}]
        filters: [{type: APIKey, apiKey: {secretRef: {name: b}, from: [{type: Header, name: X-Key}]}}]
      - matches: [{path: {value: /headers}}]
        filters:
          - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Env, value: rule}, {name: X_Env, value: rule}, {name: X-Debug, value: rule}, {name: X-Own, value: rule}]}}
          - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-Env, value: rule}]}}
          - {type: HeaderVariables, headerVariables: {set: [{name: X-Env, variable: Route}, {name: X_Env, variable: Route}, {name: X-Route, variable: Route}]}}
          - {type: CORS, cors: {allowOrigins: ["https://b.io"]}}
      - matches: [{path: {value: /shadow}}]
        filters: [{type: ClientAddress, clientAddress: {deny: [10.1.1.0/24]}}]
        shadow: [ClientAddress]
      - matches: [{path: {value: /answer}}]
        filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, responseHeaders: [X-Env, X-Other]}}]
      - matches: [{path: {value: /other-answer}}]
        filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, responseHeaders: [X-Other, X_Env]}}]
  - name: at-x
    hostnames: [x.org]
    rules: [{matches: [{path: {value: /}}], backendRefs: [{name: web, port: 80}]}]
`

// TestMandatoryFilters: a rule does not get around what is mandatory at its listener. Requests pass both where both can
// be, and the others are answered with 500.
func TestMandatoryFilters(t *testing.T) {
	gateway := &appv1.Gateway{Spec: *parseSpec(t, mandatoryFilters)}
	gateway.Namespace = "here"
	table, problems := routing.Compile(source.Translate(gateway), filters.Problem)
	got := map[string]*routing.Rule{}
	for entry := range table.Listeners[0].Entries() {
		got[entry.Hostname+entry.Path] = entry.Rule
	}
	for path, want := range map[string]string{
		"/": "WAF BasicAuth", "/upload/": "BasicAuth", "/uploads/": "WAF BasicAuth", "/upload/a/": "BasicAuth", "/io/": "WAF BasicAuth", "/upload/.*": "WAF BasicAuth",
		"/.well-known/acme-challenge/x": "WAF", "/waf/": "500", "/upload/waf/": "WAF BasicAuth", "/key/": "500", "/same-limits/": "500", "/shadow/": "500",
		"/answer/": "WAF BasicAuth", "/other-answer/": "500",
	} {
		if has := describe(got["a.io"+path]); has != want {
			t.Errorf("%s has %s, want %s", path, has, want)
		}
	}
	if has := describe(got["x.org/"]); has != "BasicAuth" {
		t.Errorf("the host with an exception has %s", has)
	}
	addresses := *got["a.io/addresses/"].Clients
	if fmt.Sprint(addresses) != "{[10.1.0.0/16] [10.1.1.0/24 10.9.0.0/16]}" {
		t.Errorf("clients with access are %v", addresses)
	}
	if nobody := got["a.io/nobody/"].Clients; len(nobody.Allow) > 0 || !slices.Contains(nobody.Deny, netip.MustParsePrefix("0.0.0.0/0")) || !slices.Contains(nobody.Deny, netip.MustParsePrefix("::/0")) {
		t.Errorf("nobody should have access: %v", nobody)
	}
	limits := got["a.io/limits/"]
	if len(limits.RateLimits) != 2 || limits.RateLimitScope(limits.RateLimits[0]) != "HTTPRoute/r/3" || limits.RateLimitScope(limits.RateLimits[1]) != "Listener/a" || *limits.MaxBody != 10 {
		t.Errorf("the limits are %+v, and %d bytes", limits.RateLimits, *limits.MaxBody)
	}
	headers := got["a.io/headers/"]
	if text := fmt.Sprint(headers.Headers, headers.HeaderVariables, headers.CORS.Origins); text != "{[{x-debug true []} {x-env true [listener]} {x-own true [rule]}] [{x-env true [rule]}]} [{x-route Route}] [https://b.io]" {
		t.Errorf("the headers are %s", text)
	}
	if own := fmt.Sprint(got["a.io/"].Targets[0].Headers); own != "{[{x-own true [backend]}] []}" {
		t.Errorf("the headers of the backend alone are %s", own)
	}
	if len(problems) != 5 || !slices.ContainsFunc(problems, func(p routing.Problem) bool {
		return strings.Contains(p.Message, "rules[5] are answered with 500: with the filters of its listener, WAF is mandatory by Gateway here/")
	}) {
		t.Errorf("the problems are %v", problems)
	}
}

// describe returns what may refuse requests of a rule, of what has exceptions.
func describe(rule *routing.Rule) string {
	switch {
	case rule == nil:
		return "nothing"
	case len(rule.Mandatory) == 0:
		return "500"
	}
	return strings.TrimSpace(map[bool]string{true: "WAF "}[rule.WAF != nil] + map[bool]string{true: "BasicAuth"}[rule.BasicAuth != nil])
}

// TestClientsOfBoth: a client has access if both lists let it in.
func TestClientsOfBoth(t *testing.T) {
	ranges := []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.1.0/24", "192.0.2.0/24", "fd00::/8", "fd00:1::/32"}
	clients := []string{"10.0.0.1", "10.1.0.1", "10.1.1.1", "192.0.2.1", "203.0.113.1", "fd00::1", "fd00:1::1", "2001:db8::1"}
	has := func(c *model.Clients, client string) bool {
		within := func(all []netip.Prefix) bool {
			return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(netip.MustParseAddr(client)) })
		}
		return !within(c.Deny) && (len(c.Allow) == 0 || within(c.Allow))
	}
	some := func(n int) (all []netip.Prefix) {
		for i, text := range ranges {
			if n>>i&1 == 1 {
				all = append(all, netip.MustParsePrefix(text))
			}
		}
		return all
	}
	for n := range 1 << len(ranges) {
		for m := range 1 << len(ranges) {
			a, b := &model.Clients{Allow: some(n), Deny: some(m & n)}, &model.Clients{Allow: some(m)}
			listener := &model.Action{Clients: b, Mandatory: []model.Mandatory{{Filter: "ClientAddress"}}}
			both := (&model.Action{Clients: a}).With(listener).Clients
			for _, client := range clients {
				if want := has(a, client) && has(b, client); has(both, client) != want {
					t.Fatalf("%s has access by %v and %v: want %t of %v", client, a, b, want, both)
				}
			}
		}
	}
}
