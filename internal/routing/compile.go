package routing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gateway/internal/few"
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

// Compiler compiles Gateways one after the other. It looks only at routes that are others than in the Gateway before,
// or at other listeners, and at their hosts. All other hosts of a table are the same pointers as in the table before.
type Compiler struct {
	// Check is asked about each rule.
	Check Check
	// MostCompared is how many entries, at all listeners and hostnames, Unreachable compares; 0: a quarter of a million.
	MostCompared int
	// listed are the listeners of the last Gateway, named the same without their origins, by name, and owners by address.
	// filters are theirs, by name: equal filters are the same pointer, even from one Gateway to the next.
	listed  []model.Listener
	named   map[string]*model.Listener
	owners  map[address]*model.Listener
	filters map[string]*model.Action
	// listeners are the listeners of the last table, and routes the routes of the last Gateway.
	listeners []Listener
	routes    tree.Map[*model.Route]
	// at are the keys of the routes that name a listener.
	at map[string]few.Counts[string]
	// compiled are the routes at their listeners, and problems their problems, by their keys.
	compiled map[string][]*attachedRoute
	problems map[string][]Problem
	bounds   bounds
	// parts are what hosts are made of, and hosts the hosts of each listener.
	parts map[hostID][]part
	hosts map[string]tree.Map[*Host]
	uses  uses
	// generation counts how often other listeners, or other refused entries, made all of it another one.
	generation  int
	unreachable unreachable
}

// address is what tells listeners apart.
type address struct {
	port     int32
	hostname string
}

// hostID is a listener and a hostname of routes.
type hostID struct{ listener, hostname string }

// part is a route of a host.
type part struct {
	key string
	*compiledRoute
}

// attachedRoute is a route at the listeners of it that have the same filters. A route has at least one.
type attachedRoute struct {
	*model.Route
	*compiledRoute
	// at are the names of the listeners.
	at      []string
	filters *model.Action
}

// compiledRoute is what the rules of a route are compiled to: an entry for each match of each rule. The entries have no
// hostname.
type compiledRoute struct {
	entries  []Entry
	problems []Problem
	// steps bound what it takes to compare a request with the entries.
	steps float64
	// compared are the forms of the entries, once they are needed.
	compared []*form
}

// Compile is the function Compile with a memory.
func (c *Compiler) Compile(gateway *model.Gateway) (Table, []Problem) {
	listeners := c.changesOf(gateway)
	changed, isNew := c.update(gateway, listeners)
	if isNew {
		c.makeAllHosts()
		c.listAll()
	} else {
		c.list(listeners, c.changeHosts(changed))
	}
	return Table{Settings: gateway.Settings, Uses: Uses{c.uses.backends.Map(), c.uses.secrets.Map(), c.uses.keys.Map(), c.uses.ruleSets.Map()}, Listeners: c.listeners}, c.allProblems(gateway)
}

// Problems returns the problems of Compile, without a table. A small Gateway can ask for a table of half a million
// entries. A Compiler is for one of both.
func (c *Compiler) Problems(gateway *model.Gateway) []Problem {
	c.update(gateway, c.changesOf(gateway))
	return c.allProblems(gateway)
}

func (c *Compiler) allProblems(gateway *model.Gateway) []Problem {
	var all []Problem
	for _, key := range slices.Sorted(maps.Keys(c.problems)) {
		all = append(all, c.problems[key]...)
	}
	return slices.Concat(all, c.bounds.problems, gateway.Problems)
}

// changedRoute is a route of another Gateway, or at other listeners. places are the hosts that it was at. isGone
// reports whether there is none any more.
type changedRoute struct {
	key         string
	route       *model.Route
	isGone      bool
	before, now []*attachedRoute
	places      []hostID
}

