package tree

import "iter"

// Change is what differs in the value of a key: Had and Has report whether there was one, and whether there is.
type Change[V comparable] struct {
	Key      string
	Old, New V
	Had, Has bool
}

// Changes returns the changes from one map to another, in the order of the keys. What the maps share is not looked at.
func Changes[V comparable](from, to Map[V]) iter.Seq[Change[V]] {
	return func(yield func(Change[V]) bool) { changes(from.root, to.root, yield) }
}

func changes[V comparable](from, to *node[V], yield func(Change[V]) bool) bool {
	switch {
	case from == to:
		return true
	case from == nil:
		return to.visit("", func(key string, value V) bool { return yield(Change[V]{Key: key, New: value, Has: true}) })
	case to == nil:
		return from.visit("", func(key string, value V) bool { return yield(Change[V]{Key: key, Old: value, Had: true}) })
	case from.key == to.key:
		return changes(from.left, to.left, yield) &&
			(from.value == to.value || yield(Change[V]{from.key, from.value, to.value, true, true})) &&
			changes(from.right, to.right, yield)
	case from.isAbove(to): // so the key is not in the other tree
		lower, upper := to.split(from.key)
		return changes(from.left, lower, yield) &&
			yield(Change[V]{Key: from.key, Old: from.value, Had: true}) &&
			changes(from.right, upper, yield)
	default:
		lower, upper := from.split(to.key)
		return changes(lower, to.left, yield) &&
			yield(Change[V]{Key: to.key, New: to.value, Has: true}) &&
			changes(upper, to.right, yield)
	}
}

// split returns what is below and above a key that is not in a tree.
func (n *node[V]) split(key string) (lower, upper *node[V]) {
	if n == nil {
		return nil, nil
	}
	c := *n // counts are of no importance here
	if key < n.key {
		lower, c.left = n.left.split(key)
		return lower, &c
	}
	c.right, upper = n.right.split(key)
	return &c, upper
}
