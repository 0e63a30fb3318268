package appv1_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	source "gateway/internal/source/appv1"
)

func parseSpec(t testing.TB, text string) appv1.GatewaySpec {
	t.Helper()
	var spec appv1.GatewaySpec
	if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
		t.Fatalf("failed to parse the spec: %v", err)
	}
	return spec
}

// translate returns what is made of a spec of the Gateway shop/web, in its third generation.
func translate(t testing.TB, text string) *model.Gateway {
	t.Helper()
	gateway := &appv1.Gateway{Spec: parseSpec(t, text)}
	gateway.Namespace, gateway.Name, gateway.Generation = "shop", "web", 3
	return source.Translate(gateway)
}

// TestOrigins: the origin of everything is the Gateway, and its Services are in its namespace.
func TestOrigins(t *testing.T) {
	got := translate(t, `
listeners: [{name: http, port: 80}, {name: tcp, port: 81, protocol: TCP}]
routes: [{name: r, rules: [{backendRefs: [{name: a, port: 80}]}]}]
tcpRoutes: [{name: t, listeners: [tcp, http], rules: [{backendRefs: [{name: b, port: 1}]}]}]
backends: [{name: a, port: 80}]
`)
	origin := model.Origin{Kind: "Gateway", Namespace: "shop", Name: "web", Generation: 3}
	routes := slices.Collect(got.Routes.Values())
	origins := []model.Origin{got.Listeners[0].Origin, got.Listeners[1].Origin, routes[0].Origin, routes[1].Origin, got.Problems[0].Origin}
	for _, one := range origins {
		if one != origin {
			t.Errorf("the origins are %+v, want %+v", origins, origin)
		}
	}
	a, b := routes[0].Rules[0].Backends[0].Backend, routes[1].Rules[0].Backends[0].Backend
	if _, known := got.Policies[a]; !known || a.String() != "shop/a:80" || b.String() != "shop/b:1" {
		t.Errorf("got the backends %s and %s, and the policies %v", a, b, got.Policies)
	}
	if got := routes[1].Listeners; !reflect.DeepEqual(got, []string{"tcp"}) {
		t.Errorf("the TCP route is attached to %v", got)
	}
}

// rulesOf returns the rules of the first route of a spec.
func rulesOf(t *testing.T, spec string) []model.Rule {
	t.Helper()
	return slices.Collect(translate(t, spec).Routes.Values())[0].Rules
}

// ruleOf returns what is made of a rule, which is given without its braces.
func ruleOf(t *testing.T, rule string) model.Rule {
	t.Helper()
	return rulesOf(t, "listeners: [{name: http, port: 80}]\nroutes: [{name: r, rules: [{"+rule+"}]}]")[0]
}

// TestRefusedRules: what the API server would refuse is refused, and named, though no API server has seen it.
func TestRefusedRules(t *testing.T) {
	for list, want := range map[string]string{
		`{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: "é"}]}}`: `the header X-A cannot have the value "é"`,
		`{type: ResponseHeaderModifier, responseHeaderModifier: {remove: [Transfer_Encoding]}}`:  `the header "Transfer_Encoding" cannot be changed`,
		`{type: CORS, cors: {allowOrigins: ["https://a.io/"]}}`:                                  `CORS: the origin "https://a.io/" cannot be compared`,
		`{type: RateLimit}`: "spec.filters[0] of type RateLimit is not supported in a RouteFilter, or lacks its field",
		`{type: BasicAuth, basicAuth: {secretRef: {name: a}}}, {type: JWT, jwt: {}}`: "BasicAuth and JWT both want the header Authorization, so every request would get 401: " +
			"remove one of them from the rule",
	} {
		got := translate(t, `
listeners: [{name: open, port: 80}, {name: closed, port: 81, filters: [`+list+`]}]
routes: [{name: r, rules: [{backendRefs: [{name: a, port: 80}]}, {filters: [`+list+`], backendRefs: [{name: a, port: 80}]}]}]
`)
		if rule := slices.Collect(got.Routes.Values())[0].Rules[1]; rule.Refused != want || rule.Backends != nil {
			t.Errorf("%s: got %+v, want it to be refused: %s", list, rule, want)
		}
		var problems []string
		for _, problem := range got.Problems {
			problems = append(problems, problem.Message)
		}
		if wants := []string{`listener "closed": ` + want, `route "r": requests for rules[1] are answered with 500: ` + want}; !reflect.DeepEqual(problems, wants) {
			t.Errorf("%s: got the problems %q, want %q", list, problems, wants)
		}
		table, _ := routing.Compile(got, filters.Problem)
		for _, listener := range table.Listeners {
			match, ok := table.Match(routing.Request{Port: listener.Port, Host: "a.io", Path: "/", Method: "GET"})
			if isOpen := len(match.Rule.Targets) > 0; !ok || isOpen != (listener.Name == "open") {
				t.Errorf("%s: listener %s leads to %+v", list, listener.Name, match.Rule)
			}
		}
	}
}

