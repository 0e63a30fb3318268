package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appv1 "gateway/api/app/v1"
)

// Problem is something of a spec that has no effect, though it is valid.
type Problem struct {
	// Route is the name of the route concerned; "" if it is not about one.
	Route string
	// Listener is the name of the listener concerned; "" if the route names none and fits none, or if it is not about one.
	Listener string
	// InRule says that it is about what a rule says, not about where the route belongs.
	InRule bool
	// InBackends says that it is about spec.backends.
	InBackends bool
	// Message is a sentence for the author of the spec.
	Message string
}

// compiler collects the table.
type compiler struct {
	table    Table
	problems []Problem
	// entries are those of each listener, in the order of the spec. They are all of the hosts that are made.
	entries map[string][]Entry
	// redirects are the names of listeners that redirect everything.
	redirects map[string]bool
	// before is what an earlier spec was compiled to, places are those of its routes.
	before Compiled
	places map[appv1.Name]int
	// results are what the routes of this spec were compiled to.
	results []*compiledRoute
	// touched are the hosts of listeners for requests that are made anew, as some route of theirs is another one. Nil stands for all.
	touched map[string]bool
	// onlyProblems says that nobody wants the table.
	onlyProblems bool
}

func newCompiler(spec *appv1.GatewaySpec, before Compiled) *compiler {
	return &compiler{
		table:   Table{Policies: compilePolicies(spec.Backends)},
		entries: make(map[string][]Entry, len(spec.Listeners)), redirects: map[string]bool{},
		before: before, results: make([]*compiledRoute, 0, len(spec.Routes)),
	}
}

func (c *compiler) compile(spec *appv1.GatewaySpec) {
	for i := range spec.Listeners {
		listener := compileListener(&spec.Listeners[i])
		c.table.Listeners = append(c.table.Listeners, listener)
		if spec.Listeners[i].HTTPSRedirect {
			c.redirects[listener.Name] = true
			c.entries[listener.Name] = redirectEntries(spec)
		}
	}
	slices.SortFunc(c.table.Listeners, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), CompareHostnames(a.Hostname, b.Hostname))
	})
	c.compileRoutes(spec.Routes)
	for i := range spec.Routes {
		c.results[i] = c.attachRoute(&spec.Routes[i], c.results[i])
	}
	for i := range spec.TCPRoutes {
		c.tcpRoute(&spec.TCPRoutes[i])
	}
	for i := range spec.TLSRoutes {
		c.tlsRoute(&spec.TLSRoutes[i])
	}
	c.refuseUnnamed(spec)
	for _, cidr := range spec.TrustedProxies {
		c.table.TrustedProxies = append(c.table.TrustedProxies, string(cidr))
	}
	slices.Sort(c.table.TrustedProxies)
	c.table.DrainTimeout = DrainTimeout(spec)
	for i := range c.table.Listeners {
		c.addHosts(i)
	}
}

