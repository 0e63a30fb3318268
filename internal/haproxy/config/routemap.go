package config

import (
	"io"
	"iter"
	"slices"
)

// RouteMap is the content of MapFile, sorted by key. It never changes. It is in blocks, and what is made of it by a small change shares most
// of them: what the change takes is little, however many entries there are.
type RouteMap struct{ blocks []*block }

// block is a part of the content: never empty, never changed.
type block struct {
	entries []MapEntry
	lines   []byte
}

// maxBlock is how many entries a block has at most: few enough that one is made anew quickly, many enough that there are few blocks.
const maxBlock = 128

// NewRouteMap returns the map that has these entries, no two of which have the same key, in any order.
func NewRouteMap(entries ...MapEntry) RouteMap { return RouteMap{}.edited(nil, slices.Clone(entries)) }

// Entries returns all entries, sorted by key.
func (m RouteMap) Entries() []MapEntry {
	var all []MapEntry
	for _, b := range m.blocks {
		all = append(all, b.entries...)
	}
	return all
}

// writeTo writes the content of the file. An error is that of the writer.
func (m RouteMap) writeTo(to io.Writer) error {
	for _, b := range m.blocks {
		if _, err := to.Write(b.lines); err != nil {
			return err
		}
	}
	return nil
}

// edited returns the map without some of its entries and with others. It sorts both lists.
func (m RouteMap) edited(gone, added []MapEntry) RouteMap {
	slices.SortFunc(gone, compareEntries)
	slices.SortFunc(added, compareEntries)
	all := make([]*block, 0, len(m.blocks)+1)
	for i, b := range m.blocks {
		less, more := gone, added
		if i+1 < len(m.blocks) {
			next := m.blocks[i+1].entries[0]
			n, _ := slices.BinarySearchFunc(gone, next, compareEntries)
			less, gone = gone[:n], gone[n:]
			n, _ = slices.BinarySearchFunc(added, next, compareEntries)
			more, added = added[:n], added[n:]
		}
		if len(less)+len(more) == 0 {
			all = append(all, b)
		} else {
			all = appendBlocks(all, edited(b.entries, less, more))
		}
	}
	if len(m.blocks) == 0 {
		all = appendBlocks(all, added)
	}
	return RouteMap{all}
}

// edited returns entries without some of them and with others, all of which are sorted.
func edited(entries, gone, added []MapEntry) []MapEntry {
	all := make([]MapEntry, 0, len(entries)-len(gone)+len(added))
	for len(gone)+len(added) > 0 {
		if len(added) == 0 || len(gone) > 0 && gone[0].Key <= added[0].Key {
			i, _ := slices.BinarySearchFunc(entries, gone[0], compareEntries)
			all, entries, gone = append(all, entries[:i]...), entries[i+1:], gone[1:]
		} else {
			i, _ := slices.BinarySearchFunc(entries, added[0], compareEntries)
			all, entries, added = append(append(all, entries[:i]...), added[0]), entries[i:], added[1:]
		}
	}
	return append(all, entries...)
}

// appendBlocks appends entries in blocks of about the same size.
func appendBlocks(all []*block, entries []MapEntry) []*block {
	for n := (len(entries) + maxBlock - 1) / maxBlock; n > 0; n-- {
		size := (len(entries) + n - 1) / n
		all = append(all, &block{entries: entries[:size:size], lines: linesOf(entries[:size])})
		entries = entries[size:]
	}
	return all
}

// differences returns what leads from another map to this one, in the order of keys. Blocks that both share are not looked at.
func (m RouteMap) differences(running RouteMap) iter.Seq[MapEdit] {
	return func(yield func(MapEdit) bool) {
		want, have := cursor{rest: m.blocks}, cursor{rest: running.blocks}
		for {
			skipShared(&want, &have)
			order := want.compare(have)
			var edit MapEdit
			if order <= 0 && want.more() {
				entry := want.next()
				edit.Key, edit.New = entry.Key, entry.Value
			}
			if order >= 0 && have.more() {
				entry := have.next()
				edit.Key, edit.Old = entry.Key, entry.Value
			}
			switch {
			case edit.Key == "":
				return
			case edit.Old != edit.New && !yield(edit):
				return
			}
		}
	}
}

// equal says whether both maps have the same entries.
func (m RouteMap) equal(other RouteMap) bool {
	for range m.differences(other) {
		return false
	}
	return true
}

// cursor is a place in a map.
type cursor struct {
	rest []*block
	// at is how many entries of the first of them are behind the place.
	at int
}

func (c *cursor) more() bool { return len(c.rest) > 0 }

// next returns the entry at the place, and goes on to the one after it.
func (c *cursor) next() MapEntry {
	entry := c.rest[0].entries[c.at]
	if c.at++; c.at == len(c.rest[0].entries) {
		c.rest, c.at = c.rest[1:], 0
	}
	return entry
}

// compare compares the entries at two places. One after all others is the greatest.
func (c *cursor) compare(other cursor) int {
	switch {
	case c.more() && other.more():
		return compareEntries(c.rest[0].entries[c.at], other.rest[0].entries[other.at])
	case c.more():
		return -1
	case other.more():
		return 1
	}
	return 0
}

// skipShared goes past blocks that both places are at the beginning of.
func skipShared(a, b *cursor) {
	for a.more() && b.more() && a.at == 0 && b.at == 0 && a.rest[0] == b.rest[0] {
		a.rest, b.rest = a.rest[1:], b.rest[1:]
	}
}
