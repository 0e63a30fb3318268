package gatewayapi

import (
	"testing"

	"gateway/internal/model"
)

func newSet() *hostnameSet { return &hostnameSet{all: map[string]int{}, within: map[string]int{}} }

// TestHostnameSet compares a set of two hostnames with the comparison of each, also once others are gone.
func TestHostnameSet(t *testing.T) {
	all := []string{"", "a", "b", "*.a", "*.b", "a.a", "b.a", "a.b", "aa.a", "*.a.a", "*.b.a", "a.a.a", "b.a.a", "a.b.a", "*.a.a.a", "a.a.a.a"}
	if newSet().overlaps("") {
		t.Error("something overlaps with nothing")
	}
	for _, first := range all {
		for _, second := range all {
			set := newSet()
			set.count(first, 1)
			for _, other := range all {
				set.count(other, 1)
			}
			set.count(second, 1)
			for _, other := range all {
				set.count(other, -1)
			}
			for _, hostname := range all {
				want := model.HostnamesOverlap(hostname, first) || model.HostnamesOverlap(hostname, second)
				if got := set.overlaps(hostname); got != want {
					t.Errorf("%q overlaps with %q or %q: got %t", hostname, first, second, got)
				}
			}
		}
	}
}