func (c *compiler) problem(route, listener, format string, args ...any) {
	c.problems = append(c.problems, Problem{Route: route, Listener: listener, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) tcpRoute(route *appv1.TCPRoute) {
	c.attach(attachment{
		name: string(route.Name), listeners: route.Listeners, fits: func(l *Listener) bool { return l.Protocol == "TCP" },
		want: "TCP", entries: connectionEntries(route.Name, route.Rules),
	})
}

func (c *compiler) tlsRoute(route *appv1.TLSRoute) {
	c.attach(attachment{
		name: string(route.Name), listeners: route.Listeners, hostnames: route.Hostnames,
		fits: func(l *Listener) bool { return l.Protocol == "TLS" }, want: "TLS", entries: connectionEntries(route.Name, route.Rules),
	})
}

// compileRoute returns an entry for every match of every rule of a route. A match that cannot be carried out is left out: nothing meets
// it.
func compileRoute(route *appv1.Route) *compiledRoute {
	compiled := &compiledRoute{}
	problem := func(format string, args ...any) {
		compiled.problems = append(compiled.problems, Problem{Route: string(route.Name), InRule: true, Message: fmt.Sprintf(format, args...)})
	}
	for i := range route.Rules {
		rule := compileRule(string(route.Name), i, &route.Rules[i])
		sessions := compileSessions(rule, route.Rules[i].BackendRefs)
		size := filtersSize(rule)
		for _, session := range sessions {
			size = max(size, filtersSize(session.rule))
		}
		if size > maxFilters {
			problem("route %q: requests for rules[%d] are answered with 500: its filters have %d bytes where %d are allowed", rule.Route, i, size, maxFilters)
			rule, sessions = &Rule{Route: rule.Route, Index: rule.Index, MaxBody: -1}, nil
		}
		matches := route.Rules[i].Matches
		if len(matches) == 0 {
			matches = []appv1.RouteMatch{{}}
		}
		for j := range matches {
			entry, err := compileMatch(&matches[j])
			if err != nil {
				problem("route %q: no request meets rules[%d].matches[%d]: %v", rule.Route, i, j, err)
				continue
			}
			entry.Rule = rule
			compiled.entries = append(compiled.entries, withSessions(entry, sessions)...)
		}
	}
	return compiled
}

// compileMatch returns an entry without hostname and rule. An error names the field and what is wrong with it.
func compileMatch(match *appv1.RouteMatch) (Entry, error) {
	entry := Entry{PathType: Prefix, Path: match.Path.Value, Method: string(match.Method)}
	if entry.Path == "" {
		entry.Path = "/"
	}
	var err error
	length := 0
	switch match.Path.Type {
	case appv1.PathMatchRegularExpression:
		entry.PathType = Regex
		length, err = checkRegex("path", entry.Path)
	case appv1.PathMatchExact:
		entry.PathType = Exact
	}
	if err != nil {
		return Entry{}, err
	}
	if entry.PathType != Regex {
		if canonical, ok := CanonicalPath(entry.Path); ok {
			entry.Path = canonical
		} else {
			return Entry{}, fmt.Errorf("requests with the path %q are answered with 400", entry.Path)
		}
		if entry.PathType == Prefix && !strings.HasSuffix(entry.Path, "/") {
			entry.Path += "/"
		}
	}
	for _, header := range match.Headers {
		condition := Condition{Name: strings.ToLower(string(header.Name)), Value: header.Value, Regex: header.Type == appv1.ValueMatchRegularExpression}
		entry.Headers = append(entry.Headers, condition)
	}
	for _, param := range match.QueryParams {
		condition := Condition{Name: param.Name, Value: param.Value, Regex: param.Type == appv1.ValueMatchRegularExpression}
		if !condition.Regex {
			decoded, _ := percentDecode(keepMalformed(param.Value))
			condition.Value = percentEncode(decoded, isText)
		}
		entry.Query = append(entry.Query, condition)
	}
	return entry, checkConditions(&entry, length)
}

// maxMatch is how long the expressions of a match may be together, in bytes: HAProxy has to hold them in one line.
const maxMatch = 6000

// checkConditions sorts the conditions of an entry and says what is wrong with them.
func checkConditions(entry *Entry, length int) error {
	seen := map[string]bool{}
	for _, header := range entry.Headers {
		if seen[header.Name] {
			return fmt.Errorf("header %q is there twice", header.Name)
		}
		seen[header.Name] = true
	}
	for _, kind := range []struct {
		name       string
		conditions []Condition
	}{{"header", entry.Headers}, {"query parameter", entry.Query}} {
		slices.SortFunc(kind.conditions, func(a, b Condition) int { return cmp.Compare(a.Name, b.Name) })
		for _, condition := range kind.conditions {
			n := len(QuoteRegex(condition.Value))
			if condition.Regex {
				var err error
				if n, err = checkRegex(fmt.Sprintf("%s %q", kind.name, condition.Name), condition.Value); err != nil {
					return err
				}
			}
			length += n + len(QuoteRegex(condition.Name))
		}
	}
	if length > maxMatch {
		return fmt.Errorf("its conditions are too long: %d bytes where %d are allowed, when every sign is written out", length, maxMatch)
	}
	return nil
}

// checkRegex returns how long the translation of an expression is.
func checkRegex(field, expression string) (int, error) {
	translated, err := TranslateRegex(expression)
	if err != nil {
		return 0, fmt.Errorf("the regular expression of %s is not valid: %w", field, err)
	}
	return len(translated), nil
}
