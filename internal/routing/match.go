package routing

import (
	"regexp"
	"regexp/syntax"
	"strings"
)

// Request is what a request is matched by.
type Request struct {
	// Port is the one the request was accepted on.
	Port int32
	// Host is from NormalizeHost.
	Host string
	// Path and Query are as the client sent them, without the question mark. A request without a path ("OPTIONS *",
	// "GET http://example.com") has the path "/".
	Path, Query string
	Method      string
	// Header holds the values of headers, in the order they came, by their names in lower case. X-Forwarded-* and the like are as the
	// proxy has made them: see HeaderMatch.
	Header map[string][]string
}

// Match is what a request meets.
type Match struct {
	// Listener is the listener's name.
	Listener string
	// Entry is what the request matches, Rule is what happens to it.
	Entry *Entry
	Rule  *Rule
}

// Match returns what a request meets. False means that nothing matches, which is answered with 404, or, if the path is not
// one that CanonicalPath accepts, with 400.
//
// It is the definition of routing, kept plain for that: linear in the size of the table, so nothing that is in a hurry
// calls it.
func (t Table) Match(r Request) (Match, bool) {
	path, ok := CanonicalPath(r.Path)
	if !ok {
		return Match{}, false
	}
	r.Path = path
	for i := range t.Listeners {
		listener := &t.Listeners[i]
		if listener.Port != r.Port || !hostMatches(listener.Hostname, r.Host) {
			continue
		}
		for entry := range listener.Entries() {
			if entry.matches(r) {
				return Match{Listener: listener.Name, Entry: entry, Rule: entry.Rule}, true
			}
		}
		// The routes of less specific listeners are not for this host.
		return Match{}, false
	}
	return Match{}, false
}

func (e *Entry) matches(r Request) bool {
	if !hostMatches(e.Hostname, r.Host) || !e.pathMatches(r.Path) || e.Method != "" && e.Method != r.Method {
		return false
	}
	for _, condition := range e.Headers {
		values, ok := r.Header[condition.Name]
		if !ok || !condition.meets(strings.Join(values, ",")) {
			return false
		}
	}
	if e.Session != "" && !hasCookie(strings.Join(r.Header["cookie"], ","), e.Session) {
		return false
	}
	for _, condition := range e.Query {
		value, ok := queryParam(r.Query, condition.Name)
		if !ok || !condition.meets(value) {
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
		return regexMatches(e.Path, path)
	default:
		return strings.HasPrefix(path+"/", e.Path)
	}
}

func (c Condition) meets(value string) bool {
	if c.Regex {
		return regexMatches(c.Value, value)
	}
	return value == c.Value
}

// regexMatches compares by bytes: each byte of the value is a character of its own.
func regexMatches(expression, value string) bool {
	characters := make([]rune, len(value))
	for i := range len(value) {
		characters[i] = rune(value[i])
	}
	parsed, err := syntax.Parse(expression, regexSyntax)
	if err != nil {
		panic(err) // Compile leaves out what does not parse
	}
	// Not the text itself: it may end within \Q.
	return regexp.MustCompile(`\A(?:` + parsed.String() + `)\z`).MatchString(string(characters))
}

// ListenerFor returns the listener of a port that requests for a hostname belong to, nil if there is none. A wildcard
// ("*.example.com") belongs to the listener that all its names belong to that have no other.
func (t Table) ListenerFor(port int32, hostname string) *Listener {
	for i := range t.Listeners {
		if t.Listeners[i].Port == port && hostMatches(t.Listeners[i].Hostname, hostname) {
			return &t.Listeners[i]
		}
	}
	return nil
}
