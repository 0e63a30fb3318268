package memory

import (
	"math"
	"runtime/debug"
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
