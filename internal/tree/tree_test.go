package tree_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"gateway/internal/testtier"
	"gateway/internal/tree"
)

// TestMap compares maps with Go's, by random edits. No earlier map changes.
func TestMap(t *testing.T) {
	t.Parallel()
	random := testtier.Rand(t)
	type version struct {
		is   tree.Map[string]
		want map[string]string
	}
	versions := []version{{want: map[string]string{}}}
	for range 300 {
		from := versions[random.IntN(len(versions))]
		next := version{want: maps.Clone(from.want)}
		editor := from.is.Edit()
		for range random.IntN(20) {
			key, value := fmt.Sprintf("%o", random.IntN(64)), fmt.Sprint(random.IntN(3))
			if random.IntN(3) == 0 {
				editor.Delete(key)
				delete(next.want, key)
			} else {
				editor.Set(key, value)
				next.want[key] = value
			}
		}
		next.is = editor.Map()
		editor.Set("later", "")
		versions = append(versions, next)
		if len(versions) > 30 {
			versions = versions[1:]
		}
		for _, v := range versions {
			check(t, v.is, v.want)
		}
		checkChanges(t, from.is, next.is, from.want, next.want)
		other := versions[random.IntN(len(versions))]
		checkChanges(t, other.is, next.is, other.want, next.want)
	}
}

func check(t *testing.T, is tree.Map[string], want map[string]string) {
	t.Helper()
	if got := maps.Collect(is.All()); !maps.Equal(got, want) || is.Len() != len(want) || !slices.IsSorted(slices.Collect(is.Keys())) {
		t.Fatalf("the map is %v (%d), want %v", got, is.Len(), want)
	}
	for _, prefix := range []string{"", "1", "17", "7", "8"} {
		some := maps.Clone(want)
		maps.DeleteFunc(some, func(key, _ string) bool { return !strings.HasPrefix(key, prefix) })
		if got := maps.Collect(is.Prefix(prefix)); !maps.Equal(got, some) {
			t.Fatalf("with the prefix %q there are %v, want %v", prefix, got, some)
		}
	}
	for key := range want {
		if value, ok := is.Get(key); !ok || value != want[key] {
			t.Fatalf("%q is %q, %t", key, value, ok)
		}
	}
	if again := tree.Of(want); again.Sum() != is.Sum() || len(want) > 0 && is.Without(slices.Collect(maps.Keys(want))[0]).Sum() == is.Sum() {
		t.Fatalf("the sums of %v are wrong", want)
	}
}

func checkChanges(t *testing.T, from, to tree.Map[string], before, after map[string]string) {
	t.Helper()
	got, last := maps.Clone(before), ""
	for change := range tree.Changes(from, to) {
		old, had := before[change.Key]
		value, has := after[change.Key]
		if change.Old != old || change.Had != had || change.New != value || change.Has != has || change.Key <= last && last != "" || had == has && old == value {
			t.Fatalf("the change is %+v, from %v to %v", change, before, after)
		}
		if last = change.Key; has {
			got[change.Key] = value
		} else {
			delete(got, change.Key)
		}
	}
	if !maps.Equal(got, after) {
		t.Fatalf("the changes lead from %v to %v, want %v", before, got, after)
	}
}

// TestUnchanged: a map without a change is the same, and so is what an edited copy shares with it.
func TestUnchanged(t *testing.T) { //nolint:paralleltest // it counts allocations
	all := map[string]string{}
	for i := range 10_000 {
		all[fmt.Sprint(i)] = "value"
	}
	m := tree.Of(all)
	if m.With("7", "value") != m || m.Without("none") != m {
		t.Error("the map is another one")
	}
	edited := m.With("7", "other").Without("8").With("new", "")
	for change := range tree.Changes(m, edited) {
		if change.Key != "7" && change.Key != "8" && change.Key != "new" {
			t.Errorf("there is the change %+v", change)
		}
	}
	if allocations := testing.AllocsPerRun(100, func() { _ = m.With("7", "other") }); allocations > 100 {
		t.Errorf("an edit takes %.0f allocations", allocations)
	}
}
