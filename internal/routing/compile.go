package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appv1 "gateway/api/app/v1"
)

// Problem is something of a spec that has no effect, though it is valid.
type Problem struct {
	// Route is the name of the route concerned.
	Route string
	// Listener is the name of the listener concerned; "" if the route names none and fits none.
	Listener string
	// Message is a sentence for the author of the spec.
	Message string
}

// Compile returns the routing table of a spec and what of the spec is not in it. It expects what the CRD's schema
// demands, and applies the schema's defaults, so that a spec that never saw an API server means the same.
func Compile(spec *appv1.GatewaySpec) (Table, []Problem) {
	table := Table{Listeners: make([]Listener, len(spec.Listeners))}
	byName := make(map[appv1.Name]*Listener, len(spec.Listeners))
	for i, listener := range spec.Listeners {
		table.Listeners[i] = Listener{Name: string(listener.Name), Port: listener.Port, Hostname: string(listener.Hostname)}
		byName[listener.Name] = &table.Listeners[i]
	}
	var problems []Problem
	for i := range spec.Routes {
		problems = append(problems, attach(&table, byName, &spec.Routes[i])...)
	}
	for i := range table.Listeners {
		table.Listeners[i].Entries = byPrecedence(table.Listeners[i].Entries)
	}
	slices.SortFunc(table.Listeners, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), compareHostnames(a.Hostname, b.Hostname))
	})
	return table, problems
}

// attach adds a route to its listeners.
func attach(table *Table, byName map[appv1.Name]*Listener, route *appv1.Route) []Problem {
	rules := ruleEntries(route)
	if len(route.Listeners) == 0 {
		fits := false
		for i := range table.Listeners {
			fits = attachTo(&table.Listeners[i], route, rules) || fits
		}
		if !fits {
			return []Problem{{
				Route:   string(route.Name),
				Message: fmt.Sprintf("route %q gets no requests: none of its hostnames is one of any listener", route.Name),
			}}
		}
		return nil
	}
	var problems []Problem
	for _, name := range route.Listeners {
		listener, ok := byName[name]
		message := ""
		if !ok {
			message = fmt.Sprintf("route %q names listener %q, which does not exist", route.Name, name)
		} else if !attachTo(listener, route, rules) {
			message = fmt.Sprintf("route %q gets no requests from listener %q: none of its hostnames is within the listener's hostname %q",
				route.Name, name, listener.Hostname)
		}
		if message != "" {
			problems = append(problems, Problem{Route: string(route.Name), Listener: string(name), Message: message})
		}
	}
	return problems
}

// attachTo adds the rules of a route to a listener, for every hostname of the route that overlaps with the listener's,
// and says whether there was one.
//
// An entry keeps the route's hostname, even where the listener's is narrower: only requests for the listener's hosts get
// there anyway, and precedence goes by the hostname of the route.
func attachTo(listener *Listener, route *appv1.Route, rules []Entry) bool {
	hostnames := route.Hostnames
	if len(hostnames) == 0 {
		hostnames = []appv1.Hostname{""}
	}
	fits := false
	for _, hostname := range hostnames {
		if !hostnamesOverlap(listener.Hostname, string(hostname)) {
			continue
		}
		fits = true
		for _, entry := range rules {
			entry.Hostname = string(hostname)
			listener.Entries = append(listener.Entries, entry)
		}
	}
	return fits
}

// ruleEntries returns an entry for every match of every rule of a route, without a hostname.
func ruleEntries(route *appv1.Route) []Entry {
	var entries []Entry
	for i, rule := range route.Rules {
		targets := ruleTargets(rule.BackendRefs)
		matches := rule.Matches
		if len(matches) == 0 {
			matches = []appv1.RouteMatch{{}}
		}
		for _, match := range matches {
			entry := Entry{PathType: Prefix, Path: match.Path.Value, Route: string(route.Name), Rule: i, Targets: targets}
			if match.Path.Type == appv1.PathMatchExact {
				entry.PathType = Exact
			}
			if entry.Path == "" {
				entry.Path = "/"
			}
			if entry.PathType == Prefix && !strings.HasSuffix(entry.Path, "/") {
				entry.Path += "/"
			}
			entries = append(entries, entry)
		}
	}
	return entries
}

func ruleTargets(refs []appv1.BackendRef) []Target {
	var targets []Target
	for _, ref := range refs {
		weight := int32(1)
		if ref.Weight != nil {
			weight = *ref.Weight
		}
		if weight > 0 {
			targets = append(targets, Target{Backend: Backend{Service: ref.Name, Port: ref.Port}, Weight: weight})
		}
	}
	return targets
}

// byPrecedence sorts entries by precedence and drops those that an equal one, earlier in the spec, hides.
func byPrecedence(entries []Entry) []Entry {
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(
			compareHostnames(a.Hostname, b.Hostname),
			cmp.Compare(a.PathType, b.PathType),
			cmp.Compare(len(b.Path), len(a.Path)),
			cmp.Compare(a.Path, b.Path),
		)
	})
	return slices.CompactFunc(entries, func(a, b Entry) bool {
		return a.Hostname == b.Hostname && a.PathType == b.PathType && a.Path == b.Path
	})
}
