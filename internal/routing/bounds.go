package routing

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gateway/internal/model"
	"gateway/internal/regex"
)

// What a request is compared with are lists of entries: at each of its hostnames those of its exact path, those of
// regular expressions, and those of its longest prefix with the shorter ones. A list is for values of at least
// regex.MinValue bytes, for which it takes maxSteps at most. Where expressions take little, values may be longer;
// longer ones are answered with 400. So no request takes long, and none gets past an expression because it would.

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

// refuseSteps refuses the entries that would make a list take too many steps. A request is compared with the lists of
// several hostnames, which share the limit. So the limit of a hostname is divided by the number of overlapping
// hostnames that one request can match. Hostnames of others make no difference.
func (c *compilation) refuseSteps() {
	var places []place
	sums, hostnames := map[place]float64{}, map[string]bool{}
	for _, route := range c.routes {
		if route.steps == 0 {
			continue
		}
		for _, hostname := range route.Hostnames {
			at := place{hostname, route.filters}
			if sums[at] == 0 {
				places = append(places, at)
			}
			sums[at] += route.steps
			hostnames[hostname] = true
		}
	}
	levels := overlappingLevels(hostnames)
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.hostname, b.hostname) })
	told := map[Problem]bool{}
	for _, at := range places {
		if most := float64(maxSteps / len(levels[at.hostname])); sums[at] > most {
			c.refuseStepsAt(at, most, told)
		}
	}
}

// overlappingLevels returns, for each hostname, the levels of those that overlap with it, itself among them.
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

// refuseStepsAt refuses entries of a place: those of longer prefixes before those of shorter ones, then the last ones.
// It adds the problems that are new.
func (c *compilation) refuseStepsAt(at place, most float64, told map[Problem]bool) {
	type candidate struct {
		*Entry
		route *model.Route
	}
	var candidates []candidate
	for _, route := range c.routes {
		if route.filters == at.filters && slices.Contains(route.Hostnames, at.hostname) {
			for j := range route.entries {
				candidates = append(candidates, candidate{&route.entries[j], route.Route})
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
		c.refused[refusal{at.hostname, entry.Entry}] = true
		problem := newProblem(entry.route, "requests for rules[%d] and the host %q are answered with 500: with the conditions of the rules before, "+
			"it takes too many steps to compare a request with them", entry.Rule.Index, at.hostname)
		if !told[problem] {
			told[problem] = true
			c.problems = append(c.problems, problem)
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
			// What follows may be what no path has.
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
