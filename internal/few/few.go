// Package few counts things of which there are mostly few: these take a tenth of the memory of a map.
package few

import (
	"iter"
	"slices"
)

// most is how many things take no map.
const most = 8

// Counts has how often each of some things is there. The zero value has none.
type Counts[K comparable] struct {
	few  []count[K]
	many map[K]int
}

type count[K comparable] struct {
	of K
	n  int
}

// Add adds n to how often a thing is there.
func (c *Counts[K]) Add(of K, n int) {
	if c.many != nil {
		if c.many[of] += n; c.many[of] == 0 {
			delete(c.many, of)
		}
		return
	}
	i := slices.IndexFunc(c.few, func(one count[K]) bool { return one.of == of })
	switch {
	case i < 0 && len(c.few) < most:
		c.few = append(c.few, count[K]{of, n})
	case i < 0:
		c.many = map[K]int{of: n}
		for _, one := range c.few {
			c.many[one.of] = one.n
		}
		c.few = nil
	case c.few[i].n+n == 0:
		c.few = slices.Delete(c.few, i, i+1)
	default:
		c.few[i].n += n
	}
}

// Of returns how often a thing is there.
func (c Counts[K]) Of(of K) int {
	for _, one := range c.few {
		if one.of == of {
			return one.n
		}
	}
	return c.many[of]
}

// Len returns how many things are there.
func (c Counts[K]) Len() int { return len(c.few) + len(c.many) }

// All returns the things that are there, in any order.
func (c Counts[K]) All() iter.Seq[K] {
	return func(yield func(K) bool) {
		for _, one := range c.few {
			if !yield(one.of) {
				return
			}
		}
		for of := range c.many {
			if !yield(of) {
				return
			}
		}
	}
}

// In adds n to how often a thing is there for a key of a map. Keys that have nothing are not there.
func In[K, L comparable](counts map[K]Counts[L], key K, of L, n int) {
	c := counts[key]
	if c.Add(of, n); c.Len() > 0 {
		counts[key] = c
	} else {
		delete(counts, key)
	}
}
