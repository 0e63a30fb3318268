package routing_test

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	source "gateway/internal/source/appv1"
)

func parseSpec(t testing.TB, text string) *appv1.GatewaySpec {
	t.Helper()
	var spec appv1.GatewaySpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatalf("failed to parse the spec: %v", err)
	}
	return &spec
}

// format writes a table so that a test can spell it out: a line per listener, and a line per entry in order of
// precedence.
func format(table routing.Table) string {
	var b strings.Builder
	for _, listener := range table.Listeners {
		fmt.Fprintf(&b, "%s :%d %q\n", listener.Name, listener.Port, listener.Hostname)
		for entry := range listener.Entries() {
			kind := map[routing.PathType]string{routing.Exact: "exact", routing.Regex: "regex", routing.Prefix: "prefix"}[entry.PathType]
			fmt.Fprintf(&b, "  %q %s %s", entry.Hostname, kind, entry.Path)
			if entry.Method != "" {
				b.WriteString(" " + entry.Method)
			}
			for _, header := range entry.Headers {
				fmt.Fprintf(&b, " header %s=%s", header.Name, header.Value)
			}
			for _, param := range entry.Query {
				fmt.Fprintf(&b, " query %s=%s", param.Name, param.Value)
			}
			fmt.Fprintf(&b, " -> %s/%d", entry.Rule.Route, entry.Rule.Index)
			for _, target := range entry.Rule.Targets {
				fmt.Fprintf(&b, " %s:%d*%d", target.Backend.Service, target.Backend.Port, target.Weight)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func TestCompile(t *testing.T) { //nolint:funlen // a flat table
	tests := map[string]struct{ spec, want string }{
		"a rule without matches matches every path, one without backends has no targets": {
			`{listeners: [{name: http, port: 80}], routes: [{name: r, rules: [{}]}]}`, `
http :80 ""
  "" prefix / -> r/0
`,
		},
		"a match without a path matches the path of its type that the API server would set": {
			`{listeners: [{name: http, port: 80}], routes: [{name: r, rules: [{matches: [{method: GET}, {path: {type: Exact}}]}]}]}`, `
http :80 ""
  "" exact / -> r/0
  "" prefix / GET -> r/0
`,
		},
		"weights default to one, and those of zero are left out": {
			`{listeners: [{name: http, port: 80}], routes: [{name: r, rules: [{backendRefs: [{name: a, port: 1}, {name: b, port: 2, weight: 0}, {name: c, port: 3, weight: 7}]}]}]}`, `
http :80 ""
  "" prefix / -> r/0 a:1*1 c:3*7
`,
		},
		"entries are ordered by hostname, then exact before prefix, then length": {
			`
listeners: [{name: http, port: 80}]
routes:
  - {name: any, rules: [{matches: [{path: {value: /long/path}}, {path: {type: Exact, value: /}}, {}]}]}
  - {name: wild, hostnames: ["*.example.com", "*.a.example.com"], rules: [{}]}
  - {name: exact, hostnames: [x.io], rules: [{}, {matches: [{path: {type: Exact, value: /a}}, {path: {value: /a/}}]}]}
`, `
http :80 ""
  "x.io" exact /a -> exact/1
  "x.io" prefix /a/ -> exact/1
  "x.io" prefix / -> exact/0
  "*.a.example.com" prefix / -> wild/0
  "*.example.com" prefix / -> wild/0
  "" exact / -> any/0
  "" prefix /long/path/ -> any/0
  "" prefix / -> any/0
`,
		},
		"of equal entries the first in the object wins, with or without a trailing slash": {
			`
listeners: [{name: http, port: 80}]
routes:
  - {name: first, rules: [{matches: [{path: {value: /a/}}]}, {matches: [{path: {value: /a}}]}]}
  - {name: second, rules: [{matches: [{path: {value: /a}}, {path: {type: Exact, value: /a}}]}]}
`, `
http :80 ""
  "" exact /a -> second/0
  "" prefix /a/ -> first/0
`,
		},
		"of equal paths, a method comes before headers, these before parameters, and more before fewer": {
			`
listeners: [{name: http, port: 80}]
routes:
  - name: r
    rules:
      - matches: [{}, {queryParams: [{name: q, value: a b}]}, {headers: [{name: X-B, value: b}]}, {headers: [{name: X-B, value: b}, {name: X-A, type: RegularExpression, value: a.*}]}, {method: GET}]
      - matches: [{path: {type: RegularExpression, value: /x}}, {path: {type: RegularExpression, value: /longer}, method: PUT}, {path: {type: Exact, value: /%61}}]
      - matches: [{method: GET}, {headers: [{name: x-b, value: b}]}, {headers: [{name: x-b, value: c}]}]
`, `
http :80 ""
  "" exact /a -> r/1
  "" regex /longer PUT -> r/1
  "" regex /x -> r/1
  "" prefix / GET -> r/0
  "" prefix / header x-a=a.* header x-b=b -> r/0
  "" prefix / header x-b=b -> r/0
  "" prefix / header x-b=c -> r/2
  "" prefix / query q=a%20b -> r/0
  "" prefix / -> r/0
`,
		},
		"expressions are tried in the order of the object, and those on parameters are left as they are": {
			`
listeners: [{name: http, port: 80}]
routes:
  - name: r
    rules:
      - matches: [{path: {type: RegularExpression, value: /x}}, {path: {type: RegularExpression, value: /longer}}, {path: {type: RegularExpression, value: /a}}]
      - matches: [{queryParams: [{name: q, type: RegularExpression, value: "[a c]"}]}]
`, `
http :80 ""
  "" regex /x -> r/0
  "" regex /longer -> r/0
  "" regex /a -> r/0
  "" prefix / query q=[a c] -> r/1
`,
		},
		"a value is not taken for other conditions": {
			`
listeners: [{name: http, port: 80}]
routes:
  - name: r
    rules:
      - matches: [{headers: [{name: x-a, value: "b false} {x-c d"}]}]
      - matches: [{headers: [{name: x-a, value: b}, {name: x-c, value: d}]}]
      - matches: [{path: {type: RegularExpression, value: /a GET}}]
      - matches: [{path: {type: RegularExpression, value: /a}, method: GET}]
`, `
http :80 ""
  "" regex /a GET -> r/3
  "" regex /a GET -> r/2
  "" prefix / header x-a=b header x-c=d -> r/1
  "" prefix / header x-a=b false} {x-c d -> r/0
`,
		},
		"routes of connections, and a listener that redirects": {
			`
listeners: [{name: tcp, port: 1, protocol: TCP}, {name: tls, port: 2, protocol: TLS, tls: {mode: Passthrough}}, {name: http, port: 80, httpsRedirect: {}}, {name: https, port: 8443, protocol: HTTPS, tls: {certificateRefs: [{name: a}]}}]
routes: [{name: r, rules: [{}]}]
tcpRoutes: [{name: t, listeners: [tcp], rules: [{backendRefs: [{name: a, port: 1}]}]}, {name: hidden, listeners: [tcp], rules: [{backendRefs: [{name: b, port: 1}]}]}]
tlsRoutes: [{name: s, hostnames: [a.io], rules: [{backendRefs: [{name: a, port: 1, weight: 2}, {name: b, port: 1, weight: 0}]}]}]
`, `
tcp :1 ""
  "" prefix / -> t/0 a:1*1
tls :2 ""
  "a.io" prefix / -> s/0 a:1*2
http :80 ""
  "" prefix / -> /0
https :8443 ""
  "" prefix / -> r/0
`,
		},
		"listeners are ordered by port, then by hostname": {
			`{listeners: [{name: a, port: 81}, {name: b, port: 80}, {name: c, port: 80, hostname: "*.io"}, {name: d, port: 80, hostname: x.io}]}`, `
d :80 "x.io"
c :80 "*.io"
b :80 ""
a :81 ""
`,
		},
		"a route is in the listeners it names, with the hostnames that fit there": {
			`
listeners: [{name: wild, port: 80, hostname: "*.io"}, {name: exact, port: 80, hostname: a.io}, {name: other, port: 81}]
routes: [{name: r, listeners: [wild, exact], hostnames: [a.io, "*.a.io", "*.io", io, a.com], rules: [{}]}]
`, `
exact :80 "a.io"
  "a.io" prefix / -> r/0
  "*.io" prefix / -> r/0
wild :80 "*.io"
  "a.io" prefix / -> r/0
  "*.a.io" prefix / -> r/0
  "*.io" prefix / -> r/0
other :81 ""
`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			table, problems := routingtest.Compile(parseSpec(t, test.spec))
			if got := "\n" + format(table); got != test.want {
				t.Errorf("got:%s\nwant:%s", got, test.want)
			}
			if len(problems) > 0 {
				t.Errorf("unexpected problems: %+v", problems)
			}
		})
	}
}

func TestCompileProblems(t *testing.T) {
	const listeners = `listeners: [{name: example, port: 80, hostname: "*.example.com"}, {name: exact, port: 80, hostname: a.io}]` + "\n"
	tests := map[string]struct {
		routes string
		want   []routing.Problem
	}{
		"a route that fits the listeners it names": {`routes: [{name: r, listeners: [example], hostnames: [a.example.com, b.io], rules: [{}]}]`, nil},
		"a route that fits one of all listeners":   {`routes: [{name: r, hostnames: [a.io], rules: [{}]}]`, nil},
		"a route that fits one of the two listeners it names": {
			`routes: [{name: r, listeners: [example, exact], hostnames: [example.com, a.io], rules: [{}]}]`,
			[]routing.Problem{{RouteKind: "HTTPRoute", Route: "r", Listener: "example", Reason: model.ReasonNoMatchingListenerHostname, Message: `route "r" gets no requests from listener "example": none of its hostnames is within the listener's hostname "*.example.com"`}},
		},
		"a route that fits no listener": {
			`routes: [{name: r, hostnames: ["*.a.io", example.com], rules: [{}]}]`,
			[]routing.Problem{{RouteKind: "HTTPRoute", Route: "r", Reason: model.ReasonNoMatchingListenerHostname, Field: "hostnames", Message: `route "r" gets no requests: no listener is for *.a.io, example.com (example: *.example.com, exact: a.io): change its hostnames, or the hostname of a listener`}},
		},
		"no listener of its protocol": {
			`tcpRoutes: [{name: t, rules: [{backendRefs: [{name: a, port: 1}]}]}]`,
			[]routing.Problem{{RouteKind: "TCPRoute", Route: "t", Reason: model.ReasonNoMatchingListenerHostname, Message: `route "t" gets no requests: no listener is of protocol TCP, or TLS with tls.mode Terminate: add one`}},
		},
		"a listener of another protocol": {
			`tcpRoutes: [{name: t, listeners: [exact], rules: [{backendRefs: [{name: a, port: 1}]}]}]`,
			[]routing.Problem{{RouteKind: "TCPRoute", Route: "t", Listener: "exact", Reason: model.ReasonNoMatchingListenerHostname, Message: `route "t" gets no requests from listener "exact", which is not of protocol TCP, or TLS with tls.mode Terminate`}},
		},
		"matches that cannot be carried out": {
			`routes: [{name: r, listeners: [exact], rules: [{matches: [{path: {type: RegularExpression, value: "("}}, {headers: [{name: A, value: b}, {name: a, value: b}]}, {queryParams: [{name: q, type: RegularExpression, value: "a**"}]}, {path: {value: /a%}}]}]}]`,
			[]routing.Problem{
				{RouteKind: "HTTPRoute", Route: "r", Reason: model.ReasonUnsupportedValue, Field: "rules[0].matches[0]", Message: `route "r": requests that may be for rules[0].matches[0] are answered with 500: the regular expression of path is not valid: missing closing ): "("`},
				{RouteKind: "HTTPRoute", Route: "r", Reason: model.ReasonUnsupportedValue, Field: "rules[0].matches[1]", Message: `route "r": requests that may be for rules[0].matches[1] are answered with 500: header "a" is there twice`},
				{RouteKind: "HTTPRoute", Route: "r", Reason: model.ReasonUnsupportedValue, Field: "rules[0].matches[2]", Message: `route "r": requests that may be for rules[0].matches[2] are answered with 500: the regular expression of query parameter "q" is not valid: invalid nested repetition operator: "**"`},
				{RouteKind: "HTTPRoute", Route: "r", Reason: model.ReasonUnsupportedValue, Field: "rules[0].matches[3]", Message: `route "r": no request meets rules[0].matches[3]: requests with the path "/a%" are answered with 400`},
			},
		},
		"conditions that are too long together": {
			`routes: [{name: r, listeners: [exact], rules: [{matches: [{headers: [{name: A, value: "` + strings.Repeat("#", 1000) + `"}, {name: b, value: "` + strings.Repeat("#", 500) + `"}]}]}]}]`,
			[]routing.Problem{{RouteKind: "HTTPRoute", Route: "r", Reason: model.ReasonUnsupportedValue, Field: "rules[0].matches[0]", Message: `route "r": requests that may be for rules[0].matches[0] are answered with 500: its conditions are too long: 6002 bytes where 6000 are allowed, when every sign is written out`}},
		},
		"a listener that does not exist": {
			`routes: [{name: r, listeners: [gone], rules: [{}]}]`,
			[]routing.Problem{{RouteKind: "HTTPRoute", Route: "r", Listener: "gone", Reason: model.ReasonNoMatchingListenerHostname, Message: `route "r" names listener "gone", which does not exist`}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for i := range test.want {
				test.want[i].Origin.Kind = "Gateway"
			}
			spec := parseSpec(t, listeners+test.routes)
			if _, got := routingtest.Compile(spec); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if got := (&routing.Compiler{Check: filters.Problem}).Problems(source.Translate(&appv1.Gateway{Spec: *spec})); !reflect.DeepEqual(got, test.want) {
				t.Errorf("without the table, got %+v, want %+v", got, test.want)
			}
		})
	}
}

// TestMatchesThatCannotBeCarriedOut: all requests that such a match may be for get an error, and no other rule.
func TestMatchesThatCannotBeCarriedOut(t *testing.T) {
	for match, want := range map[string]string{
		`path: {type: RegularExpression, value: "("}`:                                                     `regex .*`,
		`path: {type: RegularExpression, value: "^/a.b/(c*)*"}`:                                           `regex /a.*`,
		`path: {type: RegularExpression, value: "/a\\.b(c*)*"}`:                                           `regex /a\.b.*`,
		`path: {type: RegularExpression, value: "(?i)/a(c*)*"}`:                                           `regex .*`,
		`path: {type: RegularExpression, value: "/docs/a%20b"}`:                                           `regex /docs/a.*`,
		`path: {type: RegularExpression, value: "/docs/\\xe9b"}`:                                          `regex /docs/.*`,
		`path: {type: RegularExpression, value: "/a|(c*)*"}`:                                              `regex .*`,
		`path: {value: /b}, method: GET, headers: [{name: A, value: b}, {name: a, value: b}]`:             `prefix /b/ GET header a=.*`,
		`path: {value: /b}, headers: [{name: a, value: b}, {name: b, type: RegularExpression, value: (}]`: `prefix /b/ header a=.* header b=.*`,
		`queryParams: [{name: q, type: RegularExpression, value: "a**"}]`:                                 `prefix / query q=.*`,
	} {
		table, problems := routingtest.Compile(parseSpec(t, `
listeners: [{name: http, port: 80}]
routes: [{name: r, rules: [{backendRefs: [{name: b, port: 80}], matches: [{`+match+`}, {path: {type: Exact, value: /x}}]}]}]
`))
		got := format(table)
		if len(problems) != 1 || !strings.Contains(got, `"" `+want) || !strings.Contains(got, `"" exact /x -> r/0`) {
			t.Errorf("%s: got %v and\n%s\nwant\n%s", match, problems, got, want)
		}
		for entry := range table.Listeners[0].Entries() {
			if entry.PathType != routing.Exact && len(entry.Rule.Targets) > 0 {
				t.Errorf("%s: its requests get to a backend", match)
			}
		}
	}
}

// TestSets: the order in which sets are given makes no difference.
func TestSets(t *testing.T) {
	compile := func(proxies, codes string) routing.Table {
		table, _ := routingtest.Compile(parseSpec(t, fmt.Sprintf(`
listeners: [{name: http, port: 80}]
trustedProxies: [%s]
routes: [{name: r, rules: [{retry: {codes: [%s]}}]}]
`, proxies, codes)))
		return table
	}
	if got, want := compile("fd00::/8, 10.0.0.0/8", "503, 500"), compile("10.0.0.0/8, fd00::/8", "500, 503"); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestBackends(t *testing.T) {
	table, _ := routingtest.Compile(parseSpec(t, `
listeners: [{name: a, port: 80}, {name: b, port: 81}]
routes: [{name: r, rules: [{backendRefs: [{name: v, port: 2}, {name: x, port: 3}, {name: z, port: 1, weight: 0}]}, {matches: [{path: {value: /a}}], backendRefs: [{name: x, port: 3}, {name: x, port: 2}]}]}]
`))
	want := []routing.Backend{{Service: "v", Port: 2}, {Service: "x", Port: 2}, {Service: "x", Port: 3}}
	if got := table.Backends(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestProblemsOfATableTooLarge: the problems of a spec that asks for a table of half a million entries are found
// without that table.
func TestProblemsOfATableTooLarge(t *testing.T) {
	spec := appv1.GatewaySpec{}
	for i := range 16 {
		spec.Listeners = append(spec.Listeners, appv1.Listener{Name: appv1.Name(fmt.Sprint("l", i)), Port: int32(8000 + i), Protocol: appv1.ProtocolHTTP})
		route := appv1.Route{Name: appv1.Name(fmt.Sprint("r", i))}
		for j := range 16 {
			route.Hostnames = append(route.Hostnames, appv1.Hostname(fmt.Sprintf("h%d.com", j)))
		}
		for j := range 8 {
			rule := appv1.RouteRule{}
			for k := range 16 {
				rule.Matches = append(rule.Matches, appv1.RouteMatch{Path: appv1.PathMatch{Value: fmt.Sprintf("/%d/%d/%d", i, j, k)}})
			}
			route.Rules = append(route.Rules, rule)
		}
		spec.Routes = append(spec.Routes, route)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	problems := (&routing.Compiler{Check: filters.Problem}).Problems(source.Translate(&appv1.Gateway{Spec: spec}))
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; len(problems) > 0 || allocated > 8<<20 {
		t.Errorf("%d bytes for the problems %v", allocated, problems)
	}
}

// BenchmarkCompile has the bound of 5 ms for 1,000 rules.
func BenchmarkCompile(b *testing.B) {
	for _, rules := range []int{1000, 10_000} {
		gateway := &appv1.Gateway{Spec: appv1.GatewaySpec{Listeners: []appv1.Listener{{Name: "http", Port: 80}}}}
		for i := range rules {
			gateway.Spec.Routes = append(gateway.Spec.Routes, appv1.Route{
				Name:      appv1.Name(fmt.Sprint("route-", i)),
				Hostnames: []appv1.Hostname{appv1.Hostname(fmt.Sprintf("host-%d.example.com", i))},
				Rules:     []appv1.RouteRule{{BackendRefs: []appv1.BackendRef{{Name: "web", Port: 80}}}},
			})
		}
		b.Run(fmt.Sprint("rules=", rules), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				routing.Compile(source.Translate(gateway), filters.Problem)
			}
		})
	}
}
