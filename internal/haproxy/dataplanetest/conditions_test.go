package dataplanetest_test

import (
	"fmt"
	"strings"
	"testing"

	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing/routingtest"
)

// conditionsWorld is a world of hosts with conditions of their own, which the value in this text, with the number of
// the host in place of N, is a part of.
func conditionsWorld(t testing.TB, hosts int, value string) rendertest.World {
	t.Helper()
	w := rendertest.Parse(t, `
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
`)
	for i := range hosts {
		route := strings.ReplaceAll(fmt.Sprintf(`
spec:
  routes:
    - name: route-N
      hostnames: [host-N.example.com]
      rules:
        - matches: [{headers: [{name: X-A, value: N}]}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {type: RegularExpression, value: "/a/%[1]s/.*"}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{headers: [{name: X-A, type: RegularExpression, value: "%[1]s"}]}]
          backendRefs: [{name: one, port: 80}]
        - backendRefs: [{name: one, port: 80}]
`, value), "N", fmt.Sprint(i))
		w.Spec.Routes = append(w.Spec.Routes, rendertest.Parse(t, route).Spec.Routes...)
	}
	return w
}

// TestConditionsOfManyHosts has 1,000 hosts with conditions of their own: HAProxy compares each request with its
// host's few expressions alone.
func TestConditionsOfManyHosts(t *testing.T) {
	t.Parallel()
	const hosts = 1000
	g := startGateway(t, conditionsWorld(t, hosts, "N-[0-9]+"))
	c := newClient(t, g.ports[80])
	for i := 0; i < hosts; i += 37 {
		host := fmt.Sprintf("host-%d.example.com", i)
		for rule, request := range []string{
			fmt.Sprintf("GET / HTTP/1.1\r\nHost: %s\r\nX-A: %d\r\n\r\n", host, i),
			get(host, fmt.Sprintf("/a/%d-7/b", i)),
			fmt.Sprintf("GET / HTTP/1.1\r\nHost: %s\r\nX-A: %d-7\r\n\r\n", host, i),
			fmt.Sprintf("GET /a/%[2]d-7/b HTTP/1.1\r\nHost: %[1]s\r\nX-A: %[2]d-7\r\n\r\n", host, i+1),
		} {
			if got, want := c.send(request).Header.Get("Matched"), fmt.Sprintf("http route-%d %d", i, rule); got != want {
				t.Errorf("%q is matched by %q, want %q", request, got, want)
			}
		}
	}
	if n := len(ir.ConditionEntries(render.Render(g.in).Lists)); n == 0 || n > hosts/10 {
		t.Errorf("%d hosts have %d expressions", hosts, n)
	}
}

// TestValueIsNoName has clients send the names of headers and query parameters, as they are compared, as values of
// others.
func TestValueIsNoName(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: r
      rules:
        - matches: [{headers: [{name: X-B, type: RegularExpression, value: ".*"}]}, {queryParams: [{name: b, type: RegularExpression, value: ".*"}]}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{headers: [{name: X-A, value: a}, {name: X-C, value: c}]}, {queryParams: [{name: a, value: a}, {name: c, value: c}]}]
          backendRefs: [{name: one, port: 80}]
        - backendRefs: [{name: one, port: 80}]
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
`))
	c := newClient(t, g.ports[80])
	for _, tt := range []struct {
		query, headers string
		rule           int
	}{
		{"", "X-B: b\r\n", 0},
		{"", "X-A:\r\nX-B:\r\n", 0},
		{"", "X-A: a\r\nX-C: c\r\n", 1},
		{"", "X-A: h:x-b\r\nX-C: c\r\n", 2},
		{"c=c", "X-A: q:b\r\n", 2},
		{"a&b", "", 2},
		{"a=&b=", "", 0},
		{"a=a&c=c", "", 1},
		{"a=q:b&c=c", "", 2},
		{"a=%0A%0Aq:b%0A&c=c", "", 2},
	} {
		request := fmt.Sprintf("GET /?%s HTTP/1.1\r\nHost: a\r\n%s\r\n", tt.query, tt.headers)
		if got, want := c.send(request).Header.Get("Matched"), fmt.Sprint("http r ", tt.rule); got != want {
			t.Errorf("%q is matched by %q, want %q", request, got, want)
		}
	}
}

// TestLogOfRefusedQuery: a request that is refused before its conditions are tested met no route.
func TestLogOfRefusedQuery(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: r, rules: [{matches: [{queryParams: [{name: a, value: b}]}], backendRefs: [{name: one, port: 80}]}]}]
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
`))
	got := newClient(t, g.ports[80]).send(get("x", "/?"+strings.Repeat("c", 3201)))
	if got.Status != 400 || got.Body != "the request has a value that is too long to be compared\n" {
		t.Errorf("got %d with %q, want 400 and why", got.Status, got.Body)
	}
	if line := g.accessLog(t, 1)[0]; !strings.Contains(line, `"route":"-","rule":"-","listener":"http","backend":"too-long"`) {
		t.Errorf("the log says %s", line)
	}
}

// TestLargeConditions lets HAProxy check lists of what takes PCRE most for its length.
func TestLargeConditions(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"classes":     "N" + strings.Repeat("[ac]", 60),
		"groups":      "N" + strings.Repeat("(a|bc|de)", 60),
		"repetitions": "N([ac][ac]){32}([ac][ac]){32}",
		"literals":    "N" + strings.Repeat("a", 600),
		"folded":      "(?i)N" + strings.Repeat("a", 300),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := conditionsWorld(t, 150, value)
			if _, problems := routingtest.Compile(&w.Spec); len(problems) > 0 {
				t.Fatalf("not all of it has an effect: %v", problems[0])
			}
			checkConditions(t, w)
			// Lists that begin with it have it in the same expression.
			for i := range w.Spec.Routes {
				w.Spec.Routes[i].Rules = w.Spec.Routes[i].Rules[2:]
			}
			checkConditions(t, w)
		})
	}
}

// checkConditions lets HAProxy check what is rendered of a world, whose expressions have to fit its commands.
func checkConditions(t *testing.T, w rendertest.World) {
	t.Helper()
	in := w.Input(t)
	in.Paths = haproxytest.NewPaths(t)
	rendered := render.Render(in)
	for _, entry := range ir.ConditionEntries(rendered.Lists) {
		// A command to HAProxy has room for 15 KiB.
		if len(entry.Key) > 13<<10 {
			t.Errorf("an expression has %d bytes", len(entry.Key))
		}
	}
	if err := haproxytest.Check(t, in.Paths, rendered.AllFiles()); err != nil {
		t.Error(err)
	}
}

// BenchmarkRenderConditions renders 1,000 hosts with conditions of their own.
func BenchmarkRenderConditions(b *testing.B) {
	in := conditionsWorld(b, 1000, "N-[0-9]+").Input(b)
	for b.Loop() {
		render.Render(in)
	}
}
