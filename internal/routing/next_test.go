package routing_test

import (
	"reflect"
	"slices"
	"testing"

	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

// TestNext: after any edits, a spec that is compiled with the help of the one before gives what it gives by itself, and without an edit,
// the rules are the same ones.
func TestNext(t *testing.T) {
	g := routingtest.New(t)
	spec := g.Spec([2]int32{80, 81})
	var compiled routing.Compiled
	for i := range 300 {
		if spec = g.Edit(spec); g.IntN(20) == 0 {
			spec = g.Spec([2]int32{80, 81})
		}
		current := *spec.DeepCopy()
		compiled = compiled.Next(&current)
		table, problems := routing.Compile(&spec)
		if !slices.Equal(compiled.Backends, table.Backends()) {
			t.Fatalf("seed %d, edit %d: other backends than those of the table", g.Seed, i)
		}
		if !reflect.DeepEqual(compiled.Table, table) || !reflect.DeepEqual(compiled.Problems, problems) {
			t.Fatalf("seed %d, edit %d: another table than by itself", g.Seed, i)
		}
		again := compiled.Next(&spec)
		if got, want := rules(again.Table), rules(compiled.Table); !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d, edit %d: without an edit, other rules", g.Seed, i)
		}
	}
}

// rules returns the set of the rules of a table, of which no two are the same.
func rules(table routing.Table) map[*routing.Rule]bool {
	all := map[*routing.Rule]bool{}
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) { all[rule] = true })
	return all
}
