// Package tracing makes spans of the lines that HAProxy writes about sampled requests (see render/trace.go), and sends
// them to a collector by OTLP/HTTP. HAProxy never waits for it, and it never holds more than a bounded number of them.
//
// Each request has a span of the kind SERVER. If it reached an endpoint, it also has one of the kind CLIENT, whose
// child is what the backend does. The backend was told the ID of the inner one, and the outer one has the same ID with
// all bits inverted. So HAProxy makes one ID, and spans are a pure function of the line.
package tracing
