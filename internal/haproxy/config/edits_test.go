package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/config"
	"gateway/internal/routing/routingtest"
)

// requestsPerEdit is how many requests TestEdits sends after each edit of a map.
const requestsPerEdit = 15

// TestEdits: while a map is changed entry by entry, every request is answered by the old table or by the new one; and when that is done,
// the map is the new one.
func TestEdits(t *testing.T) {
	t.Parallel()
	g := routingtest.New(t)
	universe := startGateway(t, propertyWorld())
	ports := [2]int32{universe.ports[80], universe.ports[81]}
	clients := map[int32]*client{ports[0]: newClient(t, ports[0]), ports[1]: newClient(t, ports[1])}
	before, running := universe.in, config.Render(universe.in)
	spec := smallSpec(g, ports)
	steps := map[int]int{}
	for table := range *tables {
		old := spec
		spec = editSpec(g, spec, ports)
		in := before
		in.Generation = int64(table)
		in.Table, _ = routingtest.Compile(&spec)
		plan := config.Diff(config.Render(in), running)
		if plan.Reload != "" {
			t.Fatalf("seed %d, table %d: a reload is wanted: %s", g.Seed, table, plan.Reload)
		}
		universe.changeMaps(t, plan.Maps, func() {
			for i := range requestsPerEdit {
				r := g.Request([]appv1.GatewaySpec{old, spec}[i%2], ports)
				got := clients[r.Port].send(r.Bytes)
				if byOld, byNew := judge(before, r, got), judge(in, r, got); byOld != "" && byNew != "" {
					t.Fatalf("seed %d, table %d, request %q to port %d, edits %q:\nby the old table: %s\n%s\nby the new one: %s\n%s",
						g.Seed, table, r.Bytes, r.Port, plan.Maps, byOld, describe(before.Table), byNew, describe(in.Table))
				}
			}
		})
		for _, change := range plan.Maps {
			steps[countSteps(change)]++
		}
		for range requestsPerEdit {
			r := g.Request(spec, ports)
			if message := judge(in, r, clients[r.Port].send(r.Bytes)); message != "" {
				t.Fatalf("seed %d, table %d, request %q to port %d: %s\n%s", g.Seed, table, r.Bytes, r.Port, message, describe(in.Table))
			}
		}
		before, running = in, plan.After
	}
	t.Logf("seed %d: tables by the number of steps: %v", g.Seed, steps)
	if *tables >= 100 && (steps[1] < *tables/5 || steps[2] < *tables/50) {
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

// smallSpec returns a spec whose routes each have one listener, one rule and at most one hostname, half of them without conditions: an
// edit of one changes few entries.
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

// countSteps returns how often the version changes, 0 for a map that is swapped.
func countSteps(change config.MapChange) int {
	steps := 0
	for _, edit := range change.Edits {
		if edit.Key == "version" {
			steps++
		}
	}
	return steps
}

// TestMapEdits: which changes are made entry by entry, and in which order.
func TestMapEdits(t *testing.T) {
	const before = "version=1 80/a.io/=host 80/a.io/x/>=one c/?0:a|b/0=one l/80/*=l p/l/*/=all p/l/*.io/=?0:a|b f/1=program t/a/0=a"
	tests := map[string]struct {
		remove, add string
		want        string // the edits in order, "" for a swap
	}{
		"a value":                         {"80/a.io/=host", "80/a.io/=other", "80/a.io/=other version=2"},
		"a name of conditions":            {"p/l/*.io/=?0:a|b", "p/l/*.io/=?0:b|b c/?0:b|b/0=hit", "c/?0:b|b/0=hit p/l/*.io/=?0:b|b version=2"},
		"conditions, and something else":  {"p/l/*.io/=?0:a|b 80/a.io/=host", "p/l/*.io/=?0:b|b 80/a.io/=other", ""},
		"another path":                    {"80/a.io/x/>=one", "80/a.io/y/>=one", "80/a.io/y/>=one version=2.0 -80/a.io/x/> version=2"},
		"exact hosts are added first":     {"", "80/b.io/=2 p/l/*.b.io/a/=1", "80/b.io/=2 version=2.0 p/l/*.b.io/a/=1 version=2"},
		"long wildcards are added first":  {"", "p/l/*/a/b/c/d/=1 p/l/*.b.io/=2", "p/l/*.b.io/=2 version=2.0 p/l/*/a/b/c/d/=1 version=2"},
		"exact paths are added first":     {"", "80/b.io/x/=1 80/b.io/x/>=2", "80/b.io/x/>=2 version=2.0 80/b.io/x/=1 version=2"},
		"longer prefixes are added first": {"", "p/l/*/a/=1 p/l/*/a/b/=2", "p/l/*/a/b/=2 version=2.0 p/l/*/a/=1 version=2"},
		"specific ones are deleted last":  {"p/l/*/=all 80/a.io/=host", "", "-p/l/*/ version=2.0 -80/a.io/ version=2"},
		"programs outlive their rules":    {"f/1=program 80/a.io/=host", "f/2=other 80/a.io/=other", "f/2=other 80/a.io/=other version=2 -f/1"},
		"HITs outlive their lists":        {"c/?0:a|b/0=one p/l/*.io/=?0:a|b", "c/?0:b|b/0=two p/l/*.io/=?0:b|b", "c/?0:b|b/0=two p/l/*.io/=?0:b|b version=2 -c/?0:a|b/0"},
		"three steps":                     {"80/a.io/x/>=one p/l/*/=all 80/a.io/=host", "", ""},
		"a listener":                      {"l/80/*=l", "l/80/*=m", ""},
		"a split that is not as named":    {"t/a/0=a", "t/a/0=b", ""},
		"what has to be a word":           {"80/a.io/x/>=one", "80/a.io/x/>=a;b", ""},
		"what need not be one":            {"", "80/a.io/;/>=a;b", "80/a.io/;/>=a;b version=2"},
		"the version alone":               {"", "", "version=2"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			running := strings.Fields(before)
			desired := append(slices.DeleteFunc(slices.Clone(running), func(entry string) bool {
				return strings.HasPrefix(entry, "version") || slices.Contains(strings.Fields(test.remove), entry)
			}), append(strings.Fields(test.add), "version=2")...)
			change := diffMaps(mapEntries(desired), mapEntries(running))
			var got []string
			for _, edit := range change.Edits {
				if edit.New == "" {
					got = append(got, "-"+edit.Key)
				} else {
					got = append(got, edit.Key+"="+edit.New)
				}
			}
			if got := strings.Join(got, " "); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestWeightsAreEdited: other weights of two backends take no swap.
func TestWeightsAreEdited(t *testing.T) {
	w := parseWorld(t, diffWorld)
	running := config.Render(w.input(t))
	for _, weight := range []int32{9, 2, 89, 999} {
		w.Spec.Routes[0].Rules[0].BackendRefs[0].Weight = &weight
		w.Generation++
		plan := config.Diff(config.Render(w.input(t)), running)
		if len(plan.Maps) != 1 || countSteps(plan.Maps[0]) == 0 {
			t.Errorf("to weights of %d to 1, the map is swapped", weight)
		}
		running = plan.After
	}
}

// diffMaps returns how one content of the map becomes another.
func diffMaps(desired, running []config.MapEntry) config.MapChange {
	of := func(entries []config.MapEntry) config.Config {
		return config.Config{Skeleton: "x", Routes: config.NewRouteMap(entries...)}
	}
	return config.Diff(of(desired), of(running)).Maps[0]
}

func mapEntries(lines []string) []config.MapEntry {
	var entries []config.MapEntry
	for _, line := range lines {
		key, value, _ := strings.Cut(line, "=")
		entries = append(entries, config.MapEntry{Key: key, Value: value})
	}
	slices.SortFunc(entries, func(a, b config.MapEntry) int { return strings.Compare(a.Key, b.Key) })
	return entries
}
