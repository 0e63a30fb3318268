package tree_test

import (
	"testing"

	"gateway/internal/tree"
)

// TestCounted: an entry is there as long as somebody has it, with the value of the first.
func TestCounted(t *testing.T) {
	var c tree.Counted[string]
	c.Count("a", "first", 1)
	c.CountNew("a", 1, func() string { t.Error("it is not new"); return "" })
	c.CountNew("b", 1, func() string { return "made" })
	c.Count("a", "", -1)
	if a, b := c.Map().Value("a"), c.Map().Value("b"); a != "first" || b != "made" {
		t.Errorf("there are %q and %q", a, b)
	}
	c.Count("a", "", -1)
	if _, ok := c.Get("a"); ok || c.Map().Len() != 1 {
		t.Error("nobody has it any more, and it is there")
	}
	c.Count("a", "again", 1)
	if got := c.Map().Value("a"); got != "again" {
		t.Errorf("it is %q", got)
	}
}
