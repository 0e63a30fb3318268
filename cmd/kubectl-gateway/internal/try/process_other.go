//go:build !linux

package try

import "syscall"

func processAttributes() *syscall.SysProcAttr { return nil }
