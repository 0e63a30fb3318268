package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gateway/internal/model"
	"gateway/internal/regex"
)

// compile adds an entry for every match of every rule of a route. For a rule that cannot be carried out, it adds an
// entry that answers all requests that the rule may be for with an error.
func (c *attachedRoute) compile(check Check) {
	for i := range c.Rules {
		rules := map[string]compiledRule{} // by what they are excepted from
		for j := range c.Rules[i].Matches {
			excepted := c.excepted(&c.Rules[i].Matches[j])
			key := strings.Join(excepted, " ")
			if _, known := rules[key]; !known {
				rules[key] = c.compileRule(i, excepted, check)
			}
			rule, sessions := rules[key].rule, rules[key].sessions
			entry, err := compileMatch(&c.Rules[i].Matches[j])
			entry.Rule, entry.Match = rule, j
			field := fmt.Sprintf("rules[%d].matches[%d]", i, j)
			switch {
			case err == nil:
				c.entries = appendWithSessions(c.entries, entry, sessions)
			case entry.Path == "":
				c.problem(field, "no request meets %s: %v", field, err)
			default:
				c.problem(field, "requests that may be for %s are answered with 500: %v", field, err)
				c.entries = append(c.entries, closed(entry))
			}
		}
	}
	for i := range c.entries {
		c.steps += c.entries[i].leastSteps()
	}
}

// problem notes the part of a route that cannot be carried out.
func (c *attachedRoute) problem(field, format string, args ...any) {
	if problem := newProblem(c.Route, field, format, args...); !slices.Contains(c.problems, problem) {
		c.problems = append(c.problems, problem)
	}
}

func newProblem(route *model.Route, field, format string, args ...any) Problem {
	subject := fmt.Sprintf("route %q", route.Name)
	if route.Name == "" {
		subject = fmt.Sprintf("httpsRedirect of listener %q", strings.Join(route.Listeners, ", "))
	}
	return Problem{
		Origin: route.Origin, RouteKind: route.Kind, Route: route.Name, Reason: model.ReasonUnsupportedValue, Field: field,
		Message: subject + ": " + fmt.Sprintf(format, args...),
	}
}

// compiledRule is what happens to the requests of a rule, and to requests of clients with a session.
type compiledRule struct {
	rule     *Rule
	sessions []session
}

// compileRule compiles a rule without some of the listener's filters.
func (c *attachedRoute) compileRule(index int, excepted []string, check Check) compiledRule {
	from, filters := &c.Rules[index], c.filters.Without(excepted)
	if filters != nil && len(filters.Mandatory) > 0 && len(from.Backends) > 0 {
		copied := *from
		copied.Backends = slices.Clone(from.Backends)
		for i := range copied.Backends {
			copied.Backends[i].Headers = filters.Last(copied.Backends[i].Headers)
		}
		from = &copied
	}
	rule := &Rule{Kind: c.Kind, Route: c.Name, Index: index, Action: from.With(filters)}
	if rule.Targets = from.Backends; slices.ContainsFunc(rule.Targets, hasNoWeight) {
		rule.Targets = slices.DeleteFunc(slices.Clone(rule.Targets), hasNoWeight)
	}
	if from.Refused != "" { // a problem of the Gateway says so
		return compiledRule{failing(rule), nil}
	}
	sessions, problem := checkRule(rule, from, check)
	if problem != "" {
		field := fmt.Sprintf("rules[%d]", index)
		c.problem(field, "requests for %s are answered with 500: %s", field, problem)
		return compiledRule{failing(rule), nil}
	}
	return compiledRule{rule, sessions}
}

func hasNoWeight(target Target) bool { return target.Weight <= 0 }

// checkRule returns what happens to the requests of clients that have a session, and the parts of a rule that cannot be
// carried out, "" if there are none. A rule that makes the check panic cannot be carried out.
func checkRule(rule *Rule, from *model.Rule, check Check) (sessions []session, problem string) {
	defer func() {
		if cause := recover(); cause != nil {
			problem = model.Panic(cause)
		}
	}()
	sessions = compileSessions(rule, from.Backends)
	if problem = filterProblem(rule, sessions, check); problem != "" {
		alone := *rule
		if alone.Action = from.Action; filterProblem(&alone, compileSessions(&alone, from.Backends), check) == "" {
			problem = "with the filters of its listener, " + problem
		}
	}
	return sessions, problem
}

