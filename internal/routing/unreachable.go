package routing

import (
	"cmp"
	"fmt"
	"iter"
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
	// By is the rule that matches all of its requests and comes first.
	By *Rule
}

// unreachable finds the rules that no request gets to. It compares entries that can get the same requests: the entries
// of a listener and a hostname, and of all hostnames that include it. An edit costs the entries of its route.
type unreachable struct {
	// generation is the generation of the Compiler, and routes are the routes that were looked at.
	generation int
	routes     tree.Map[*model.Route]
	// entries is how many entries routes have at their places. groups are those that are compared; nil: there are too
	// many. alone are those that are compared with no other: most, if routes have hostnames of their own.
	entries int
	groups  map[hostID]*group
	alone   map[hostID]*placed
	// looked are the routes that were looked at, and problems what they have that gets no requests.
	looked   map[string]looked
	problems map[string][]Problem
	// moved are routes whose listeners are others, or for which others get the requests, since they were looked at.
	moved map[string]bool
}

// looked is a route that was looked at: its entries at its places, and how many there may be at most.
type looked struct {
	places []*placed
	size   int
}

// maxCompared is how many entries are looked at: a look at all of them takes half a second.
const maxCompared = 1 << 18

// Unreachable returns the matches of rules that no request gets to, of the Gateway that was compiled last, as the
// problems of their routes: a rule with all its matches, or single ones. Each result is certain. Some are missing
// where regular expressions, or conditions at several hostnames, overlap. A Gateway with too many rules has none.
func (c *Compiler) Unreachable() []Problem {
	u := c.lookForUnreachable()
	var all []Problem
	for _, key := range slices.Sorted(maps.Keys(u.problems)) {
		all = append(all, u.problems[key]...)
	}
	return all
}

