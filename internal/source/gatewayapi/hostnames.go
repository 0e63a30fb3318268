package gatewayapi

import (
	"slices"
	"strings"

	"gateway/internal/model"
)

// hostnamesByKind are the hostnames of routes at a listener, a set for each kind. An HTTPRoute and a GRPCRoute never
// share a hostname.
type hostnamesByKind []*hostnameSet

func (h *hostnamesByKind) add(r *route, l *listener) {
	i := slices.IndexFunc(*h, func(set *hostnameSet) bool { return set.kind == r.kind })
	if i < 0 {
		i, *h = len(*h), append(*h, &hostnameSet{kind: r.kind})
	}
	for _, hostname := range r.hostnamesAt(l) {
		(*h)[i].count(hostname, 1)
	}
}

func (h *hostnamesByKind) remove(r *route, l *listener) {
	for _, set := range *h {
		if set.kind != r.kind {
			continue
		}
		for _, hostname := range r.hostnamesAt(l) {
			set.count(hostname, -1)
		}
	}
}

// hasOther reports whether a route of another kind has one of the hostnames.
func (h *hostnamesByKind) hasOther(kind string, hostnames []string) bool {
	return slices.ContainsFunc(*h, func(set *hostnameSet) bool {
		return set.kind != kind && slices.ContainsFunc(hostnames, set.overlaps)
	})
}

// hostnameSet counts hostnames. The time to find an overlapping one does not grow with their number.
type hostnameSet struct {
	kind string
	// few are the hostnames as long as they are few: most listeners have one or two, and maps take memory.
	few []hostnameCount
	// all are the hostnames once they are more. within are what these end with, from a dot on: the wildcard of each
	// includes a hostname.
	all, within map[string]int
}

type hostnameCount struct {
	hostname string
	n        int
}

// fewHostnames is how many hostnames take no map.
const fewHostnames = 8

func (s *hostnameSet) count(hostname string, n int) {
	if s.all != nil {
		s.countMany(hostname, n)
		return
	}
	i := slices.IndexFunc(s.few, func(c hostnameCount) bool { return c.hostname == hostname })
	switch {
	case i < 0 && len(s.few) < fewHostnames:
		s.few = append(s.few, hostnameCount{hostname, n})
	case i < 0:
		s.all, s.within = map[string]int{}, map[string]int{}
		for _, c := range append(s.few, hostnameCount{hostname, n}) {
			s.countMany(c.hostname, c.n)
		}
		s.few = nil
	case s.few[i].n+n == 0:
		s.few = slices.Delete(s.few, i, i+1)
	default:
		s.few[i].n += n
	}
}

func (s *hostnameSet) countMany(hostname string, n int) {
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
		return slices.ContainsFunc(s.few, func(c hostnameCount) bool { return model.HostnamesOverlap(hostname, c.hostname) })
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
