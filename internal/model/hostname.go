package model

import (
	"cmp"
	"net/netip"
	"strings"
)

// HostnameMatches reports whether a host, in lower case, matches a hostname: "*.example.com" matches every name below
// example.com, however many labels below, but not example.com itself. "" matches every host.
func HostnameMatches(hostname, host string) bool {
	if hostname == "" || hostname == host {
		return true
	}
	suffix, wildcard := strings.CutPrefix(hostname, "*")
	return wildcard && len(host) > len(suffix) && strings.HasSuffix(host, suffix)
}

// WiderHostnames returns a hostname and those that include it, by their precedence.
func WiderHostnames(hostname string) []string {
	all := []string{hostname}
	for i := range hostname {
		if hostname[i] == '.' && (i != 1 || hostname[0] != '*') {
			all = append(all, "*"+hostname[i:])
		}
	}
	if hostname == "" {
		return all
	}
	return append(all, "")
}

// HostnamesOverlap reports whether some host matches both hostnames.
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

// SameAddress reports whether two texts are the same IP address. An IPv6 address can be written in several ways.
func SameAddress(a, b string) bool {
	x, err1 := netip.ParseAddr(a)
	y, err2 := netip.ParseAddr(b)
	return err1 == nil && err2 == nil && x == y
}
