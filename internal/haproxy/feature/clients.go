package feature

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// clients answers 403 to clients whose addresses have no access. The parameter "clients" names a list of ranges in
// addresses.map.
//
// The ranges are prefixes of addresses in hexadecimal, so that the longest one decides in one lookup, however many there
// are. An address is written after the number of its digits, 8 or 32. An IPv4 address that comes as one of IPv6 is
// written as IPv4.
//
// Who the client is, trusted proxies say, by X-Forwarded-For. The last address there is that of the connection. As long
// as one is that of a trusted proxy, the one before it counts. What is not an address has no access.
var clients = feature{
	encode: func(in Input, p *params) {
		if in.Rule.Clients != nil {
			p.set("clients", in.Addresses(addressEntries(in.Rule.Clients)))
		}
	},
	rules: func(env Env) Rules {
		limited := has("clients")
		refuse := "http-request return " + ir.TextAnswer("403", "the address of the client has no access") + " if "
		lines := []string{"http-request set-var(txn.client) src if " + limited}
		for hop := 2; hop <= maxHops && len(env.Table.TrustedProxies) > 0; hop++ {
			for chunk := range slices.Chunk(env.Table.TrustedProxies, 32) {
				lines = append(lines, fmt.Sprintf("http-request set-var(txn.hop) int(%d) if %s { req.hdr_cnt(x-forwarded-for) ge %d } { var(txn.client) -m ip %s }",
					hop, limited, hop, ir.QuoteAll(chunk)))
			}
			address, isHop := fmt.Sprintf("req.hdr_ip(x-forwarded-for,-%d)", hop), fmt.Sprintf("{ var(txn.hop) -m int %d }", hop)
			lines = append(lines,
				refuse+isHop+" !{ "+address+" -m found }",
				"http-request set-var(txn.client) "+address+" if "+isHop,
			)
		}
		return Rules{Request: append(lines,
			`http-request set-var(txn.address) 'var(txn.client),hex,regsub("^0{20}FFFF",)' if `+limited,
			`http-request set-var-fmt(txn.address) "%[`+param("clients")+`]/%[var(txn.address),length]/%[var(txn.address)]" if `+limited,
			refuse+limited+" !{ var(txn.address),map_beg("+env.Paths.Map(ir.AddressesFile)+") -m str 1 }",
		)}
	},
}

// maxHops is how many addresses in X-Forwarded-For are looked at: HAProxy has no loops.
const maxHops = 6

// addressEntries returns entries of which the longest key that an address begins with has 1 if it has access. What is
// denied is denied also where a longer range is allowed.
func addressEntries(clients *routing.Clients) []ir.MapEntry {
	denied, lengths := map[netip.Prefix]bool{}, map[int]bool{}
	for _, prefix := range clients.Deny {
		denied[prefix.Masked()] = true
		lengths[prefix.Bits()] = true
	}
	isDenied := func(prefix netip.Prefix) bool {
		for bits := range lengths {
			if shorter, err := prefix.Addr().Prefix(bits); err == nil && bits <= prefix.Bits() && denied[shorter] {
				return true
			}
		}
		return false
	}
	verdicts := make(map[string]string, 2*(len(clients.Allow)+len(clients.Deny)))
	verdicts["/"] = "0"
	if len(clients.Allow) == 0 {
		verdicts["/"] = "1"
	}
	for _, prefix := range clients.Allow {
		if !isDenied(prefix.Masked()) {
			addKeys(verdicts, prefix.Masked(), "1")
		}
	}
	for prefix := range denied {
		addKeys(verdicts, prefix, "0")
	}
	entries := make([]ir.MapEntry, 0, len(verdicts))
	for key, verdict := range verdicts {
		entries = append(entries, ir.MapEntry{Key: key, Value: verdict})
	}
	slices.SortFunc(entries, func(a, b ir.MapEntry) int { return cmp.Compare(a.Key, b.Key) })
	return entries
}

// addKeys adds a verdict for the keys that stand for a range: up to eight, since a digit has four bits.
func addKeys(verdicts map[string]string, prefix netip.Prefix, verdict string) {
	const hexadecimal = "0123456789ABCDEF"
	bytes := prefix.Addr().AsSlice()
	text := fmt.Appendf(nil, "/%d/%X", 2*len(bytes), bytes)
	text = text[:len(text)-2*len(bytes)+(prefix.Bits()+3)/4]
	last, unused := len(text)-1, (4-prefix.Bits()%4)%4
	first := strings.IndexByte(hexadecimal, text[last])
	for i := range 1 << unused {
		if unused > 0 {
			text[last] = hexadecimal[first+i]
		}
		verdicts[string(text)] = verdict
	}
}
