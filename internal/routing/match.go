package routing

import (
	"slices"
	"strings"

	"gateway/internal/model"
	"gateway/internal/regex"
)

// Request is the part of a request that rules match.
type Request struct {
	// Port is the one the request was accepted on.
	Port int32
	// Host is from NormalizeHost.
	Host string
	// Path and Query are as the client sent them, without the question mark. A request without a path ("OPTIONS *",
	// "GET http://example.com") has the path "/".
	Path, Query string
	Method      string
	// Header holds the values of headers, in the order they came, by their names in lower case. X-Forwarded-* and the
	// like are as the proxy has made them.
	Header map[string][]string
}

// Match is what a request matches.
type Match struct {
	// Listener is the listener's name.
	Listener string
	// Entry is what the request matches, Rule is what happens to it.
	Entry *Entry
	Rule  *Rule
	// TooLong reports whether the request is answered with 400: it has a value that is too long to be compared with
	// regular expressions, or a query that is too long to be taken apart.
	TooLong bool
}

// Match returns what a request matches. False means that nothing matches, which is answered with 404, or, if
// CanonicalPath refuses the path or something is TooLong, with 400.
//
// It is the definition of routing, and kept simple for that: it takes time linear in the size of the table, so only
// tests and the plugin call it.
func (t Table) Match(r Request) (Match, bool) {
	path, ok := CanonicalPath(r.Path)
	if !ok {
		return Match{}, false
	}
	r.Path = path
	for i := range t.Listeners {
		listener := &t.Listeners[i]
		if listener.Port != r.Port || !model.HostnameMatches(listener.Hostname, r.Host) {
			continue
		}
		for _, host := range listener.hostsOf(r.Host) {
			for _, pathType := range []PathType{Exact, Regex, Prefix} {
				list := host.list(pathType, r)
				if isTooLong(list, r) {
					return Match{Listener: listener.Name, TooLong: true}, false
				}
				for _, entry := range list {
					if entry.matches(r) {
						return Match{Listener: listener.Name, Entry: entry, Rule: entry.Rule}, true
					}
				}
			}
		}
		// The routes of less specific listeners are not for this host.
		return Match{}, false
	}
	return Match{}, false
}

// Candidates returns the rules that may take a request of which only the port, the path and the method are known, and
// the host unless it is "".
func (t Table) Candidates(r Request) []*Rule {
	path, ok := CanonicalPath(r.Path)
	if !ok {
		return nil
	}
	r.Path = path
	var rules []*Rule
	for i := range t.Listeners {
		listener := &t.Listeners[i]
		if listener.Port != r.Port || r.Host != "" && !model.HostnameMatches(listener.Hostname, r.Host) {
			continue
		}
		hosts := listener.hostsOf(r.Host)
		if r.Host == "" {
			hosts = slices.Collect(listener.Hosts.Values())
		}
		for _, host := range hosts {
			some, isLast := host.candidates(r)
			for _, rule := range some {
				if !slices.Contains(rules, rule) {
					rules = append(rules, rule)
				}
			}
			if isLast && r.Host != "" {
				break
			}
		}
		if r.Host != "" {
			break // the routes of less specific listeners are not for this host
		}
	}
	return rules
}

// candidates returns the rules of a host up to the first one without conditions beside the path and the method. isLast
// reports whether it has one.
func (h *Host) candidates(r Request) (rules []*Rule, isLast bool) {
	if r.Host != "" && !model.HostnameMatches(h.Name, r.Host) {
		return nil, false
	}
	for _, pathType := range []PathType{Exact, Regex, Prefix} {
		for i := range h.Entries {
			entry := &h.Entries[i]
			if entry.PathType != pathType || !entry.pathMatches(r.Path) || entry.Method != "" && entry.Method != r.Method {
				continue
			}
			if rules = append(rules, entry.Rule); len(entry.Headers)+len(entry.Query) == 0 && entry.Session == "" {
				return rules, true
			}
		}
	}
	return rules, false
}

// list returns the entries that a request is compared with together: the entries of its path up to the first without
// conditions, or all with regular expressions for it.
func (h *Host) list(pathType PathType, r Request) []*Entry {
	var list []*Entry
	for i := range h.Entries {
		entry := &h.Entries[i]
		if entry.PathType != pathType || !model.HostnameMatches(h.Name, r.Host) || pathType != Regex && !entry.pathMatches(r.Path) {
			continue
		}
		list = append(list, entry)
		if !entry.Conditional() {
			break
		}
	}
	return list
}

// maxQuery is the longest query, in bytes, if there are conditions on it.
const maxQuery = 3200

// isTooLong reports whether a part of a request is too long to be compared with a list.
func isTooLong(list []*Entry, r Request) bool {
	longest := LongestValue(list)
	for _, entry := range list {
		if entry.PathType == Regex && len(decodedPath(r.Path)) > longest || len(entry.Query) > 0 && len(r.Query) > maxQuery {
			return true
		}
		for _, header := range entry.Headers {
			if header.Regex && len(strings.Join(r.Header[header.Name], ",")) > longest {
				return true
			}
		}
		for _, param := range entry.Query {
			if value, _ := queryParam(r.Query, param.Name); param.Regex && len(value) > longest {
				return true
			}
		}
	}
	return false
}

func (e *Entry) matches(r Request) bool {
	if !model.HostnameMatches(e.Hostname, r.Host) || !e.pathMatches(r.Path) || e.Method != "" && e.Method != r.Method {
		return false
	}
	for _, condition := range e.Headers {
		values, ok := r.Header[condition.Name]
		if !ok || !meets(condition, strings.Join(values, ",")) {
			return false
		}
	}
	if e.Session != "" && !hasCookie(strings.Join(r.Header["cookie"], ","), e.Session) {
		return false
	}
	for _, condition := range e.Query {
		value, ok := queryParam(r.Query, condition.Name)
		if !ok || !meets(condition, value) {
			return false
		}
	}
	return true
}

func (e *Entry) pathMatches(path string) bool {
	switch e.PathType {
	case Exact:
		return path == e.Path
	case Regex:
		return regexMatches(e.Path, decodedPath(path))
	default:
		return strings.HasPrefix(path+"/", e.Path)
	}
}

func meets(condition Condition, value string) bool {
	if condition.Regex {
		return regexMatches(condition.Value, value)
	}
	return value == condition.Value
}

func regexMatches(expression, value string) bool {
	parsed, err := regex.Parse(expression)
	if err != nil {
		panic(err) // Compile leaves out what does not parse
	}
	return parsed.Matches(value)
}