// update compiles the routes that changed, and returns them. isNew reports whether anything else changed that they
// depend on, which makes all of them new.
func (c *Compiler) update(gateway *model.Gateway, listeners changedListeners) (changed []changedRoute, isNew bool) {
	if isNew = c.compiled == nil; isNew {
		c.compiled, c.problems, c.at = map[string][]*attachedRoute{}, map[string][]Problem{}, map[string]few.Counts[string]{}
		c.bounds = bounds{steps: map[place]map[string]float64{}, levels: map[int]int{}, crowded: map[place]bool{}, refused: c.bounds.refused}
	}
	moved := map[string]bool{}
	for name := range listeners.moved {
		for key := range c.at[name].All() {
			moved[key] = true
		}
	}
	add := func(key string, route *model.Route, isThere bool) {
		one := changedRoute{key: key, route: route, isGone: !isThere, before: c.compiled[key]}
		c.eachPlace(one.before, func(id hostID, _ *attachedRoute) { one.places = append(one.places, id) })
		changed = append(changed, one)
	}
	for change := range tree.Changes(c.routes, gateway.Routes) {
		delete(moved, change.Key)
		add(change.Key, change.New, change.Has)
	}
	for _, key := range slices.Sorted(maps.Keys(moved)) {
		add(key, gateway.Routes.Value(key), true)
	}
	c.unreachable.note(maps.Keys(moved))
	c.take(listeners)
	for i := range changed {
		one := &changed[i]
		delete(c.compiled, one.key)
		delete(c.problems, one.key)
		c.index(one.key, one.before, -1)
		if !one.isGone {
			one.now = c.compileRoute(one.key, one.route, one.before)
			c.index(one.key, one.now, 1)
		}
		c.bounds.change(one)
	}
	c.routes = gateway.Routes
	refused := c.bounds.refused
	someRefused := c.bounds.refuse(c)
	if isNew || !maps.Equal(refused, c.bounds.refused) {
		c.generation++
	}
	return changed, someRefused || isNew
}

// compileRoute compiles a route at its listeners. It uses what was compiled before of the same route with the same
// filters.
func (c *Compiler) compileRoute(key string, route *model.Route, before []*attachedRoute) []*attachedRoute {
	attached := c.attach(route)
	var problems []Problem
	for _, at := range attached {
		i := slices.IndexFunc(before, func(b *attachedRoute) bool { return b.Route == route && b.filters == at.filters })
		if i >= 0 {
			at.compiledRoute = before[i].compiledRoute
		} else {
			at.compiledRoute = &compiledRoute{}
			at.compile(c.Check)
		}
		for _, problem := range at.problems {
			if !slices.Contains(problems, problem) {
				problems = append(problems, problem)
			}
		}
	}
	c.compiled[key] = attached
	if len(problems) > 0 {
		c.problems[key] = problems
	}
	return attached
}

// attach returns a route at its listeners.
func (c *Compiler) attach(route *model.Route) []*attachedRoute {
	if len(c.filters) == 0 || len(route.Listeners) == 0 {
		return []*attachedRoute{{Route: route, at: route.Listeners}}
	}
	var all []*attachedRoute
	for _, name := range route.Listeners {
		i := slices.IndexFunc(all, func(a *attachedRoute) bool { return a.filters == c.filters[name] })
		if i < 0 {
			i, all = len(all), append(all, &attachedRoute{Route: route, filters: c.filters[name]})
		}
		all[i].at = append(all[i].at, name)
	}
	return all
}

// eachPlace calls f for the hosts of a route: for its hostnames that overlap with a listener's, even where the
// listener's is narrower. Only requests for the listener's hosts get there anyway, and precedence goes by the hostname
// of the route.
func (c *Compiler) eachPlace(routes []*attachedRoute, f func(id hostID, route *attachedRoute)) {
	for _, route := range routes {
		for _, name := range route.at {
			listener := c.listener(name)
			if listener == nil {
				continue
			}
			for _, hostname := range route.Hostnames {
				if model.HostnamesOverlap(listener.Hostname, hostname) {
					f(hostID{name, hostname}, route)
				}
			}
		}
	}
}

// listener returns a listener, nil if there is none.
func (c *Compiler) listener(name string) *model.Listener { return c.named[name] }

