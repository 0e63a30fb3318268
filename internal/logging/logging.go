package logging

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/golang/glog"
)

var (
	// records takes log records if the log is JSON.
	records slog.Handler
	// verbosity lets records of client-go through as far as glog's -v does.
	verbosity slog.LevelVar
)

func init() {
	flag.Var(format{}, "log-format", "`format` of the log: text, or json, which is an object a line on standard error. Default: text")
}

// format is the value of the flag. It counts for what is wrong with flags after it, too.
type format struct{}

func (format) String() string {
	if JSON() {
		return "json"
	}
	return "text"
}

func (format) Set(value string) error {
	switch value {
	case "text":
		records = nil
	case "json":
		records = slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{AddSource: true, Level: &verbosity, ReplaceAttr: shorten})
	default:
		return fmt.Errorf("it has to be text or json")
	}
	return nil
}

// JSON reports whether the log is JSON.
func JSON() bool { return records != nil }

// shorten makes a level and a source what they are in glog's text: INFO for all that is verbose, and file:line.
func shorten(_ []string, attr slog.Attr) slog.Attr {
	switch value := attr.Value.Any().(type) {
	case slog.Level:
		return slog.Any(attr.Key, max(value, slog.LevelInfo))
	case *slog.Source:
		return slog.String(attr.Key, filepath.Base(value.File)+":"+strconv.Itoa(value.Line))
	}
	return attr
}

// Infof logs to the INFO log.
func Infof(message string, args ...any) { logf(slog.LevelInfo, message, args...) }

// Warningf logs to the WARNING log.
func Warningf(message string, args ...any) { logf(slog.LevelWarn, message, args...) }

// Errorf logs to the ERROR log.
func Errorf(message string, args ...any) { logf(slog.LevelError, message, args...) }

// Verbose is what V returns.
type Verbose bool

// V reports whether the caller's file logs messages of the level, by glog's -v and -vmodule.
func V(level glog.Level) Verbose { return Verbose(glog.VDepth(1, level)) }

// Infof logs to the INFO log, if v.
func (v Verbose) Infof(message string, args ...any) {
	if v {
		logf(slog.LevelInfo, message, args...)
	}
}

// callers are the functions between the code that logs and the code that writes: an exported one, and logf.
const callers = 2

func logf(level slog.Level, message string, args ...any) {
	switch {
	case JSON():
		var pcs [1]uintptr
		runtime.Callers(1+callers, pcs[:])
		_ = records.Handle(context.Background(), slog.NewRecord(time.Now(), level, fmt.Sprintf(message, args...), pcs[0])) // there is no other place to report it
	case level == slog.LevelError:
		glog.ErrorDepthf(callers, message, args...)
	case level == slog.LevelWarn:
		glog.WarningDepthf(callers, message, args...)
	default:
		glog.InfoDepthf(callers, message, args...)
	}
}

// Flush writes what glog has not written yet.
func Flush() { glog.Flush() }

// Failed prints to standard error, in one line, why the program ends.
func Failed(program string, err error) {
	Flush()
	message := strings.ReplaceAll(err.Error(), "\n", "; ")
	if JSON() {
		logf(slog.LevelError, "%s", message)
		return
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", program, message)
}
