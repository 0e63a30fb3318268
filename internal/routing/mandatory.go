package routing

import (
	"slices"
	"strings"

	"gateway/internal/model"
)

// excepted returns the mandatory filters of the listener that are not for a match: those with an exception that all of
// its requests are within.
func (c *attachedRoute) excepted(match *model.Match) []string {
	if c.filters == nil {
		return nil
	}
	var names []string
	for i := range c.filters.Mandatory {
		mandatory := &c.filters.Mandatory[i]
		if slices.ContainsFunc(mandatory.Exceptions, func(e model.Exception) bool { return includes(&e, c.Route, match) }) {
			names = append(names, mandatory.Filter)
		}
	}
	return names
}

// includes reports whether all requests of a match of a route are within an exception.
func includes(e *model.Exception, route *model.Route, match *model.Match) bool {
	if len(e.Namespaces) > 0 && !slices.Contains(e.Namespaces, route.Origin.Namespace) {
		return false
	}
	isOutside := func(hostname string) bool {
		return !slices.ContainsFunc(e.Hostnames, func(wider string) bool { return model.HostnameMatches(wider, hostname) })
	}
	if len(e.Hostnames) > 0 && slices.ContainsFunc(route.Hostnames, isOutside) {
		return false
	}
	if len(e.Paths) == 0 {
		return true
	}
	path, ok := CanonicalPath(match.Path)
	return ok && match.PathType != Regex && slices.ContainsFunc(e.Paths, func(wider string) bool {
		wider, ok := CanonicalPath(wider)
		return ok && (path == wider || strings.HasPrefix(path, strings.TrimSuffix(wider, "/")+"/"))
	})
}
