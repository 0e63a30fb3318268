package dataplanetest_test

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
)

// The parts of a header of version 2: whether it is about a client, and which addresses it has.
const (
	isLocal, isProxied = 0x20, 0x21
	overNothing        = 0
	overTCP4           = 0x11
	overUDP4           = 0x12
	overTCP6           = 0x21
)

// proxyV2 returns a header of version 2, with addresses and what comes after them.
func proxyV2(command, family byte, addresses, rest string) string {
	header := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), command, family)
	header = binary.BigEndian.AppendUint16(header, uint16(len(addresses)+len(rest)))
	return string(header) + addresses + rest
}

// clientAt returns the addresses of a client and of the listener, and their ports.
func clientAt(client, listener string) string {
	addresses := slices.Concat(netip.MustParseAddr(client).AsSlice(), netip.MustParseAddr(listener).AsSlice())
	return string(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(addresses, 1234), 80))
}

// withCRC returns a header as AWS's NLB sends it, with a checksum of all of it.
func withCRC(command byte, addresses string) string {
	header := []byte(proxyV2(command, overTCP4, addresses, "\x03\x00\x04\x00\x00\x00\x00\x04\x00\x4a"+strings.Repeat("\x00", 74)))
	sum := crc32.Checksum(header, crc32.MakeTable(crc32.Castagnoli))
	binary.BigEndian.PutUint32(header[16+len(addresses)+3:], sum)
	return string(header)
}

// TestProxyProtocolHeaders: a header names the client, or marks the connection as the load balancer's own. HAProxy
// closes a connection of the latter kind if it has addresses, and the access log has the reason.
func TestProxyProtocolHeaders(t *testing.T) {
	t.Parallel()
	v4, v6 := clientAt("203.0.113.9", "10.0.0.1"), clientAt("2001:db8::9", "2001:db8::1")
	const client, itself = "203.0.113.9", "127.0.0.1"
	endpoint := "\xea\x00\x17\x01vpce-08d2bf15fac5001c9\x04\x00\x28" + strings.Repeat("\x00", 40)
	g := startGateway(t, rendertest.Parse(t, limitsWorld))
	lines := 0
	for _, test := range []struct{ name, header, from, problem string }{
		{"v1 TCP4", "PROXY TCP4 203.0.113.9 10.0.0.1 1234 80\r\n", client, ""},
		{"v1 TCP6", "PROXY TCP6 2001:db8::9 2001:db8::1 1234 80\r\n", "2001:db8::9", ""},
		{"v1 UNKNOWN", "PROXY UNKNOWN\r\n", itself, ""},
		{"v1 UNKNOWN with addresses", "PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "", "unhandled protocol in the PROXY protocol header"},
		{"v1 without addresses", "PROXY TCP4 x y\r\n", "", "invalid PROXY protocol header"},
		{"v2 TCP4", proxyV2(isProxied, overTCP4, v4, ""), client, ""},
		{"v2 TCP6", proxyV2(isProxied, overTCP6, v6, ""), "2001:db8::9", ""},
		{"v2 with an IPv4 address as IPv6", proxyV2(isProxied, overTCP6, clientAt("::ffff:203.0.113.9", "::ffff:10.0.0.1"), ""), "::ffff:" + client, ""},
		{"v2 with an endpoint of AWS", proxyV2(isProxied, overTCP4, v4, endpoint), client, ""},
		{"v2 of the NLB", withCRC(isProxied, v4), client, ""},
		{"v2 LOCAL", proxyV2(isLocal, overNothing, "", ""), itself, ""},
		{"v2 LOCAL with addresses", proxyV2(isLocal, overTCP4, v4, ""), "", "invalid PROXY protocol header"},
		{"v2 LOCAL of the NLB", withCRC(isLocal, ""), itself, ""},
		{"v2 UNSPEC", proxyV2(isProxied, overNothing, "", ""), "", "invalid PROXY protocol header"},
		{"v2 UDP4", proxyV2(isProxied, overUDP4, v4, ""), "", "invalid PROXY protocol header"},
		{"no header", "", "", "PROXY protocol header"},
	} {
		got, err := newClient(t, g.ports[81]).try(test.header + get("x", "/"))
		if (err == nil) != (test.from != "") || err == nil && !strings.Contains(got.Body, "X-Forwarded-For: "+test.from+"\r\n") {
			t.Errorf("%s: got %d (%v), want %q:\n%s", test.name, got.Status, err, test.from, got.Body)
		}
		lines++
		if log := g.accessLog(t, lines); !strings.Contains(log[lines-1], test.problem) {
			t.Errorf("%s: logged as %s", test.name, log[lines-1])
		}
	}
}
