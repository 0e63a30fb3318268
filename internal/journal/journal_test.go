package journal

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"gateway/internal/must"
)

func TestJournal(t *testing.T) { //nolint:funlen // one life of a file
	path := filepath.Join(t.TempDir(), "journal")
	r := Reader[int]{Path: path}
	seen := map[string]int{}
	expect := func(wantNew bool, lines int, want map[string]int) {
		t.Helper()
		var changes []func()
		anew, err := r.Changes(func(key string, value *int) {
			changes = append(changes, func() {
				if delete(seen, key); value != nil {
					seen[key] = *value
				}
			})
		})
		if anew {
			clear(seen)
		}
		for _, change := range changes {
			change()
		}
		if err != nil || anew != wantNew || len(changes) != lines || !maps.Equal(seen, want) {
			t.Errorf("got %v by %d changes, anew %t, error %v; want %v by %d", seen, len(changes), anew, err, want, lines)
		}
	}
	open := func() *Writer[int] {
		t.Helper()
		w := must.Get(Open[int](path))(t)
		return w
	}
	put := func(w *Writer[int], changes map[string]*int) {
		t.Helper()
		must.Do(t, w.Put(changes))
	}
	expect(false, 0, nil)
	w := open()
	put(w, nil)
	expect(true, 0, nil)
	put(w, map[string]*int{"a": new(1), "b": new(2)})
	expect(false, 2, map[string]int{"a": 1, "b": 2})
	put(w, map[string]*int{"a": nil, "b": new(3)})
	expect(false, 2, map[string]int{"b": 3})
	// The next Writer goes on; one that finds half a line begins anew.
	put(open(), map[string]*int{"c": new(4)})
	expect(false, 1, map[string]int{"b": 3, "c": 4})
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(`{"key":"d","val`)
	}
	if err != nil {
		t.Fatal(err)
	}
	expect(false, 0, map[string]int{"b": 3, "c": 4})
	w = open()
	put(w, map[string]*int{"d": new(5)})
	expect(true, 3, map[string]int{"b": 3, "c": 4, "d": 5})
	// Most of the file is outdated at last.
	for i := range 2*spare + 10 {
		put(w, map[string]*int{"d": new(i)})
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 40*(spare+10) {
		t.Errorf("it has %d bytes, %v", info.Size(), err)
	}
	last := open().Values
	if want := map[string]int{"b": 3, "c": 4, "d": 2*spare + 9}; !maps.Equal(last, want) {
		t.Errorf("it holds %v", last)
	}
	// Entries that cannot be written are not there.
	must.Do(t, os.RemoveAll(filepath.Dir(path)))
	broken := &Writer[int]{Values: map[string]int{"a": 1}, path: path}
	if err := broken.Put(map[string]*int{"a": nil, "b": new(1)}); err == nil || !maps.Equal(broken.Values, map[string]int{"a": 1}) {
		t.Errorf("got %v, %v", broken.Values, err)
	}
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "journal")
	w, all := &Writer[string]{Values: map[string]string{}, path: path}, map[string]*string{}
	for i := range 10_000 {
		all[strconv.Itoa(i)] = new("some sixty bytes of text, as there is for a certificate, or so")
	}
	must.Do(b, w.Put(all))
	for b.Loop() {
		must.Get(Open[string](path))(b)
	}
}
