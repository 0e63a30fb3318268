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
	return in.Table.HTTP3MaxAge > 0 && withoutHTTP3(in, port) == "" && len(certificateLines(in, port)) > 0
}

// withoutHTTP3 returns why a port has no HTTP/3, "" if it may have. QUIC has no PROXY header, so nothing would say who
// the client of a trusted proxy is. What a port with client certificates or with TLS that is passed through demands was
// not shown for QUIC.
func withoutHTTP3(in Input, port int32) string {
	listener, passing := modes(in.Table, port)
	switch {
	case listener == nil || listener.TLS == nil || isConnection(listener):
		return "it is not of protocol HTTPS"
	case passing != nil:
		return "listener " + passing.Name + " passes TLS through"
	case listener.ProxyProtocol:
		return "it takes PROXY headers"
	case verifiesClients(in, port):
		return "it asks clients for certificates"
	}
	return ""
}

// WithoutHTTP3 returns which ports with HTTPS have no HTTP/3, although it is asked for, and why.
func WithoutHTTP3(in Input) []string {
	var all []string
	has, last := false, int32(0)
	for i := range in.Table.Listeners {
		listener := &in.Table.Listeners[i]
		if in.Table.HTTP3MaxAge == 0 || listener.Protocol != model.ProtocolHTTPS || listener.Port == last {
			continue
		}
		has, last = true, listener.Port
		if why := withoutHTTP3(in, last); why != "" {
			all = append(all, fmt.Sprintf("port %d has no HTTP/3, which http3 asks for: %s", last, why))
		}
	}
	if in.Table.HTTP3MaxAge > 0 && !has {
		all = append(all, "http3 has no effect: no listener is of protocol HTTPS")
	}
	return all
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
