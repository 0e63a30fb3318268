// Package convert prints what internal/source/ingress makes of the Ingresses in files, and what the API server and the
// proxies would refuse of it.
package convert
