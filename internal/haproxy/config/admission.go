package config

import (
	"fmt"
	"slices"
	"strings"

	"gateway/internal/routing"
)

// Of the files that HAProxy may open, each connection of the limit takes three: itself, the connection to a server for a request over
// HTTP/1.1, and one for a request over HTTP/2. ownFiles are for everything else: health, metrics, sockets, idle connections to servers.
//
// HAProxy sets its global maxconn to half of the files. That is more than the limit, so that /healthz and /metrics are answered when
// clients have taken all there is for them.
const (
	filesPerConnection = 3
	ownFiles           = 1000
)

// maxConnections returns how many connections HAProxy takes at a time.
func maxConnections(in Input) int {
	if in.Bind.Files == 0 {
		return in.Table.MaxConnections
	}
	return max(1, min(in.Table.MaxConnections, (in.Bind.Files-ownFiles)/filesPerConnection))
}

// trustedRanges starts a line with ranges of trusted proxies. The lines of a section count together.
const trustedRanges = `    acl trusted src `

// connectionRule starts a rule that is run before anything of a connection is read.
const connectionRule = `    tcp-request connection `

// proxyRules believe the PROXY header of a trusted proxy, and close every other connection. In rules of the connection, src is still the
// proxy; in all later ones it is who the header says.
const (
	proxyRules  = connectionRule + "reject unless trusted\n" + expectProxy
	expectProxy = connectionRule + "expect-proxy layer4\n"
)

// countingSections count the connections and the requests over HTTP/2 that each client has open. They want how many there may be.
//
// A table that is full forgets clients that have nothing open, so it has room for as many as can have something.
const countingSections = `
backend connections-of from common
    stick-table type ipv6 size %[1]d expire 10s store conn_cur

backend requests-of from common
    stick-table type ipv6 size %[1]d expire 10s store conn_cur
`

const (
	// byClient is the key of a client: whoever has IPv6 has a network of 64 bits. everyone is the key of all clients.
	byClient = `src,ipmask(32,64)`
	everyone = `src,ipmask(0,0)`
	tooMany  = `    http-request return status 503 content-type text/plain hdr cache-control no-store string "the proxy has too many requests\n" if `
)

// writeAdmission writes which connections a port takes. Without trusted proxies, a port with the PROXY protocol takes none.
func writeAdmission(b *strings.Builder, in Input, listener *routing.Listener) {
	ranges := make([]string, len(in.Table.TrustedProxies))
	for i, cidr := range in.Table.TrustedProxies {
		ranges[i] = quote(cidr, inConfig)
	}
	// HAProxy takes 64 words in a line.
	for chunk := range slices.Chunk(ranges, 32) {
		fmt.Fprintf(b, "%s%s\n", trustedRanges, strings.Join(chunk, " "))
	}
	fmt.Fprintf(b, connectionRule+"reject if { act_conn gt %d }\n", maxConnections(in))
	rule := connectionRule
	if listener.ProxyProtocol {
		// Who the client is, is not known before.
		rule = "    tcp-request session "
		if len(ranges) == 0 {
			b.WriteString(connectionRule + "reject\n")
		} else {
			b.WriteString(proxyRules)
		}
	}
	if in.Table.MaxPerAddress > 0 {
		unless := ""
		if len(ranges) > 0 {
			unless = " unless trusted"
		}
		fmt.Fprintf(b, "%[1]strack-sc0 %[2]s table connections-of%[3]s\n%[1]sreject if { sc0_conn_cur gt %[4]d }\n", rule, byClient, unless, in.Table.MaxPerAddress)
	}
}

// writeRequestLimits writes how many requests over HTTP/2 are in work at a time. A connection has one at a time of any other.
func writeRequestLimits(b *strings.Builder, in Input) {
	const isHTTP2 = " if { fc_http_major 2 }"
	b.WriteString("    http-request track-sc1 " + everyone + " table requests-of" + isHTTP2 + "\n")
	fmt.Fprintf(b, tooMany+"{ sc1_conn_cur gt %d }\n", maxConnections(in))
	if in.Table.MaxPerAddress == 0 {
		return
	}
	condition := isHTTP2
	if len(in.Table.TrustedProxies) > 0 {
		condition += " !{ var(sess.trusted) -m found }"
	}
	b.WriteString("    http-request track-sc2 " + byClient + " table requests-of" + condition + "\n")
	fmt.Fprintf(b, tooMany+"{ sc2_conn_cur gt %d }\n", in.Table.MaxPerAddress)
}
