package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"gateway/internal/haproxy/render"
	"gateway/internal/routing"
)

// checkPorts returns an error if HAProxy could not bind a port that is new in a table. HAProxy would find out by a
// refused reload, which costs more and says less.
func checkPorts(ctx context.Context, bind render.Bind, running, wanted routing.Table) error {
	bound := map[int32]bool{}
	for i := range running.Listeners {
		bound[running.Listeners[i].Port] = true
	}
	if len(bound) == 0 {
		return nil // it is not known what it runs
	}
	for i := range wanted.Listeners {
		if port := wanted.Listeners[i].Port; !bound[port] && isTaken(ctx, bind, port) {
			return fmt.Errorf("port %d is taken by another process in the pod", port)
		}
	}
	return nil
}

func isTaken(ctx context.Context, bind render.Bind, port int32) bool {
	addresses := bind.Addresses
	if len(addresses) == 0 {
		addresses = []string{"0.0.0.0", "::"}
	}
	for _, address := range addresses {
		network := "tcp4"
		if net.ParseIP(address).To4() == nil {
			network = "tcp6" // which leaves IPv4 alone
		}
		var config net.ListenConfig
		listener, err := config.Listen(ctx, network, net.JoinHostPort(address, strconv.Itoa(int(port))))
		if err == nil {
			_ = listener.Close() // nothing connects to a port that is not in use yet
		} else if errors.Is(err, syscall.EADDRINUSE) {
			return true
		}
	}
	return false
}
