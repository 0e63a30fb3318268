// Package few has maps and counts for few entries: they take a tenth of the memory of a map.
package few

import (
	"iter"
	"slices"
)

// most is how many things take no map.
const most = 8

// Map has values by keys, as a map does. The zero value is empty.
type Map[K comparable, V any] struct {
	few  []entry[K, V]
	many map[K]V
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// Get returns the value of a key, the zero value if there is none.
func (m Map[K, V]) Get(key K) V {
	for i := range m.few {
		if m.few[i].key == key {
			return m.few[i].value
		}
	}
	return m.many[key]
}

// Set sets the value of a key.
func (m *Map[K, V]) Set(key K, value V) {
	i := m.index(key)
	switch {
	case m.many != nil:
		m.many[key] = value
	case i >= 0:
		m.few[i].value = value
	case len(m.few) < most:
		m.few = append(m.few, entry[K, V]{key, value})
	default:
		m.many = map[K]V{key: value}
		for _, one := range m.few {
			m.many[one.key] = one.value
		}
		m.few = nil
	}
}

// Delete deletes a key.
func (m *Map[K, V]) Delete(key K) {
	if i := m.index(key); i >= 0 {
		m.few = slices.Delete(m.few, i, i+1)
	}
	delete(m.many, key)
}

func (m *Map[K, V]) index(key K) int {
	return slices.IndexFunc(m.few, func(one entry[K, V]) bool { return one.key == key })
}

// Len returns how many keys there are.
func (m Map[K, V]) Len() int { return len(m.few) + len(m.many) }

// All returns keys and values, in any order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for _, one := range m.few {
			if !yield(one.key, one.value) {
				return
			}
		}
		for key, value := range m.many {
			if !yield(key, value) {
				return
			}
		}
	}
}

// Counts has the number of times that each thing was added. The zero value has none.
type Counts[K comparable] struct{ counts Map[K, int] }

// Add adds n to the count of a thing.
func (c *Counts[K]) Add(of K, n int) {
	if n += c.Of(of); n == 0 {
		c.counts.Delete(of)
	} else {
		c.counts.Set(of, n)
	}
}

// Of returns the count of a thing.
func (c Counts[K]) Of(of K) int { return c.counts.Get(of) }

// Len returns the number of different things.
func (c Counts[K]) Len() int { return c.counts.Len() }

// All returns the different things, in any order.
func (c Counts[K]) All() iter.Seq[K] {
	return func(yield func(K) bool) {
		c.counts.All()(func(of K, _ int) bool { return yield(of) })
	}
}

// In adds n to the count of a thing for a key of a map. Keys without things are removed.
func In[K, L comparable](counts map[K]Counts[L], key K, of L, n int) {
	c := counts[key]
	if c.Add(of, n); c.Len() > 0 {
		counts[key] = c
	} else {
		delete(counts, key)
	}
}
