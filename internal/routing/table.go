package routing

import (
	"cmp"
	"slices"
)

// Backend is a port of a Service in the Gateway's namespace.
type Backend struct {
	// Service is the Service's name.
	Service string
	// Port is the port of the Service, not of its endpoints.
	Port int32
}

// Target is a backend with its share of a rule's requests.
type Target struct {
	Backend Backend
	// Weight is greater than zero. The share is the weight divided by the sum of the weights of the rule's targets.
	Weight int32
}

// PathType is how a path is compared.
type PathType int

const (
	// Exact matches the path that equals the value.
	Exact PathType = iota
	// Prefix matches the value and every path below it, by whole segments.
	Prefix
)

// Entry is one way to match a request: a hostname and a path of one rule.
type Entry struct {
	// Hostname is the route's: exact, a wildcard ("*.example.com"), or "" for every host of the listener.
	Hostname string
	// PathType says how Path is compared.
	PathType PathType
	// Path is the path to compare with. That of a Prefix ends in a slash: "/api/" matches /api, /api/ and /api/users.
	Path string
	// Route is the route's name.
	Route string
	// Rule is the index of the rule in the route, from 0.
	Rule int
	// Targets get the requests. None: requests are answered with 500.
	Targets []Target
}

// Listener is a listener and everything that can match a request to it.
type Listener struct {
	// Name is the listener's name.
	Name string
	// Port is the port it accepts connections on.
	Port int32
	// Hostname is exact, a wildcard ("*.example.com"), or "" for every host.
	Hostname string
	// Entries are ordered by precedence: the first that matches a request wins. No two have the same hostname, path type
	// and path.
	Entries []Entry
}

// Table says which requests go where. It is immutable.
type Table struct {
	// Listeners are ordered by port, then by precedence of their hostnames, of which no two on a port are the same.
	Listeners []Listener
}

// Backends returns all backends the table refers to, sorted, each once.
func (t Table) Backends() []Backend {
	seen := map[Backend]bool{}
	var all []Backend
	for _, listener := range t.Listeners {
		for _, entry := range listener.Entries {
			for _, target := range entry.Targets {
				if !seen[target.Backend] {
					seen[target.Backend] = true
					all = append(all, target.Backend)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b Backend) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Port, b.Port))
	})
	return all
}
