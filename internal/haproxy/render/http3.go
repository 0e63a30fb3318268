package render

import (
	"fmt"
	"slices"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
)

// speaksHTTP3 reports whether a port is to speak HTTP/3, too.
func speaksHTTP3(in Input, port int32) bool {
	if in.Table.HTTP3MaxAge == 0 || len(certificateLines(in, port)) == 0 {
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
func http3Ports(in Input) []string {
	var ports []string
	for i := range in.Table.Listeners {
		if port := in.Table.Listeners[i].Port; speaksHTTP3(in, port) {
			ports = append(ports, itoa(port))
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
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
