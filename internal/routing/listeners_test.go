package routing

import (
	"fmt"
	"slices"
	"testing"

	"gateway/internal/model"
)

// TestAnEditLooksAtItsListeners: of ten thousand listeners, an edit looks up those that it changes, and one of
// something else none. Others that are equal, but were made anew, are compared once.
func TestAnEditLooksAtItsListeners(t *testing.T) {
	made := func() (all []model.Listener) {
		for i := range 10_000 {
			all = append(all, model.Listener{
				Name: fmt.Sprint("l", i), Port: 443, Protocol: model.ProtocolHTTPS, Hostname: fmt.Sprintf("h%d.io", i), TLS: &model.ListenerTLS{},
			})
		}
		return all
	}
	edited := made()
	edited = slices.Delete(edited, 6000, 6002)
	edited[5000].Hostname = "new.io"
	edited = slices.Insert(edited, 5001, model.Listener{Name: "one more", Port: 443})
	var c Compiler
	for _, step := range []struct {
		what           string
		listeners      []model.Listener
		looked, others int
	}{
		{"the first", made(), 10_000, 10_000},
		{"made anew", made(), 10_000, 0},
		{"several edits", edited, 9_999, 4},
		{"nothing", edited, 0, 0},
		{"a copy", slices.Clone(edited), 0, 0},
		{"one less", slices.Delete(slices.Clone(edited), 70, 71), 0, 1},
		{"one more", edited, 1, 1},
	} {
		_, now := differing(c.listed, step.listeners)
		changes := c.changesOf(&model.Gateway{Listeners: step.listeners})
		if len(now) != step.looked || len(changes.now) != step.others {
			t.Errorf("%s: %d were looked up, and %d are others, want %d and %d", step.what, len(now), len(changes.now), step.looked, step.others)
		}
	}
}
