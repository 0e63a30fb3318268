package config

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestRouteMap makes random edits of maps. Each has the entries that it should, the file has their lines, and what leads from any
// map to another is what differs, whether they share blocks or not.
func TestRouteMap(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 0))
		var m RouteMap
		entries := map[string]string{}
		for range 30 {
			before, had := m, maps.Clone(entries)
			gone, added := randomEdits(random, entries)
			m = m.edited(gone, added)
			expectEntries(t, m, entries)
			if made := NewRouteMap(m.Entries()...); !m.equal(made) || !made.equal(m) {
				t.Fatalf("seed %d: a map with the same entries is another one", seed)
			}
			want := 0
			for edit := range m.differences(before) {
				if edit.Old == edit.New || edit.Old != had[edit.Key] || edit.New != entries[edit.Key] {
					t.Fatalf("seed %d: got %v, want from %q to %q", seed, edit, had[edit.Key], entries[edit.Key])
				}
				had[edit.Key] = edit.New
				want++
			}
			maps.DeleteFunc(had, func(_, value string) bool { return value == "" })
			if !maps.Equal(had, entries) || m.equal(before) != (want == 0) {
				t.Fatalf("seed %d: %d differences do not lead to the map", seed, want)
			}
		}
	}
}

// randomEdits changes entries, and returns which are gone and which were added. One that has another value is both.
func randomEdits(random *rand.Rand, entries map[string]string) (gone, added []MapEntry) {
	keys := slices.Sorted(maps.Keys(entries))
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	for _, key := range keys[:random.IntN(len(keys)+1)] {
		gone = append(gone, MapEntry{key, entries[key]})
		delete(entries, key)
	}
	for range random.IntN(5 * maxBlock) {
		entry := MapEntry{fmt.Sprint(random.IntN(5000)), fmt.Sprint("value-", random.IntN(3))}
		if _, ok := entries[entry.Key]; !ok {
			entries[entry.Key] = entry.Value
			added = append(added, entry)
		}
	}
	return gone, added
}

// expectEntries checks what is in a map.
func expectEntries(t *testing.T, m RouteMap, want map[string]string) {
	t.Helper()
	var lines, file bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(want)) {
		fmt.Fprintf(&lines, "%s %s\n", key, want[key])
	}
	if err := m.writeTo(&file); err != nil || !bytes.Equal(file.Bytes(), lines.Bytes()) {
		t.Fatalf("got the file\n%s\n(%v), want\n%s", &file, err, &lines)
	}
	got := m.Entries()
	if len(got) != len(want) || !slices.IsSortedFunc(got, compareEntries) {
		t.Fatalf("got the entries %v, want %v", got, want)
	}
	for _, b := range m.blocks {
		if len(b.entries) == 0 || len(b.entries) > maxBlock {
			t.Fatalf("there is a block of %d entries", len(b.entries))
		}
	}
}

// TestRouteMapShares: after a small edit, most of a large map is the same memory.
func TestRouteMapShares(t *testing.T) {
	t.Parallel()
	var entries []MapEntry
	for i := range 10_000 {
		entries = append(entries, MapEntry{fmt.Sprint(i), "a"})
	}
	before := NewRouteMap(entries...)
	after := before.edited([]MapEntry{{"5000", "a"}}, []MapEntry{{"5000", "b"}, {"50000", "c"}})
	fresh := 0
	for _, b := range after.blocks {
		if !slices.Contains(before.blocks, b) {
			fresh++
		}
	}
	if fresh == 0 || fresh > 2 {
		t.Errorf("%d of %d blocks are new", fresh, len(after.blocks))
	}
	var edits []MapEdit
	for edit := range after.differences(before) {
		edits = append(edits, edit)
	}
	if want := []MapEdit{{"5000", "a", "b"}, {"50000", "", "c"}}; !slices.Equal(edits, want) {
		t.Errorf("got %v, want %v", edits, want)
	}
}
