package config

import (
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
	// files are those of the lists.
	files map[string][]MapEntry
}

// hostPart is what one hostname of a listener has in the maps.
type hostPart struct {
	madeOf []routing.Entry
	// entries are its own, shared and lists name others.
	entries       []MapEntry
	shared, lists []string
}

// newHostSet returns an empty set, and the parts of an earlier one that may do for it.
func newHostSet(in Input, sections *sectionSet, before *hostSet) (set, usable *hostSet) {
	n := len(in.Table.Listeners)
	set = &hostSet{
		sections: sections, listeners: in.Table.Listeners, parts: make([][]*hostPart, n), shared: map[string][]MapEntry{}, lists: conditionLists{},
	}
	if before != nil && sections.serves(before.sections) && slices.EqualFunc(set.listeners, before.listeners, sameHosts) {
		return set, before
	}
	return set, &hostSet{parts: make([][]*hostPart, n)}
}

// sameHosts says whether two listeners are the same to what is rendered of hostnames.
func sameHosts(a, b routing.Listener) bool {
	return a.Name == b.Name && a.Port == b.Port && a.Hostname == b.Hostname && isConnection(&a) == isConnection(&b)
}

// take adds a part of an earlier set.
func (s *hostSet) take(part *hostPart, before *hostSet) {
	for _, name := range part.shared {
		s.shared[name] = before.shared[name]
	}
	for _, name := range part.lists {
		s.lists[name] = before.lists[name]
	}
}

// sameEntry says whether two entries of a table are the same. Rules are shared by a table and the next.
func sameEntry(a, b routing.Entry) bool {
	return a.Rule == b.Rule && a.Hostname == b.Hostname && a.PathType == b.PathType && a.Path == b.Path && a.Method == b.Method &&
		slices.Equal(a.Headers, b.Headers) && slices.Equal(a.Query, b.Query)
}

// addTo returns the entries of MapFile: all of the set, and others.
func (s *hostSet) addTo(entries []MapEntry) []MapEntry {
	var all [][]MapEntry
	for _, parts := range s.parts {
		for _, part := range parts {
			all = append(all, part.entries)
		}
	}
	return slices.Concat(append(slices.AppendSeq(all, maps.Values(s.shared)), entries)...)
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
