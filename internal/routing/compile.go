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
	// Route is the name of the route concerned.
	Route string
	// Listener is the name of the listener concerned; "" if the route names none and fits none, or if it is not about one.
	Listener string
	// InRule says that it is about what a rule says, not about where the route belongs.
	InRule bool
	// Message is a sentence for the author of the spec.
	Message string
}

// compiler collects the table. The pointers in byName are into the table.
type compiler struct {
	table     Table
	byName    map[string]*Listener
	redirects map[string]bool
	problems  []Problem
	// before is what an earlier spec was compiled to, places are those of its routes.
	before Compiled
	places map[appv1.Name]int
	// routes are those of this spec.
	routes []compiledRoute
}

func newCompiler(spec *appv1.GatewaySpec, before Compiled) *compiler {
	return &compiler{
		table:  Table{Listeners: make([]Listener, len(spec.Listeners)), Policies: compilePolicies(spec.Backends)},
		byName: make(map[string]*Listener, len(spec.Listeners)), redirects: map[string]bool{},
		before: before, routes: make([]compiledRoute, 0, len(spec.Routes)),
	}
}

func (c *compiler) compile(spec *appv1.GatewaySpec) {
	for i := range spec.Listeners {
		listener := &c.table.Listeners[i]
		*listener = compileListener(&spec.Listeners[i])
		listener.Entries = c.room(listener.Name)
		c.byName[listener.Name] = listener
		if spec.Listeners[i].HTTPSRedirect {
			c.redirects[listener.Name] = true
			listener.Entries = []Entry{redirectEntry(spec)}
		}
	}
	for i := range spec.Routes {
		c.route(&spec.Routes[i])
	}
	for i := range spec.TCPRoutes {
		c.tcpRoute(&spec.TCPRoutes[i])
	}
	for i := range spec.TLSRoutes {
		c.tlsRoute(&spec.TLSRoutes[i])
	}
	for _, cidr := range spec.TrustedProxies {
		c.table.TrustedProxies = append(c.table.TrustedProxies, string(cidr))
	}
	slices.Sort(c.table.TrustedProxies)
	c.table.DrainTimeout = DrainTimeout(spec)
	for i := range c.table.Listeners {
		c.table.Listeners[i].Entries = byPrecedence(c.table.Listeners[i].Entries)
	}
	slices.SortFunc(c.table.Listeners, func(a, b Listener) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), CompareHostnames(a.Hostname, b.Hostname))
	})
}

