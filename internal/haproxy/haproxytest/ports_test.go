package haproxytest_test

import (
	"fmt"
	"net"
	"os/exec"
	"sync"
	"testing"

	"gateway/internal/haproxy/haproxytest"
)

// TestFreePort takes ports while other goroutines start programs: a new process has its parent's sockets until it runs
// its program, also those that the parent has closed meanwhile.
func TestFreePort(t *testing.T) {
	done := make(chan struct{})
	var starting sync.WaitGroup
	for range 2 {
		starting.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = exec.CommandContext(t.Context(), "true").Run()
				}
			}
		})
	}
	for range 200 {
		port := haproxytest.FreePort(t)
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Error(err)
			break
		}
		_ = listener.Close()
	}
	close(done)
	starting.Wait()
}
