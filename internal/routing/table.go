package routing

import (
	"cmp"
	"iter"
	"slices"
	"time"
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
	// Headers is what happens to the headers of requests for this backend, after the rule's.
	Headers HeaderChanges
}

// PathType is how a path is compared.
type PathType int

const (
	// Exact matches the path that equals the value.
	Exact PathType = iota
	// Regex matches the paths that a regular expression matches as a whole.
	Regex
	// Prefix matches the value and every path below it, by whole segments.
	Prefix
)

// Entry is one way to match a request: a hostname and one match of one rule.
type Entry struct {
	// Hostname is the name of the host.
	Hostname string
	// PathType says how Path is compared.
	PathType PathType
	// Path is the path to compare with, as CanonicalPath has it. That of a Prefix ends in a slash: "/api/" matches /api,
	// /api/ and /api/users. That of a Regex is an expression.
	Path string
	// Method is the method a request has to have; "": any.
	Method string
	// Headers and Query are the conditions on headers and parameters, sorted by name. Names of headers are in lower case.
	Headers, Query []Condition
	// Session is the name of a cookie that a request has to have; "": none. It does not count for precedence.
	Session string
	// Rule is what happens to the request. Several entries share one.
	Rule *Rule
	// steps bounds the steps of its regular expressions for values of minValue bytes.
	steps float64
}

// Conditional says whether there is more to check than the host and path that lead to the entry.
func (e *Entry) Conditional() bool {
	return e.PathType == Regex || e.Method != "" || len(e.Headers) > 0 || len(e.Query) > 0 || e.Session != ""
}

// samePlace says whether two entries are for the same hostname and path.
func (e *Entry) samePlace(other *Entry) bool {
	return e.Hostname == other.Hostname && e.PathType == other.PathType && e.Path == other.Path
}

// Condition is a condition on the value of a header or query parameter.
type Condition struct {
	Name string
	// Value is the value to compare with, or an expression that has to match all of it.
	Value string
	Regex bool
}

// Listener is a listener and everything that can match a request or connection to it.
type Listener struct {
	// Name is the listener's name.
	Name string
	// Port is the port it accepts connections on.
	Port int32
	// Protocol is one of the API's: HTTP, HTTPS, TCP, TLS.
	Protocol string
	// Hostname is exact, a wildcard ("*.example.com"), or "" for every host.
	Hostname string
	// ProxyProtocol says that connections begin with a PROXY protocol header.
	ProxyProtocol bool
	// TLS is how the listener terminates TLS; nil if it does not.
	TLS *TLS
	// Hosts are ordered by precedence, of which no two have the same name. A table shares those that are as they were with the next.
	Hosts []*Host
}

// Host is a hostname of a listener and everything that can match a request for it. It never changes.
type Host struct {
	// Name is the routes' hostname: exact, a wildcard ("*.example.com"), or "" for every host of the listener.
	Name string
	// Entries are ordered by precedence: the first that matches a request wins. No two have the same conditions. There is one at least. Those
	// of a TCP or TLS listener have only a hostname, the path "/" and targets.
	Entries []Entry
}

// Entries returns those of all hosts, ordered by precedence.
func (l *Listener) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, host := range l.Hosts {
			for i := range host.Entries {
				if !yield(&host.Entries[i]) {
					return
				}
			}
		}
	}
}

// TLS is how a listener terminates TLS.
type TLS struct {
	// Secrets are the names of the Secrets with certificates, in the order of the spec.
	Secrets []string
	// MinVersion is TLSv1.2 or TLSv1.3.
	MinVersion string
	// ClientCAs are the names of the ConfigMaps with those who sign clients' certificates; empty: clients are not asked.
	ClientCAs []string
	// ClientRequired says whether a client must have a certificate.
	ClientRequired bool
	// HSTS is the value of Strict-Transport-Security; "": none.
	HSTS string
}

// Table says which requests go where. It is immutable.
type Table struct {
	// Listeners are ordered by port, then by precedence of their hostnames, of which no two on a port are the same.
	Listeners []Listener
	// Policies say how to talk to backends, where the defaults do not do.
	Policies map[Backend]BackendPolicy
	// TrustedProxies are the CIDR ranges of those whose X-Forwarded headers are believed.
	TrustedProxies []string
	// MaxConnections is how many connections a proxy takes at a time, and how many requests over HTTP/2.
	MaxConnections int
	// MaxPerAddress is how many of both together a client has; 0: any number.
	MaxPerAddress int
	// DrainTimeout is how long connections may keep a process that is to end from ending.
	DrainTimeout time.Duration
}

// Rules calls f for every rule of the table, once for each entry that leads to it, with the listener it is reached by.
func (t Table) Rules(f func(listener *Listener, rule *Rule)) {
	for i := range t.Listeners {
		for entry := range t.Listeners[i].Entries() {
			f(&t.Listeners[i], entry.Rule)
		}
	}
}

// Backends returns all backends the table refers to, sorted, each once.
func (t Table) Backends() []Backend {
	var all []Backend
	t.Rules(func(_ *Listener, rule *Rule) {
		for _, target := range rule.Targets {
			all = append(all, target.Backend)
		}
	})
	slices.SortFunc(all, CompareBackends)
	return slices.Clip(slices.Compact(all))
}

// BackendsOf returns those of a Service among backends, which are sorted.
func BackendsOf(service string, backends []Backend) []Backend {
	first, _ := slices.BinarySearchFunc(backends, Backend{Service: service}, CompareBackends)
	n := 0
	for first+n < len(backends) && backends[first+n].Service == service {
		n++
	}
	return backends[first : first+n]
}

// CompareBackends orders backends by Service, then port.
func CompareBackends(a, b Backend) int {
	return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Port, b.Port))
}
