package routing

import "strings"

// Match is what a request meets.
type Match struct {
	// Listener and Route are names, Rule is the index of the rule in the route.
	Listener, Route string
	Rule            int
	// Targets are the backends that may get the request. None: it is answered with 500.
	Targets []Target
}

// Match returns what a request meets that was accepted on the port, with a host from NormalizeHost and the path as the
// client sent it, without the query. A request without a path ("OPTIONS *", "GET http://example.com") has the path "/".
// False means that nothing matches, which is answered with 404.
//
// It is the definition of routing, kept plain for that: linear in the size of the table, so nothing that is in a hurry
// calls it.
func (t Table) Match(port int32, host, path string) (Match, bool) {
	for _, listener := range t.Listeners {
		if listener.Port != port || !hostMatches(listener.Hostname, host) {
			continue
		}
		for _, entry := range listener.Entries {
			if hostMatches(entry.Hostname, host) && pathMatches(entry, path) {
				return Match{Listener: listener.Name, Route: entry.Route, Rule: entry.Rule, Targets: entry.Targets}, true
			}
		}
		// The routes of less specific listeners are not for this host.
		return Match{}, false
	}
	return Match{}, false
}

func pathMatches(entry Entry, path string) bool {
	if entry.PathType == Exact {
		return path == entry.Path
	}
	return strings.HasPrefix(path+"/", entry.Path)
}
