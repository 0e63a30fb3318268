// Package health is what the operator tells about itself over HTTP: /healthz (it works), /readyz (its caches are filled),
// /metrics, and, if wanted, /debug/pprof. In go the checks and the outcome of every sync.
package health