func (c *compiler) problem(route, listener, format string, args ...any) {
	c.problems = append(c.problems, Problem{Route: route, Listener: listener, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) route(route *appv1.Route) {
	compiled := c.earlier(route.Name)
	if compiled.route == nil || !sameRoute(compiled.route, route) {
		compiled = compileRoute(route)
	}
	compiled.route = route // The earlier spec need not be kept.
	c.routes = append(c.routes, compiled)
	c.problems = append(c.problems, compiled.problems...)
	fits := func(l *Listener) bool { return (l.Protocol == "HTTP" || l.Protocol == "HTTPS") && !c.redirects[l.Name] }
	c.attach(attachment{
		name: string(route.Name), listeners: route.Listeners, hostnames: route.Hostnames,
		fits: fits, want: "HTTP or HTTPS, without httpsRedirect", entries: compiled.entries,
	})
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

// attachment is a route of any kind on its way to its listeners.
type attachment struct {
	name      string
	listeners []appv1.Name
	hostnames []appv1.Hostname
	// fits says whether the route may belong to a listener, want says of which kind such a listener is.
	fits func(l *Listener) bool
	want string
	// entries are the route's, without a hostname.
	entries []Entry
}

// attach adds a route to its listeners.
func (c *compiler) attach(a attachment) {
	if len(a.listeners) == 0 {
		found := false
		for i := range c.table.Listeners {
			if listener := &c.table.Listeners[i]; a.fits(listener) {
				found = attachTo(listener, a) || found
			}
		}
		if !found {
			c.problem(a.name, "", "route %q gets no requests: no listener of its kind takes one of its hostnames", a.name)
		}
		return
	}
	for _, name := range a.listeners {
		listener, ok := c.byName[string(name)]
		switch {
		case !ok:
			c.problem(a.name, string(name), "route %q names listener %q, which does not exist", a.name, name)
		case !a.fits(listener):
			c.problem(a.name, string(name), "route %q gets no requests from listener %q, which is not of protocol %s", a.name, name, a.want)
		case !attachTo(listener, a):
			c.problem(a.name, string(name), "route %q gets no requests from listener %q: none of its hostnames is within the listener's hostname %q",
				a.name, name, listener.Hostname)
		}
	}
}

// attachTo adds the rules of a route to a listener, for every hostname of the route that overlaps with the listener's,
// and says whether there was one.
//
// An entry keeps the route's hostname, even where the listener's is narrower: only requests for the listener's hosts get
// there anyway, and precedence goes by the hostname of the route.
func attachTo(listener *Listener, a attachment) bool {
	hostnames := a.hostnames
	if len(hostnames) == 0 {
		hostnames = []appv1.Hostname{""}
	}
	fits := false
	for _, hostname := range hostnames {
		if !hostnamesOverlap(listener.Hostname, string(hostname)) {
			continue
		}
		fits = true
		for _, entry := range a.entries {
			entry.Hostname = string(hostname)
			listener.Entries = append(listener.Entries, entry)
		}
	}
	return fits
}

// compileRoute returns an entry for every match of every rule of a route. A match that cannot be carried out is left out: nothing meets
// it.
func compileRoute(route *appv1.Route) compiledRoute {
	compiled := compiledRoute{route: route}
	problem := func(format string, args ...any) {
		compiled.problems = append(compiled.problems, Problem{Route: string(route.Name), InRule: true, Message: fmt.Sprintf(format, args...)})
	}
	for i := range route.Rules {
		rule := compileRule(string(route.Name), i, &route.Rules[i])
		if size := filtersSize(rule); size > maxFilters {
			problem("route %q: requests for rules[%d] are answered with 500: its filters have %d bytes where %d are allowed", rule.Route, i, size, maxFilters)
			rule = &Rule{Route: rule.Route, Index: rule.Index, MaxBody: -1}
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
			compiled.entries = append(compiled.entries, entry)
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

// byPrecedence sorts entries by precedence and drops those that no request can reach: an equal or less demanding one of
// the same path comes before.
func byPrecedence(entries []Entry) []Entry {
	if len(entries) == 0 {
		return nil
	}
	slices.SortStableFunc(entries, compareEntries)
	kept := entries[:0]
	seen := map[string]bool{}
	for i := range entries {
		entry := &entries[i]
		if !entry.Conditional() {
			if last := len(kept) - 1; last >= 0 && !kept[last].Conditional() && kept[last].samePlace(entry) {
				continue
			}
		} else {
			key := fmt.Sprintf("%s %d %s %s %v %v", entry.Hostname, entry.PathType, entry.Path, entry.Method, entry.Headers, entry.Query)
			if seen[key] {
				continue
			}
			seen[key] = true
		}
		kept = append(kept, *entry)
	}
	return kept
}

func compareEntries(a, b Entry) int {
	order := cmp.Or(CompareHostnames(a.Hostname, b.Hostname), cmp.Compare(a.PathType, b.PathType))
	if a.PathType != Regex && order == 0 {
		order = cmp.Or(cmp.Compare(len(b.Path), len(a.Path)), cmp.Compare(a.Path, b.Path))
	}
	return cmp.Or(order,
		cmp.Compare(hasMethod(b), hasMethod(a)),
		cmp.Compare(len(b.Headers), len(a.Headers)),
		cmp.Compare(len(b.Query), len(a.Query)))
}

func hasMethod(e Entry) int {
	if e.Method == "" {
		return 0
	}
	return 1
}