// TestConditionsOnOneHeader: all of them count.
func TestConditionsOnOneHeader(t *testing.T) {
	rule := ruleOf(t, `matches: [{headers: [{name: X-A, type: RegularExpression, value: "a.*"}, {name: x-a, value: ab}]}]`)
	want := []model.Condition{{Name: "x-a", Value: "a.*", Regex: true}, {Name: "x-a", Value: "ab"}}
	if got := rule.Matches[0].Headers; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTimeoutsOfARule(t *testing.T) {
	for rule, want := range map[string]time.Duration{
		"":                                  0,
		"timeouts: {}":                      0,
		"timeouts: {request: 10s}":          10 * time.Second,
		"timeouts: {backendRequest: 1m30s}": 90 * time.Second,
		"timeouts: {request: 10s, backendRequest: 500ms}": 500 * time.Millisecond,
		"timeouts: {request: 0s}":                         -1,
		"timeouts: {request: 0s, backendRequest: 2s}":     2 * time.Second,
		"timeouts: {request: 2s, backendRequest: 0s}":     2 * time.Second,
		// All attempts share the time for the request.
		"retry: {}, timeouts: {request: 10s}":                               2500 * time.Millisecond,
		"retry: {attempts: 0}, timeouts: {request: 10s}":                    10 * time.Second,
		"retry: {attempts: 7}, timeouts: {request: 1s}":                     125 * time.Millisecond,
		"retry: {attempts: 10}, timeouts: {request: 3ms}":                   time.Millisecond,
		"retry: {attempts: 7}, timeouts: {request: 0s}":                     -1,
		"retry: {attempts: 7}, timeouts: {backendRequest: 1s}":              time.Second,
		"retry: {attempts: 7}, timeouts: {request: 9s, backendRequest: 0s}": 9 * time.Second,
	} {
		if got := ruleOf(t, rule); got.Timeout != want {
			t.Errorf("%s: got %s, want %s", rule, got.Timeout, want)
		}
	}
}

// TestAttemptsOfARule: all attempts together are within the time for the request.
func TestAttemptsOfARule(t *testing.T) {
	for rule, want := range map[string]int32{
		"retry: {}":            3,
		"retry: {attempts: 7}": 7,
		"retry: {attempts: 7}, timeouts: {request: 10s, backendRequest: 3s}":     2,
		"retry: {attempts: 1}, timeouts: {request: 10s, backendRequest: 3s}":     1,
		"retry: {attempts: 7}, timeouts: {request: 3s, backendRequest: 3s}":      0,
		"retry: {attempts: 7}, timeouts: {request: 99999h, backendRequest: 1ms}": 7,
		"retry: {attempts: 7}, timeouts: {request: 0s, backendRequest: 3s}":      7,
		"retry: {attempts: 7}, timeouts: {request: 10s, backendRequest: 0s}":     0,
		"retry: {attempts: 7}, timeouts: {request: 10s}":                         7,
		"retry: {attempts: 7}, timeouts: {request: 3ms}":                         2,
	} {
		if got := ruleOf(t, rule); got.Retry.Attempts != want {
			t.Errorf("%s: got %d, want %d", rule, got.Retry.Attempts, want)
		}
	}
}

// TestDefaultsOfABackend: what a file leaves out is what the API server stores for it.
func TestDefaultsOfABackend(t *testing.T) {
	for given, stored := range map[string]string{
		"connections: {maxPerEndpoint: 1}": "connections: {maxPerEndpoint: 1, queueTimeout: 10s}",
		"healthCheck: {}":                  "healthCheck: {interval: 5s, timeout: 2s, unhealthyThreshold: 3, healthyThreshold: 2}",
		"healthCheck: {}, outlierDetection: {}": "healthCheck: {interval: 5s, timeout: 2s, unhealthyThreshold: 3, healthyThreshold: 2}, " +
			"outlierDetection: {consecutiveErrors: 5}",
	} {
		policies := func(backend string) map[model.Backend]model.BackendPolicy {
			return translate(t, "listeners: [{name: http, port: 80}]\nbackends: [{name: a, port: 80, "+backend+"}]").Policies
		}
		if got, want := policies(given), policies(stored); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", given, got, want)
		}
	}
}

