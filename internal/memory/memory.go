// Package memory has programs keep within their limit of memory.
package memory

import "runtime/debug"

// LeaveRoom has Go collect more garbage from 90 % of GOMEMLIMIT on, which is the container's limit. The container is
// charged for what Go does not count, too: machine code, page tables, and what the kernel keeps for sockets and files.
func LeaveRoom() {
	debug.SetMemoryLimit(debug.SetMemoryLimit(-1) / 10 * 9)
}
