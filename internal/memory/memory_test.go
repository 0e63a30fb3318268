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
	for _, always := range []uint64{0, 100 << 10, 5 << 20} {
		var q quiet
		var told []int
		allocated := uint64(0)
		for look := range 30 {
			switch look {
			case 0, 1, 10: // the start, and edits
				allocated += 6<<20 + 8*always
			case 11, 20:
				allocated += 2 << 20
			}
			allocated += always
			if q.begins(allocated) {
				told = append(told, look)
			}
		}
		if !slices.Equal(told, []int{2, 12}) {
			t.Errorf("%d bytes all the time: it was told at looks %v", always, told)
		}
	}
}
