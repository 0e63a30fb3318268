package model

import (
	"cmp"
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
