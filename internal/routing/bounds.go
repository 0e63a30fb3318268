package routing

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gateway/internal/model"
	"gateway/internal/regex"
)

// A request is compared with lists of entries. At each of its hostnames, these are the entries of its exact path, of
// regular expressions, and of its longest prefix with the shorter ones. A list is for values of at least
// regex.MinValue bytes, for which it takes maxSteps at most. If its expressions take little, values may be longer.
// Longer values are answered with 400. So no request takes long, and none gets past an expression because it would.

const (
	// maxSteps bounds the steps of a list, of all hostnames of a request together. A step takes less than a nanosecond.
	maxSteps = 16 << 20
	// maxLonger bounds the steps that a list takes more where it admits longer values.
	maxLonger = 1 << 20
	// entrySteps and conditionSteps are what an entry takes, and what it takes to find the value of one condition in
	// 15,000 bytes, of which each takes half a step.
	entrySteps     = 100
	conditionSteps = 8000
)

// longerValues are how long values may be where expressions take little.
var longerValues = []int{8192, 4096, 2048}

// LongestValue returns the longest value that an expression in a list is compared with.
func LongestValue(list []*Entry) int {
	var all []regex.Expression
	for _, entry := range list {
		all = append(all, entry.expressions()...)
	}
	least := sumOfSteps(all, regex.MinValue)
	for _, length := range longerValues {
		if sumOfSteps(all, length)-least <= maxLonger {
			return length
		}
	}
	return regex.MinValue
}

// expressions returns the regular expressions of an entry.
func (e *Entry) expressions() []regex.Expression {
	var all []regex.Expression
	add := func(expression string) {
		if parsed, err := regex.Parse(expression); err == nil {
			all = append(all, parsed)
		}
	}
	if e.PathType == Regex {
		add(e.Path)
	}
	for _, conditions := range [][]Condition{e.Headers, e.Query} {
		for _, condition := range conditions {
			if condition.Regex {
				add(condition.Value)
			}
		}
	}
	return all
}

func sumOfSteps(expressions []regex.Expression, length int) float64 {
	sum := 0.0
	for _, expression := range expressions {
		sum += expression.Steps(length)
	}
	return sum
}

// leastSteps bounds the steps of an entry, for values that are no longer than all may be.
func (e *Entry) leastSteps() float64 {
	if !e.Conditional() {
		return 0
	}
	conditions := len(e.Headers) + len(e.Query)
	if e.Session != "" {
		conditions += 3 // Cookies are looked through from the end, too.
	}
	return entrySteps + float64(conditions)*conditionSteps + e.steps
}

// refusal is an entry of a route that is refused at a hostname.
type refusal struct {
	hostname string
	entry    *Entry
}

// place is a hostname at listeners with the same filters.
type place struct {
	hostname string
	filters  *model.Action
}

// bounds are the steps of all lists, and what is refused because of them. A request is compared with the lists of
// several hostnames, which share the limit. So the limit of a hostname is divided by the number of overlapping
// hostnames that one request can match. Hostnames of others make no difference.
type bounds struct {
	// steps are the steps of routes, by their keys, and levels how many places have hostnames of a level.
	steps  map[place]map[string]float64
	levels map[int]int
	// crowded are the places that would take too many steps if each level had an overlapping hostname.
	crowded map[place]bool
	// refused are the entries that would make a list take too many steps, and problems say so.
	refused  map[refusal]bool
	problems []Problem
	// isOrWasRefused reports whether any entry is refused, or was before.
	isOrWasRefused bool
}

// change takes in a route that changed.
func (b *bounds) change(route *changedRoute) {
	touched, levels := map[place]bool{}, len(b.levels)
	for _, before := range route.before {
		for _, hostname := range before.Hostnames {
			at := place{hostname, before.filters}
			if _, ok := b.steps[at][route.key]; !ok {
				continue
			}
			touched[at] = true
			if delete(b.steps[at], route.key); len(b.steps[at]) == 0 {
				delete(b.steps, at)
				if level := hostnameLevel(hostname); b.levels[level] == 1 {
					delete(b.levels, level)
				} else {
					b.levels[level]--
				}
			}
		}
	}
	for _, now := range route.now {
		if now.steps == 0 {
			continue
		}
		for _, hostname := range now.Hostnames {
			at := place{hostname, now.filters}
			if touched[at] = true; b.steps[at] == nil {
				b.steps[at] = map[string]float64{}
				b.levels[hostnameLevel(hostname)]++
			}
			b.steps[at][route.key] += now.steps
		}
	}
	if len(b.levels) != levels {
		for at := range b.steps {
			touched[at] = true
		}
	}
	for at := range touched {
		if b.sum(at) > float64(maxSteps/max(1, len(b.levels))) {
			b.crowded[at] = true
		} else {
			delete(b.crowded, at)
		}
	}
}

// sum returns the steps of a place. It adds them in one order, as the sum depends on it.
func (b *bounds) sum(at place) (sum float64) {
	for _, key := range slices.Sorted(maps.Keys(b.steps[at])) {
		sum += b.steps[at][key]
	}
	return sum
}

