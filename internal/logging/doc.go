// Package logging is the log of a program and of what it uses: client-go, which logs through klog, and with JSON
// net/http, which logs through log. It is glog's text, as glog's flags say, or, with -log-format=json, JSON of log/slog
// on standard error. In: messages. Out: lines and records with the file and line that logged.
package logging
