package render

import (
	"fmt"
	"slices"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// Of the files that HAProxy may open, each connection of the limit takes three: itself, the connection to a server for
// a request over HTTP/1.1, and one for a request over HTTP/2. ownFiles are for everything else: health, metrics,
// sockets, idle connections to servers.
//
// HAProxy sets its global maxconn to half of the files. That is more than the limit, so that /healthz and /metrics are
// answered when clients have taken all there is for them.
const (
	filesPerConnection = 3
	ownFiles           = 1000
)

// maxConnections returns the limit of HAProxy's connections.
func maxConnections(in Input) int {
	if in.Bind.Files == 0 {
		return in.Table.MaxConnections
	}
	return max(1, min(in.Table.MaxConnections, (in.Bind.Files-ownFiles)/filesPerConnection))
}

// byClient is the key of a client: IPv6 clients count by networks of 64 bits. everyone is the key of all clients.
const (
	byClient = "src,ipmask(32,64)"
	everyone = "src,ipmask(0,0)"
)

// admissionLines select the connections that a port takes. HAProxy runs rules about connections before it reads from
// them.
//
// The backend connections-of counts the connections that each client has open.
//
// With the PROXY protocol, the header of a trusted proxy names the client, and every other connection is closed.
// Without trusted proxies, the port takes no connection. In rules of the connection, src is still the proxy. In all
// later ones it is the client in the header.
func admissionLines(in Input, listener *routing.Listener) []string {
	trusted, lines := in.Table.TrustedProxies, trustLines(in)
	lines = append(lines, fmt.Sprintf("tcp-request connection reject if { act_conn gt %d }", maxConnections(in)))
	directive := "tcp-request connection "
	if listener.ProxyProtocol {
		// The client is not known before.
		directive = "tcp-request session "
		if len(trusted) == 0 {
			lines = append(lines, "tcp-request connection reject")
		} else {
			lines = append(lines, "tcp-request connection reject unless trusted", "tcp-request connection expect-proxy layer4")
		}
	}
	if in.Table.MaxPerAddress > 0 {
		unless := ""
		if len(trusted) > 0 {
			unless = " unless trusted"
		}
		lines = append(lines,
			directive+"track-sc0 "+byClient+" table connections-of"+unless,
			fmt.Sprintf("%sreject if { sc0_conn_cur gt %d }", directive, in.Table.MaxPerAddress),
		)
	}
	return lines
}

// trustLines find out whether a client is a trusted proxy.
func trustLines(in Input) []string {
	var lines []string
	// HAProxy takes 64 words in a line. The lines count together.
	for chunk := range slices.Chunk(in.Table.TrustedProxies, 32) {
		lines = append(lines, "acl trusted src "+ir.QuoteAll(chunk))
	}
	return lines
}

// requestLimitLines limit the active requests over HTTP/2 and HTTP/3, which the backend requests-of counts. Other
// connections have one request at a time.
func requestLimitLines(in Input) []string {
	const multiplexes = " if { fc_http_major 2 3 }"
	lines := []string{"http-request track-sc1 " + everyone + " table requests-of" + multiplexes}
	tooMany := fmt.Sprintf(" if { sc1_conn_cur gt %d }", maxConnections(in))
	if in.Table.MaxPerAddress > 0 {
		condition := multiplexes
		if len(in.Table.TrustedProxies) > 0 {
			condition += " !{ var(sess.trusted) -m found }"
		}
		lines = append(lines, "http-request track-sc2 "+byClient+" table requests-of"+condition)
		tooMany += fmt.Sprintf(" or { sc2_conn_cur gt %d }", in.Table.MaxPerAddress)
	}
	return append(lines, returnText(in, 503, "the proxy has too many requests")+tooMany)
}
