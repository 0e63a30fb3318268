package routing_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	source "gateway/internal/source/appv1"
)

// dearRules returns rules with expressions of which a list has room for about a dozen.
func dearRules(n int, match func(expression string) string) string {
	var rules []string
	for i := range n {
		rules = append(rules, "{backendRefs: [{name: b, port: 80}], matches: [{"+match(fmt.Sprintf("/[a-z]*[a-z]*%d", i))+"}]}")
	}
	return "rules: [" + strings.Join(rules, ", ") + "]"
}

func pathExpression(expression string) string {
	return `path: {type: RegularExpression, value: "` + expression + `"}`
}

func headerExpression(path string) func(string) string {
	return func(expression string) string {
		return `path: {value: ` + path + `}, headers: [{name: x, type: RegularExpression, value: "` + expression + `"}]`
	}
}

// refusedRules returns how many rules of each route are refused.
func refusedRules(problems []routing.Problem) map[string]int {
	refused := map[string]int{}
	for _, problem := range problems {
		if problem.Reason == model.ReasonUnsupportedValue {
			refused[problem.Route]++
		}
	}
	return refused
}

// TestTooManySteps: what would make a list take too many steps is refused, and nothing else is.
func TestTooManySteps(t *testing.T) {
	t.Parallel()
	route := func(name, hostnames, rules string) string {
		return fmt.Sprintf("{name: %s, hostnames: [%s], %s}", name, hostnames, rules)
	}
	many := dearRules(20, pathExpression)
	for name, test := range map[string]struct {
		routes []string
		// want are the routes with refused rules.
		want string
	}{
		"few":                                  {[]string{route("a", "a.io", dearRules(5, pathExpression))}, ""},
		"many":                                 {[]string{route("a", "a.io", many)}, "a"},
		"few of each of two hosts":             {[]string{route("a", "a.io", dearRules(10, pathExpression)), route("b", "b.io", dearRules(10, pathExpression))}, ""},
		"few of each of two routes for a host": {[]string{route("a", "a.io", dearRules(10, pathExpression)), route("b", "a.io, b.io", dearRules(10, pathExpression))}, "b"},
		"few of a host and of its wildcard":    {[]string{route("a", "a.b.io", dearRules(10, pathExpression)), route("b", `"*.b.io"`, dearRules(5, pathExpression))}, "a"},
		"few of a host and of a wildcard that does not include it": {
			[]string{route("a", "a.io", dearRules(10, pathExpression)), route("b", `"*.b.io"`, dearRules(1, pathExpression))}, "",
		},
		"few of a wildcard and of a host that it includes": {
			[]string{route("a", `"*.b.io"`, dearRules(10, pathExpression)), route("b", "x.y.b.io", dearRules(1, pathExpression))}, "a",
		},
		"few of a host and of all hosts": {[]string{route("a", "a.io", dearRules(10, pathExpression)), route("b", "", dearRules(1, pathExpression))}, "a"},
		"few of each of two paths":       {[]string{route("a", "a.io", dearRules(10, headerExpression("/a"))), route("b", "a.io", dearRules(10, headerExpression("/b")))}, ""},
		"few of a path and of one above": {
			[]string{route("a", "a.io", dearRules(10, headerExpression("/a/b"))), route("b", "a.io", dearRules(10, headerExpression("/a")))}, "a",
		},
		"many headers to look for": {[]string{route("a", "a.io", strings.ReplaceAll(dearRules(2100, headerExpression("/")), "type: RegularExpression, ", ""))}, "a"},
	} {
		spec := parseSpec(t, "listeners: [{name: http, port: 80}]\nroutes: ["+strings.Join(test.routes, ", ")+"]")
		table, problems := routingtest.Compile(spec)
		refused := refusedRules(problems)
		if got := strings.Join(slices.Collect(routesOf(refused)), ","); got != test.want {
			t.Errorf("%s: rules of %q are refused, want of %q", name, got, test.want)
		}
		if again := (&routing.Compiler{Check: filters.Problem}).Problems(source.Translate(&appv1.Gateway{Spec: *spec})); !reflect.DeepEqual(again, problems) {
			t.Errorf("%s: without the table, the problems are %v, want %v", name, again, problems)
		}
		for route, n := range refused {
			if n > 12 && !strings.HasPrefix(name, "many") || n == 2100 {
				t.Errorf("%s: %d rules of %s are refused", name, n, route)
			}
		}
		closed := 0
		table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
			if len(rule.Targets) == 0 {
				closed++
			}
		})
		if (closed > 0) != (test.want != "") {
			t.Errorf("%s: %d entries are closed", name, closed)
		}
	}
}

func routesOf(refused map[string]int) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for _, name := range []string{"a", "b"} {
			if refused[name] > 0 && !yield(name) {
				return
			}
		}
	}
}

// TestTooLong: a value that is too long for the expressions for its host and path is refused, whatever other rules
// there are.
func TestTooLong(t *testing.T) {
	t.Parallel()
	table, problems := routingtest.Compile(parseSpec(t, `
listeners: [{name: http, port: 80}]
routes:
- name: r
  rules:
  - matches:
    - {path: {type: Exact, value: /exact}}
    - {path: {type: RegularExpression, value: "/slow/[a-z]*[a-z]*0"}}
    - {path: {value: /quick}, headers: [{name: x, type: RegularExpression, value: "[a-z]+1"}, {name: y, value: a}]}
    - {path: {value: /quick}, queryParams: [{name: q, type: RegularExpression, value: "[a-z]+"}]}
    - {}
`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, test := range []struct {
		path, query, x, y string
		want              bool
	}{
		{path: "/exact", x: strings.Repeat("x", 9000)},
		{path: "/" + strings.Repeat("a", 1023)},
		{path: "/" + strings.Repeat("a", 1024), want: true},
		{path: "/other", x: strings.Repeat("x", 9000), query: strings.Repeat("q", 9000)},
		{path: "/quick", x: strings.Repeat("x", 8192), y: strings.Repeat("y", 9000)},
		{path: "/quick", x: strings.Repeat("x", 8193), want: true},
		{path: "/quick/a", x: strings.Repeat("x", 8193), want: true},
		{path: "/quick", query: "q=" + strings.Repeat("q", 3198)},
		{path: "/quick", query: "q=" + strings.Repeat("q", 3199), want: true},
		{path: "/quick", query: "p=" + strings.Repeat("q", 3199), want: true},
	} {
		header := map[string][]string{"x": {test.x}, "y": {test.y}}
		match, ok := table.Match(routing.Request{Port: 80, Path: test.path, Query: test.query, Header: header})
		if match.TooLong != test.want || ok == test.want {
			t.Errorf("a path of %d bytes, a query of %d, a header of %d: too long is %t", len(test.path), len(test.query), len(test.x), match.TooLong)
		}
	}
}
