package haproxytest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// Tests take none of the ports that the kernel gives to connections and to test servers, and none that Services on a
// node have. Every test program has a range of its own.
const (
	firstPort    = 10_000
	portsInRange = 1_000
	rangeCount   = 20
)

// ports is this program's range, and the number of its ports that were tried. The lock keeps other programs from the
// range; the kernel drops it when the program ends.
var ports struct {
	sync.Mutex
	lock  *os.File
	first int
	tried int
}

// FreePort returns a port on which nothing listens, and that no test was given lately. HAProxy binds with SO_REUSEPORT
// and would share a port with another HAProxy without a word, so tests take every port from here.
func FreePort(t testing.TB) int32 {
	t.Helper()
	ports.Lock()
	defer ports.Unlock()
	if ports.lock == nil {
		takeRange(t)
	}
	for range portsInRange {
		port := ports.first + ports.tried%portsInRange
		ports.tried++
		if isFree(port) {
			return int32(port)
		}
	}
	t.Fatalf("something listens on each of the %d ports for these tests", portsInRange)
	return 0
}

// isFree reports whether nothing listens on a port. It does not listen there itself: a process that starts meanwhile
// has this one's sockets until it runs its program, and would hold the port.
func isFree(port int) bool {
	connection, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		_ = connection.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// takeRange finds a range that no other test program has.
func takeRange(t testing.TB) {
	t.Helper()
	for i := range rangeCount {
		path := filepath.Join(os.TempDir(), fmt.Sprintf("gateway-test-ports-%d", i))
		file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			t.Fatalf("failed to open the lock of a range of ports: %v", err)
		}
		if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			ports.lock, ports.first = file, firstPort+i*portsInRange
			return
		}
		_ = file.Close()
	}
	t.Fatalf("%d test programs have taken all ranges of ports", rangeCount)
}
