package logs

import (
	"slices"
	"strconv"
	"strings"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/routetrace"
)

// filter selects lines. The zero value selects all; any other selects lines of the access log alone.
type filter struct {
	routes, hosts, filters []string
	statuses               []statusRange
}

type statusRange struct{ first, last int }

func (f *filter) isEmpty() bool {
	return len(f.routes)+len(f.hosts)+len(f.filters)+len(f.statuses) == 0
}

func (f *filter) shows(l line) bool {
	if f.isEmpty() || l.access == nil {
		return f.isEmpty()
	}
	return anyOf(f.routes, func(route string) bool { return route == l.access.Route }) &&
		anyOf(f.hosts, func(host string) bool { return routetrace.MatchesHost(host, l.access.Host) }) &&
		anyOf(f.filters, func(filter string) bool { return filter == l.access.Filter || l.access.Shadow[filter] > 0 }) &&
		anyOf(f.statuses, func(s statusRange) bool { return s.first <= l.access.Status && l.access.Status <= s.last })
}

// anyOf reports whether one of them matches, or there is none.
func anyOf[T any](wanted []T, matches func(T) bool) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, matches)
}

// parseStatuses reads statuses as 404, 4xx and 500-599.
func parseStatuses(specs []string) ([]statusRange, error) {
	var ranges []statusRange
	for _, spec := range specs {
		first, last, isRange := strings.Cut(spec, "-")
		if class, ok := strings.CutSuffix(strings.ToLower(spec), "xx"); ok {
			first, last, isRange = class+"00", class+"99", true
		}
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, errTo := strconv.Atoi(last)
		if err != nil || errTo != nil || from < 100 || to > 599 || from > to {
			return nil, cli.Usagef("the status %q is not like 404, 4xx or 500-599", spec)
		}
		ranges = append(ranges, statusRange{from, to})
	}
	return ranges, nil
}
