package routing_test

import (
	"testing"

	"gateway/internal/routing/routingtest"
)

// TestRoutePath: where a rule has several paths, the one that matches counts.
func TestRoutePath(t *testing.T) {
	table, _ := routingtest.Compile(parseSpec(t, `
listeners: [{name: http, port: 80, protocol: HTTP}]
routes:
  - name: shop
    hostnames: [shop.example.com, "*.example.com"]
    rules:
      - matches: [{path: {value: /cart}}, {path: {type: Exact, value: /}}, {path: {value: /cart/items}}]
        backendRefs: [{name: a, port: 80}]
      - matches: [{path: {type: RegularExpression, value: "/v[0-9]+"}, headers: [{name: a, value: b}]}, {path: {type: RegularExpression, value: "/v[0-9]+"}, headers: [{name: a, value: c}]}]
        backendRefs: [{name: a, port: 80}]
      - matches: [{path: {type: RegularExpression, value: "/w[0-9]+"}}, {path: {value: /x}}]
        backendRefs: [{name: a, port: 80}]
  - name: rest
    rules: [{backendRefs: [{name: a, port: 80}]}]
`))
	for _, c := range []struct {
		host, route string
		rule        int
		path, want  string
	}{
		{"shop.example.com", "shop", 0, "/cart/1", "/cart"},
		{"other.example.com", "shop", 0, "/c%61rt//items", "/cart/items"},
		{"shop.example.com", "shop", 0, "/", "/"},
		{"shop.example.com", "shop", 0, "/elsewhere", ""},
		{"shop.example.com", "shop", 1, "/v1", "/v[0-9]+"},
		{"shop.example.com", "shop", 2, "/w1", "/w[0-9]+"},
		{"shop.example.com", "shop", 2, "/x/1", ""},
		{"shop.example.com", "rest", 0, "/any", "/"},
		{"example.org", "rest", 0, "/any", "/"},
		{"example.org", "shop", 0, "/cart", ""},
		{"shop.example.com", "shop", 7, "/cart", ""},
		{"shop.example.com", "-", 0, "/cart", ""},
		{"shop.example.com", "shop", 0, "/../cart", ""},
	} {
		if got := table.RoutePath("http", c.host, c.route, c.rule, c.path); got != c.want {
			t.Errorf("%s%s of rule %s[%d] is compared with %q, want %q", c.host, c.path, c.route, c.rule, got, c.want)
		}
	}
	if got := table.RoutePath("other", "shop.example.com", "shop", 0, "/cart"); got != "" {
		t.Errorf("another listener has the path %q", got)
	}
}
