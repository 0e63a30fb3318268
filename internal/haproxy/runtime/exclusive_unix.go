//go:build unix

package runtime

import (
	"errors"
	"os"
	"syscall"
)

// tryLock reports whether the file is locked now, until it is closed.
func tryLock(file *os.File) (bool, error) {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
