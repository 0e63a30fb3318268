package routing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gateway/internal/model"
	"gateway/internal/tree"
)

// Taken is a match of a rule that no request gets to at a listener and hostname.
type Taken struct {
	Listener string
	Entry    *Entry
	// By is the rule that matches all of its requests and comes first; nil: another listener gets them.
	By *Rule
}

// unreachable finds the rules that no request gets to. Entries that can get the same requests are compared with each
// other: those of a listener and a hostname, and those of all hostnames that include that of the listener. An edit
// costs those of its route.
type unreachable struct {
	// generation is that of the Compiler, and routes are those that were looked at, attached to listeners.
	generation int
	routes     tree.Map[*model.Route]
	attached   map[string][]*attachedRoute
	// entries is how many there are at all places.
	entries int
	// listeners are by their names, owners by port and hostname.
	listeners map[string]*model.Listener
	owners    map[portHost]string
	// groups are the entries that are compared; nil: there are too many.
	groups map[hostID]*group
	// taken are the matches that get no requests, by the keys of their routes, and problems are those of each route.
	taken    map[string]map[matchAt]taker
	problems map[string][]Problem
}

type portHost struct {
	port     int32
	hostname string
}

// matchAt is a match of a rule of a route at a place.
type matchAt struct {
	at          hostID
	rule, match int
}

type takenMatch struct {
	key string
	matchAt
	entry *Entry
	taker
}

// taker is a rule of a route, or a listener.
type taker struct {
	route    *model.Route
	rule     *Rule
	listener string
}

// maxCompared is how many entries are looked at: a look at all of them takes half a second.
const maxCompared = 1 << 18

// Unreachable returns the matches of rules that no request gets to, of the Gateway that was compiled last, as the
// problems of their routes: a rule with all its matches, or single ones. What it says is certain. It does not say all
// where regular expressions, or conditions at several hostnames, overlap. Of a Gateway with too many rules it says
// nothing.
func (c *Compiler) Unreachable() []Problem {
	u := c.lookForUnreachable()
	var all []Problem
	for _, key := range slices.Sorted(maps.Keys(u.problems)) {
		all = append(all, u.problems[key]...)
	}
	return all
}

// Taken returns the matches that Unreachable finds at listeners and hostnames, also those of rules that get requests at
// others.
func (c *Compiler) Taken() []Taken {
	var all []Taken
	for _, group := range c.lookForUnreachable().groups {
		for _, bucket := range group.buckets {
			for _, match := range bucket.taken {
				entry := *match.entry
				entry.Hostname = match.at.hostname
				all = append(all, Taken{match.at.listener, &entry, match.taker.rule})
			}
		}
	}
	slices.SortFunc(all, func(a, b Taken) int {
		return cmp.Or(cmp.Compare(a.Entry.Rule.LogName(), b.Entry.Rule.LogName()), cmp.Compare(a.Entry.Rule.Index, b.Entry.Rule.Index),
			cmp.Compare(a.Entry.Match, b.Entry.Match), cmp.Compare(a.Listener, b.Listener), cmp.Compare(a.Entry.Hostname, b.Entry.Hostname))
	})
	return all
}

// lookForUnreachable takes in what changed since it was called last.
func (c *Compiler) lookForUnreachable() *unreachable {
	u := &c.unreachable
	if u.groups == nil || u.generation != c.generation {
		if *u = newUnreachable(c); entriesAtPlaces(c.compiled) > cmp.Or(c.MostCompared, maxCompared) {
			u.groups = nil
			return u
		}
	}
	touched, stale := map[*bucket]bool{}, map[string]bool{}
	for change := range tree.Changes(u.routes, c.routes) {
		stale[change.Key] = true
		u.remove(change.Key, touched)
		if change.Has {
			u.add(c, change.Key, touched)
		}
	}
	if u.routes = c.routes; u.entries > cmp.Or(c.MostCompared, maxCompared) {
		u.groups, u.problems = nil, nil
		return u
	}
	all := allTouched(touched)
	for bucket := range all {
		u.forget(bucket, stale)
	}
	for bucket := range all {
		u.examine(bucket, stale)
	}
	for key := range stale {
		if problems := u.problemsOf(key); len(problems) > 0 {
			u.problems[key] = problems
		} else {
			delete(u.problems, key)
		}
	}
	return u
}

