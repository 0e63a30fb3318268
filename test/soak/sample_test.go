package soak

import (
	"encoding/xml"
	"strings"
	"testing"
	"time"
)

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
			t.Errorf("%s: growth returns %q", name, grown)
		}
	}
}

func TestDraw(t *testing.T) {
	picture := draw([]sample{
		{at: time.Minute, counts: map[string]float64{"agent goroutines": 50}},
		{at: 2 * time.Minute, counts: map[string]float64{"agent goroutines": 100}},
	})
	if err := xml.Unmarshal([]byte(picture), new(struct{})); err != nil || !strings.Contains(picture, `points="490.0,60.0 790.0,38.0 "`) {
		t.Errorf("the picture is %s: %v", picture, err)
	}
}
