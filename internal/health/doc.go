// Package health serves the state of a program over HTTP: the checks it is given, such as /healthz and /readyz,
// /metrics, and, if wanted, /debug/pprof.
package health
