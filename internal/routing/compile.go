package routing

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"gateway/internal/model"
	"gateway/internal/tree"
)

// Check returns the parts of a rule's filters that the proxies cannot carry out, "" if there are none.
type Check func(rule *Rule) string

// Compile returns the routing table of a Gateway, and the problems of everything that is not in it, including the
// Gateway's own.
func Compile(gateway *model.Gateway, check Check) (Table, []Problem) {
	return (&Compiler{Check: check}).Compile(gateway)
}

// Compiler compiles Gateways one after the other. It keeps the results for the rules of each route, and for each host,
// while the next Gateway has the same rules: the same slices, which nobody changes.
type Compiler struct {
	// Check is asked about each rule.
	Check  Check
	routes map[routeID]*compiledRoute
	hosts  map[hostID]compiledHost
	// filters are those of listeners, by name.
	filters map[string]*model.Action
}

// routeID is the rules of a route, by the first one, and the filters of the listeners that it is attached to.
type routeID struct {
	rules   *model.Rule
	filters *model.Action
}

// hostID is a listener and a hostname of routes.
type hostID struct{ listener, hostname string }

// compiledHost is a host and the routes that it was made of, in their order.
type compiledHost struct {
	*Host
	routes []*compiledRoute
}

// Compile is the function Compile with a memory. An unchanged host is the same pointer as in the previous table.
func (c *Compiler) Compile(gateway *model.Gateway) (Table, []Problem) {
	run := c.compile(gateway)
	table := Table{Settings: gateway.Settings, Listeners: make([]Listener, 0, len(gateway.Listeners))}
	for i := range gateway.Listeners {
		table.Listeners = append(table.Listeners, newListener(&gateway.Listeners[i]))
	}
	slices.SortFunc(table.Listeners, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), model.CompareHostnames(a.Hostname, b.Hostname))
	})
	attached := map[string][]*attachedRoute{}
	for i := range run.routes {
		for _, name := range run.routes[i].at {
			attached[name] = append(attached[name], &run.routes[i])
		}
	}
	hosts := make(map[hostID]compiledHost, len(c.hosts))
	for i := range table.Listeners {
		listener := &table.Listeners[i]
		listener.Hosts = run.hosts(listener, attached[listener.Name], c.hosts, hosts)
	}
	if c.hosts = hosts; len(run.refused) > 0 {
		c.hosts = nil // what is refused depends on other hosts
	}
	return table, run.problems
}

// Problems returns those of Compile, without a table. A small Gateway can ask for a table of half a million entries.
func Problems(gateway *model.Gateway, check Check) []Problem {
	return (&Compiler{Check: check}).Problems(gateway)
}

// Problems returns those of Compile, without a table.
func (c *Compiler) Problems(gateway *model.Gateway) []Problem { return c.compile(gateway).problems }

// compilation is the state of a table in the making.
type compilation struct {
	// routes are those of the Gateway, in their order.
	routes   []attachedRoute
	problems []Problem
	// refused are the entries that would make a list take too many steps.
	refused map[refusal]bool
}

// attachedRoute is a route at those of its listeners that have the same filters. A route has at least one.
type attachedRoute struct {
	*model.Route
	*compiledRoute
	// at are the names of the listeners.
	at      []string
	filters *model.Action
}

// attach returns a route at its listeners, whose filters are known by their names.
func attach(route *model.Route, filters map[string]*model.Action) []attachedRoute {
	if len(filters) == 0 || len(route.Listeners) == 0 {
		return []attachedRoute{{Route: route, at: route.Listeners}}
	}
	var all []attachedRoute
	for _, name := range route.Listeners {
		i := slices.IndexFunc(all, func(a attachedRoute) bool { return a.filters == filters[name] })
		if i < 0 {
			i, all = len(all), append(all, attachedRoute{Route: route, filters: filters[name]})
		}
		all[i].at = append(all[i].at, name)
	}
	return all
}

// compiledRoute is what the rules of a route are compiled to: an entry for each match of each rule. The entries have no
// hostname.
type compiledRoute struct {
	entries  []Entry
	problems []Problem
	// steps bound what it takes to compare a request with the entries.
	steps float64
}

