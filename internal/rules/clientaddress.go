package rules

import (
	"net/netip"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterClientAddress, onAll, func(f *appv1.RuleFilter) *appv1.ClientAddress { return f.ClientAddress }, (*rule).addClientAddress)
}

func (r *rule) addClientAddress(from *appv1.ClientAddress) {
	r.Clients = &model.Clients{Allow: ranges(from.Allow), Deny: ranges(from.Deny)}
}

// ranges returns ranges of addresses. A range that cannot be parsed is invalid. A range of IPv4 addresses in IPv6
// notation, such as ::ffff:10.0.0.0/104, is one of IPv4.
func ranges(from []appv1.AddressRange) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range from {
		prefix, _ := netip.ParsePrefix(string(text))
		if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
		}
		all = append(all, prefix)
	}
	return all
}
