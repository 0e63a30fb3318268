package filters

import (
	"fmt"
	"slices"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// client finds out who the client is, for rules with the parameter "client".
//
// Trusted proxies name the client in X-Forwarded-For. The last address there is the connection's. While an address
// belongs to a trusted proxy, the previous one counts. Anything but an address has no access. An IPv4 address that is
// written as an IPv6 address counts as IPv4.
var client = filter{
	param: "client", mayStay: true,
	rules: func(env Env) Rules {
		wanted := has("client")
		lines := []string{"http-request set-var(txn.client) src if " + wanted}
		for hop := 2; hop <= maxHops && len(env.Table.TrustedProxies) > 0; hop++ {
			for chunk := range slices.Chunk(env.Table.TrustedProxies, 32) {
				lines = append(lines, fmt.Sprintf("http-request set-var(txn.hop) int(%d) if %s { req.hdr_cnt(x-forwarded-for) ge %d } { var(txn.client) -m ip %s }",
					hop, wanted, hop, ir.QuoteAll(chunk)))
			}
			address, isHop := fmt.Sprintf("req.hdr_ip(x-forwarded-for,-%d)", hop), fmt.Sprintf("{ var(txn.hop) -m int %d }", hop)
			lines = append(lines, env.refuse(403, noAccess, "", isHop+" !{ "+address+" -m found }")...)
			if env.isShadow {
				lines = append(lines, "http-request unset-var(txn.client) if "+isRefused)
			}
			lines = append(lines, "http-request set-var(txn.client) "+address+" if "+isHop)
		}
		// ipmask makes IPv4 of it, and also of other IPv6 addresses that contain one.
		lines = append(lines, "http-request set-var(txn.client) var(txn.client),ipmask(32,128) if "+wanted+" { var(txn.client),hex -m beg 00000000000000000000FFFF }")
		return Rules{Request: lines}
	},
}

// init breaks the circle of order, client, and the filters in order.
func init() {
	client.isUsed = needsClient
	client.encode = func(_ Input, p *params) { p.set("client", "1") }
	// An unknown client gets no further, unless only guards in shadow need it.
	client.inShadow = func(rule *routing.Rule) bool {
		return needsClient(rule) && !slices.ContainsFunc(order, func(f *filter) bool {
			return f.needsClient != nil && f.needsClient(rule) && !f.isShadow(rule)
		})
	}
}

// needsClient reports whether a filter of a rule needs the client's address.
func needsClient(rule *routing.Rule) bool {
	return slices.ContainsFunc(order, func(f *filter) bool { return f.needsClient != nil && f.needsClient(rule) })
}

// noAccess is the body of the answer to a refused client.
const noAccess = "the address of the client has no access"

// maxHops is how many addresses of X-Forwarded-For are checked: HAProxy has no loops.
const maxHops = 6
