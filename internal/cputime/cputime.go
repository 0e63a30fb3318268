// Package cputime measures work by its CPU time. Time by the clock grows with everything else that the machine does.
package cputime

import (
	"runtime"
	"syscall"
	"time"
)

// thread is RUSAGE_THREAD of Linux, which syscall lacks. Elsewhere, nothing is measured.
const thread = 1

// Of returns how long a core worked on a function. What other goroutines do for it does not count.
func Of(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := now()
	do()
	return now() - begin
}

// now returns how long a core has worked for this thread.
func now() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(thread, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