func (c *Compiler) compile(gateway *model.Gateway) *compilation {
	run := &compilation{routes: make([]attachedRoute, 0, len(gateway.Routes)), refused: map[refusal]bool{}}
	kept := make(map[routeID]*compiledRoute, len(gateway.Routes))
	c.keepFilters(gateway)
	for i := range gateway.Routes {
		var problems []Problem
		for _, route := range attach(&gateway.Routes[i], c.filters) {
			route.compiledRoute = &compiledRoute{}
			if len(route.Rules) > 0 {
				id := routeID{&route.Rules[0], route.filters}
				if known := c.routes[id]; known != nil {
					route.compiledRoute = known
				} else {
					route.compile(c.Check)
				}
				kept[id] = route.compiledRoute
			}
			for _, problem := range route.problems {
				if !slices.Contains(problems, problem) {
					problems = append(problems, problem)
				}
			}
			run.routes = append(run.routes, route)
		}
		run.problems = append(run.problems, problems...)
	}
	c.routes = kept
	run.refuseSteps()
	run.problems = append(run.problems, gateway.Problems...)
	return run
}

// keepFilters takes the filters of listeners from a Gateway. Equal filters are the same pointer, even from one Gateway
// to the next.
func (c *Compiler) keepFilters(gateway *model.Gateway) {
	filters := map[string]*model.Action{}
	known := slices.Collect(maps.Values(c.filters))
	for i := range gateway.Listeners {
		listener := &gateway.Listeners[i]
		if listener.Filters == nil {
			continue
		}
		same := slices.IndexFunc(known, func(f *model.Action) bool { return reflect.DeepEqual(f, listener.Filters) })
		if same < 0 {
			same, known = len(known), append(known, listener.Filters)
		}
		filters[listener.Name] = known[same]
	}
	c.filters = filters
}

func newListener(from *model.Listener) Listener {
	return Listener{
		Name: from.Name, Port: from.Port, Protocol: from.Protocol, Hostname: from.Hostname,
		ProxyProtocol: from.ProxyProtocol, TLS: from.TLS,
	}
}

// hosts returns those of a listener, of routes that are attached to it. Each has the hostname of
// routes that overlaps with the listener's, even where the listener's is narrower: only requests for the listener's
// hosts get there anyway, and precedence goes by the hostname of the route. Those that were made of the same routes
// before are taken from there; all are added to kept.
func (c *compilation) hosts(listener *Listener, routes []*attachedRoute, before, kept map[hostID]compiledHost) tree.Map[*Host] {
	parts := map[string][]*compiledRoute{}
	for _, route := range routes {
		for _, hostname := range route.Hostnames {
			if model.HostnamesOverlap(listener.Hostname, hostname) {
				parts[hostname] = append(parts[hostname], route.compiledRoute)
			}
		}
	}
	var hosts tree.Editor[*Host]
	for hostname, routes := range parts {
		id := hostID{listener.Name, hostname}
		host := before[id]
		if len(c.refused) > 0 || host.Host == nil || !slices.Equal(host.routes, routes) {
			host = compiledHost{c.host(hostname, routes), routes}
		}
		if len(host.Entries) > 0 {
			kept[id] = host
			hosts.Set(HostKey(hostname), host.Host)
		}
	}
	return hosts.Map()
}

// host returns the one of a hostname: the entries of its routes by precedence, but for those that no request can reach,
// since an equal or less demanding one of the same path comes before.
func (c *compilation) host(hostname string, routes []*compiledRoute) *Host {
	var entries []Entry
	for _, route := range routes {
		for i, entry := range route.entries {
			if c.refused[refusal{hostname, &route.entries[i]}] {
				entry = closed(entry)
			}
			entry.Hostname = hostname
			entries = append(entries, entry)
		}
	}
	slices.SortStableFunc(entries, compareEntries)
	host, seen := &Host{Name: hostname}, map[string]bool{}
	for i := range entries {
		entry := &entries[i]
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
	return host
}

func (e *Entry) samePath(other *Entry) bool {
	return e.PathType == other.PathType && e.Path == other.Path
}

func compareEntries(a, b Entry) int {
	order := cmp.Compare(a.PathType, b.PathType)
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
