package dataplanetest_test

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing/routingtest"
)

// TestSplits compares the shares of weighted backends, over connections that are kept, with the weights.
func TestSplits(t *testing.T) {
	t.Parallel()
	const perSplit = 5000
	splits := map[string]map[string]int{
		"/canary":  {"one": 90, "two": 10},
		"/thirds":  {"one": 1, "two": 1, "three": 1},
		"/missing": {"one": 3, "missing": 1},
		"/small":   {"one": 1000000, "two": 10000, "empty": 30000},
	}
	var rules strings.Builder
	for path, weights := range splits {
		fmt.Fprintf(&rules, "        - {matches: [{path: {value: %s}}], backendRefs: [", path)
		for service, weight := range weights {
			fmt.Fprintf(&rules, "{name: %s, port: 80, weight: %d},", service, weight)
		}
		rules.WriteString("]}\n")
	}
	g := startGateway(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: split
      rules:
`+rules.String()+`
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
  - {service: two, port: 80, servers: ["127.0.0.1:1"]}
  - {service: three, port: 80, servers: ["127.0.0.1:1"]}
  - {service: empty, port: 80}
`))
	for path, weights := range splits {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			c, counts := newClient(t, g.ports[80]), map[string]int{}
			for range perSplit {
				got := c.send(get("example.com", path))
				switch got.Status {
				case 500:
					counts["missing"]++
				case 503:
					counts["empty"]++
				default:
					counts[got.Header.Get("Backend")]++
				}
			}
			checkShares(t, counts, weights, perSplit)
		})
	}
}

// checkShares allows six standard deviations: that a right split fails happens once in a hundred million runs.
func checkShares(t *testing.T, counts, weights map[string]int, n int) {
	t.Helper()
	total := 0
	for _, weight := range weights {
		total += weight
	}
	sum := 0
	for service, weight := range weights {
		share := float64(weight) / float64(total)
		want, deviation := share*float64(n), math.Sqrt(float64(n)*share*(1-share))
		if math.Abs(float64(counts[service])-want) > 6*deviation {
			t.Errorf("%s got %d of %d requests, want %.0f±%.0f", service, counts[service], n, want, deviation)
		}
		sum += counts[service]
	}
	if sum != n {
		t.Errorf("some requests went elsewhere: %v", counts)
	}
}

// TestMapReplacedUnderLoad replaces the map as fast as it can by one that routes the same request by another rule. A
// request that met half of each map would find nothing.
func TestMapReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	world := func(matchType, listener, weights string) rendertest.World {
		return rendertest.Parse(t, fmt.Sprintf(`
spec:
  listeners: [{name: %[2]s, port: 80, protocol: HTTP}]
  routes:
    - name: %[2]s
      rules:
        - matches: [{path: {type: %[1]s, value: /api}}]
          backendRefs: [{name: one, port: 80, weight: %[3]s}, {name: two, port: 80, weight: 1}]
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
  - {service: two, port: 80, servers: ["127.0.0.1:1"]}
`, matchType, listener, weights))
	}
	before := world("PathPrefix", "before", "2")
	g := startGateway(t, before)
	after := world("Exact", "after", "3")
	after.Spec.Listeners[0].Port = g.ports[80]
	in := g.in
	in.Table, _ = routingtest.Compile(&after.Spec)
	configs := []ir.Config{render.Render(in), render.Render(g.in)}

	stop := g.load(t, get("example.com", "/api"), func(answer) bool { return true })
	running := configs[1]
	for i := range 1000 {
		change := plan.Diff(configs[i%2], running)
		g.change(t, change, func() {})
		running = change.After
	}
	stop()
}

// TestConditionsReplacedUnderLoad does the same with conditions and filters: which of them a request meets is in
// several maps, and what arrives at the backend must be of the same configuration as the rule that was met.
func TestConditionsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	world := func(name, match string) rendertest.World {
		return rendertest.Parse(t, fmt.Sprintf(`
spec:
  listeners: [{name: %[1]s, port: 80, protocol: HTTP}]
  routes:
    - name: %[1]s
      rules:
        - matches: [{path: {value: /api}, headers: [{name: X-A, value: other}], queryParams: [{name: q, value: other}]}]
          backendRefs: [{name: one, port: 80}]
        - matches: [%[2]s]
          filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-World, value: %[1]s}]}}]
          backendRefs: [{name: one, port: 80, weight: 2}, {name: two, port: 80}]
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
  - {service: two, port: 80, servers: ["127.0.0.1:1"]}
