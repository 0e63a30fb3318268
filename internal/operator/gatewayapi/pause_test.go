package gatewayapi

import (
	"slices"
	"testing"
	"time"
)

// TestLooks: an edit and the reports that follow are looked at without a pause. Many changes are not.
func TestLooks(t *testing.T) {
	for name, test := range map[string]struct {
		pause time.Duration
		want  []time.Duration
	}{
		"few objects":  {interval, []time.Duration{0, 0, 0, 0, 0, interval, interval}},
		"many objects": {3 * time.Second, []time.Duration{3*time.Second - burst, 3 * time.Second, 3 * time.Second}},
	} {
		var due time.Time
		now, got := time.Unix(1000, 0), []time.Duration(nil)
		for range test.want {
			due = nextLook(due, now, test.pause)
			wait := max(0, due.Sub(now))
			now, got = now.Add(wait), append(got, wait)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: the waits are %v, want %v", name, got, test.want)
		}
	}
}
