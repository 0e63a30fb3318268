// Package memory has programs keep within their limit of memory, and keep little of it.
package memory

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// LeaveRoom has Go collect more garbage from 90 % of GOMEMLIMIT on, which is the container's limit. The container is
// charged for what Go does not count, too: machine code, page tables, and what the kernel keeps for sockets and files.
func LeaveRoom() {
	debug.SetMemoryLimit(debug.SetMemoryLimit(-1) / 10 * 9)
}

// GiveBack gives memory back to the kernel until ctx ends, each time that a program has become quiet: a start takes a
// multiple of what is kept, and edits half as much again.
func GiveBack(ctx context.Context) {
	ticker := time.NewTicker(quietTime)
	defer ticker.Stop()
	var q quiet
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		allocated := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
		if metrics.Read(allocated); q.begins(allocated[0].Value.Uint64()) {
			debug.FreeOSMemory()
		}
	}
}

// A program has become quiet when it allocates little in quietTime, or less than a part of the most since it gave
// memory back. So what it always allocates, for requests, does not count. Since then, it has allocated much.
const (
	quietTime = 10 * time.Second
	little    = 1 << 20
	part      = 8
	much      = 8 << 20
)

// quiet finds out when a program has become quiet, by how much it has allocated before, and when it gave memory back,
// and the most that it allocated in quietTime since then.
type quiet struct{ before, given, most uint64 }

// begins reports whether memory is to be given back. allocated is how much was allocated since the start.
func (q *quiet) begins(allocated uint64) bool {
	now := allocated - q.before
	q.before, q.most = allocated, max(q.most, now)
	isQuiet := now < max(little, q.most/part) && allocated-q.given >= much
	if isQuiet {
		q.given, q.most = allocated, now
	}
	return isQuiet
}
