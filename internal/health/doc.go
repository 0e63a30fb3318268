// Package health is what a program tells about itself over HTTP: the checks it is given, such as /healthz and /readyz,
// /metrics, and, if wanted, /debug/pprof.
package health
