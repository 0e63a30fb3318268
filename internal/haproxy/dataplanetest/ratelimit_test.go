package dataplanetest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing/routingtest"
)

const rateLimitsWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  trustedProxies: [127.0.0.0/8]
  routes:
    - name: limited
      rules:
        - matches: [{path: {value: /client}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour}]}}, {type: CORS, cors: {allowOrigins: ["https://a.io"]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /header}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour, key: {type: Header, name: X-Key}}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /cookie}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Minute, key: {type: Cookie, name: id}}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /dots}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Minute, key: {type: Cookie, name: connect.sid}}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /path}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour, key: {type: Path}}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /rule}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour, key: {type: Rule}}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /redirect}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour, key: {type: Rule}}]}}, {type: RequestRedirect, requestRedirect: {scheme: https}}]
        - matches: [{path: {value: /several}}]
          filters:
            - type: RateLimit
              rateLimit: {limits: [{requests: 4, unit: Hour}, {requests: 100, unit: Second, key: {type: Rule}}, {requests: 2, unit: Minute, key: {type: Header, name: X-Key}}]}
          backendRefs: [{name: web, port: 80}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
`

// TestRateLimits sends requests that count together: three are let through, and a fourth is not. Others that do not
// count with them still are.
func TestRateLimits(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, rateLimitsWorld))
	for _, test := range []struct {
		name string
		// together are requests that count together, each a path and header lines. Those beside do not.
		together, beside []string
	}{
		{"clients", []string{"/client X-Forwarded-For: 192.0.2.1", "/%63lient/a X-Forwarded-For: 192.0.2.1"}, []string{"/client X-Forwarded-For: 192.0.2.2"}},
		{"spoofed clients", []string{"/client X-Forwarded-For: 192.0.2.9, 203.0.113.1", "/client X-Forwarded-For: 192.0.2.8, 203.0.113.1"}, nil},
		{"clients of IPv4 in IPv6", []string{"/client X-Forwarded-For: ::ffff:198.51.100.1", "/client X-Forwarded-For: 198.51.100.1"}, []string{"/client X-Forwarded-For: ::ffff:198.51.100.2"}},
		{"clients of IPv6", []string{"/client X-Forwarded-For: 2001:db8::1", "/client X-Forwarded-For: 2001:db8::ffff:1"}, []string{"/client X-Forwarded-For: 2001:db8:0:1::1"}},
		{"headers", []string{"/header X-Key: one", "/header x-key: one"}, []string{"/header X-Key: One"}},
		{"repeated headers", []string{"/header X-Key: a\r\nX-Key: b", "/header"}, []string{"/header X-Key: b"}},
		{"cookies", []string{"/cookie Cookie: id=a; b=1", "/cookie Cookie: b=2; id=a", "/cookie Cookie: c=3, id=z; id=a"}, []string{"/cookie Cookie: id=b", "/cookie"}},
		{"cookies with a dot", []string{"/dots Cookie: connect.sid=a; connect=b", "/dots Cookie: connect.sid=a"}, []string{"/dots Cookie: connect.sid=b"}},
		{"paths", []string{"/path/a?x=1", "/path/%61?x=2"}, []string{"/path/b"}},
		{"a rule", []string{"/rule/a", "/rule/b X-Key: b"}, nil},
		{"redirects", []string{"/redirect/a", "/redirect/b"}, nil},
	} {
		c := newClient(t, g.ports[80])
		send := func(request string) answer {
			path, header, ok := strings.Cut(request, " ")
			if ok {
				header += "\r\n"
			}
			return c.send("GET " + path + " HTTP/1.1\r\nHost: x\r\n" + header + "\r\n")
		}
		for i := range 3 {
			got := send(test.together[i%len(test.together)])
			if want := fmt.Sprintf(`";r=%d;t=`, 2-i); got.Status == http.StatusTooManyRequests || !strings.Contains(got.Header.Get("RateLimit"), want) {
				t.Errorf("%s: request %d: got %d, %v, want RateLimit %s", test.name, i, got.Status, got.Header, want)
			}
		}
		for _, request := range test.together {
			got := send(request)
			if got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" || !strings.Contains(got.Header.Get("RateLimit"), `";r=0;`) {
				t.Errorf("%s: a fourth request: got %d, %v", test.name, got.Status, got.Header)
			}
		}
		for _, request := range test.beside {
			if got := send(request); got.Status != http.StatusOK {
				t.Errorf("%s: %s: got %d, %v", test.name, request, got.Status, got.Header)
			}
		}
	}
	c := newClient(t, g.ports[80])
	preflight := "OPTIONS /client HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nOrigin: https://a.io\r\nAccess-Control-Request-Method: GET\r\n\r\n"
	if got := c.send(preflight); got.Status != http.StatusNoContent {
		t.Errorf("a preflight counts: got %d", got.Status)
	}
	got := c.send("GET /client HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\nOrigin: https://a.io\r\n\r\n")
	if got.Status != http.StatusTooManyRequests || got.Header.Get("Access-Control-Allow-Origin") != "https://a.io" || got.Header.Get("Retry-After") != "4800" ||
		got.Header.Get("RateLimit-Policy") != `"hour";q=3;w=3600` {
		t.Errorf("a page may not read that it has to wait, or for how long: %d, %v", got.Status, got.Header)
	}
}

// TestSeveralRateLimits: a request has to be within all limits of its rule, and one that is not counts for none: a
// client beyond its own limit makes no counters of other keys.
func TestSeveralRateLimits(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, rateLimitsWorld))
	for i, test := range []struct {
		key, wait string
		// minute and hour are how many requests are left.
		minute, hour int
	}{
		{"a", "", 1, 3},
		{"a", "", 0, 2},
		{"a", "90", 0, 2},
		{"b", "", 1, 1},
		{"c", "", 1, 0},
		{"c", "4500", 1, 0},
		{"d", "4500", 2, 0},
		{"a", "4500", 0, 0},
	} {
		got := newClient(t, g.ports[80]).send("GET /several HTTP/1.1\r\nHost: x\r\nX-Key: " + test.key + "\r\n\r\n")
		policy, left := got.Header["Ratelimit-Policy"], got.Header["Ratelimit"]
		want := fmt.Sprintf(`, "minute";r=%d;t=60, "hour";r=%d;t=3600`, test.minute, test.hour)
		if got.Header.Get("Retry-After") != test.wait || (got.Status == http.StatusTooManyRequests) != (test.wait != "") ||
			len(left) != 1 || !strings.HasPrefix(left[0], `"second";r=`) || !strings.HasSuffix(left[0], want) ||
			!slices.Equal(policy, []string{`"second";q=100;w=1, "minute";q=2;w=60, "hour";q=4;w=3600`}) {
			t.Errorf("request %d, of %s: got %d, %v, want %s to wait, %s left", i, test.key, got.Status, got.Header, test.wait, want)
		}
	}
	if table := g.Worker("show table " + ir.PodsSection + "/minute_100"); !strings.Contains(table, "used:3\n") {
		t.Errorf("there are not three counters, of a, b and c:\n%s", table)
	}
}

// TestRateLimitChanges: a limit changes without a reload, and what was counted still counts.
func TestRateLimitChanges(t *testing.T) {
	t.Parallel()
	w := rendertest.Parse(t, rateLimitsWorld)
	g := startGateway(t, w)
	send := func(want int) {
		t.Helper()
		if got := newClient(t, g.ports[80]).send(get("x", "/rule")); got.Status != want {
			t.Errorf("got %d, want %d", got.Status, want)
		}
	}
	for range 3 {
		send(http.StatusOK)
	}
	send(http.StatusTooManyRequests)
	changed := rendertest.Parse(t, strings.ReplaceAll(rateLimitsWorld, "requests: 3", "requests: 4"))
	changed.Spec.Listeners[0].Port = g.ports[80]
	in := g.in
	in.Table, _ = routingtest.Compile(&changed.Spec)
	p := plan.Diff(render.Render(in), render.Render(g.in))
	g.change(t, p, func() {})
	send(http.StatusOK)
	send(http.StatusTooManyRequests)
}

// TestRateLimitsOfStrangers: what a client that is no trusted proxy says about its address changes nothing.
func TestRateLimitsOfStrangers(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, strings.Replace(rateLimitsWorld, "trustedProxies: [127.0.0.0/8]", "trustedProxies: [192.0.2.0/24]", 1)))
	for i, want := range []int{200, 200, 200, 429} {
		headers := fmt.Sprintf("X-Forwarded-For: 203.0.113.%d\r\nForwarded: for=203.0.113.%d\r\nX-Real-IP: 203.0.113.%d\r\n", i, i, i)
		if got := newClient(t, g.ports[80]).send("GET /client HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n"); got.Status != want {
			t.Errorf("request %d: got %d, want %d", i, got.Status, want)
		}
	}
}
