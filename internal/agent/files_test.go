package agent

import (
	"os"
	"path/filepath"
	"testing"

	"gateway/internal/haproxy/config"
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
	mustDo(t, s.write(first, map[string][]byte{config.ConfigFile: []byte("one")}))
	if _, err := os.Stat(current); err == nil {
		t.Error("writing alone made it the current one")
	}
	mustDo(t, s.point(first))
	second := s.nextID()
	mustDo(t, s.write(second, map[string][]byte{config.ConfigFile: []byte("two")}))
	mustDo(t, s.point(second))
	if content, err := os.ReadFile(filepath.Join(current, config.ConfigFile)); err != nil || string(content) != "two" {
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
