package routing

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"

	"gateway/internal/model"
	"gateway/internal/tree"
)

// Tables are in words of the model.
//
//nolint:revive // the model says what each of them is
type (
	Action        = model.Action
	Affinity      = model.Affinity
	Backend       = model.Backend
	BackendPolicy = model.BackendPolicy
	Clients       = model.Clients
	Condition     = model.Condition
	HeaderChange  = model.HeaderChange
	HeaderChanges = model.HeaderChanges
	JWTKey        = model.JWTKey
	KeySource     = model.KeySource
	PathChange    = model.PathChange
	PathType      = model.PathType
	Problem       = model.Problem
	RateLimit     = model.RateLimit
	TLS           = model.ListenerTLS
	Target        = model.Target
)

// The types of paths, in the order of precedence.
const (
	Exact  = model.Exact
	Regex  = model.Regex
	Prefix = model.Prefix
)

// Table maps requests to rules. It is immutable.
type Table struct {
	// Listeners are ordered by port, then by precedence of their hostnames, of which no two on a port are the same.
	Listeners []Listener
	// Uses are what the rules refer to.
	Uses Uses
	model.Settings
}

// Listener is a listener and everything that can match a request or connection to it. The model's Listener describes
// the fields that both have.
type Listener struct {
	Name, Title   string
	Namespace     string
	Port          int32
	Protocol      string
	Hostname      string
	Since         int64
	ProxyProtocol bool
	TLS           *TLS
	// Hosts are by their HostKey.
	Hosts tree.Map[*Host]
}

// Called is what messages call the listener.
func (l *Listener) Called() string { return cmp.Or(l.Title, l.Name) }

// Host is a hostname of a listener and everything that can match a request for it.
type Host struct {
	// Name is the routes' hostname: exact, a wildcard ("*.example.com"), or "" for every host of the listener.
	Name string
	// Entries are ordered by precedence: the first that matches a request wins. No two have the same conditions. There
	// is one at least. Those of a TCP or TLS listener have only a hostname, the path "/" and targets.
	Entries []Entry
}

// Entry is one way to match a request: a hostname and one match of one rule.
type Entry struct {
	// Hostname is the name of the host.
	Hostname string
	// PathType says how Path is compared.
	PathType PathType
	// Path is the path to compare with, as CanonicalPath has it. That of a Prefix ends in a slash: "/api/" matches
	// /api, /api/ and /api/users. That of a Regex is an expression.
	Path string
	// Method is the method a request has to have; "": any.
	Method string
	// Headers and Query are the conditions on headers and parameters, sorted by name. Names of headers are in lower
	// case.
	Headers, Query []Condition
	// Session is the name of a cookie that a request has to have; "": none. It does not count for precedence.
	Session string
	// Match is the index of the match in the rule, from 0.
	Match int
	// Rule is what happens to the request. Several entries share one.
	Rule *Rule
	// steps bounds the steps of its regular expressions for values of regex.MinValue bytes.
	steps float64
}

// Rule is what happens to the requests of an entry.
type Rule struct {
	// Kind is the kind of the route. Routes of several kinds may have the same name.
	Kind string
	// Route is the route's name; "" for what a listener does by itself.
	Route string
	// Index is the index of the rule in the route, from 0.
	Index int
	// Targets get the requests. Their weights are greater than zero. None: requests are answered with 500.
	Targets []Target
	*Action
}

// LogName is the name of the route in the access log and counters. An HTTPRoute and a GRPCRoute may have the same name.
func (r *Rule) LogName() string {
	if r.Kind == "GRPCRoute" {
		return r.Kind + "/" + r.Route
	}
	return cmp.Or(r.Route, "-")
}

// NamespaceOf returns the namespace of a route as the access log names it, such as shop/web and GRPCRoute/shop/web. own
// is the one of a route in the Gateway itself, which has no slash.
func NamespaceOf(route, own string) string {
	parts := strings.Split(route, "/")
	switch {
	case route == "" || route == "-":
		return ""
	case len(parts) == 1:
		return own
	}
	return parts[len(parts)-2]
}