`, name, match))
	}
	g := startGateway(t, world("before", "{headers: [{name: X-A, value: one}]}"))
	after := world("after", "{path: {type: RegularExpression, value: /a.*}, queryParams: [{name: q, value: one}]}")
	after.Spec.Listeners[0].Port = g.ports[80]
	in := g.in
	in.Table, _ = routingtest.Compile(&after.Spec)
	configs := []ir.Config{render.Render(in), render.Render(g.in)}

	stop := g.load(t, "GET /api?q=one HTTP/1.1\r\nHost: x\r\nX-A: one\r\n\r\n", isOfOneWorld)
	running := configs[1]
	for i := range 300 {
		change := plan.Diff(configs[i%2], running)
		g.change(t, change, func() {})
		running = change.After
	}
	stop()
}

// isOfOneWorld reports whether what arrived at the backend is of the configuration that chose it.
func isOfOneWorld(got answer) bool {
	name, _, _ := strings.Cut(got.Header.Get("Matched"), " ")
	return strings.Contains(got.Body, "X-World: "+name+"\r\n")
}

// load sends requests, one after the other from each of some clients, until the function is called that it returns. All
// have to be answered with 200, as isRight wants it.
func (g *gateway) load(t *testing.T, request string, isRight func(answer) bool) (stop func()) {
	t.Helper()
	var clients sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		c := newClient(t, g.ports[80])
		clients.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				got, err := c.try(request)
				if err != nil || got.Status != 200 || !isRight(got) {
					t.Errorf("got %d by %q: %v\n%s", got.Status, got.Header.Get("Matched"), err, got.Body)
					return
				}
			}
		})
	}
	return func() {
		close(done)
		clients.Wait()
	}
}

// TestMapEditedUnderLoad does the same with edits of few entries: a prefix takes the place of another one, of another
// split and other filters, and what is below both may at no time meet the rule for all the rest.
func TestMapEditedUnderLoad(t *testing.T) {
	t.Parallel()
	newWorld := func(path, name string) rendertest.World {
		return rendertest.Parse(t, fmt.Sprintf(`
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: rest
      rules: [{backendRefs: [{name: one, port: 80}]}]
    - name: api
      rules:
        - matches: [{path: {value: %[1]s}}]
          filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-World, value: http}, {name: X-Rule, value: %[2]s}]}}]
          backendRefs: [{name: one, port: 80, weight: 2}, {name: two, port: 80, weight: 2}]
backends:
  - {service: one, port: 80, servers: ["127.0.0.1:1"]}
  - {service: two, port: 80, servers: ["127.0.0.1:1"]}
`, path, name))
	}
	g := startGateway(t, newWorld("/api", "short"))
	configs := []ir.Config{render.Render(g.in)}
	for _, next := range []rendertest.World{newWorld("/api/v1", "long"), newWorld("/api/v1", "third")} {
		next.Spec.Listeners[0].Port = g.ports[80]
		in := g.in
		in.Table, _ = routingtest.Compile(&next.Spec)
		configs = append(configs, render.Render(in))
	}
	stop := g.load(t, get("x", "/api/v1/x"), isOfOneWorld)
	running := configs[0]
	for i := range 300 {
		change := plan.Diff(configs[(i+1)%len(configs)], running)
		g.change(t, change, func() {})
		running = change.After
	}
	stop()
}

// TestServersAtRunTime adds a server to a section that has none and to one that has, with the text that Files uses too.
func TestServersAtRunTime(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, shopWorld))
	added := startServer(t, "added")
	for _, section := range []string{"empty_80", "any_80"} {
		server := section + "/" + ir.ServerName(added)
		if out := g.Worker("add server " + server + " " + ir.ServerAddress(added)); !strings.Contains(out, "New server registered") {
			t.Fatalf("failed to add a server: %s", out)
		}
		if out := strings.TrimSpace(g.Worker("enable server " + server)); out != "" {
			t.Fatalf("failed to enable a server: %s", out)
		}
	}
	v6 := ir.Server{Address: "fd00::1", Port: 8080}
	if out := g.Worker("add server empty_80/" + ir.ServerName(v6) + " " + ir.ServerAddress(v6)); !strings.Contains(out, "New server registered") {
		t.Errorf("failed to add a server with an IPv6 address: %s", out)
	}
	if got := newClient(t, g.ports[80]).send(get("shop.example.com", "/empty")); got.Header.Get("Backend") != "added" {
		t.Errorf("got %d from %q, want it from the added server", got.Status, got.Header.Get("Backend"))
	}
	seen, c := map[string]bool{}, newClient(t, g.ports[81])
	for range 200 {
		seen[c.send(get("example.com", "/")).Header.Get("Backend")] = true
	}
	if !seen["added"] || !seen["any"] || len(seen) != 2 {
		t.Errorf("the servers of one section that got requests are %v", seen)
	}
}
