package filters

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gateway/internal/routing"
	"gateway/internal/testtier"
)

// TestAddressEntries compares the longest entry that an address begins with with the ranges themselves.
func TestAddressEntries(t *testing.T) {
	r := testtier.Rand(t)
	// The addresses are few, so that ranges overlap.
	address := func() netip.Addr {
		if r.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(4)), byte(r.IntN(256))})
		}
		return netip.AddrFrom16([16]byte{0xfd, 14: byte(r.IntN(4)), 15: byte(r.IntN(256))})
	}
	prefixes := func() (all []netip.Prefix) {
		for range r.IntN(6) {
			a := address()
			all = append(all, netip.PrefixFrom(a, a.BitLen()-r.IntN(12)))
		}
		return append(all, netip.MustParsePrefix("192.0.2.0/24"))
	}
	for range 500 {
		clients := &routing.Clients{Allow: prefixes(), Deny: prefixes()}
		if r.IntN(4) == 0 {
			clients.Allow = nil
		}
		entries := addressEntries(clients)
		for range 100 {
			a := address()
			contains := func(p netip.Prefix) bool { return p.Contains(a) }
			want := (len(clients.Allow) == 0 || slices.ContainsFunc(clients.Allow, contains)) && !slices.ContainsFunc(clients.Deny, contains)
			// key is HAProxy's key for the lookup.
			key := fmt.Sprintf("/%d/%X", 2*len(a.AsSlice()), a.AsSlice())
			longest, verdict := "", ""
			for _, e := range entries {
				if strings.HasPrefix(key, e.Key) && len(e.Key) > len(longest) {
					longest, verdict = e.Key, e.Value
				}
			}
			if (verdict == "1") != want {
				t.Fatalf("%v as %s: got %q by %s, want %t by %v", a, key, verdict, longest, want, clients)
			}
		}
	}
}

// BenchmarkAddressEntries is what each new table takes for a long list.
func BenchmarkAddressEntries(b *testing.B) {
	clients := &routing.Clients{}
	for i := range 4096 {
		clients.Allow = append(clients.Allow, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24))
		clients.Deny = append(clients.Deny, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 9}), 32))
	}
	for b.Loop() {
		addressEntries(clients)
	}
}
