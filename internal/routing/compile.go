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
	// maxSteps is how many steps a list of conditions may take at a hostname; refused are the entries that would take more.
	maxSteps float64
	refused  map[refusal]bool
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
	c.refuseSteps(spec.Routes)
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
	c.table.MaxConnections = int(or(spec.ClientLimits.MaxConnections, defaultMaxConnections))
	c.table.MaxPerAddress = int(or(spec.ClientLimits.MaxPerAddress, defaultMaxPerAddress))
	for i := range c.table.Listeners {
		c.addHosts(i)
	}
}

func (c *compiler) problem(route, listener, format string, args ...any) {
	c.problems = append(c.problems, Problem{Route: route, Listener: listener, Message: fmt.Sprintf(format, args...)})
}

func (c *compiler) ruleProblem(rule *Rule, format string, args ...any) {
	c.problems = append(c.problems, ruleProblem(rule.Route, format, args...))
}

// ruleProblem returns a problem with what a rule says.
func ruleProblem(route, format string, args ...any) Problem {
	return Problem{Route: route, InRule: true, Message: fmt.Sprintf("route %q: "+format, append([]any{route}, args...)...)}
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

// compileRoute returns an entry for every match of every rule of a route. For one that cannot be carried out there is an entry that answers all
// requests that it may be for with an error.
func compileRoute(route *appv1.Route) *compiledRoute {
	compiled := &compiledRoute{}
	problem := func(format string, args ...any) {
		compiled.problems = append(compiled.problems, ruleProblem(string(route.Name), format, args...))
	}
	for i := range route.Rules {
		rule := compileRule(string(route.Name), i, &route.Rules[i])
		sessions := compileSessions(rule, route.Rules[i].BackendRefs)
		size := filtersSize(rule)
		for _, session := range sessions {
			size = max(size, filtersSize(session.rule))
		}
		if size > maxFilters {
			problem("requests for rules[%d] are answered with 500: its filters have %d bytes where %d are allowed", i, size, maxFilters)
			rule, sessions = &Rule{Route: rule.Route, Index: rule.Index, MaxBody: -1}, nil
		}
		matches := route.Rules[i].Matches
		if len(matches) == 0 {
			matches = []appv1.RouteMatch{{}}
		}
		for j := range matches {
			entry, err := compileMatch(&matches[j])
			entry.Rule = rule
			switch {
			case err == nil:
				compiled.entries = append(compiled.entries, withSessions(entry, sessions)...)
			case entry.Path == "":
				problem("no request meets rules[%d].matches[%d]: %v", i, j, err)
			default:
				problem("requests that may be for rules[%d].matches[%d] are answered with 500: %v", i, j, err)
				compiled.entries = append(compiled.entries, closed(entry))
			}
		}
	}
	for i := range compiled.entries {
		compiled.steps += compiled.entries[i].leastSteps()
	}
	return compiled
}

// compileMatch returns an entry without hostname and rule. An error names the field and what is wrong with it; the entry has no path then if no
// request has it.
func compileMatch(match *appv1.RouteMatch) (Entry, error) {
	entry := Entry{PathType: Prefix, Path: match.Path.Value, Method: string(match.Method)}
	if entry.Path == "" {
		entry.Path = "/"
	}
	var invalid error
	size := regexSize{}
	switch match.Path.Type {
	case appv1.PathMatchRegularExpression:
		entry.PathType = Regex
		size, invalid = checkRegex("path", entry.Path)
	case appv1.PathMatchExact:
		entry.PathType = Exact
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
	err := checkConditions(&entry, size)
	return entry, cmp.Or(invalid, err)
}

// maxMatch is how long the expressions of a match may be together, in bytes: HAProxy has to hold them in one line.
const maxMatch = 6000

// checkConditions sorts the conditions of an entry, counts the steps of its expressions, and says what is wrong with them.
func checkConditions(entry *Entry, size regexSize) error {
	for _, kind := range []struct {
		name       string
		conditions []Condition
	}{{"header", entry.Headers}, {"query parameter", entry.Query}} {
		slices.SortFunc(kind.conditions, func(a, b Condition) int { return cmp.Compare(a.Name, b.Name) })
		for i, condition := range kind.conditions {
			if i > 0 && condition.Name == kind.conditions[i-1].Name {
				return fmt.Errorf("%s %q is there twice", kind.name, condition.Name)
			}
			one := regexSize{length: len(QuoteRegex(condition.Value))}
			if condition.Regex {
				var err error
				if one, err = checkRegex(fmt.Sprintf("%s %q", kind.name, condition.Name), condition.Value); err != nil {
					return err
				}
			}
			size.length += one.length + len(QuoteRegex(condition.Name))
			size.steps += one.steps
		}
	}
	entry.steps = size.steps
	if size.length > maxMatch {
		return fmt.Errorf("its conditions are too long: %d bytes where %d are allowed, when every sign is written out", size.length, maxMatch)
	}
	return nil
}

// regexSize is how long the translations of expressions are, and how many steps they take for values of minValue bytes.
type regexSize struct {
	length int
	steps  float64
}

func checkRegex(field, expression string) (regexSize, error) {
	translated, steps, err := translateRegex(expression)
	if err != nil {
		return regexSize{}, fmt.Errorf("the regular expression of %s is not valid: %w", field, err)
	}
	return regexSize{len(translated), steps}, nil
}
