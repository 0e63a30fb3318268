package config

import (
	"maps"
	"slices"

	"gateway/internal/routing"
)

// ServerSets are the servers of every backend section, sorted. What differs in a few sections shares the rest, so that one changed
// endpoint costs the same among ten sections as among ten thousand. The zero value has no section. It never changes.
type ServerSets struct {
	base *map[string][]Server
	// changed has precedence over base; it has no sections that base has not.
	changed map[string][]Server
}

// maxChanged is from how many changed sections on a new base is made.
const maxChanged = 64

// NewServerSets returns the sets of a map, which the caller leaves alone from then on.
func NewServerSets(sections map[string][]Server) ServerSets { return ServerSets{base: &sections} }

// Of returns the servers of a section, and whether there is one of that name. They are only read.
func (s ServerSets) Of(section string) ([]Server, bool) {
	if servers, ok := s.changed[section]; ok {
		return servers, true
	}
	if s.base == nil {
		return nil, false
	}
	servers, ok := (*s.base)[section]
	return servers, ok
}

// with returns the sets with other servers in a section that there is.
func (s ServerSets) with(section string, servers []Server) ServerSets {
	changed := maps.Clone(s.changed)
	if changed == nil {
		changed = map[string][]Server{}
	}
	changed[section] = servers
	if len(changed) < maxChanged {
		return ServerSets{base: s.base, changed: changed}
	}
	all := maps.Clone(*s.base)
	maps.Copy(all, changed)
	return NewServerSets(all)
}

// equal says whether two sets are the same. It may say no though they are: those that share nothing are not compared.
func (s ServerSets) equal(other ServerSets) bool {
	return s.base == other.base && maps.EqualFunc(s.changed, other.changed, slices.Equal)
}

// All returns the servers of every section by its name.
func (s ServerSets) All() map[string][]Server {
	all := map[string][]Server{}
	if s.base != nil {
		maps.Copy(all, *s.base)
	}
	maps.Copy(all, s.changed)
	return all
}

// mayDiffer returns the names of the sections that may have other servers in one than in the other, sorted.
func mayDiffer(one, other ServerSets) []string {
	names := map[string]bool{}
	note := func(sections map[string][]Server) {
		for name := range sections {
			names[name] = true
		}
	}
	note(one.changed)
	note(other.changed)
	if one.base != other.base {
		for _, sets := range []ServerSets{one, other} {
			if sets.base != nil {
				note(*sets.base)
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// WithServers returns the configuration with other endpoints of a Service port, in any order, of which everything else is as it was:
// what Render would make of it.
func (c Config) WithServers(backend routing.Backend, servers []Server) Config {
	if c.sections == nil {
		return c
	}
	for _, section := range c.sections.names[backend] {
		c.Servers = c.Servers.with(section, sortServers(servers))
	}
	return c
}

// sortServers returns the servers sorted, each once: the same slice, if it is that already.
func sortServers(servers []Server) []Server {
	if isSorted(servers) {
		return servers
	}
	sorted := slices.Clone(servers)
	slices.SortFunc(sorted, compareServers)
	return slices.Compact(sorted)
}

func isSorted(servers []Server) bool {
	for i := 1; i < len(servers); i++ {
		if compareServers(servers[i-1], servers[i]) >= 0 {
			return false
		}
	}
	return true
}
