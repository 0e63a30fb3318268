package explain

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/tree"
)

// Explanation is what happens to a request.
type Explanation struct {
	Gateway string `json:"gateway"`
	Request string `json:"request"`
	// Unread is why the answer is incomplete: not all is known that the Gateway has.
	Unread   []string  `json:"unread,omitempty"`
	Listener *Listener `json:"listener,omitempty"`
	// Route is the route's name, Rule the index of its rule, Match the match of it that the request meets. A listener that
	// redirects has none.
	Route string `json:"route,omitempty"`
	Rule  *int   `json:"rule,omitempty"`
	Match string `json:"match,omitempty"`
	// Passed are the more specific ones that the request does not meet, and those with the same match that come later.
	// More is how many more there are, and OtherHosts how many are for other hosts.
	Passed     []Passed `json:"passed,omitempty"`
	More       int      `json:"more,omitempty"`
	OtherHosts int      `json:"otherHosts,omitempty"`
	// Filters are what happens to the request on the way.
	Filters []string `json:"filters,omitempty"`
	// Backends get the request.
	Backends []Backend `json:"backends,omitempty"`
	// Answer is what the proxy answers by itself. Refused reports whether it is an error.
	Answer  string `json:"answer,omitempty"`
	Refused bool   `json:"refused,omitempty"`
}

// Listener is the listener that takes the request.
type Listener struct {
	Name     string `json:"name"`
	Port     int32  `json:"port"`
	Protocol string `json:"protocol"`
	Hostname string `json:"hostname,omitempty"`
}

// Passed is an entry that does not get a request.
type Passed struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Explain returns what happens to a request. It names up to limit entries that do not match.
func explain(site *cli.Site, table routing.Table, refused []model.Problem, r request, limit int) *Explanation {
	e := &Explanation{Gateway: site.Name(), Request: r.text, Unread: site.Unread}
	host, ok := e.checkRequest(table, &r)
	if !ok {
		return e
	}
	listener, input := table.ListenerFor(r.Port, host), site.Input(table)
	if !e.checkListener(input, listener, r, host) {
		return e
	}
	e.Listener = &Listener{listener.Called(), listener.Port, listener.Protocol, listener.Hostname}
	if listener.Protocol == "TCP" || listener.Protocol == "TLS" {
		// The proxies see at most the server name of such connections.
		r.Request = routing.Request{Port: r.Port, Host: host, Path: "/"}
	} else {
		r.forward(listener, isTrusted(table))
	}
	match, found := table.Match(r.Request)
	later := outrun(site, match, r.Request)
	e.passBy(listener, match.Entry, r.Request, later, limit)
	switch {
	case match.TooLong:
		return e.refuse("400: a value of the request is too long to be compared with the regular expressions for its host and path")
	case !found && len(e.Passed)+e.More == 0:
		return e.refuse("404: listener %s has no route for the host %s%s", listener.Called(), host, hosts(listener))
	case !found:
		return e.refuse("404: the request meets no rule of listener %s", listener.Called())
	}
	e.Match = describe(match.Entry)
	if e.Route = match.Rule.Route; e.Route != "" {
		e.Rule = &match.Rule.Index
	}
	e.follow(site, input, listener, match.Rule, refused, r)
	return e
}

func (e *Explanation) refuse(format string, args ...any) *Explanation {
	e.Answer, e.Refused = fmt.Sprintf(format, args...), true
	return e
}

// checkRequest returns the name that the request is for, false if it reaches no listener.
func (e *Explanation) checkRequest(table routing.Table, r *request) (string, bool) {
	if !slices.ContainsFunc(table.Listeners, func(l routing.Listener) bool { return l.Port == r.Port }) {
		var ports []string
		for _, listener := range table.Listeners {
			ports = append(ports, fmt.Sprint(listener.Port))
		}
		if len(ports) == 0 {
			e.refuse("no connection: no listener of the Gateway is served")
			return "", false
		}
		e.refuse("no connection: no listener has port %d, but %s", r.Port, strings.Join(slices.Compact(ports), ", "))
		return "", false
	}
	if name, _ := routing.NormalizeHost(r.connected); r.isConnection() || isPassedThrough(table.ListenerFor(r.Port, name)) {
		r.hostHeader = r.connected
	}
	host, ok := routing.NormalizeHost(r.hostHeader)
	if !ok {
		e.refuse("400: the host %q is malformed", r.hostHeader)
		return "", false
	}
	r.Host = host
	return host, true
}

// checkListener reports whether a listener takes the request.
func (e *Explanation) checkListener(input render.Input, listener *routing.Listener, r request, host string) bool {
	table, speaks := input.Table, ""
	for i := range table.Listeners {
		other := &table.Listeners[i]
		if other == listener || other.Port != r.Port {
			continue
		}
		speaks = other.Protocol
		if listener == nil || !isMoreSpecific(listener.Hostname, other.Hostname) {
			e.Passed = append(e.Passed, Passed{"listener " + other.Called(), "its hostname is " + other.Hostname})
		}
	}
	if listener != nil {
		speaks = listener.Protocol
	}
	if !slices.Contains(protocols[r.scheme].listeners, speaks) {
		e.refuse("no answer to %s: port %d is for %s", r.scheme, r.Port, speaks)
		return false
	}
	if listener == nil && speaks != "HTTP" {
		e.refuse("no connection: no listener of port %d is for the name %q", r.Port, host)
		return false
	}
	if listener != nil && listener.TLS != nil && len(input.Certificates[listener.Name]) == 0 {
		e.refuse("no connection: listener %s is not served, as a certificate or CA of it cannot be used", listener.Called())
		return false
	}
	if strings.HasPrefix(speaks, "HTTP") && !e.checkHTTP(r) {
		return false
	}
	if listener == nil {
		e.refuse("404: no listener of port %d is for the host %q", r.Port, host)
		return false
	}
	name, _ := routing.NormalizeHost(r.connected)
	if connected := table.ListenerFor(r.Port, name); connected != listener && (listener.TLS != nil || isPassedThrough(listener)) {
		e.refuse("421: the connection is for %q, whose listener is not that of the host %q", name, host)
		return false
	}
	return true
}

