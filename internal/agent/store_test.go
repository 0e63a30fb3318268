package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/peers"
)

func mustDo(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStore(t *testing.T) {
	current := filepath.Join(t.TempDir(), "current")
	s := store{current: current, epoch: 1}
	if id, proven, err := s.open(); id != "" || proven || err != nil {
		t.Errorf("an empty directory holds %q, %t, %v", id, proven, err)
	}
	first := s.nextID()
	mustDo(t, s.write(first, sources(ir.ConfigFile, "one"), nil, true, false))
	if _, err := os.Stat(current); err == nil {
		t.Error("writing alone made it the current one")
	}
	mustDo(t, s.point(first))
	second := s.nextID()
	mustDo(t, s.write(second, sources(ir.ConfigFile, "two"), nil, true, false))
	mustDo(t, s.point(second))
	if content, err := os.ReadFile(filepath.Join(current, ir.ConfigFile)); err != nil || string(content) != "two" {
		t.Errorf("current is %q, %v", content, err)
	}
	mustDo(t, s.point(first))
	mustDo(t, s.prove(first))
	mustDo(t, s.prune(first))
	if _, err := os.Stat(s.dir(second)); err == nil {
		t.Error("the other one is still there")
	}

	next := store{current: current, epoch: 1}
	if id, proven, err := next.open(); id != first || !proven || err != nil {
		t.Errorf("the next agent finds %q, %t, %v", id, proven, err)
	}
	if id := next.nextID(); id == first {
		t.Errorf("the id %s is used twice", id)
	}
	mustDo(t, os.RemoveAll(s.dir(first)))
	if id, _, err := next.open(); id != "" || err != nil {
		t.Errorf("a symlink to nothing holds %q, %v", id, err)
	}
}

// TestWhatCannotBeWrittenIsLeftNowhere, nor does it make news each time: the ids differ, the problem does not.
func TestWhatCannotBeWrittenIsLeftNowhere(t *testing.T) {
	current := filepath.Join(t.TempDir(), "current")
	newAgent := func() *Agent {
		return &Agent{store: store{current: current, epoch: 1, served: true}, state: newState(), probes: newProbes("", true), relay: new(peers.Relay)}
	}
	bad := newConfig("a", 1)
	bad.Files = map[string][]byte{"no/such": {}}
	fails := func(t *testing.T, a *Agent, config ir.Config) {
		t.Helper()
		var messages []string
		for range 3 {
			err := a.write(action{target: configuration{config: config}})
			if err == nil {
				t.Fatal("it was written")
			}
			messages = append(messages, err.Error())
			a.updateDisk(false)
		}
		if messages[0] != messages[1] || messages[1] != messages[2] {
			t.Errorf("the messages differ: %q", messages)
		}
		entries, err := os.ReadDir(filepath.Dir(current))
		mustDo(t, err)
		entries = slices.DeleteFunc(entries, func(entry os.DirEntry) bool { return !strings.HasPrefix(entry.Name(), dirPrefix) })
		if len(entries) > 0 {
			t.Errorf("left: %v", entries)
		}
	}
	t.Run("a file", func(t *testing.T) { fails(t, newAgent(), bad) })
	t.Run("the store's own", func(t *testing.T) {
		a := newAgent()
		if err := a.store.write(a.store.nextID(), sources("no/such", ""), nil, false, false); err == nil {
			t.Fatal("it was written")
		}
		if entries, err := os.ReadDir(filepath.Dir(current)); err != nil || len(entries) > 0 {
			t.Errorf("left: %v, %v", entries, err)
		}
	})
	t.Run("the symlink", func(t *testing.T) {
		mustDo(t, os.MkdirAll(filepath.Join(current+".next", "in the way"), 0o750))
		fails(t, newAgent(), newConfig("a", 1))
	})
}

// TestPruneLeavesWhatIsPointedTo: a swap of the symlink may have failed after it had happened.
func TestPruneLeavesWhatIsPointedTo(t *testing.T) {
	s := store{current: filepath.Join(t.TempDir(), "current"), epoch: 1}
	for _, id := range []string{"load-1", "load-2", "load-3"} {
		mustDo(t, s.write(id, sources(ir.ConfigFile, id), nil, true, false))
	}
	mustDo(t, s.point("load-2"))
	mustDo(t, s.prune("load-1"))
	for id, want := range map[string]bool{"load-1": true, "load-2": true, "load-3": false} {
		if _, err := os.Stat(s.dir(id)); want != (err == nil) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// sources is a configuration with files of a NAME and a CONTENT each.
func sources(namesAndContents ...string) ir.Config {
	files := map[string][]byte{}
	for pair := range slices.Chunk(namesAndContents, 2) {
		files[pair[0]] = []byte(pair[1])
	}
	return ir.Config{Files: files}
}