// Taken returns the matches that Unreachable finds at listeners and hostnames, including matches of rules that get
// requests at others.
func (c *Compiler) Taken() []Taken {
	var all []Taken
	for _, route := range c.lookForUnreachable().looked {
		for _, one := range route.places {
			if one.by != nil {
				entry := *one.entry()
				entry.Hostname = one.hostname
				all = append(all, Taken{one.in.listener, &entry, one.by.entry().Rule})
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
	u, most := &c.unreachable, cmp.Or(c.MostCompared, maxCompared)
	if u.groups == nil || u.generation != c.generation {
		*u = unreachable{
			generation: c.generation, looked: map[string]looked{}, problems: map[string][]Problem{}, moved: map[string]bool{},
		}
		entries := 0
		for _, routes := range c.compiled {
			entries += sizeOf(routes)
		}
		if entries > most {
			return u
		}
		u.groups, u.alone = map[hostID]*group{}, map[hostID]*placed{}
	}
	touched, stale := map[*bucket]bool{}, u.moved
	for change := range tree.Changes(u.routes, c.routes) {
		stale[change.Key] = true
	}
	u.moved = map[string]bool{}
	for key := range stale {
		u.remove(key, touched)
		if c.compiled[key] != nil {
			u.add(c, key, touched)
		}
	}
	if u.routes = c.routes; u.entries > most {
		*u = unreachable{}
		return u
	}
	for bucket := range allTouched(touched) {
		u.examine(bucket, stale)
	}
	for key := range stale {
		if problems := problemsOf(u.looked[key].places); len(problems) > 0 {
			u.problems[key] = problems
		} else {
			delete(u.problems, key)
		}
	}
	return u
}

// note notes routes that have to be looked at again.
func (u *unreachable) note(keys iter.Seq[string]) {
	if u.groups == nil {
		return
	}
	for key := range keys {
		u.moved[key] = true
	}
}

// sizeOf returns how many entries a route may have at its places.
func sizeOf(routes []*attachedRoute) (sum int) {
	for _, route := range routes {
		sum += len(route.entries) * len(route.Hostnames) * len(route.at)
	}
	return sum
}

func (u *unreachable) remove(key string, touched map[*bucket]bool) {
	for _, one := range u.looked[key].places {
		if one.bucket != nil {
			one.bucket.remove(one)
			touched[one.bucket] = true
		} else if u.alone[one.in] == one {
			delete(u.alone, one.in)
		}
	}
	u.entries -= u.looked[key].size
	delete(u.looked, key)
}

func (u *unreachable) add(c *Compiler, key string, touched map[*bucket]bool) {
	of := looked{size: sizeOf(c.compiled[key])}
	c.eachPlace(c.compiled[key], func(at hostID, route *attachedRoute) {
		listener := c.listener(at.listener)
		in := at
		if model.HostnameMatches(at.hostname, listener.Hostname) {
			in.hostname = listener.Hostname
		}
		owner := c.owner(listener.Port, in.hostname)
		for i := range route.entries {
			if route.entries[i].Session != "" { // just before the entry of all clients
				continue
			}
			one := &placed{key: key, in: in, hostname: at.hostname, index: i, route: route}
			of.places = append(of.places, one)
			if owner.Name != at.listener {
				one.owner = owner
				continue
			}
			if c.bounds.refused[refusal{at.hostname, &route.entries[i]}] {
				entry := closed(route.entries[i])
				one.form = newForm(&entry)
			}
			u.place(one, touched)
		}
	})
	u.entries += of.size
	u.looked[key] = of
}

// place adds an entry to those that it is compared with.
func (u *unreachable) place(one *placed, touched map[*bucket]bool) {
	of, other := u.groups[one.in], u.alone[one.in]
	if of == nil && other == nil {
		u.alone[one.in] = one
		return
	}
	if of == nil {
		of = &group{id: one.in}
		u.groups[one.in] = of
		delete(u.alone, one.in)
		touched[of.add(other)] = true
	}
	touched[of.add(one)] = true
}

// owner returns the listener that gets the requests for a hostname.
func (c *Compiler) owner(port int32, hostname string) *model.Listener {
	for _, wider := range model.WiderHostnames(hostname) {
		if owner := c.owners[address{port, wider}]; owner != nil {
			return owner
		}
	}
	return &model.Listener{}
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
		for _, other := range group.buckets.All() {
			all[other] = true
		}
	}
	return all
}

// examine finds the matches of a bucket that get no requests. It adds the routes to stale for which that is new.
func (u *unreachable) examine(b *bucket, stale map[string]bool) {
	if len(b.entries) == 0 {
		if b.group.buckets.Delete(b.pathOf); b.group.buckets.Len() == 0 {
			delete(u.groups, b.group.id)
		}
		return
	}
	b.each(func(of, by *placed) {
		if by != nil && by.route.Route == of.route.Route && by.form.Rule.Index == of.form.Rule.Index {
			by = nil // the rule gets them all the same
		}
		if by != of.by {
			of.by = by
			stale[of.key] = true
		}
	})
}

// form returns the form of an entry.
func (r *compiledRoute) form(index int) *form {
	if r.compared == nil {
		r.compared = make([]*form, len(r.entries))
	}
	if r.compared[index] == nil {
		r.compared[index] = newForm(&r.entries[index])
	}
	return r.compared[index]
}

// problemsOf returns what a route has that gets no requests at any of its places.
func problemsOf(places []*placed) []Problem {
	if len(places) == 0 || places[0].route.Name == "" {
		return nil
	}
	// takers are the takers of each match of each rule, nil for a match that gets requests somewhere.
	takers, isReached := map[int]map[int][]*placed{}, map[int]bool{}
	for _, one := range places {
		rule, match := one.entry().Rule.Index, one.entry().Match
		if takers[rule] == nil {
			takers[rule] = map[int][]*placed{}
		}
		before, isKnown := takers[rule][match]
		switch {
		case one.by == nil && one.owner == nil:
			takers[rule][match], isReached[rule] = nil, true
		case !isKnown || before != nil:
			takers[rule][match] = append(before, one)
		}
	}
	var problems []Problem
	route := places[0].route.Route
	add := func(field string, takers []*placed) {
		about := Problem{Origin: route.Origin, RouteKind: route.Kind, Route: route.Name, Reason: model.ReasonUnreachableRules, Field: field}
		about.Message = field + " gets no " + trafficOf(route.Kind) + ": " + because(route, takers)
		problems = append(problems, about)
	}
	for _, rule := range slices.Sorted(maps.Keys(takers)) {
		var all []*placed
		for _, match := range slices.Sorted(maps.Keys(takers[rule])) {
			if of := takers[rule][match]; isReached[rule] && of != nil {
				add(fmt.Sprintf("rules[%d].matches[%d]", rule, match), of)
			}
			all = append(all, takers[rule][match]...)
		}
		if !isReached[rule] {
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
func because(route *model.Route, taken []*placed) string {
	var names []string
	for _, one := range taken {
		name, by := "", one.by
		switch {
		case by == nil:
			name = "listener " + cmp.Or(one.owner.Title, one.owner.Name)
		case by.route.Name == "":
			name = "the redirect to HTTPS"
		case by.route.Route == route:
			name = fmt.Sprintf("rules[%d]", by.form.Rule.Index)
		case by.route.Origin.Kind == by.route.Kind:
			name = fmt.Sprintf("%s %s rules[%d]", by.route.Kind, by.route.Name, by.form.Rule.Index)
		default:
			name = fmt.Sprintf("route %q rules[%d]", by.route.Name, by.form.Rule.Index)
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
