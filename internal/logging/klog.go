package logging

import (
	"flag"

	"github.com/golang/glog"
	"k8s.io/klog/v2"
)

// RouteKlog sends everything that is logged through klog to glog from now on. It is called once, after flag.Parse and
// before anything logs: glog's -v decides what klog writes, too.
func RouteKlog() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "one_output": "true", "stderrthreshold": "FATAL"} {
		_ = flags.Set(name, value)
	}
	if v := flag.Lookup("v"); v != nil {
		_ = flags.Set("v", v.Value.String()) // a number that glog has parsed already
	}
	for severity, write := range map[string]func(args ...any){"INFO": glog.Info, "WARNING": glog.Warning, "ERROR": glog.Error, "FATAL": glog.Error} {
		klog.SetOutputBySeverity(severity, output(write))
	}
}

// output writes lines of klog by a function of glog.
type output func(args ...any)

// headerLength is that of what glog writes, too, and klog writes before the file: severity, date, time and process.
const headerLength = len("I0102 15:04:05.000000 1234567 ")

func (o output) Write(line []byte) (int, error) {
	o(string(line[min(headerLength, len(line)):]))
	return len(line), nil
}
