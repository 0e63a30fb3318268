package config

import (
	"fmt"
	"slices"
	"strings"

	"gateway/internal/routing"
)

// trustedRanges starts a line with ranges of trusted proxies. The lines of a section count together.
const trustedRanges = `    acl trusted src `

// connectionRule starts a rule that is run before anything of a connection is read.
const connectionRule = `    tcp-request connection `

// proxyRules believe the PROXY header of a trusted proxy, and close every other connection. After the first two rules src is still the
// proxy; for all rules of the session it is who the header says.
const proxyRules = connectionRule + `reject unless trusted
` + connectionRule + `expect-proxy layer4
`

// writeAdmission writes which connections a port takes. Without trusted proxies, a port with the PROXY protocol takes none.
func writeAdmission(b *strings.Builder, table routing.Table, listener *routing.Listener) {
	ranges := make([]string, len(table.TrustedProxies))
	for i, cidr := range table.TrustedProxies {
		ranges[i] = quote(cidr, inConfig)
	}
	// HAProxy takes 64 words in a line.
	for chunk := range slices.Chunk(ranges, 32) {
		fmt.Fprintf(b, "%s%s\n", trustedRanges, strings.Join(chunk, " "))
	}
	if listener.ProxyProtocol && len(ranges) == 0 {
		b.WriteString(connectionRule + "reject\n")
	} else if listener.ProxyProtocol {
		b.WriteString(proxyRules)
	}
}
