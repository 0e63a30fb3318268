package gatewayapi

import "strings"

// hostnameSet is a set of hostnames. The time to find an overlapping one does not grow with the set.
type hostnameSet struct {
	all map[string]bool
	// within are what hostnames of the set end with, from a dot on: the wildcard of each includes a hostname of the set.
	within map[string]bool
}

func newHostnameSet() *hostnameSet {
	return &hostnameSet{all: map[string]bool{}, within: map[string]bool{}}
}

func (s *hostnameSet) add(hostname string) {
	s.all[hostname] = true
	for i, sign := range hostname {
		if sign == '.' {
			s.within[hostname[i:]] = true
		}
	}
}

// overlaps reports whether model.HostnamesOverlap is true for a hostname and one of the set.
func (s *hostnameSet) overlaps(hostname string) bool {
	if len(s.all) == 0 {
		return false
	}
	if hostname == "" || s.all[""] || s.all[hostname] {
		return true
	}
	for i, sign := range hostname {
		if sign == '.' && s.all["*"+hostname[i:]] {
			return true
		}
	}
	suffix, isWildcard := strings.CutPrefix(hostname, "*")
	return isWildcard && s.within[suffix]
}
