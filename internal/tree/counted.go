package tree

// Counted is an Editor of entries that several may have. An entry is there as long as one of them has it. The zero
// value begins with nothing.
type Counted[V comparable] struct {
	Editor[V]
	counts map[string]int
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
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	before := c.counts[key]
	if c.counts[key] = before + n; before+n == 0 {
		delete(c.counts, key)
		c.Delete(key)
	}
	return before == 0
}