func TestHeadersOfARule(t *testing.T) {
	rule := ruleOf(t, `filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: A, value: "1"}, {name: b, value: "2"}], set: [{name: a, value: "0"}], remove: [C, B]}}]`)
	want := []model.HeaderChange{{Name: "a", Clear: true, Values: []string{"0", "1"}}, {Name: "b", Clear: true, Values: []string{"2"}}, {Name: "c", Clear: true}}
	if !reflect.DeepEqual(rule.Headers.Request, want) {
		t.Errorf("got %+v, want %+v", rule.Headers.Request, want)
	}
	twice := ruleOf(t, `filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: B, value: "1"}, {name: b, value: "2"}], set: [{name: a, value: "0"}, {name: A, value: "3"}]}}]`)
	if got, first := twice.Headers.Request, []model.HeaderChange{
		{Name: "a", Clear: true, Values: []string{"0"}}, {Name: "b", Values: []string{"1"}},
	}; !reflect.DeepEqual(got, first) {
		t.Errorf("of two in one list that differ in case, got %+v, want %+v", got, first)
	}
	after := model.Then(want, model.HeaderChange{Name: "a", Values: []string{"3"}}, model.HeaderChange{Name: "b", Clear: true})
	want = []model.HeaderChange{{Name: "a", Clear: true, Values: []string{"0", "1", "3"}}, {Name: "b", Clear: true}, {Name: "c", Clear: true}}
	if !reflect.DeepEqual(after, want) {
		t.Errorf("got %+v, want %+v", after, want)
	}
}

// TestPortsOfRedirectsToHTTPS: a client is sent to the port of a listener that takes the hostname, and to 443 where one
// there does.
func TestPortsOfRedirectsToHTTPS(t *testing.T) {
	const secure = ", protocol: HTTPS, tls: {certificateRefs: [{name: a}]}}"
	for listeners, wants := range map[string]map[string]int32{
		"{name: a, port: 8443" + secure: {"x.io": 8443},
		"{name: a, port: 8443, hostname: admin.io" + secure + ", {name: b, port: 443, hostname: \"*.shop.io\"" + secure: {
			"admin.io": 8443, "a.shop.io": 443, "other.io": 443,
		},
		"{name: a, port: 443, hostname: a.io" + secure + ", {name: b, port: 8443, hostname: \"*.io\"" + secure + ", {name: c, port: 9443, hostname: \"*.b.io\"" + secure: {
			"a.io": 443, "x.io": 8443, "x.b.io": 8443, "com": 443,
		},
		"{name: a, port: 8443, hostname: a.io" + secure + ", {name: b, port: 443" + secure: {"a.io": 443, "x.io": 443},
		"{name: a, port: 443, hostname: a.io" + secure + ", {name: b, port: 8443" + secure: {"a.io": 443, "x.io": 8443},
	} {
		spec := parseSpec(t, "listeners: [{name: http, port: 80, protocol: HTTP, httpsRedirect: {}}, "+listeners+"]")
		table, _ := routingtest.Compile(&spec)
		for host, want := range wants {
			match, ok := table.Match(routing.Request{Port: 80, Host: host, Path: "/", Method: "GET"})
			if !ok || match.Rule.Redirect.Port != want {
				t.Errorf("%s: %s is sent to %+v, want port %d", listeners, host, match.Rule.Redirect, want)
			}
		}
	}
}

// TestRulesKeepTheirOwn: a rule means the same among others as alone, whatever these have.
func TestRulesKeepTheirOwn(t *testing.T) {
	all := []string{
		`matches: [{path: {type: Exact, value: /a}, headers: [{name: a, value: b}], queryParams: [{name: a, value: b}]}, {path: {value: /b}, headers: [{name: c, value: d}]}],
		filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: b}], add: [{name: c, value: d}]}}, {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Second}]}}],
		timeouts: {request: 1s}, retry: {attempts: 1, codes: [503, 500]}, backendRefs: [{name: a, port: 1}, {name: b, port: 2, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {remove: [e]}}]}]`,
		`backendRefs: [{name: c, port: 3}]`,
		`matches: [{path: {value: /c}, headers: [{name: e, value: f}]}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /d}}},
		{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: g, value: h}]}}, {type: RateLimit, rateLimit: {limits: [{requests: 2, unit: Minute}]}}],
		timeouts: {backendRequest: 2s}, retry: {codes: [502]}, backendRefs: [{name: d, port: 4}]`,
	}
	for i, got := range rulesOf(t, "routes: [{name: r, rules: [{"+strings.Join(all, "}, {")+"}]}]") {
		if want := ruleOf(t, all[i]); want.Refused != "" || !reflect.DeepEqual(got, want) {
			t.Errorf("rule %d: got %+v, want %+v", i, got, want)
		}
	}
}
