package logging

import (
	"context"
	"flag"
	"log/slog"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/golang/glog"
	"k8s.io/klog/v2"
)

// RouteKlog sends everything that is logged through klog to glog from now on. It is called once, after flag.Parse and
// before anything logs: glog's -v decides what klog writes, too.
func RouteKlog() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if v := flag.Lookup("v"); v != nil {
		// The value is a number that glog has parsed already.
		_ = flags.Set("v", v.Value.String())
	}
	klog.SetSlogLogger(slog.New(handler{}))
}

// handler writes records to glog. Attributes and groups follow the message as klog writes them: key="value".
type handler struct {
	// attrs is what WithAttrs collected, formatted, with a leading space each.
	attrs string
	// group is the prefix of the keys that follow.
	group string
}

// Enabled takes klog's verbosity, which is minus the level, to be glog's.
func (h handler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || bool(glog.V(glog.Level(-level)))
}

func (h handler) Handle(_ context.Context, record slog.Record) error {
	var line strings.Builder
	line.WriteString(record.Message)
	line.WriteString(h.attrs)
	record.Attrs(func(attr slog.Attr) bool {
		line.WriteString(h.format(attr))
		return true
	})
	depth, found := callDepth(record.PC)
	if !found {
		line.WriteString(" (" + source(record.PC) + ")")
	}
	switch {
	case record.Level >= slog.LevelError:
		glog.ErrorDepth(depth, line.String())
	case record.Level >= slog.LevelWarn:
		glog.WarningDepth(depth, line.String())
	default:
		glog.InfoDepth(depth, line.String())
	}
	return nil
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, attr := range attrs {
		h.attrs += h.format(attr)
	}
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.group += name + "."
	return h
}

func (h handler) format(attr slog.Attr) string {
	value := attr.Value.Resolve().String()
	if attr.Key == "err" || strings.ContainsAny(value, " \t\r\n\"=") || value == "" {
		value = strconv.Quote(value)
	}
	return " " + h.group + attr.Key + "=" + value
}

// callDepth finds the frame that logged among the callers of Handle, as the depth that glog counts from Handle.
func callDepth(pc uintptr) (int, bool) {
	var callers [32]uintptr
	// 2 skips runtime.Callers and callDepth: the first frame is Handle.
	n := runtime.Callers(2, callers[:])
	for depth, caller := range callers[:n] {
		if caller == pc {
			return depth, true
		}
	}
	return 0, false
}

func source(pc uintptr) string {
	frame, _ := runtime.CallersFrames([]uintptr{pc}).Next()
	return filepath.Base(frame.File) + ":" + strconv.Itoa(frame.Line)
}
