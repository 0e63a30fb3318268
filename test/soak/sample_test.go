package soak

import "testing"

func TestGrowth(t *testing.T) {
	samples := func(values ...float64) []sample {
		var all []sample
		for _, v := range values {
			all = append(all, sample{counts: map[string]float64{"agent goroutines": v}})
		}
		return all
	}
	for name, test := range map[string]struct {
		samples []sample
		grows   bool
	}{
		"flat":                      {samples(100, 101, 99, 100, 102, 100), false},
		"a tenth and the slack":     {samples(100, 100, 110, 110, 124, 124), false},
		"a leak":                    {samples(100, 110, 120, 130, 140, 150), true},
		"a peak in between is none": {samples(100, 100, 500, 500, 100, 100), false},
		"too few samples":           {samples(100, 100), true},
	} {
		if grown := growth(test.samples); len(grown) > 0 != test.grows {
			t.Errorf("%s: growth says %q", name, grown)
		}
	}
}
