package model

import (
	"fmt"
	"runtime"
	"strings"
)

// Panic describes a panic for a status: its cause, and the functions and lines that led to it, the last one first. It
// is called where the panic is recovered from.
func Panic(cause any) string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	var places []string
	for panicking, more := false, true; more && len(places) < 4; {
		var frame runtime.Frame
		frame, more = frames.Next()
		panicking = panicking || frame.Function == "runtime.gopanic"
		if function, ours := strings.CutPrefix(frame.Function, "gateway/"); panicking && ours {
			places = append(places, fmt.Sprintf("%s:%d", strings.TrimPrefix(function, "internal/"), frame.Line))
		}
	}
	return fmt.Sprintf("this is a bug, please report it: panic: %v, at %s", cause, strings.Join(places, ", "))
}
