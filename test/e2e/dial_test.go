package e2e

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// The client's ports are those from firstSourcePort on: below what the kernel gives out, and what node ports may be.
const (
	firstSourcePort = 20_000
	sourcePorts     = 10_000
)

var sourcePortsTaken atomic.Uint32

// dialAnew opens a connection from a port that was not used for minutes. The kernel takes the same ports again within
// seconds, as all clients are on one machine here; and of a connection that was reset, the node's connection tracking
// remembers for 10 s where it went, and sends a new one from the same port there, too, whatever the Service's endpoints
// are by now.
func dialAnew(ctx context.Context, network, address string) (net.Conn, error) {
	for ctx.Err() == nil {
		port := firstSourcePort + int(sourcePortsTaken.Add(1)%sourcePorts)
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}}
		conn, err := dialer.DialContext(ctx, network, address)
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return conn, err
		}
	}
	return nil, ctx.Err()
}
