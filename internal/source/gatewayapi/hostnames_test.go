package gatewayapi

import (
	"testing"

	"gateway/internal/model"
)

// TestHostnameSet compares a set of two hostnames with the comparison of each, also once others are gone.
func TestHostnameSet(t *testing.T) {
	all := []string{"", "a", "b", "*.a", "*.b", "a.a", "b.a", "a.b", "aa.a", "*.a.a", "*.b.a", "a.a.a", "b.a.a", "a.b.a", "*.a.a.a", "a.a.a.a"}
	if (&hostnameSet{}).overlaps("") {
		t.Error("something overlaps with nothing")
	}
	for _, first := range all {
		for _, second := range all {
			set, many := &hostnameSet{}, &hostnameSet{}
			set.count(first, 1)
			set.count(second, 1)
			many.count(first, 1)
			for _, other := range all {
				many.count(other, 1)
			}
			many.count(second, 1)
			for _, other := range all {
				many.count(other, -1)
			}
			for _, hostname := range all {
				want := model.HostnamesOverlap(hostname, first) || model.HostnamesOverlap(hostname, second)
				if got := set.overlaps(hostname); got != want {
					t.Errorf("%q overlaps with %q or %q: got %t", hostname, first, second, got)
				}
				if got := many.overlaps(hostname); got != want {
					t.Errorf("%q overlaps with %q or %q, of many: got %t", hostname, first, second, got)
				}
			}
		}
	}
}
