package gatewayapi

import (
	"testing"

	"gateway/internal/model"
)

// TestHostnameSet compares a set of two hostnames with the comparison of each.
func TestHostnameSet(t *testing.T) {
	all := []string{"", "a", "b", "*.a", "*.b", "a.a", "b.a", "a.b", "aa.a", "*.a.a", "*.b.a", "a.a.a", "b.a.a", "a.b.a", "*.a.a.a", "a.a.a.a"}
	if newHostnameSet().overlaps("") {
		t.Error("something overlaps with nothing")
	}
	for _, first := range all {
		for _, second := range all {
			set := newHostnameSet()
			set.add(first)
			set.add(second)
			for _, hostname := range all {
				want := model.HostnamesOverlap(hostname, first) || model.HostnamesOverlap(hostname, second)
				if got := set.overlaps(hostname); got != want {
					t.Errorf("%q overlaps with %q or %q: got %t", hostname, first, second, got)
				}
			}
		}
	}
}
