// Package tree has immutable maps from texts, in the order of their keys. A map and an edited copy of it share all but
// some nodes for each edit. So an edit costs little however large the map is, and so does finding what differs.
package tree

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"strings"
)

// Map is an immutable map. The zero value is empty. Two maps that are equal by == have the same content. Of maps with
// the same content, those are equal of which one was made of the other without a change.
type Map[V comparable] struct{ root *node[V] }

// node is one of a treap: by keys a search tree, and by priorities a heap. Priorities are hashes of the keys, so the
// shape of a tree depends on its keys alone. Nobody who chooses keys can make it deep, because the hashes have a seed.
type node[V comparable] struct {
	key         string
	value       V
	priority    uint64
	left, right *node[V]
	size        int
	// own is the Sum of the entry, and sum the Sum of all entries below.
	own, sum Sum
	// owner is the editor that made it, and may change it.
	owner *owner
}

// owner is what nodes are known by that nobody has seen yet. It has a size, so that no two are the same.
type owner struct{ _ byte }

// Sum identifies keys, and values that are texts. It is the same in every process.
type Sum [2]uint64

func (s *Sum) add(other Sum) {
	s[0] += other[0]
	s[1] += other[1]
}

var seed = maphash.MakeSeed()

func newNode[V comparable](key string, value V, by *owner) *node[V] {
	n := &node[V]{key: key, priority: maphash.String(seed, key), owner: by}
	n.set(value)
	return n
}

// set sets the value of a node that may be changed.
func (n *node[V]) set(value V) {
	n.value = value
	text, _ := any(value).(string)
	hash := sha256.Sum256([]byte(n.key + "\x00" + text))
	n.own = Sum{binary.BigEndian.Uint64(hash[:]), binary.BigEndian.Uint64(hash[8:])}
	n.update()
}

// update counts what is below a node.
func (n *node[V]) update() {
	n.size, n.sum = 1, n.own
	for _, below := range []*node[V]{n.left, n.right} {
		if below != nil {
			n.size += below.size
			n.sum.add(below.sum)
		}
	}
}

// isAbove reports whether a node belongs above another one.
func (n *node[V]) isAbove(other *node[V]) bool {
	return n.priority > other.priority || n.priority == other.priority && n.key < other.key
}

// Len returns how many entries there are.
func (m Map[V]) Len() int {
	if m.root == nil {
		return 0
	}
	return m.root.size
}

// Sum identifies the content.
func (m Map[V]) Sum() (sum Sum) {
	if m.root != nil {
		sum = m.root.sum
	}
	return sum
}

// Get returns the value of a key; false: there is none.
func (m Map[V]) Get(key string) (value V, ok bool) {
	n := m.root
	for n != nil && n.key != key {
		if key < n.key {
			n = n.left
		} else {
			n = n.right
		}
	}
	if n == nil {
		return value, false
	}
	return n.value, true
}

// Value returns the value of a key; the zero value if there is none.
func (m Map[V]) Value(key string) V {
	value, _ := m.Get(key)
	return value
}

// First returns the value of the first key; the zero value if there is none.
func (m Map[V]) First() V {
	for value := range m.Values() {
		return value
	}
	var none V
	return none
}

// All returns the entries in the order of their keys.
func (m Map[V]) All() iter.Seq2[string, V] { return m.Prefix("") }

// Keys returns the keys in their order.
func (m Map[V]) Keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		m.root.visit("", func(key string, _ V) bool { return yield(key) })
	}
}

// Values returns the values in the order of their keys.
func (m Map[V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		m.root.visit("", func(_ string, value V) bool { return yield(value) })
	}
}

// Prefix returns the entries whose keys begin with a prefix.
func (m Map[V]) Prefix(prefix string) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) { m.root.visit(prefix, yield) }
}

func (n *node[V]) visit(prefix string, yield func(string, V) bool) bool {
	if n == nil {
		return true
	}
	has := strings.HasPrefix(n.key, prefix)
	if (has || n.key > prefix) && !n.left.visit(prefix, yield) || has && !yield(n.key, n.value) {
		return false
	}
	return !has && n.key > prefix || n.right.visit(prefix, yield)
}

// Of returns a map with the entries of another map.
func Of[V comparable](entries map[string]V) Map[V] {
	var e Editor[V]
	for key, value := range entries {
		e.Set(key, value)
	}
	return e.Map()
}

// With returns the map with another value for a key.
func (m Map[V]) With(key string, value V) Map[V] {
	e := m.Edit()
	e.Set(key, value)
	return e.Map()
}

// Without returns the map without a key.
func (m Map[V]) Without(key string) Map[V] {
	e := m.Edit()
	e.Delete(key)
	return e.Map()
}

// Edit returns an editor that begins with the map.
func (m Map[V]) Edit() Editor[V] { return Editor[V]{now: m} }

// Editor makes a map by many edits, which change the nodes that it made itself. The zero value begins with nothing.
type Editor[V comparable] struct {
	now Map[V]
	own *owner
}

// Map returns the map as it is now.
func (e *Editor[V]) Map() Map[V] {
	e.own = nil
	return e.now
}

// Get returns the value of a key; false: there is none.
func (e *Editor[V]) Get(key string) (V, bool) { return e.now.Get(key) }

// Set sets the value of a key.
func (e *Editor[V]) Set(key string, value V) {
	if e.own == nil {
		e.own = &owner{}
	}
	e.now.root = e.set(e.now.root, key, value)
}

// Delete deletes a key, if it is there.
func (e *Editor[V]) Delete(key string) {
	if _, ok := e.now.Get(key); !ok {
		return
	}
	if e.own == nil {
		e.own = &owner{}
	}
	e.now.root = e.delete(e.now.root, key)
}

// owned returns a node that may be changed: the node itself or a copy.
func (e *Editor[V]) owned(n *node[V]) *node[V] {
	if n.owner == e.own {
		return n
	}
	c := *n
	c.owner = e.own
	return &c
}

func (e *Editor[V]) set(n *node[V], key string, value V) *node[V] {
	switch {
	case n == nil:
		return newNode(key, value, e.own)
	case key == n.key:
		if value == n.value {
			return n
		}
		n = e.owned(n)
		n.set(value)
	case key < n.key:
		below := e.set(n.left, key, value)
		if below == n.left && below.owner != e.own {
			return n
		}
		n = e.owned(n)
		if n.left = below; below.isAbove(n) {
			n.left, below.right = below.right, n
			n.update()
			n = below
		}
	default:
		below := e.set(n.right, key, value)
		if below == n.right && below.owner != e.own {
			return n
		}
		n = e.owned(n)
		if n.right = below; below.isAbove(n) {
			n.right, below.left = below.left, n
			n.update()
			n = below
		}
	}
	n.update()
	return n
}

// delete deletes a key that is there.
func (e *Editor[V]) delete(n *node[V], key string) *node[V] {
	switch {
	case key == n.key:
		return e.join(n.left, n.right)
	case key < n.key:
		n = e.owned(n)
		n.left = e.delete(n.left, key)
	default:
		n = e.owned(n)
		n.right = e.delete(n.right, key)
	}
	n.update()
	return n
}

// join returns all nodes of two trees, of which one has the lower keys.
func (e *Editor[V]) join(lower, upper *node[V]) *node[V] {
	switch {
	case lower == nil:
		return upper
	case upper == nil:
		return lower
	case lower.isAbove(upper):
		lower = e.owned(lower)
		lower.right = e.join(lower.right, upper)
		lower.update()
		return lower
	default:
		upper = e.owned(upper)
		upper.left = e.join(lower, upper.left)
		upper.update()
		return upper
	}
}
