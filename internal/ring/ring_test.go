package ring

import (
	"slices"
	"strings"
	"testing"

	"gateway/internal/must"
)

func TestLines(t *testing.T) {
	var got []string
	must.Do(t, Read(strings.NewReader("3 abc4 de\n\n0 1 f"), func(line []byte) { got = append(got, string(line)) }))
	if want := []string{"abc", "de", "", "f"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestBrokenFrames(t *testing.T) {
	for _, text := range []string{"x ", "9999999 ", "5 ab", "-1 a", strings.Repeat("1", 70_000)} {
		if err := Read(strings.NewReader(text), func([]byte) {}); err == nil {
			t.Errorf("%.20q is taken", text)
		}
	}
}

// TestLostLines: turns that HAProxy's threads take are no losses.
func TestLostLines(t *testing.T) {
	var c Counter
	lost := int64(0)
	for _, number := range []int64{10, 12, 11, 1012, 1013} {
		lost += c.Lost(number)
	}
	if lost != 999 {
		t.Errorf("%d lines are lost, want 999", lost)
	}
}
