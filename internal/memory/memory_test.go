package memory

import (
	"math"
	"runtime/debug"
	"slices"
	"testing"
)

func TestLeaveRoom(t *testing.T) { //nolint:paralleltest // the limit is the process's
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for limit, least := range map[int64]int64{math.MaxInt64: 1 << 62, 768 << 20: 691 << 20} {
		debug.SetMemoryLimit(limit)
		LeaveRoom()
		if got := debug.SetMemoryLimit(-1); got < least || got > limit/10*9 {
			t.Errorf("of %d, %d are left to Go", limit, got)
		}
	}
}

// TestQuiet: memory is given back after a start and after edits, once each, also while requests are served.
func TestQuiet(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ always, edit uint64 }{{0, 2 << 20}, {300 << 10, 2 << 20}, {5 << 20, 48 << 20}} {
		var q quiet
		var told []int
		allocated := uint64(0)
		for look := range 30 {
			switch allocated += test.always; {
			case look < 2: // the start
				allocated += 60 << 20
			case look >= 10 && look < 15:
				allocated += test.edit
			}
			if q.begins(allocated) {
				told = append(told, look)
			}
		}
		if !slices.Equal(told, []int{2, 15}) {
			t.Errorf("%d bytes all the time: it was told at looks %v", test.always, told)
		}
	}
}
