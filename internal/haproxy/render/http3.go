package render

import (
	"fmt"
	"slices"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
)

// speaksHTTP3 reports whether a port is to speak HTTP/3, too.
func (r *Renderer) speaksHTTP3(port int32) bool {
	in := r.in
	if in.Table.HTTP3MaxAge == 0 || !r.hasCertificates(port) {
		return false
	}
	listeners := make([]model.Listener, len(in.Table.Listeners))
	for i := range in.Table.Listeners {
		l := &in.Table.Listeners[i]
		listeners[i] = model.Listener{Name: l.Name, Port: l.Port, Protocol: l.Protocol, ProxyProtocol: l.ProxyProtocol, TLS: l.TLS}
	}
	return model.NoHTTP3(listeners, port) == ""
}

// http3Ports returns the ports that speak HTTP/3, sorted.
func (r *Renderer) http3Ports() []string {
	var ports []string
	for _, port := range r.ports() {
		if r.speaksHTTP3(port) {
			ports = append(ports, itoa(port))
		}
	}
	slices.Sort(ports)
	return ports
}

// quicLines bind a port over UDP. Requests that come before the handshake has ended (0-RTT) could be repeated by
// others. HAProxy does not take them by default.
func quicLines(bind Bind, port int32, options string) []string {
	if len(bind.Addresses) == 0 {
		return []string{fmt.Sprintf("bind quic4@:%d%s", port, options), fmt.Sprintf("bind quic6@:::%d v6only%s", port, options)}
	}
	var lines []string
	for _, address := range bind.Addresses {
		family := "quic4@"
		if strings.Contains(address, ":") {
			family = "quic6@"
		}
		lines = append(lines, "bind "+family+ir.ServerAddress(ir.Server{Address: address, Port: port})+options)
	}
	return lines
}
