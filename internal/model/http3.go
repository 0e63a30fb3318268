package model

import (
	"cmp"
	"fmt"
	"slices"
)

// NoHTTP3 returns why a port of listeners has no HTTP/3, "" if it may have. QUIC has no PROXY header, so the client
// behind a trusted proxy would be unknown. HTTP/3 was not tested on ports with client certificates or TLS passthrough.
func NoHTTP3(listeners []Listener, port int32) string {
	why := "it is not of protocol HTTPS"
	for i := range listeners {
		switch l := &listeners[i]; {
		case l.Port != port:
		case l.Protocol == ProtocolTLS && l.TLS == nil:
			return "listener " + cmp.Or(l.Title, l.Name) + " passes TLS through"
		case l.ProxyProtocol:
			return "it takes PROXY headers"
		case l.TLS != nil && len(l.TLS.ClientCAs) > 0:
			return "it asks clients for certificates"
		case l.Protocol == ProtocolHTTPS && l.TLS != nil:
			why = ""
		}
	}
	return why
}

// WithoutHTTP3 returns which ports with HTTPS have no HTTP/3, although it is asked for, and why.
func (g *Gateway) WithoutHTTP3() []string {
	if g.HTTP3MaxAge == 0 {
		return nil
	}
	return WithoutHTTP3(g.Listeners)
}

// WithoutHTTP3 is Gateway.WithoutHTTP3 for listeners that are asked for HTTP/3.
func WithoutHTTP3(listeners []Listener) []string {
	var all []string
	var ports []int32
	for i := range listeners {
		port := listeners[i].Port
		if listeners[i].Protocol != ProtocolHTTPS || slices.Contains(ports, port) {
			continue
		}
		ports = append(ports, port)
		if why := NoHTTP3(listeners, port); why != "" {
			all = append(all, fmt.Sprintf("port %d has no HTTP/3, which http3 asks for: %s", port, why))
		}
	}
	if len(ports) == 0 {
		all = append(all, "http3 has no effect: no listener is of protocol HTTPS")
	}
	return all
}