// isPassedThrough reports whether the proxies do not terminate the TLS of a listener, and so see only the server name.
func isPassedThrough(listener *routing.Listener) bool {
	return listener != nil && listener.Protocol == "TLS" && listener.TLS == nil
}

// checkHTTP reports whether the request passes the checks that precede routing (405, 400).
func (e *Explanation) checkHTTP(r request) bool {
	if r.Method == http.MethodConnect || r.Method == http.MethodTrace {
		e.refuse("405: the proxies take no %s", r.Method)
	} else if _, ok := routing.CanonicalPath(r.Path); !ok {
		e.refuse("400: backends may disagree about what the path %q asks for", r.Path)
	}
	return !e.Refused
}

// isMoreSpecific reports whether a hostname comes before another one for the same host.
func isMoreSpecific(a, b string) bool {
	return b == "" || strings.HasPrefix(b, "*.") && len(a) > len(b) && strings.HasSuffix(a, b[1:])
}

// passBy notes the entries before the matching one, after what comes later. Those of other hosts are only counted.
func (e *Explanation) passBy(listener *routing.Listener, met *routing.Entry, r routing.Request, later []Passed, limit int) {
	path, _ := routing.CanonicalPath(r.Path)
	close, far := later, []Passed(nil)
	for entry := range listener.Entries() {
		if entry == met {
			break
		}
		failed := failures(entry, r, path)
		passed := Passed{What: what(entry), Why: strings.Join(failed.texts, "; ")}
		switch {
		case failed.host:
			e.OtherHosts++
		case failed.path:
			far = append(far, passed)
		default:
			close = append(close, passed)
		}
	}
	// The nearest misses are what one wonders about.
	for _, passed := range append(close, far...) {
		if len(e.Passed) < limit {
			e.Passed = append(e.Passed, passed)
		} else {
			e.More++
		}
	}
}

// outrun returns the matches that the request meets, too, and of which the rule that gets it takes all requests.
func outrun(site *cli.Site, got routing.Match, r routing.Request) []Passed {
	if got.Entry == nil || got.Rule.Route == "" {
		return nil
	}
	path, _ := routing.CanonicalPath(r.Path)
	var later []Passed
	for _, taken := range site.Compiler().Taken() {
		by := taken.By
		if by == nil || taken.Listener != got.Listener || by.Kind != got.Rule.Kind || by.Route != got.Rule.Route || by.Index != got.Rule.Index {
			continue
		}
		if len(failures(taken.Entry, r, path).texts) == 0 {
			later = append(later, Passed{what(taken.Entry), fmt.Sprintf("route %s rules[%d] comes first and gets all of its requests", by.Route, by.Index)})
		}
	}
	return later
}

// maxHosts is how many hosts a message names.
const maxHosts = 5

// hosts names some of those that a listener has routes for.
func hosts(listener *routing.Listener) string {
	var names []string
	for _, host := range listener.ByPrecedence() {
		names = append(names, host.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return ", but for " + model.Some(names, maxHosts)
}

// failure is a condition of an entry that a request does not match.
type failure struct {
	host, path bool
	texts      []string
}

// failures checks each condition of an entry by itself, with the reference matcher.
func failures(entry *routing.Entry, r routing.Request, path string) failure {
	meets := func(part routing.Entry) bool {
		if part.Path == "" {
			part.PathType, part.Path = routing.Prefix, "/"
		}
		host := &routing.Host{Name: part.Hostname, Entries: []routing.Entry{part}}
		table := routing.Table{Listeners: []routing.Listener{{Port: r.Port, Hosts: tree.Of(map[string]*routing.Host{routing.HostKey(host.Name): host})}}}
		_, ok := table.Match(r)
		return ok
	}
	var f failure
	note := func(format string, args ...any) { f.texts = append(f.texts, fmt.Sprintf(format, args...)) }
	if f.host = !meets(routing.Entry{Hostname: entry.Hostname}); f.host {
		note("the host is %s", r.Host)
	}
	if f.path = !meets(routing.Entry{PathType: entry.PathType, Path: entry.Path}); f.path {
		note("the path is %s", path)
	}
	if !meets(routing.Entry{Method: entry.Method}) {
		note("the method is %s", r.Method)
	}
	for i, header := range entry.Headers {
		if meets(routing.Entry{Headers: entry.Headers[i : i+1]}) {
			continue
		}
		switch values, ok := r.Header[header.Name]; {
		case ok:
			note("the header %s is %q", header.Name, strings.Join(values, ","))
		case header.Name == forwarded, header.Name == forwardedFor:
			note("explain does not know who the client is, which the header %s says", header.Name)
		default:
			note("there is no header %s", header.Name)
		}
	}
	if !meets(routing.Entry{Session: entry.Session}) {
		note("there is no cookie %s", entry.Session)
	}
	for i, param := range entry.Query {
		if !meets(routing.Entry{Query: entry.Query[i : i+1]}) {
			note("the query %q does not have %s", r.Query, condition(param))
		}
	}
	return f
}
