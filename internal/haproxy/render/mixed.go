package render

import (
	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// On most ports, TLS is either terminated or passed through. On a mixed port, the server name decides. A bind line of
// HAProxy does one of the two. So a frontend of its own, the entrance, takes the connections there. It reads the
// server name, and sends connections for listeners that pass TLS through to their backends. It hands over all others,
// with a PROXY protocol header, to the frontend that terminates TLS. That one listens on a socket of its own, and is
// otherwise as on other ports.
//
// A connection that is handed over counts twice for the limit of connections, and takes as many files.

// opened replaces a hostname's value in hosts.map where TLS is terminated.
const opened = "."

// isOpened is the condition that TLS is terminated.
const isOpened = " if { var(txn.hosts) -m str " + opened + " }"

// entrance returns the name of the frontend that takes the connections of a mixed port.
func entrance(port int32) string { return itoa(port) + ".sni" }

// handover returns the name of the backend that leads to the frontend that terminates TLS.
func handover(port int32) string { return itoa(port) + ir.HandoverSuffix }

// passesThrough reports whether a listener passes TLS through.
func passesThrough(listener *routing.Listener) bool {
	return listener.Protocol == "TLS" && listener.TLS == nil
}

// modes returns a listener of a port that passes TLS through, and another one; nil where there is none.
func modes(table routing.Table, port int32) (other, passing *routing.Listener) {
	for i := range table.Listeners {
		switch listener := &table.Listeners[i]; {
		case listener.Port != port:
		case passesThrough(listener):
			passing = listener
		default:
			other = listener
		}
	}
	return other, passing
}

func (r *Renderer) isMixed(port int32) bool { return r.mixed[port] }

// addEntrance adds the entrance of a port, and the way to the frontend that opens TLS.
func (r *Renderer) addEntrance(passing *routing.Listener) {
	port := passing.Port
	lines := append(bindLines(r.in.Bind, port, ""), admissionLines(r.in, passing)...)
	r.section(ir.ReloadPorts, "frontend "+entrance(port)+" from tcp", append(lines, r.connectionLines(passing)...)...)
	r.section(ir.ReloadPorts, "backend "+handover(port)+" from tcp", "server tls "+r.in.Paths.TLSSocket(port)+" send-proxy-v2")
}

// handoverLines hand over connections whose TLS is terminated: those for names of other listeners, for unknown names,
// and without a name. The frontend that terminates TLS logs them.
func (r *Renderer) handoverLines(port int32) []string {
	lines := []string{"tcp-request content set-var(txn.hosts) str(" + opened + ") unless { var(txn.host) -m found } { var(txn.hosts) -m found }"}
	if !r.hasCertificates(port) {
		return append(lines, "tcp-request content reject"+isOpened)
	}
	return append(lines, "tcp-request content set-log-level silent"+isOpened, "tcp-request content accept"+isOpened)
}