func newUnreachable(c *Compiler) unreachable {
	u := unreachable{
		generation: c.generation, attached: map[string][]*attachedRoute{}, groups: map[hostID]*group{},
		listeners: map[string]*model.Listener{}, owners: map[portHost]string{},
		taken: map[string]map[matchAt]taker{}, problems: map[string][]Problem{},
	}
	for i := range c.listeners {
		listener := &c.listeners[i]
		u.listeners[listener.Name] = listener
		u.owners[portHost{listener.Port, listener.Hostname}] = listener.Name
	}
	return u
}

// eachPlace calls f for the places of a route, with the group of each, and the listener that gets its requests.
func (u *unreachable) eachPlace(route *attachedRoute, f func(at, group hostID, owner string)) {
	for _, name := range route.at {
		listener := u.listeners[name]
		if listener == nil {
			continue
		}
		for _, hostname := range route.Hostnames {
			if !model.HostnamesOverlap(listener.Hostname, hostname) {
				continue
			}
			group := hostID{name, hostname}
			if model.HostnameMatches(hostname, listener.Hostname) {
				group.hostname = listener.Hostname
			}
			f(hostID{name, hostname}, group, u.owner(listener.Port, group.hostname))
		}
	}
}

// owner returns the listener that gets the requests for a hostname: the one with the longest hostname that includes it.
func (u *unreachable) owner(port int32, hostname string) string {
	for {
		if name, ok := u.owners[portHost{port, hostname}]; ok || hostname == "" {
			return name
		}
		hostname = wildcardAbove(hostname)
	}
}

func (u *unreachable) remove(key string, touched map[*bucket]bool) {
	for _, route := range u.attached[key] {
		u.entries -= route.size()
		u.eachPlace(route, func(at, id hostID, _ string) {
			if group := u.groups[id]; group != nil {
				group.remove(key, at.hostname, route.compiledRoute, touched)
			}
		})
	}
	delete(u.attached, key)
	delete(u.taken, key)
}

func (u *unreachable) add(c *Compiler, key string, touched map[*bucket]bool) {
	u.attached[key] = c.compiled[key]
	for _, route := range u.attached[key] {
		u.entries += route.size()
		u.eachPlace(route, func(at, id hostID, owner string) {
			if owner != at.listener {
				for i := range route.entries {
					u.note(takenMatch{key: key, matchAt: matchAt{at, route.entries[i].Rule.Index, route.entries[i].Match}, taker: taker{listener: owner}})
				}
				return
			}
			if u.groups[id] == nil {
				u.groups[id] = &group{id: id, buckets: map[pathOf]*bucket{}, hostnames: map[string]int{}}
			}
			u.groups[id].add(c, key, at.hostname, route, touched)
		})
	}
}

// size is how many entries a route may have at its places.
func (a *attachedRoute) size() int { return len(a.entries) * len(a.Hostnames) * len(a.at) }

func entriesAtPlaces(compiled map[string][]*attachedRoute) (sum int) {
	for _, routes := range compiled {
		for _, route := range routes {
			sum += route.size()
		}
	}
	return sum
}

func (u *unreachable) note(match takenMatch) {
	if u.taken[match.key] == nil {
		u.taken[match.key] = map[matchAt]taker{}
	}
	u.taken[match.key][match.matchAt] = match.taker
}

// allTouched returns the buckets whose entries may be taken by others than before.
func allTouched(touched map[*bucket]bool) map[*bucket]bool {
	wide := map[*group]bool{}
	for one := range touched {
		wide[one.group] = wide[one.group] || one.isWide || one.group.isWide()
		one.isWide = false
	}
	all := maps.Clone(touched)
	for group, isWide := range wide {
		if !isWide {
			continue
		}
		group.findExpressions()
		for _, other := range group.buckets {
			all[other] = true
		}
	}
	return all
}

// forget forgets what was found of a bucket. It adds the routes to stale, as examine does.
func (u *unreachable) forget(b *bucket, stale map[string]bool) {
	for _, match := range b.taken {
		delete(u.taken[match.key], match.matchAt)
		stale[match.key] = true
	}
	b.taken = nil
}

