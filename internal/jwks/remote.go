package jwks

import "net/netip"

// classes are the addresses that keys are not fetched from. Private addresses, such as pods' and Services', are not
// among them, because issuers run in clusters, too.
var classes = []struct {
	what     string
	prefixes []netip.Prefix
}{
	{"this machine", prefixes("0.0.0.0/8", "127.0.0.0/8", "::/128", "::1/128")},
	{"an address of the link alone", prefixes("169.254.0.0/16", "192.0.0.0/24", "fe80::/10")},
	{"a multicast or broadcast address", prefixes("224.0.0.0/4", "255.255.255.255/32", "ff00::/8")},
	{"a metadata service of a cloud", prefixes(
		"fd00:ec2::/32",          // AWS
		"fd20:ce::254/128",       // Google
		"fd00:c1::a9fe:a9fe/128", // Oracle
		"fd00:42::42/128",        // Scaleway
		"168.63.129.16/32",       // Azure
		"100.100.100.200/32",     // Alibaba
	)},
}

// translations are the IPv6 addresses that lead to an IPv4 address, which is in the four bytes from an index on.
var translations = []struct {
	from  netip.Prefix
	index int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},   // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, // NAT64 of the local network
	{netip.MustParsePrefix("2002::/16"), 2},       // 6to4
}

func prefixes(texts ...string) []netip.Prefix {
	all := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}

// refused returns the class of an address that keys are not fetched from, "" for all others.
func refused(address netip.Addr) string {
	address = address.WithZone("").Unmap()
	for _, translation := range translations {
		if bytes := address.As16(); translation.from.Contains(address) {
			address = netip.AddrFrom4([4]byte(bytes[translation.index : translation.index+4]))
		}
	}
	for _, class := range classes {
		for _, prefix := range class.prefixes {
			if prefix.Contains(address) {
				return class.what
			}
		}
	}
	return ""
}
