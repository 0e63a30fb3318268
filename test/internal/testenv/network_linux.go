package testenv

import (
	"os"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// InThread runs a function in a thread that ends with it.
func InThread(f func()) {
	var working sync.WaitGroup
	working.Go(func() {
		runtime.LockOSThread()
		f()
	})
	working.Wait()
}

// InNetwork runs a function, and the programs that it starts, within a network namespace. A socket stays in the one
// that it was made in.
func InNetwork(network *os.File, f func()) {
	InThread(func() {
		if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
			panic(err) // there is no way back
		}
		f()
	})
}
