package routing

import (
	"cmp"
	"strings"
)

// RoutePath returns the path that a request was compared with whose rule is known: of a listener and a host, for the
// request's own path, as the access log has them. It is "" if it is not certain, as after an edit of the rule. It does
// not evaluate regular expressions, so one counts if the rule has no other path for this host.
func (t *Table) RoutePath(listener, host, route string, rule int, path string) string {
	path, ok := CanonicalPath(path)
	if !ok {
		return ""
	}
	for i := range t.Listeners {
		if l := &t.Listeners[i]; l.Name == listener {
			for _, of := range l.hostsOf(host) {
				if found := of.routePath(route, rule, path); found != "" {
					return found
				}
			}
		}
	}
	return ""
}

func (h *Host) routePath(route string, rule int, path string) string {
	found := ""
	for i := range h.Entries {
		entry := &h.Entries[i]
		if entry.Rule.Index != rule || entry.Rule.LogName() != route || entry.PathType != Regex && !entry.pathMatches(path) {
			continue
		}
		switch {
		case entry.PathType == Exact:
			return entry.Path
		case found == "" && entry.PathType == Prefix:
			return cmp.Or(strings.TrimSuffix(entry.Path, "/"), "/")
		case found != "" && found != entry.Path:
			return "" // an expression, and another path
		}
		found = entry.Path
	}
	return found
}
