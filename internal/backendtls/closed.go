//go:build !windows

package backendtls

import (
	"errors"
	"net"
	"syscall"
)

// isClosed reports whether nobody reads from a connection any more. It sends nothing to find out.
func isClosed(conn net.Conn) bool {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		return true
	}
	var sendErr error
	err = raw.Control(func(fd uintptr) {
		_, sendErr = syscall.SendmsgN(int(fd), nil, nil, nil, syscall.MSG_DONTWAIT)
	})
	return err != nil || errors.Is(sendErr, syscall.EPIPE)
}
