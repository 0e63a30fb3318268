package filters

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
// The ranges are prefixes of addresses in hexadecimal, so that the longest one decides in one lookup, however many
// there are. An address is written after the number of its digits, 8 or 32.
var clients = filter{
	guard: "ClientAddress", param: "clients", mayStay: true,
	isUsed:      func(rule *routing.Rule) bool { return rule.Clients != nil },
	needsClient: func(rule *routing.Rule) bool { return rule.Clients != nil },
	encode: func(in Input, p *params) {
		p.set("clients", in.Content(ir.AddressesFile, func() []ir.MapEntry { return addressEntries(in.Rule.Clients) }))
	},
	rules: func(env Env) Rules {
		limited := has("clients")
		return Rules{Request: append([]string{
			"http-request set-var(txn.address) var(txn.client),hex if " + limited,
			`http-request set-var-fmt(txn.address) "%[` + param("clients") + `]/%[var(txn.address),length]/%[var(txn.address)]" if ` + limited,
		}, env.refuse(403, noAccess, "", limited+" !{ var(txn.address),map_beg("+env.Paths.Map(ir.AddressesFile)+") -m str 1 }")...)}
	},
	describe: func(rule *routing.Rule) []string {
		var parts []string
		if allow := rule.Clients.Allow; len(allow) > 0 {
			parts = append(parts, "from "+rangesText(allow))
		}
		if deny := rule.Clients.Deny; len(deny) > 0 {
			parts = append(parts, "not from "+rangesText(deny))
		}
		return []string{"ClientAddress: clients " + strings.Join(parts, ", ") + ", else 403"}
	},
}

// rangesText names the first ranges of a list.
func rangesText(ranges []netip.Prefix) string {
	var texts []string
	for _, one := range ranges[:min(3, len(ranges))] {
		texts = append(texts, one.String())
	}
	text := strings.Join(texts, ", ")
	if more := len(ranges) - len(texts); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// addressEntries returns entries for addresses. The longest key that an address begins with has 1 if it has access. A
// denied range stays denied within a longer range that is allowed.
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
			addPrefixes(verdicts, prefix.Masked(), "1")
		}
	}
	for prefix := range denied {
		addPrefixes(verdicts, prefix, "0")
	}
	entries := make([]ir.MapEntry, 0, len(verdicts))
	for key, verdict := range verdicts {
		entries = append(entries, ir.MapEntry{Key: key, Value: verdict})
	}
	slices.SortFunc(entries, func(a, b ir.MapEntry) int { return cmp.Compare(a.Key, b.Key) })
	return entries
}

// addPrefixes adds a verdict for the keys that stand for a range.
func addPrefixes(verdicts map[string]string, prefix netip.Prefix, verdict string) {
	digits, prefixes := hexPrefixes(prefix)
	for _, start := range prefixes {
		verdicts[fmt.Sprintf("/%d/%s", digits, start)] = verdict
	}
}

// hexPrefixes returns what the addresses of a range begin with in hexadecimal, and how many digits they have: up to
// eight texts, since a digit has four bits.
func hexPrefixes(prefix netip.Prefix) (digits int, all []string) {
	const hexadecimal = "0123456789ABCDEF"
	bytes := prefix.Addr().AsSlice()
	text := fmt.Appendf(nil, "%X", bytes)[:(prefix.Bits()+3)/4]
	last, unused := len(text)-1, (4-prefix.Bits()%4)%4
	if unused == 0 {
		return 2 * len(bytes), []string{string(text)}
	}
	first := strings.IndexByte(hexadecimal, text[last])
	for i := range 1 << unused {
		text[last] = hexadecimal[first+i]
		all = append(all, string(text))
	}
	return 2 * len(bytes), all
}
