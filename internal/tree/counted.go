package tree

// Counted is an Editor of entries that several may have. An entry is there as long as one of them has it. The zero
// value begins with nothing.
type Counted[V comparable] struct {
	Editor[V]
	// others are how many have an entry beside one: most have none.
	others map[string]int
}

// Count adds n to how many have an entry.
func (c *Counted[V]) Count(key string, value V, n int) {
	if c.isNew(key, n) {
		c.Set(key, value)
	}
}

// CountNew is Count for a value that is made if the entry is new.
func (c *Counted[V]) CountNew(key string, n int, value func() V) {
	if c.isNew(key, n) {
		c.Set(key, value())
	}
}

// isNew counts, and reports whether an entry is new. One that nobody has any more is deleted.
func (c *Counted[V]) isNew(key string, n int) bool {
	if c.others == nil {
		c.others = map[string]int{}
	}
	_, isThere := c.Get(key)
	before := c.others[key]
	if isThere {
		before++
	}
	if before+n > 1 {
		c.others[key] = before + n - 1
	} else if delete(c.others, key); before+n == 0 {
		c.Delete(key)
	}
	return before == 0
}
