package routing_test

import (
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

// TestNext: after any edits, a spec that is compiled with the help of the one before gives what it gives by itself; the one before
// stays as it was; and without an edit, the hosts are the same ones.
func TestNext(t *testing.T) {
	g := routingtest.New(t)
	spec := g.Spec([2]int32{80, 81})
	var compiled routing.Compiled
	var last appv1.GatewaySpec
	for i := range 300 {
		if spec = g.Edit(spec); g.IntN(20) == 0 {
			spec = g.Spec([2]int32{80, 81})
		}
		switch listener := &spec.Listeners[g.IntN(len(spec.Listeners))]; g.IntN(20) {
		case 0:
			listener.HTTPSRedirect = !listener.HTTPSRedirect
		case 1:
			listener.Protocol = []appv1.Protocol{appv1.ProtocolHTTP, appv1.ProtocolTCP}[g.IntN(2)]
		case 2:
			name := appv1.Name(fmt.Sprint("other-", i))
			spec.Routes[0].Name, listener.Name = name, name
		}
		current, before := *spec.DeepCopy(), compiled
		compiled = compiled.Next(&current)
		table, problems := routing.Compile(&spec)
		if !slices.Equal(compiled.Backends, table.Backends()) {
			t.Fatalf("seed %d, edit %d: other backends than those of the table", g.Seed, i)
		}
		if !reflect.DeepEqual(compiled.Table, table) || !reflect.DeepEqual(compiled.Problems, problems) {
			t.Fatalf("seed %d, edit %d: another table than by itself", g.Seed, i)
		}
		if alone := routing.Problems(&spec); !reflect.DeepEqual(alone, problems) {
			t.Fatalf("seed %d, edit %d: without the table, the problems are %v, want %v", g.Seed, i, alone, problems)
		}
		if i > 0 && !reflect.DeepEqual(before.Next(&last).Problems, before.Problems) {
			t.Fatalf("seed %d, edit %d: what the edit led to changed what was before", g.Seed, i)
		}
		last = current
		again := compiled.Next(&spec)
		if !slices.Equal(hosts(&again.Table), hosts(&compiled.Table)) {
			t.Fatalf("seed %d, edit %d: without an edit, other hosts", g.Seed, i)
		}
	}
}

// TestNextAfter: so it is after edits that a random one seldom is.
func TestNextAfter(t *testing.T) {
	t.Parallel()
	const text = `
listeners: [{name: http, port: 80, protocol: HTTP}]
routes:
- {name: first, hostnames: [first.com], rules: [{backendRefs: [{name: one, port: 80}]}]}
- {name: second, hostnames: [second.com], rules: [{backendRefs: [{name: one, port: 80}, {name: two, port: 80}]}]}
- {name: last, hostnames: [last.com], rules: [{backendRefs: [{name: three, port: 80}]}]}
`
	for name, edit := range map[string]func(spec *appv1.GatewaySpec){
		"the first route is gone":   func(spec *appv1.GatewaySpec) { spec.Routes = spec.Routes[1:] },
		"the last route is gone":    func(spec *appv1.GatewaySpec) { spec.Routes = spec.Routes[:2] },
		"all are":                   func(spec *appv1.GatewaySpec) { spec.Routes = nil },
		"another backend":           func(spec *appv1.GatewaySpec) { spec.Routes[2].Rules[0].BackendRefs[0].Name = "four" },
		"another port of a backend": func(spec *appv1.GatewaySpec) { spec.Routes[1].Rules[0].BackendRefs[1].Port = 81 },
		"one backend less": func(spec *appv1.GatewaySpec) {
			spec.Routes[1].Rules[0].BackendRefs = spec.Routes[0].Rules[0].BackendRefs
		},
		"one name less": func(spec *appv1.GatewaySpec) { spec.Routes[2].Hostnames = spec.Routes[0].Hostnames },
	} {
		spec := parseSpec(t, text)
		edit(spec)
		got := routing.Compiled{}.Next(parseSpec(t, text)).Next(spec)
		table, problems := routing.Compile(spec)
		if !reflect.DeepEqual(got.Table, table) || !reflect.DeepEqual(got.Problems, problems) || !slices.Equal(got.Backends, table.Backends()) {
			t.Errorf("%s: got %+v and the backends %v, want %+v and %v", name, got.Table, got.Backends, table, table.Backends())
		}
	}
}

// TestProblemsOfATableTooLarge: what is wrong with a spec that asks for a table of half a million entries is told without it.
func TestProblemsOfATableTooLarge(t *testing.T) {
	spec := &appv1.GatewaySpec{}
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
	problems := routing.Problems(spec)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; len(problems) > 0 || allocated > 8<<20 {
		t.Errorf("%d bytes for the problems %v", allocated, problems)
	}
}

// hosts returns those of a table that are not of a listener that redirects everything.
func hosts(table *routing.Table) []*routing.Host {
	var all []*routing.Host
	for _, listener := range table.Listeners {
		if len(listener.Hosts) > 0 && listener.Hosts[0].Entries[0].Rule.Redirect == nil {
			all = append(all, listener.Hosts...)
		}
	}
	return all
}
