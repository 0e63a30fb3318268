// Package unixsocket opens the sockets where HAProxy reaches the programs beside it.
package unixsocket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// Listen opens a socket. Only its user can connect.
func Listen(socket string) (net.Listener, error) {
	// A process that ended may have left it.
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to remove an old socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err == nil {
		err = os.Chmod(socket, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to listen for HAProxy: %w", err)
	}
	return listener, nil
}
