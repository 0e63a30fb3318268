package routing

import (
	"cmp"
	"fmt"
	"slices"

	appv1 "gateway/api/app/v1"
)

// attachment is a route of any kind on its way to its listeners.
type attachment struct {
	name      string
	listeners []appv1.Name
	hostnames []appv1.Hostname
	// fits says whether the route may belong to a listener, want says of which kind such a listener is.
	fits func(l *Listener) bool
	want string
	// entries are the route's, without a hostname.
	entries []Entry
	// touched are the hosts that get them, as the others have them already. Nil stands for all.
	touched map[string]bool
}

// anyHost are the hostnames of a route without any.
var anyHost = []appv1.Hostname{""}

func hostnamesOf(hostnames []appv1.Hostname) []appv1.Hostname {
	if len(hostnames) == 0 {
		return anyHost
	}
	return hostnames
}

// attachRoute adds a route to its listeners, if that is not as it was, and returns what it was compiled to, with the problems that it has there.
func (c *compiler) attachRoute(route *appv1.Route, compiled *compiledRoute) *compiledRoute {
	c.problems = append(c.problems, compiled.problems...)
	if c.touched != nil && !slices.ContainsFunc(hostnamesOf(route.Hostnames), func(hostname appv1.Hostname) bool { return c.touched[string(hostname)] }) {
		c.problems = append(c.problems, compiled.unattached...)
		return compiled
	}
	known := len(c.problems)
	c.attach(attachment{
		name: string(route.Name), listeners: route.Listeners, hostnames: route.Hostnames,
		fits: c.isForRequests, want: "HTTP or HTTPS, without httpsRedirect", entries: compiled.entries, touched: c.touched,
	})
	unattached := c.problems[known:]
	if slices.Equal(unattached, compiled.unattached) {
		return compiled
	}
	changed := *compiled
	changed.unattached = slices.Clone(unattached)
	return &changed
}

// isForRequests says whether routes for requests may belong to a listener.
func (c *compiler) isForRequests(l *Listener) bool {
	return (l.Protocol == "HTTP" || l.Protocol == "HTTPS") && !c.redirects[l.Name]
}

// attach adds a route to its listeners.
func (c *compiler) attach(a attachment) {
	if len(a.listeners) == 0 {
		found := false
		for i := range c.table.Listeners {
			if listener := &c.table.Listeners[i]; a.fits(listener) {
				found = c.attachTo(listener, a) || found
			}
		}
		if !found {
			c.problem(a.name, "", "route %q gets no requests: no listener of its kind takes one of its hostnames", a.name)
		}
		return
	}
	for _, name := range a.listeners {
		i := slices.IndexFunc(c.table.Listeners, func(l Listener) bool { return l.Name == string(name) })
		switch {
		case i < 0:
			c.problem(a.name, string(name), "route %q names listener %q, which does not exist", a.name, name)
		case !a.fits(&c.table.Listeners[i]):
			c.problem(a.name, string(name), "route %q gets no requests from listener %q, which is not of protocol %s", a.name, name, a.want)
		case !c.attachTo(&c.table.Listeners[i], a):
			c.problem(a.name, string(name), "route %q gets no requests from listener %q: none of its hostnames is within the listener's hostname %q",
				a.name, name, c.table.Listeners[i].Hostname)
		}
	}
}

// attachTo adds the rules of a route to a listener, for every hostname of the route that overlaps with the listener's,
// and says whether there was one.
//
// An entry keeps the route's hostname, even where the listener's is narrower: only requests for the listener's hosts get
// there anyway, and precedence goes by the hostname of the route.
func (c *compiler) attachTo(listener *Listener, a attachment) bool {
	fits := false
	entries := c.entries[listener.Name]
	for _, hostname := range hostnamesOf(a.hostnames) {
		if !hostnamesOverlap(listener.Hostname, string(hostname)) {
			continue
		}
		fits = true
		if c.onlyProblems || a.touched != nil && !a.touched[string(hostname)] {
			continue
		}
		for i, entry := range a.entries {
			if c.refused[refusal{string(hostname), &a.entries[i]}] {
				entry = closed(entry)
			}
			entry.Hostname = string(hostname)
			entries = append(entries, entry)
		}
	}
	c.entries[listener.Name] = entries
	return fits
}

// addHosts gives a listener, which is given by its place, its hosts: those of the entries, and those before that were not touched.
func (c *compiler) addHosts(place int) {
	listener := &c.table.Listeners[place]
	entries := byPrecedence(c.entries[listener.Name])
	var before []*Host
	if c.touched != nil && c.isForRequests(listener) {
		before = c.before.Table.Listeners[place].Hosts
	}
	hosts := make([]*Host, 0, len(before)+1)
	for len(entries) > 0 {
		host, n := &Host{Name: entries[0].Hostname}, 1
		for n < len(entries) && entries[n].Hostname == host.Name {
			n++
		}
		host.Entries, entries = entries[:n:n], entries[n:]
		hosts, before = c.appendUntouched(hosts, before, host)
		hosts = append(hosts, host)
	}
	if hosts, _ = c.appendUntouched(hosts, before, nil); len(hosts) > 0 {
		listener.Hosts = hosts
	}
}

// appendUntouched appends those of the hosts before that come before one, or all if that is nil, and returns the others, too.
func (c *compiler) appendUntouched(hosts, before []*Host, until *Host) (all, rest []*Host) {
	for len(before) > 0 && (until == nil || CompareHostnames(before[0].Name, until.Name) <= 0) {
		if !c.touched[before[0].Name] {
			hosts = append(hosts, before[0])
		}
		before = before[1:]
	}
	return hosts, before
}

// byPrecedence sorts entries by precedence and drops those that no request can reach: an equal or less demanding one of
// the same path comes before.
func byPrecedence(entries []Entry) []Entry {
	if len(entries) == 0 {
		return nil
	}
	slices.SortStableFunc(entries, compareEntries)
	kept := entries[:0]
	seen := map[string]bool{}
	for i := range entries {
		entry := &entries[i]
		if last := len(kept) - 1; last >= 0 && !kept[last].Conditional() && kept[last].samePlace(entry) {
			continue
		}
		if entry.Conditional() {
			key := fmt.Sprintf("%q %d %q %q %#v %#v ", entry.Hostname, entry.PathType, entry.Path, entry.Method, entry.Headers, entry.Query)
			if seen[key] || seen[key+entry.Session] {
				continue
			}
			seen[key+entry.Session] = true
		}
		kept = append(kept, *entry)
	}
	return kept
}

func compareEntries(a, b Entry) int {
	order := cmp.Or(CompareHostnames(a.Hostname, b.Hostname), cmp.Compare(a.PathType, b.PathType))
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
