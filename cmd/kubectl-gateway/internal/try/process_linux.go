package try

import "syscall"

// processAttributes keep Ctrl-C, which is for this process, from HAProxy, and end HAProxy when this process is killed.
func processAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}
