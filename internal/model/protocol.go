package model

import "strings"

// Protocol is the protocol in which requests are sent to a Service port. Over TLS, both sides negotiate HTTP/2 or
// HTTP/1.1, except for WSS.
type Protocol int

const (
	// HTTP is HTTP/1.1.
	HTTP Protocol = iota
	// H2C is HTTP/2 without TLS.
	H2C
	// HTTPS is only spoken over TLS.
	HTTPS
	// WSS are WebSockets over TLS, which take HTTP/1.1.
	WSS
	// UnknownProtocol is none that the proxies speak.
	UnknownProtocol
)

// protocols are by appProtocol: names of Kubernetes (kubernetes.io/), of IANA, and others that charts use.
var protocols = map[string]Protocol{
	"": HTTP, "http": HTTP, "tcp": HTTP, "ws": HTTP, "kubernetes.io/ws": HTTP,
	"h2c": H2C, "http2": H2C, "grpc": H2C, "kubernetes.io/h2c": H2C,
	"https": HTTPS, "wss": WSS, "kubernetes.io/wss": WSS,
}

// KnownProtocols lists the values of appProtocol that messages suggest.
const KnownProtocols = "http, https, kubernetes.io/h2c, kubernetes.io/ws or kubernetes.io/wss"

// ProtocolOf returns the protocol for an appProtocol, in any case, and a kind of route. gRPC needs HTTP/2, so a
// GRPCRoute gets it where appProtocol is empty.
func ProtocolOf(appProtocol, routeKind string) Protocol {
	appProtocol = strings.ToLower(appProtocol)
	protocol, known := protocols[appProtocol]
	switch {
	case !known:
		return UnknownProtocol
	case routeKind == "GRPCRoute" && (appProtocol == "" || appProtocol == "tcp"):
		return H2C
	}
	return protocol
}

// NeedsTLS reports whether requests may only be sent over TLS.
func (p Protocol) NeedsTLS() bool { return p == HTTPS || p == WSS }

// Carries reports whether requests of a kind of route can be sent in a protocol, over TLS or without. gRPC takes
// HTTP/2, on which both sides agree over TLS, but for WSS.
func (p Protocol) Carries(routeKind string, tls bool) bool {
	switch p {
	case HTTP:
		return tls || routeKind != "GRPCRoute"
	case WSS:
		return tls && routeKind != "GRPCRoute"
	case HTTPS:
		return tls
	}
	return p != UnknownProtocol
}