// makeAllHosts makes all hosts. Those of the same routes as before are what they were, unless entries are refused.
func (c *Compiler) makeAllHosts() {
	before, hosts := c.parts, c.hosts
	c.parts, c.hosts, c.uses = map[hostID][]part{}, map[string]tree.Map[*Host]{}, uses{}
	for key := range c.routes.Keys() {
		c.eachPlace(c.compiled[key], func(id hostID, route *attachedRoute) {
			c.parts[id] = append(c.parts[id], part{key, route.compiledRoute})
		})
	}
	all := map[string]*tree.Editor[*Host]{}
	for id, parts := range c.parts {
		if all[id.listener] == nil {
			all[id.listener] = &tree.Editor[*Host]{}
		}
		host := hosts[id.listener].Value(HostKey(id.hostname))
		if host == nil || !isSame(parts, before[id]) || c.bounds.isOrWasRefused {
			host = c.host(id.hostname, parts)
		}
		if len(host.Entries) > 0 {
			all[id.listener].Set(HostKey(id.hostname), host)
			c.uses.change(host, 1)
		}
	}
	for name, hosts := range all {
		c.hosts[name] = hosts.Map()
	}
}

// isSame reports whether a host is of the same routes.
func isSame(a, b []part) bool {
	return slices.EqualFunc(a, b, func(a, b part) bool { return a.compiledRoute == b.compiledRoute })
}

// changeHosts makes the hosts of routes that changed. It returns the names of their listeners.
func (c *Compiler) changeHosts(changed []changedRoute) []string {
	touched := map[hostID][]part{}
	for _, one := range changed {
		find := func(id hostID) (int, bool) {
			if _, ok := touched[id]; !ok {
				touched[id] = slices.Clone(c.parts[id])
			}
			return slices.BinarySearchFunc(c.parts[id], one.key, func(p part, key string) int { return strings.Compare(p.key, key) })
		}
		for _, id := range one.places {
			if i, ok := find(id); ok {
				c.parts[id] = slices.Delete(c.parts[id], i, i+1)
			}
		}
		c.eachPlace(one.now, func(id hostID, route *attachedRoute) {
			i, _ := find(id)
			c.parts[id] = slices.Insert(c.parts[id], i, part{one.key, route.compiledRoute})
		})
	}
	all := map[string]*tree.Editor[*Host]{}
	for id, was := range touched {
		if isSame(was, c.parts[id]) {
			continue
		}
		if all[id.listener] == nil {
			hosts := c.hosts[id.listener].Edit()
			all[id.listener] = &hosts
		}
		hosts, key := all[id.listener], HostKey(id.hostname)
		before, _ := hosts.Get(key)
		host := c.host(id.hostname, c.parts[id])
		c.uses.change(host, 1)
		c.uses.change(before, -1)
		if hosts.Set(key, host); len(host.Entries) == 0 {
			hosts.Delete(key)
		}
		if len(c.parts[id]) == 0 {
			delete(c.parts, id)
		}
	}
	for name, hosts := range all {
		if c.hosts[name] = hosts.Map(); c.hosts[name].Len() == 0 {
			delete(c.hosts, name)
		}
	}
	return slices.Collect(maps.Keys(all))
}

// host returns the one of a hostname: the entries of its routes by precedence, but for those that no request can reach,
// since an equal or less demanding one of the same path comes before.
func (c *Compiler) host(hostname string, routes []part) *Host {
	var entries []Entry
	for _, route := range routes {
		for i, entry := range route.entries {
			if c.bounds.refused[refusal{hostname, &route.entries[i]}] {
				entry = closed(entry)
			}
			entry.Hostname = hostname
			entries = append(entries, entry)
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.compare(&b) })
	host, seen := &Host{Name: hostname}, map[string]bool{}
	for i := range entries {
		entry := &entries[i]
		if last := len(host.Entries) - 1; last >= 0 && !host.Entries[last].Conditional() && host.Entries[last].SamePath(entry) {
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

// SamePath reports whether two entries match the same paths.
func (e *Entry) SamePath(other *Entry) bool {
	return e.PathType == other.PathType && e.Path == other.Path
}

// compare orders the entries of a hostname by precedence.
func (e *Entry) compare(other *Entry) int {
	a, b := e, other
	order := cmp.Compare(a.PathType, b.PathType)
	if a.PathType != Regex && order == 0 {
		order = cmp.Or(cmp.Compare(len(b.Path), len(a.Path)), cmp.Compare(a.Path, b.Path))
	}
	return cmp.Or(order,
		cmp.Compare(hasMethod(b), hasMethod(a)),
		cmp.Compare(len(b.Headers), len(a.Headers)),
		cmp.Compare(len(b.Query), len(a.Query)))
}

func hasMethod(e *Entry) int {
	if e.Method == "" {
		return 0
	}
	return 1
}
