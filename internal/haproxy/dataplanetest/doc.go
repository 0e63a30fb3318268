// Package dataplanetest tests what HAProxy does with a Gateway: it starts one with what source, routing and render make
// of a spec, and sends requests. It has no code but tests.
package dataplanetest