// refuse refuses the entries of crowded places that would make a list take too many steps. It reports whether there are
// any, or were before.
func (b *bounds) refuse(c *Compiler) bool {
	before := len(b.refused) > 0
	b.refused, b.problems = map[refusal]bool{}, nil
	if len(b.crowded) > 0 {
		hostnames := map[string]bool{}
		for at := range b.steps {
			hostnames[at.hostname] = true
		}
		levels, told := overlappingLevels(hostnames), map[Problem]bool{}
		for _, at := range b.inOrder(c) {
			if most := float64(maxSteps / len(levels[at.hostname])); b.sum(at) > most {
				c.refuseStepsAt(at, most, told)
			}
		}
	}
	b.isOrWasRefused = before || len(b.refused) > 0
	return b.isOrWasRefused
}

// inOrder returns the crowded places, by hostname and then in the order of their first routes.
func (b *bounds) inOrder(c *Compiler) []place {
	var places []place
	for key := range c.routes.Keys() {
		for _, route := range c.compiled[key] {
			for _, hostname := range route.Hostnames {
				if at := (place{hostname, route.filters}); b.crowded[at] && !slices.Contains(places, at) {
					places = append(places, at)
				}
			}
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.hostname, b.hostname) })
	return places
}

// overlappingLevels returns, for each hostname, the levels of hostnames that overlap with it, itself among them.
func overlappingLevels(hostnames map[string]bool) map[string]map[int]bool {
	levels := make(map[string]map[int]bool, len(hostnames))
	for hostname := range hostnames {
		levels[hostname] = map[int]bool{}
	}
	for hostname := range hostnames {
		level := hostnameLevel(hostname)
		levels[hostname][level] = true
		for above := hostname; above != ""; {
			if above = wildcardAbove(above); hostnames[above] {
				levels[above][level], levels[hostname][hostnameLevel(above)] = true, true
			}
		}
	}
	return levels
}

// wildcardAbove returns the longest wildcard that includes a hostname, exact or a wildcard; "" stands for all hosts.
func wildcardAbove(hostname string) string {
	if _, rest, ok := strings.Cut(strings.TrimPrefix(hostname, "*."), "."); ok {
		return "*." + rest
	}
	return ""
}

// hostnameLevel returns the same for hostnames that no request meets two of.
func hostnameLevel(hostname string) int {
	if strings.HasPrefix(hostname, "*") || hostname == "" {
		return 1 + strings.Count(hostname, ".")
	}
	return 0
}

// refuseStepsAt refuses entries of a place: entries of longer prefixes before entries of shorter ones, then the last
// ones. It adds the problems that are new.
func (c *Compiler) refuseStepsAt(at place, most float64, told map[Problem]bool) {
	type candidate struct {
		*Entry
		route *model.Route
	}
	var candidates []candidate
	for key := range c.routes.Keys() {
		for _, route := range c.compiled[key] {
			if route.filters == at.filters && slices.Contains(route.Hostnames, at.hostname) {
				for j := range route.entries {
					candidates = append(candidates, candidate{&route.entries[j], route.Route})
				}
			}
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int {
		if a.PathType == Prefix && b.PathType == Prefix {
			return cmp.Compare(len(a.Path), len(b.Path))
		}
		return cmp.Compare(a.PathType, b.PathType)
	})
	taken := map[string]float64{}
	for _, entry := range candidates {
		path, sum := entry.Path, 0.0
		switch entry.PathType {
		case Exact:
			path = "=" + path
			sum = taken[path]
		case Regex:
			path = "~"
			sum = taken[path]
		default:
			for i := range path {
				if path[i] == '/' {
					sum += taken[path[:i+1]]
				}
			}
		}
		steps := entry.leastSteps()
		if steps == 0 || sum+steps <= most {
			taken[path] += steps
			continue
		}
		c.bounds.refused[refusal{at.hostname, entry.Entry}] = true
		field := fmt.Sprintf("rules[%d]", entry.Rule.Index)
		problem := newProblem(entry.route, field, "requests for %s and the host %q are answered with 500: with the conditions of the rules before, "+
			"it takes too many steps to compare a request with them", field, at.hostname)
		if !told[problem] {
			told[problem] = true
			c.bounds.problems = append(c.bounds.problems, problem)
		}
	}
}

// closed returns an entry that all requests match which may match another entry that cannot be compared with them. They
// get 500, so that none reaches a rule that is for others.
func closed(entry Entry) Entry {
	if entry.PathType == Regex {
		prefix := ""
		if expression, err := regex.Parse(entry.Path); err == nil {
			prefix = expression.Prefix()
			// The rest may be something that no path has.
			if i := strings.IndexFunc(prefix, func(r rune) bool { return r > unicode.MaxASCII || !isPlainInPath(byte(r)) }); i >= 0 {
				prefix = prefix[:i]
			}
			prefix = regexp.QuoteMeta(prefix)
		}
		entry.Path = prefix + ".*"
	}
	length := 0
	anyOf := func(conditions []Condition) []Condition {
		var some []Condition
		for _, condition := range conditions {
			condition.Value, condition.Regex = ".*", true
			length += len(regex.Quote(condition.Name)) + len(".*")
			if length <= maxMatch/2 && !slices.Contains(some, condition) {
				some = append(some, condition)
			}
		}
		return some
	}
	entry.Headers, entry.Query, entry.Session = anyOf(entry.Headers), anyOf(entry.Query), ""
	entry.steps = regex.MinValue // .* goes to the end of the value.
	entry.Rule = failing(entry.Rule)
	return entry
}
