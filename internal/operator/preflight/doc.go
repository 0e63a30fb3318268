// Package preflight finds out whether the operator can work on a cluster, before it starts to: whether the API server
// answers, whether it lets the operator do what it has to, and whether it knows Gateways. In go the clients; out comes
// nil or an error in one line that says what to do.
package preflight
