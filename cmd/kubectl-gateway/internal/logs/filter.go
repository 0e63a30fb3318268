package logs

import (
	"slices"
	"strconv"
	"strings"

	"gateway/cmd/kubectl-gateway/internal/cli"
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
		anyOf(f.hosts, func(host string) bool { return MatchesHost(host, l.access.Host) }) &&
		anyOf(f.filters, func(filter string) bool { return filter == l.access.Filter || l.access.Shadow[filter] > 0 }) &&
		anyOf(f.statuses, func(s statusRange) bool { return s.first <= l.access.Status && l.access.Status <= s.last })
}

// anyOf reports whether one of them matches, or there is none.
func anyOf[T any](wanted []T, matches func(T) bool) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, matches)
}

// MatchesHost reports whether a host is the wanted one, or below it if that is like *.example.com.
func MatchesHost(wanted, host string) bool {
	wanted = strings.ToLower(wanted)
	if suffix, ok := strings.CutPrefix(wanted, "*"); ok {
		return strings.HasSuffix(host, suffix) && len(host) > len(suffix)
	}
	return host == wanted
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
