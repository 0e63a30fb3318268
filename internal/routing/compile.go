package routing

import (
	"cmp"
	"fmt"
	"slices"

	"gateway/internal/model"
)

// Compile returns the routing table of a Gateway and everything that is not in it, which includes the Gateway's own
// problems.
func Compile(gateway *model.Gateway) (Table, []Problem) {
	c := compile(gateway)
	table := Table{Settings: gateway.Settings, Listeners: make([]Listener, 0, len(gateway.Listeners))}
	for i := range gateway.Listeners {
		table.Listeners = append(table.Listeners, newListener(&gateway.Listeners[i]))
	}
	slices.SortFunc(table.Listeners, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), model.CompareHostnames(a.Hostname, b.Hostname))
	})
	attached := map[string][]*compiledRoute{}
	for i := range c.routes {
		for _, name := range c.routes[i].Listeners {
			attached[name] = append(attached[name], &c.routes[i])
		}
	}
	for i := range table.Listeners {
		listener := &table.Listeners[i]
		listener.Hosts = hostsOf(c.entries(listener, attached[listener.Name]))
	}
	return table, c.problems
}

// Problems returns those of Compile, without a table. A small Gateway can ask for a table of half a million entries.
func Problems(gateway *model.Gateway) []Problem { return compile(gateway).problems }

// compiler has what a table is made of.
type compiler struct {
	routes   []compiledRoute
	problems []Problem
	// refused are the entries that would make a list take too many steps.
	refused map[refusal]bool
}

// compiledRoute is a route with an entry for each match of each rule. The entries have no hostname.
type compiledRoute struct {
	*model.Route
	entries []Entry
	// steps bound what it takes to compare a request with the entries.
	steps float64
}

func compile(gateway *model.Gateway) *compiler {
	c := &compiler{routes: make([]compiledRoute, len(gateway.Routes)), refused: map[refusal]bool{}}
	for i := range gateway.Routes {
		c.routes[i] = c.compileRoute(&gateway.Routes[i])
	}
	c.refuseSteps()
	c.problems = append(c.problems, gateway.Problems...)
	return c
}

func newListener(from *model.Listener) Listener {
	return Listener{
		Name: from.Name, Port: from.Port, Protocol: from.Protocol, Hostname: from.Hostname,
		ProxyProtocol: from.ProxyProtocol, TLS: from.TLS,
	}
}

// entries returns those of routes that are attached to a listener, for every hostname of theirs that overlaps with the
// listener's.
//
// An entry keeps the route's hostname, even where the listener's is narrower: only requests for the listener's hosts
// get there anyway, and precedence goes by the hostname of the route.
func (c *compiler) entries(listener *Listener, routes []*compiledRoute) []Entry {
	var entries []Entry
	for _, route := range routes {
		for _, hostname := range route.Hostnames {
			if !model.HostnamesOverlap(listener.Hostname, hostname) {
				continue
			}
			for j, entry := range route.entries {
				if c.refused[refusal{hostname, &route.entries[j]}] {
					entry = closed(entry)
				}
				entry.Hostname = hostname
				entries = append(entries, entry)
			}
		}
	}
	return entries
}

// hostsOf sorts entries by precedence, drops those that no request can reach, since an equal or less demanding one of
// the same path comes before, and groups them by hostname.
func hostsOf(entries []Entry) []*Host {
	slices.SortStableFunc(entries, compareEntries)
	var hosts []*Host
	seen := map[string]bool{}
	for i := range entries {
		entry := &entries[i]
		if len(hosts) == 0 || hosts[len(hosts)-1].Name != entry.Hostname {
			hosts = append(hosts, &Host{Name: entry.Hostname})
			clear(seen)
		}
		host := hosts[len(hosts)-1]
		if last := len(host.Entries) - 1; last >= 0 && !host.Entries[last].Conditional() && host.Entries[last].samePath(entry) {
			continue
		}
		if entry.Conditional() {
			key := fmt.Sprintf("%d %q %q %#v %#v ", entry.PathType, entry.Path, entry.Method, entry.Headers, entry.Query)
			if seen[key] || seen[key+entry.Session] {
				continue
			}
			seen[key+entry.Session] = true
		}
		host.Entries = append(host.Entries, *entry)
	}
	return hosts
}

func (e *Entry) samePath(other *Entry) bool {
	return e.PathType == other.PathType && e.Path == other.Path
}

func compareEntries(a, b Entry) int {
	order := cmp.Or(model.CompareHostnames(a.Hostname, b.Hostname), cmp.Compare(a.PathType, b.PathType))
	if a.PathType != Regex && order == 0 {
		order = cmp.Or(cmp.Compare(len(b.Path), len(a.Path)), cmp.Compare(a.Path, b.Path))
	}
	return cmp.Or(order,
		cmp.Compare(hasMethod(b), hasMethod(a)),
		cmp.Compare(len(b.Headers), len(a.Headers)),
		cmp.Compare(len(b.Query), len(a.Query)))
}

func hasMethod(e Entry) int {
	if e.Method == "" {
		return 0
	}
	return 1
}
