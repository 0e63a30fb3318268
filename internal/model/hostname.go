package model

import (
	"cmp"
	"net/netip"
	"strings"
)

// HostnameMatches says whether a host, in lower case, meets a hostname: "*.example.com" stands for every name below
// example.com, however many labels below, but not for example.com itself, and "" for every host.
func HostnameMatches(hostname, host string) bool {
	if hostname == "" || hostname == host {
		return true
	}
	suffix, wildcard := strings.CutPrefix(hostname, "*")
	return wildcard && len(host) > len(suffix) && strings.HasSuffix(host, suffix)
}

// HostnamesOverlap says whether some host meets both hostnames.
func HostnamesOverlap(a, b string) bool {
	return a == "" || b == "" || HostnameMatches(a, b) || HostnameMatches(b, a)
}

// CompareHostnames orders hostnames by precedence: exact ones, then wildcards, longer ones first, then "". Hostnames of
// the same precedence, which no one host meets, are ordered by the alphabet.
func CompareHostnames(a, b string) int {
	return cmp.Or(cmp.Compare(hostnameClass(a), hostnameClass(b)), cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
}

func hostnameClass(hostname string) int {
	switch {
	case hostname == "":
		return 2
	case hostname[0] == '*':
		return 1
	default:
		return 0
	}
}

// SameAddress says whether two texts are the same IP address. IPv6 has several for each.
func SameAddress(a, b string) bool {
	x, err1 := netip.ParseAddr(a)
	y, err2 := netip.ParseAddr(b)
	return err1 == nil && err2 == nil && x == y
}
