package logging

import (
	"flag"
	"log/slog"
	"strconv"

	"github.com/golang/glog"
	"k8s.io/klog/v2"
)

// Start sends everything that is logged through klog and log to this log from now on. It is called once, after
// flag.Parse and before anything logs: glog's -v decides what klog writes, too.
func Start() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	v := flag.Lookup("v").Value.String()
	_ = flags.Set("v", v) // a number that glog has parsed already
	if JSON() {
		level, _ := strconv.Atoi(v)
		verbosity.Set(slog.Level(-level))
		klog.SetSlogLogger(slog.New(records)) // its warnings become INFO: klog does not pass on more
		slog.SetDefault(slog.New(records))    // takes what is logged through log, too
		return
	}
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL"} {
		_ = flags.Set(name, value)
	}
	for severity, write := range map[string]func(args ...any){"INFO": glog.Info, "WARNING": glog.Warning, "ERROR": glog.Error, "FATAL": glog.Error} {
		klog.SetOutputBySeverity(severity, output(write))
	}
}

// output writes lines of klog by a function of glog.
type output func(args ...any)

// headerLength is the length of klog's text before the file, which glog writes, too: severity, date, time and process.
const headerLength = len("I0102 15:04:05.000000 1234567 ")

func (o output) Write(line []byte) (int, error) {
	o(string(line[min(headerLength, len(line)):]))
	return len(line), nil
}
