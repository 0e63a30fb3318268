package routing

import (
	"maps"
	"reflect"
	"slices"

	"gateway/internal/few"
	"gateway/internal/model"
)

// changedListeners are the listeners of a Gateway that are others than in the one before.
type changedListeners struct {
	// now are they, by name; nil: there is none any more.
	now map[string]*model.Listener
	// moved are those with another port, hostname or other filters: their routes are at other hosts, or are others there.
	moved map[string]bool
}

// changesOf returns the listeners that are others than in the Gateway before. It looks up those alone that are between
// the first ones and the last ones that are the same: an edit is about listeners of one owner, which are neighbours.
func (c *Compiler) changesOf(gateway *model.Gateway) changedListeners {
	before, now := differing(c.listed, gateway.Listeners)
	c.listed = gateway.Listeners
	changes := changedListeners{map[string]*model.Listener{}, map[string]bool{}}
	others := make(map[string]*model.Listener, len(before))
	for i := range before {
		others[before[i].Name] = &before[i]
	}
	there := make(map[string]bool, len(now))
	for i := range now {
		now := &now[i]
		before := others[now.Name]
		there[now.Name] = true
		isMoved := before == nil || before.Port != now.Port || before.Hostname != now.Hostname ||
			before.Filters != now.Filters && !reflect.DeepEqual(before.Filters, now.Filters)
		isOther := isMoved || before.Protocol != now.Protocol || before.Since != now.Since || before.ProxyProtocol != now.ProxyProtocol ||
			before.TLS != now.TLS && !reflect.DeepEqual(before.TLS, now.TLS)
		if isOther {
			changes.now[now.Name] = now
		}
		if isMoved {
			changes.moved[now.Name] = true
		}
	}
	for name := range others {
		if !there[name] {
			changes.now[name], changes.moved[name] = nil, true
		}
	}
	return changes
}

// differing returns two lists without the first and the last listeners that they share.
func differing(a, b []model.Listener) (restA, restB []model.Listener) {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return a, b
}

// take takes in listeners and their filters.
func (c *Compiler) take(changes changedListeners) {
	if c.named == nil {
		c.named, c.owners, c.filters = map[string]*model.Listener{}, map[address]*model.Listener{}, map[string]*model.Action{}
	}
	c.noteOwners(changes)
	for name := range changes.now {
		if before := c.named[name]; before != nil {
			delete(c.owners, address{before.Port, before.Hostname})
			delete(c.named, name)
		}
	}
	for name, now := range changes.now {
		if now == nil {
			delete(c.filters, name)
			continue
		}
		listener := *now
		listener.Origin = model.Origin{Namespace: now.Origin.Namespace}
		c.named[name], c.owners[address{now.Port, now.Hostname}] = &listener, &listener
		if filters := c.knownFilters(&listener); filters != nil {
			c.filters[name] = filters
		} else {
			delete(c.filters, name)
		}
	}
	c.noteOwners(changes)
}

// knownFilters returns the filters of a listener: the pointer that is known if they are equal.
func (c *Compiler) knownFilters(listener *model.Listener) *model.Action {
	of := listener.Filters
	if of == nil {
		return nil
	}
	if before := c.filters[listener.Name]; before != nil && reflect.DeepEqual(before, of) {
		return before
	}
	if len(of.RateLimits) > 0 && of.RateLimits[0].Listener == listener.Name { // no other listener has the same
		return of
	}
	for _, known := range c.filters {
		if known == of || reflect.DeepEqual(known, of) {
			return known
		}
	}
	return of
}

// noteOwners notes the routes for which another listener may get the requests, as listeners come or go: routes of
// listeners for more hosts.
func (c *Compiler) noteOwners(changes changedListeners) {
	for name := range changes.moved {
		listener := c.named[name]
		if listener == nil {
			continue
		}
		for _, wider := range model.WiderHostnames(listener.Hostname) {
			owner := c.owners[address{listener.Port, wider}]
			if owner == nil {
				continue
			}
			for key := range c.at[owner.Name].All() {
				isWithin := func(hostname string) bool { return model.HostnamesOverlap(listener.Hostname, hostname) }
				if slices.ContainsFunc(c.routes.Value(key).Hostnames, isWithin) {
					c.unreachable.note(slices.Values([]string{key}))
				}
			}
		}
	}
}

// index notes that the listeners of a route have it, n times more or less.
func (c *Compiler) index(key string, routes []*attachedRoute, n int) {
	for _, route := range routes {
		for _, name := range route.at {
			few.In(c.at, name, key, n)
		}
	}
}

// listAll lists all listeners for the table.
func (c *Compiler) listAll() {
	c.listeners = make([]Listener, 0, len(c.named))
	for name, listener := range c.named {
		made := newListener(listener)
		made.Hosts = c.hosts[name]
		c.listeners = append(c.listeners, made)
	}
	slices.SortFunc(c.listeners, func(a, b Listener) int { return compareListeners(&a, &b) })
}

// fewChanges is how many listeners list changes one by one.
const fewChanges = 64

// list lists the listeners for the table, of which some are others, or have other hosts. Others may read the list of
// the table before.
func (c *Compiler) list(changes changedListeners, names []string) {
	if len(changes.now)+len(names) > fewChanges {
		c.listAll()
		return
	}
	if len(changes.now) > 0 {
		c.listeners = slices.DeleteFunc(slices.Clone(c.listeners), func(l Listener) bool {
			_, isOther := changes.now[l.Name]
			return isOther
		})
		for name := range maps.Keys(changes.now) {
			if listener := c.named[name]; listener != nil {
				made := newListener(listener)
				made.Hosts = c.hosts[name]
				i, _ := c.find(listener)
				c.listeners = slices.Insert(c.listeners, i, made)
			}
		}
	} else if len(names) > 0 {
		c.listeners = slices.Clone(c.listeners)
	}
	for _, name := range names {
		if listener := c.named[name]; listener != nil {
			if i, ok := c.find(listener); ok {
				c.listeners[i].Hosts = c.hosts[name]
			}
		}
	}
}

// find returns the place of a listener in the list.
func (c *Compiler) find(listener *model.Listener) (int, bool) {
	of := newListener(listener)
	return slices.BinarySearchFunc(c.listeners, of, func(a, b Listener) int { return compareListeners(&a, &b) })
}

func newListener(from *model.Listener) Listener {
	return Listener{
		Name: from.Name, Title: from.Title, Namespace: from.Origin.Namespace, Port: from.Port, Protocol: from.Protocol, Hostname: from.Hostname, Since: from.Since,
		ProxyProtocol: from.ProxyProtocol, TLS: from.TLS,
	}
}
