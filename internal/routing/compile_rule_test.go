package routing_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"gateway/internal/routing"
)

// compileOne returns what is made of a rule, which is given without its braces.
func compileOne(t *testing.T, rule string) (*routing.Rule, []routing.Problem) {
	t.Helper()
	table, problems := routing.Compile(parseSpec(t, "listeners: [{name: http, port: 80}]\nroutes: [{name: r, rules: [{"+rule+"}]}]"))
	return table.Listeners[0].Hosts[0].Entries[0].Rule, problems
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
	} {
		if got, _ := compileOne(t, rule); got.Timeout != want {
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
	} {
		if got, _ := compileOne(t, rule); got.Retry.Attempts != want {
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
		compile := func(backend string) routing.Table {
			table, _ := routing.Compile(parseSpec(t, "listeners: [{name: http, port: 80}]\nbackends: [{name: a, port: 80, "+backend+"}]"))
			return table
		}
		if got, want := compile(given).Policies, compile(stored).Policies; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", given, got, want)
		}
	}
}

func TestHeadersOfARule(t *testing.T) {
	rule, _ := compileOne(t, `filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: A, value: "1"}, {name: b, value: "2"}], set: [{name: a, value: "0"}], remove: [C, B]}}]`)
	want := []routing.HeaderChange{{Name: "a", Clear: true, Values: []string{"0", "1"}}, {Name: "b", Clear: true, Values: []string{"2"}}, {Name: "c", Clear: true}}
	if !reflect.DeepEqual(rule.Headers.Request, want) {
		t.Errorf("got %+v, want %+v", rule.Headers.Request, want)
	}
	after := routing.Then(want, routing.HeaderChange{Name: "a", Values: []string{"3"}}, routing.HeaderChange{Name: "b", Clear: true})
	want = []routing.HeaderChange{{Name: "a", Clear: true, Values: []string{"0", "1", "3"}}, {Name: "b", Clear: true}, {Name: "c", Clear: true}}
	if !reflect.DeepEqual(after, want) {
		t.Errorf("got %+v, want %+v", after, want)
	}
}

func TestFiltersThatAreTooLong(t *testing.T) {
	setting := func(n int, name, value string) string {
		var headers strings.Builder
		for i := range n {
			fmt.Fprintf(&headers, "{name: %s%d, value: '%s'},", name, i, value)
		}
		return "{type: RequestHeaderModifier, requestHeaderModifier: {set: [" + headers.String() + "]}}"
	}
	tests := map[string]string{
		setting(16, "h", strings.Repeat("a", 500)):                      "its filters have 8",
		setting(16, strings.Repeat("h", 127), strings.Repeat("a", 200)): "its filters have 7",
		setting(10, "h", strings.Repeat("a", 500)) + ", {type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /" +
			strings.Repeat("%20", 341) + "}}}": "its filters have 6",
		"{type: CORS, cors: {allowOrigins: ['*'], allowHeaders: [" + strings.Repeat(strings.Repeat("h", 120)+", ", 64) + "]}}": "its filters have 8",
	}
	// A sign that has to be encoded takes three bytes.
	for _, sign := range []string{"#", "%", "|", "+"} {
		tests[setting(16, "h", strings.Repeat(sign, 500))] = "its filters have 24"
	}
	for filters, want := range tests {
		filters = "filters: [" + filters + "]"
		rules := []string{filters + ", backendRefs: [{name: a, port: 80}]"}
		if !strings.Contains(filters, "URLRewrite") && !strings.Contains(filters, "CORS") {
			rules = append(rules, "sessionPersistence: {}, backendRefs: [{name: a, port: 80}, {name: b, port: 80, weight: 0, "+filters+"}]")
		}
		for _, rule := range rules {
			compiled, problems := compileOne(t, rule)
			if len(compiled.Targets) != 0 || len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
				t.Errorf("got %+v and %+v, want %s", compiled, problems, want)
			}
		}
	}
}

// TestPortsOfRedirectsToHTTPS: a client is sent to the port of a listener that takes the hostname, and to 443 where one there does.
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
		table, _ := routing.Compile(parseSpec(t, "listeners: [{name: http, port: 80, protocol: HTTP, httpsRedirect: true}, "+listeners+"]"))
		for host, want := range wants {
			match, ok := table.Match(routing.Request{Port: 80, Host: host, Path: "/", Method: "GET"})
			if !ok || match.Rule.Redirect.Port != want {
				t.Errorf("%s: %s is sent to %+v, want port %d", listeners, host, match.Rule.Redirect, want)
			}
		}
	}
}
