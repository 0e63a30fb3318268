package config

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"gateway/internal/routing"
)

// hostSet is what was rendered of every hostname. It never changes, so that the next configuration can share what is as it was.
type hostSet struct {
	// listeners and sections are what all parts were made with.
	listeners []routing.Listener
	sections  *sectionSet
	// parts are those of each listener, in the order of the table.
	parts [][]*hostPart
	// shared are entries that several parts may have, by what their keys begin with; lists are those of conditions.
	shared map[string][]MapEntry
	lists  conditionLists
	// others are the entries that are not of hostnames.
	others []MapEntry
	// routes are all entries of MapFile; sum is that of the hashes of all but the version.
	routes RouteMap
	sum    uint64
	// files are those of the lists.
	files map[string][]MapEntry
}

// hostPart is what one hostname of a listener, which is given by its index, has in the maps.
type hostPart struct {
	listener int
	madeOf   *routing.Host
	// entries are its own, shared and lists name others.
	entries       []MapEntry
	shared, lists []string
	// isPlain says that the skeleton needs no rules for it.
	isPlain bool
}

// hostChange is a set that is made, and how it differs from an earlier one that it shares parts with.
type hostChange struct {
	set, before *hostSet
	// added are the parts that are to be made, gone are those that are no more.
	added, gone []*hostPart
}

// newHostChange finds what a table has in common with an earlier set, which may be nil.
func newHostChange(table routing.Table, before *hostSet) hostChange {
	if before == nil || !slices.EqualFunc(table.Listeners, before.listeners, sameHosts) {
		before = &hostSet{sections: &sectionSet{}, parts: make([][]*hostPart, len(table.Listeners))}
	}
	c := hostChange{before: before, set: &hostSet{
		listeners: table.Listeners, parts: make([][]*hostPart, len(table.Listeners)), shared: map[string][]MapEntry{}, lists: conditionLists{},
	}}
	for i := range table.Listeners {
		c.compare(i, table.Listeners[i].Hosts, before.parts[i])
	}
	return c
}

// compare takes the parts of a listener from those before, which are in the same order, or adds new ones.
func (c *hostChange) compare(listener int, hosts []*routing.Host, before []*hostPart) {
	parts := make([]*hostPart, 0, len(hosts))
	for _, host := range hosts {
		for len(before) > 0 && before[0].madeOf != host && routing.CompareHostnames(before[0].madeOf.Name, host.Name) <= 0 {
			c.gone, before = append(c.gone, before[0]), before[1:]
		}
		if len(before) > 0 && before[0].madeOf == host {
			parts, before = append(parts, before[0]), before[1:]
		} else {
			part := &hostPart{listener: listener, madeOf: host, isPlain: !slices.ContainsFunc(host.Entries, needsRules)}
			c.added, parts = append(c.added, part), append(parts, part)
		}
	}
	c.gone = append(c.gone, before...)
	c.set.parts[listener] = parts
}

// sameHosts says whether two listeners are the same to what is rendered of hostnames.
func sameHosts(a, b routing.Listener) bool {
	return a.Name == b.Name && a.Port == b.Port && a.Hostname == b.Hostname && isConnection(&a) == isConnection(&b)
}

// needsRules says whether there is something in an entry that the skeleton may have rules for: a wildcard, conditions, a program.
func needsRules(entry routing.Entry) bool {
	rule := entry.Rule
	return isWildcard(entry.Hostname) || len(entry.Headers)+len(entry.Query) > 0 || entry.Session != "" || !isEmpty(rule, rule.Headers) ||
		slices.ContainsFunc(rule.Targets, func(target routing.Target) bool { return !isEmpty(rule, target.Headers) })
}

// withoutPlain returns a table without the hosts that the skeleton needs no rules for, which are most.
func (s *hostSet) withoutPlain(table routing.Table) routing.Table {
	table.Listeners = slices.Clone(table.Listeners)
	for i := range table.Listeners {
		table.Listeners[i].Hosts = nil
		for _, part := range s.parts[i] {
			if !part.isPlain {
				table.Listeners[i].Hosts = append(table.Listeners[i].Hosts, part.madeOf)
			}
		}
	}
	return table
}

// keys returns those of the sections that some parts need.
func (c *hostChange) keys(parts []*hostPart) map[sectionKey]bool {
	keys := map[sectionKey]bool{}
	for _, part := range parts {
		for _, entry := range part.madeOf.Entries {
			for _, target := range entry.Rule.Targets {
				keys[keyOf(target.Backend, entry.Rule, isConnection(&c.set.listeners[part.listener]))] = true
			}
		}
	}
	return keys
}

// take adds what the parts that stay have in common with others.
func (c *hostChange) take() {
	for _, parts := range c.set.parts {
		for _, part := range parts {
			for _, name := range part.shared {
				c.set.shared[name] = c.before.shared[name]
			}
			for _, name := range part.lists {
				c.set.lists[name] = c.before.lists[name]
			}
		}
	}
}

// finish makes the entries of MapFile.
func (c *hostChange) finish(generation int64) {
	gone, added := slices.Clone(c.before.others), slices.Clone(c.set.others)
	for _, part := range c.gone {
		gone = append(gone, part.entries...)
	}
	for _, part := range c.added {
		added = append(added, part.entries...)
	}
	gone, added = appendOthers(gone, c.before.shared, c.set.shared), appendOthers(added, c.set.shared, c.before.shared)
	c.set.sum = c.before.sum - sumOf(gone) + sumOf(added)
	if len(c.before.routes.blocks) > 0 {
		gone = append(gone, MapEntry{Key: versionKey})
	}
	added = append(added, MapEntry{Key: versionKey, Value: fmt.Sprintf("%d|%016x", generation, c.set.sum)})
	c.set.routes = c.before.routes.edited(gone, added)
}

// appendOthers appends the entries of names that are in one map alone.
func appendOthers(entries []MapEntry, in, notIn map[string][]MapEntry) []MapEntry {
	for name := range in {
		if _, ok := notIn[name]; !ok {
			entries = append(entries, in[name]...)
		}
	}
	return entries
}

// sumOf returns the sum of the hashes of entries, which is the same in whatever order they are.
func sumOf(entries []MapEntry) uint64 {
	var sum uint64
	var line []byte
	for _, entry := range entries {
		h := fnv.New64a()
		line = append(append(append(line[:0], entry.Key...), ' '), entry.Value...)
		_, _ = h.Write(line) // which never fails
		sum += h.Sum64()
	}
	return sum
}

// listFiles returns the entries of the files of conditions.
func (s *hostSet) listFiles(before *hostSet) map[string][]MapEntry {
	// Lists of one name are the same.
	if before.files != nil && maps.EqualFunc(s.lists, before.lists, func(conditionList, conditionList) bool { return true }) {
		s.files = before.files
	} else {
		s.files = s.lists.files()
	}
	return maps.Clone(s.files)
}
