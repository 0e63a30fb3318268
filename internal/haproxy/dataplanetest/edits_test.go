package dataplanetest_test

import (
	"fmt"
	"slices"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/routing/routingtest"
)

// requestsPerEdit is how many requests TestEdits sends after each edit of a map.
const requestsPerEdit = 15

// TestEdits: while a map is changed entry by entry, every request is answered by the old table or by the new one; and
// when that is done, the map is the new one.
func TestEdits(t *testing.T) {
	t.Parallel()
	g := routingtest.New(t)
	universe := startGateway(t, propertyWorld())
	ports := [2]int32{universe.ports[80], universe.ports[81]}
	clients := map[int32]*client{ports[0]: newClient(t, ports[0]), ports[1]: newClient(t, ports[1])}
	before, running := universe.in, render.Render(universe.in)
	spec := smallSpec(g, ports)
	steps := map[int]int{}
	tried := func() bool { return *tables < 100 || steps[1] >= *tables/5 && steps[2] >= *tables/50 }
	for table := 0; table < *tables || table < 10**tables && !tried(); table++ {
		old := spec
		spec = editSpec(g, spec, ports)
		in := before
		in.Table, _ = routingtest.Compile(&spec)
		change := plan.Diff(render.Render(in), running)
		universe.change(t, change, func() {
			for i := range requestsPerEdit {
				r := g.Request([]appv1.GatewaySpec{old, spec}[i%2], ports)
				got := clients[r.Port].send(r.Bytes)
				if byOld, byNew := judge(before, r, got), judge(in, r, got); byOld != "" && byNew != "" {
					t.Fatalf("table %d, request %q to port %d, edits %q:\nby the old table: %s\n%s\nby the new one: %s\n%s",
						table, r.Bytes, r.Port, change.Edits, byOld, describe(before.Table), byNew, describe(in.Table))
				}
			}
		})
		for _, edits := range change.Edits {
			steps[min(len(edits.Edits), 4)]++
		}
		for range requestsPerEdit {
			r := g.Request(spec, ports)
			if message := judge(in, r, clients[r.Port].send(r.Bytes)); message != "" {
				t.Fatalf("table %d, request %q to port %d: %s\n%s", table, r.Bytes, r.Port, message, describe(in.Table))
			}
		}
		before, running = in, change.After
	}
	t.Logf("tables by the number of edits, at most 4: %v", steps)
	if !tried() {
		t.Error("the test does not try enough")
	}
}

// editSpec returns a spec with a rule that is there no more, one that is new, or one of another path or other backends.
func editSpec(g *routingtest.Generator, spec appv1.GatewaySpec, ports [2]int32) appv1.GatewaySpec {
	other := smallSpec(g, ports)
	if g.IntN(20) == 0 {
		return other
	}
	spec = *spec.DeepCopy()
	i := g.IntN(len(spec.Routes))
	rule, another := &spec.Routes[i].Rules[0], other.Routes[0]
	switch g.IntN(4) {
	case 0:
		if len(spec.Routes) > 4 {
			spec.Routes = slices.Delete(spec.Routes, i, i+1)
		}
	case 1:
		another.Name = appv1.Name(fmt.Sprint("new", g.Uint32()))
		another.Listeners = spec.Routes[i].Listeners
		spec.Routes = append(spec.Routes, another)
	case 2:
		rule.BackendRefs = another.Rules[0].BackendRefs
	case 3:
		rule.Matches = another.Rules[0].Matches
	}
	return spec
}

// smallSpec returns a spec whose routes each have one listener, one rule and at most one hostname, half of them without
// conditions: an edit of one changes few entries.
func smallSpec(g *routingtest.Generator, ports [2]int32) appv1.GatewaySpec {
	spec := g.Spec(ports)
	for i := range spec.Routes {
		route := &spec.Routes[i]
		route.Listeners = []appv1.Name{spec.Listeners[g.IntN(2)%len(spec.Listeners)].Name}
		route.Hostnames, route.Rules = route.Hostnames[:min(len(route.Hostnames), 1)], route.Rules[:1]
		rule := &route.Rules[0]
		rule.Matches = rule.Matches[:min(len(rule.Matches), 1)]
		if g.IntN(2) == 0 {
			rule.Matches = []appv1.RouteMatch{{Path: appv1.PathMatch{Value: []string{"/", "/a", "/a/b", "/b"}[g.IntN(4)]}}}
		}
	}
	return spec
}
