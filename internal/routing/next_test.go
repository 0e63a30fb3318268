package routing_test

import (
	"fmt"
	"reflect"
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