// RateLimitScope names the requests that count together for a limit of a rule.
func (r *Rule) RateLimitScope(limit model.RateLimit) string {
	if limit.Listener != "" {
		return "Listener/" + limit.Listener
	}
	return r.Kind + "/" + r.Route + "/" + strconv.Itoa(r.Index)
}

// HostKey returns the key of a hostname. It is reversed, so that it begins with the key of each wildcard that includes
// it. The key of an exact hostname ends in "!".
func HostKey(hostname string) string {
	wildcard, isWildcard := strings.CutPrefix(hostname, "*")
	key := []byte(wildcard)
	slices.Reverse(key)
	if hostname == "" || isWildcard {
		return string(key)
	}
	return string(key) + "!"
}

// Conditional reports whether there is more to check than the host and path that lead to the entry.
func (e *Entry) Conditional() bool {
	return e.PathType == Regex || e.Method != "" || len(e.Headers) > 0 || len(e.Query) > 0 || e.Session != ""
}

// ByPrecedence returns the hosts, ordered by precedence.
func (l *Listener) ByPrecedence() []*Host {
	return slices.SortedFunc(l.Hosts.Values(), func(a, b *Host) int { return model.CompareHostnames(a.Name, b.Name) })
}

// hostsOf returns the hosts in which a host's requests are looked up, in this order: its own, the wildcards that
// include it, the longest first, and the host for all.
func (l *Listener) hostsOf(host string) []*Host {
	var all []*Host
	for _, name := range model.WiderHostnames(host) {
		if found, ok := l.Hosts.Get(HostKey(name)); ok && !slices.Contains(all, found) {
			all = append(all, found)
		}
	}
	return all
}

// Entries returns the entries of all hosts, ordered by precedence.
func (l *Listener) Entries() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		for _, host := range l.ByPrecedence() {
			for i := range host.Entries {
				if !yield(&host.Entries[i]) {
					return
				}
			}
		}
	}
}

// Rules calls f for every rule of the table, once for each entry that leads to it, with the listener it is reached by.
func (t Table) Rules(f func(listener *Listener, rule *Rule)) {
	for i := range t.Listeners {
		for host := range t.Listeners[i].Hosts.Values() {
			for j := range host.Entries {
				f(&t.Listeners[i], host.Entries[j].Rule)
			}
		}
	}
}

// Backends returns all backends of the table, sorted, without the one that stands for none.
func (t Table) Backends() []Backend {
	return slices.SortedFunc(t.Uses.Backends.Values(), model.CompareBackends)
}

// ListenerFor returns the listener of a port that requests for a hostname belong to, nil if there is none. A wildcard
// ("*.example.com") belongs to the listener that all its names belong to that have no other.
func (t Table) ListenerFor(port int32, hostname string) *Listener {
	for _, wider := range model.WiderHostnames(hostname) {
		i, ok := slices.BinarySearchFunc(t.Listeners, Listener{Port: port, Hostname: wider}, func(a, b Listener) int {
			return compareListeners(&a, &b)
		})
		if ok {
			return &t.Listeners[i]
		}
	}
	return nil
}

// Differing returns the listeners of one table and of another that the other one has not, or not so.
func Differing(before, now []Listener) (gone, fresh []*Listener) {
	for len(before)+len(now) > 0 {
		order := 0
		switch {
		case len(before) == 0:
			order = 1
		case len(now) == 0:
			order = -1
		case before[0] == now[0]:
			before, now = before[1:], now[1:]
			continue
		default:
			order = compareListeners(&before[0], &now[0])
		}
		if order <= 0 {
			gone, before = append(gone, &before[0]), before[1:]
		}
		if order >= 0 {
			fresh, now = append(fresh, &now[0]), now[1:]
		}
	}
	return gone, fresh
}

// compareListeners orders listeners by port, then by precedence of their hostnames.
func compareListeners(a, b *Listener) int {
	return cmp.Or(cmp.Compare(a.Port, b.Port), model.CompareHostnames(a.Hostname, b.Hostname))
}
