package few

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCounts compares with a map, among few things and among many.
func TestCounts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // not a secret
	for _, things := range []int{3, most, most + 1, 50} {
		got, want := map[string]Counts[int]{}, map[int]int{}
		for range 1000 {
			of, n := r.IntN(things), 1
			if want[of] > 0 && r.IntN(2) == 0 {
				n = -want[of]
			}
			if want[of] += n; want[of] == 0 {
				delete(want, of)
			}
			In(got, "key", of, n)
			counts, ok := got["key"]
			if ok != (len(want) > 0) || counts.Len() != len(want) || counts.Of(of) != want[of] {
				t.Fatalf("got %+v, want %v", counts, want)
			}
			if all := slices.Sorted(counts.All()); !slices.Equal(all, slices.Sorted(maps.Keys(want))) {
				t.Fatalf("got %v, want %v", all, want)
			}
		}
	}
}