// filterProblem returns the parts of a rule's filters that cannot be carried out, "" if there are none.
func filterProblem(rule *Rule, sessions []session, check Check) string {
	if invalid := rule.Invalid(); invalid != "" {
		return invalid
	}
	problem := check(rule)
	for i := 0; i < len(sessions) && problem == ""; i++ {
		problem = check(sessions[i].rule)
	}
	return problem
}

// failing returns a rule without targets in place of another: its requests are answered with 500.
func failing(rule *Rule) *Rule {
	return &Rule{Kind: rule.Kind, Route: rule.Route, Index: rule.Index, Action: &Action{}}
}

// compileMatch returns an entry without hostname and rule. An error names the field and the mistake. The entry then has
// no path if no request has it.
func compileMatch(match *model.Match) (Entry, error) {
	entry := Entry{
		PathType: match.PathType, Path: match.Path, Method: match.Method,
		Headers: slices.Clone(match.Headers), Query: slices.Clone(match.Query),
	}
	var invalid error
	size := regexSize{}
	if entry.PathType == Regex {
		if size, invalid = checkRegex("path", entry.Path); invalid == nil {
			invalid = checkDecoded("path", entry.Path, decodedPaths, isPlainInPath)
		}
	} else {
		canonical, ok := CanonicalPath(entry.Path)
		if !ok {
			return Entry{}, fmt.Errorf("requests with the path %q are answered with 400", entry.Path)
		}
		if entry.Path = canonical; entry.PathType == Prefix && !strings.HasSuffix(canonical, "/") {
			entry.Path += "/"
		}
	}
	for i := range entry.Headers {
		entry.Headers[i].Name = strings.ToLower(entry.Headers[i].Name)
	}
	for i := range entry.Query {
		if param := &entry.Query[i]; !param.Regex {
			param.Value = decodedValue(param.Value)
		}
	}
	err := checkConditions(&entry, size)
	return entry, cmp.Or(invalid, err)
}

// maxMatch is the longest total of a match's expressions, in bytes: a proxy must hold them in one line.
const maxMatch = 6000

// checkConditions sorts the conditions of an entry, counts the steps of its expressions, and returns their problems.
func checkConditions(entry *Entry, size regexSize) error {
	for _, kind := range []struct {
		name       string
		conditions []Condition
		// values are those that there are; nil: any.
		values *regex.Values
	}{{"header", entry.Headers, nil}, {"query parameter", entry.Query, decodedValues}} {
		slices.SortFunc(kind.conditions, func(a, b Condition) int { return cmp.Compare(a.Name, b.Name) })
		for i, condition := range kind.conditions {
			if i > 0 && condition.Name == kind.conditions[i-1].Name {
				return fmt.Errorf("%s %q is there twice", kind.name, condition.Name)
			}
			one := regexSize{length: len(regex.Quote(condition.Value))}
			if condition.Regex {
				var err error
				what := fmt.Sprintf("%s %q", kind.name, condition.Name)
				if one, err = checkRegex(what, condition.Value); err != nil {
					return err
				}
				if kind.values != nil {
					err = checkDecoded(what, condition.Value, kind.values, isText)
				}
				if err != nil {
					return err
				}
			}
			size.length += one.length + len(regex.Quote(condition.Name))
			size.steps += one.steps
		}
	}
	entry.steps = size.steps
	if size.length > maxMatch {
		return fmt.Errorf("its conditions are too long: %d bytes where %d are allowed, when every sign is written out", size.length, maxMatch)
	}
	return nil
}

// regexSize is how long the translations of expressions are, and how many steps they take for values of
// regex.MinValue bytes.
type regexSize struct {
	length int
	steps  float64
}

func checkRegex(field, expression string) (regexSize, error) {
	translated, steps, err := regex.Translate(expression)
	if err != nil {
		return regexSize{}, fmt.Errorf("the regular expression of %s is not valid: %w", field, err)
	}
	return regexSize{len(translated), steps}, nil
}
