package render

import (
	"reflect"

	"gateway/internal/routing"
	"gateway/internal/tree"
)

// knownListener is a listener as it was rendered, with its certificates.
type knownListener struct {
	routing.Listener
	certificates []Certificate
}

// changedListeners are what is new of listeners.
type changedListeners struct {
	// changed are listeners that are new, gone, or have other settings or certificates.
	changed []*knownListener
	// stale are the hosts to render; nil stands for a host that is gone. gone are hosts of listeners that are gone, or
	// moved to another port or hostname.
	stale map[place]*routing.Host
	gone  []goneHost
	// touched are the patterns of hosts.map to look at, with all that wide include.
	touched map[string]pattern
	wide    []pattern
}

// goneHost is what a host of a listener was rendered to.
type goneHost struct {
	of *knownListener
	at place
	*fragment
}

// updateListeners takes in the listeners of the Input that are others than before, or whose certificates may be.
func (r *Renderer) updateListeners() changedListeners {
	c := changedListeners{stale: map[place]*routing.Host{}, touched: map[string]pattern{}}
	gone, fresh := routing.Differing(r.listed, r.in.Table.Listeners)
	there := make(map[string]bool, len(fresh))
	for _, listener := range fresh {
		there[listener.Name] = true
		r.updateListener(&c, listener)
	}
	for _, listener := range gone {
		if known := r.known[listener.Name]; known != nil && !there[listener.Name] {
			r.removeListener(&c, known)
		}
	}
	for _, name := range r.in.Certified {
		if known := r.known[name]; known != nil && !there[name] {
			r.updateListener(&c, r.in.Table.ListenerFor(known.Port, known.Hostname))
		}
	}
	if r.in.Certified == nil {
		for i := range r.in.Table.Listeners {
			r.updateListener(&c, &r.in.Table.Listeners[i])
		}
	}
	r.listed = r.in.Table.Listeners
	return c
}

func (r *Renderer) updateListener(c *changedListeners, listener *routing.Listener) {
	certificates, known := r.in.Certificates[listener.Name], r.known[listener.Name]
	if known == nil || !known.isSame(listener, certificates) {
		known = r.changeListener(c, known, listener, certificates)
	}
	for change := range tree.Changes(known.Hosts, listener.Hosts) {
		c.stale[place{listener.Name, change.Key}] = change.New
	}
	known.Hosts = listener.Hosts
}

// changeListener takes in a listener that is new, or another one than before; nil: there was none. It has the hosts
// that were rendered.
func (r *Renderer) changeListener(c *changedListeners, before *knownListener, listener *routing.Listener, certificates []Certificate) *knownListener {
	now, identity := &knownListener{*listener, certificates}, ""
	now.Hosts = tree.Map[*routing.Host]{}
	isAtSame := before != nil && before.isAtSame(listener)
	if isAtSame {
		now.Hosts, identity = before.Hosts, r.identity(now.Name)
	} else {
		if before != nil {
			r.removeListener(c, before)
		}
		p := pattern{now.Port, now.Hostname}
		r.patterns.Count(p.key(), p, 1)
	}
	if delete(r.secured, now.Name); now.TLS != nil {
		r.secured[now.Name] = r.secure(&now.Listener)
	}
	if !isAtSame || identity != r.identity(now.Name) {
		c.touch(pattern{now.Port, now.Hostname})
	}
	r.known[now.Name], c.changed = now, append(c.changed, now)
	return now
}

// removeListener takes a listener away.
func (r *Renderer) removeListener(c *changedListeners, before *knownListener) {
	delete(r.known, before.Name)
	delete(r.secured, before.Name)
	for key := range before.Hosts.Keys() {
		at := place{before.Name, key}
		if f := r.hosts[at]; f != nil {
			c.gone = append(c.gone, goneHost{before, at, f})
			delete(r.hosts, at)
		}
	}
	p := pattern{before.Port, before.Hostname}
	r.patterns.Count(p.key(), p, -1)
	c.changed = append(c.changed, before)
	c.touch(p)
}

// touch notes a pattern, and those that it includes.
func (c *changedListeners) touch(p pattern) {
	c.touched[p.key()] = p
	c.wide = append(c.wide, p)
}

// isSame reports whether a listener is the same, but for its hosts.
func (l *knownListener) isSame(now *routing.Listener, certificates []Certificate) bool {
	return l.isAtSame(now) && l.ProxyProtocol == now.ProxyProtocol && (l.TLS == now.TLS || reflect.DeepEqual(l.TLS, now.TLS)) &&
		(isOneSlice(l.certificates, certificates) || reflect.DeepEqual(l.certificates, certificates))
}

// isAtSame reports whether a listener takes the same requests or connections, and its hosts are rendered in the same
// way.
func (l *knownListener) isAtSame(now *routing.Listener) bool {
	return l.Port == now.Port && l.Hostname == now.Hostname && l.Protocol == now.Protocol && (l.TLS == nil) == (now.TLS == nil)
}

// isOneSlice reports whether two slices are one.
func isOneSlice[T any](a, b []T) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }
