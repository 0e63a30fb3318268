package gatewayapi

import (
	"slices"
	"strings"
)

// hostnamesByKind are the hostnames of routes at a listener, by the kind of the routes. An HTTPRoute and a GRPCRoute
// never share a hostname.
type hostnamesByKind map[string]*hostnameSet

func (h *hostnamesByKind) add(r *route, l *listener) {
	if *h == nil {
		*h = hostnamesByKind{}
	}
	if (*h)[r.kind] == nil {
		(*h)[r.kind] = &hostnameSet{all: map[string]int{}, within: map[string]int{}}
	}
	for _, hostname := range r.hostnamesAt(l) {
		(*h)[r.kind].count(hostname, 1)
	}
}

func (h *hostnamesByKind) remove(r *route, l *listener) {
	for _, hostname := range r.hostnamesAt(l) {
		(*h)[r.kind].count(hostname, -1)
	}
}

// hasOther reports whether a route of another kind has one of the hostnames.
func (h *hostnamesByKind) hasOther(kind string, hostnames []string) bool {
	for other, set := range *h {
		if other != kind && slices.ContainsFunc(hostnames, set.overlaps) {
			return true
		}
	}
	return false
}

// hostnameSet counts hostnames. The time to find an overlapping one does not grow with their number.
type hostnameSet struct {
	all map[string]int
	// within are what hostnames end with, from a dot on: the wildcard of each includes a hostname.
	within map[string]int
}

func (s *hostnameSet) count(hostname string, n int) {
	count(s.all, hostname, n)
	for i, sign := range hostname {
		if sign == '.' {
			count(s.within, hostname[i:], n)
		}
	}
}

// count adds to a number. Those that are zero are not there.
func count[K comparable](counts map[K]int, key K, n int) {
	if counts[key] += n; counts[key] == 0 {
		delete(counts, key)
	}
}

// overlaps reports whether model.HostnamesOverlap is true for a hostname and one of the set.
func (s *hostnameSet) overlaps(hostname string) bool {
	if len(s.all) == 0 {
		return false
	}
	if hostname == "" || s.all[""] > 0 || s.all[hostname] > 0 {
		return true
	}
	for i, sign := range hostname {
		if sign == '.' && s.all["*"+hostname[i:]] > 0 {
			return true
		}
	}
	suffix, isWildcard := strings.CutPrefix(hostname, "*")
	return isWildcard && s.within[suffix] > 0
}