// examine finds the matches of a bucket that get no requests.
func (u *unreachable) examine(b *bucket, stale map[string]bool) {
	if len(b.entries) == 0 {
		if delete(b.group.buckets, b.pathOf); len(b.group.buckets) == 0 {
			delete(u.groups, b.group.id)
		}
		return
	}
	b.each(func(of, by *placed) {
		if by == nil || by.route.Route == of.route.Route && by.form.Rule.Index == of.form.Rule.Index {
			return // otherwise, the rule gets them all the same
		}
		at := matchAt{hostID{b.group.id.listener, of.hostname}, of.form.Rule.Index, of.form.Match}
		match := takenMatch{of.key, at, of.form.Entry, taker{route: by.route.Route, rule: by.form.Rule}}
		b.taken = append(b.taken, match)
		u.note(match)
		stale[match.key] = true
	})
}

// forms returns the forms of a route's entries, nil for those of sessions, which come just before the entry of all
// clients.
func (r *compiledRoute) forms() []*form {
	if r.compared == nil {
		r.compared = make([]*form, len(r.entries))
		for i := range r.entries {
			if r.entries[i].Session == "" {
				r.compared[i] = newForm(&r.entries[i])
			}
		}
	}
	return r.compared
}

// problemsOf returns what a route has that gets no requests at any of its places.
func (u *unreachable) problemsOf(key string) []Problem {
	taken := u.taken[key]
	if len(taken) == 0 || u.attached[key][0].Name == "" {
		return nil
	}
	type count struct{ reached, taken int }
	rules, matches := map[int]count{}, map[[2]int]count{}
	takers := map[[2]int][]taker{}
	route := u.attached[key][0].Route
	for _, route := range u.attached[key] {
		u.eachPlace(route, func(at, _ hostID, _ string) {
			for i := range route.entries {
				entry := &route.entries[i]
				if entry.Session != "" {
					continue
				}
				match := [2]int{entry.Rule.Index, entry.Match}
				inRule, inMatch := rules[match[0]], matches[match]
				if by, ok := taken[matchAt{at, match[0], match[1]}]; ok {
					inRule.taken++
					inMatch.taken++
					takers[match] = append(takers[match], by)
				} else {
					inRule.reached++
					inMatch.reached++
				}
				rules[match[0]], matches[match] = inRule, inMatch
			}
		})
	}
	var problems []Problem
	add := func(what string, takers []taker) {
		about := Problem{Origin: route.Origin, RouteKind: route.Kind, Route: route.Name, Reason: model.ReasonUnreachableRules}
		about.Message = what + " gets no " + trafficOf(route.Kind) + ": " + because(route, takers)
		problems = append(problems, about)
	}
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		isWhole := rules[rule].reached == 0
		var all []taker
		for _, match := range slices.SortedFunc(maps.Keys(matches), func(a, b [2]int) int { return a[1] - b[1] }) {
			if match[0] != rule || matches[match].reached > 0 {
				continue
			}
			if all = append(all, takers[match]...); !isWhole {
				add(fmt.Sprintf("rules[%d].matches[%d]", rule, match[1]), takers[match])
			}
		}
		if isWhole {
			add(fmt.Sprintf("rules[%d]", rule), all)
		}
	}
	return problems
}

func trafficOf(kind string) string {
	if kind == "TCPRoute" || kind == "TLSRoute" {
		return "connections"
	}
	return "requests"
}

// maxTakers is how many rules a message names.
const maxTakers = 3

// because says who gets what a match does not get.
func because(route *model.Route, takers []taker) string {
	var names []string
	for _, by := range takers {
		name := "listener " + by.listener
		switch {
		case by.rule == nil:
		case by.route.Name == "":
			name = "the redirect to HTTPS"
		case by.route == route:
			name = fmt.Sprintf("rules[%d]", by.rule.Index)
		case by.route.Origin.Kind == by.route.Kind:
			name = fmt.Sprintf("%s %s rules[%d]", by.route.Kind, by.route.Name, by.rule.Index)
		default:
			name = fmt.Sprintf("route %q rules[%d]", by.route.Name, by.rule.Index)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	more, verbs := "", "comes first and gets all of them"
	if len(names) > 1 {
		verbs = "come first and get all of them"
	}
	if len(names) > maxTakers {
		names, more = names[:maxTakers], fmt.Sprintf(" and %d more", len(names)-maxTakers)
	}
	return strings.Join(names, ", ") + more + " " + verbs
}
