package dataplanetest_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/model"
	"gateway/internal/regex"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	"gateway/internal/testtier"
)

// guardWorld is a Gateway that answers 403 where an expression matches, and 200 elsewhere. The expression is for the
// path, for the header X-A or for the query parameter a.
func guardWorld(t testing.TB, place string, expressions ...string) rendertest.World {
	t.Helper()
	w := rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - {name: guard, rules: [{filters: [{type: DirectResponse, directResponse: {statusCode: 403}}]}]}
    - {name: open, rules: [{backendRefs: [{name: one, port: 80}]}]}
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
`)
	matches := map[string]string{
		"path":   `{path: {type: RegularExpression, value: '%s'}}`,
		"header": `{headers: [{name: X-A, type: RegularExpression, value: '%s'}]}`,
		"query":  `{queryParams: [{name: a, type: RegularExpression, value: '%s'}]}`,
	}
	var all []string
	for _, expression := range expressions {
		all = append(all, fmt.Sprintf(matches[place], expression))
	}
	rule := &w.Spec.Routes[0].Rules[0]
	rule.Matches = rendertest.Parse(t, "spec: {routes: [{name: r, rules: [{matches: ["+strings.Join(all, ", ")+"]}]}]}").Spec.Routes[0].Rules[0].Matches
	return w
}

// guarded returns a request for a host that has a value at a place.
func guarded(port int32, host, place, value string) routingtest.Request {
	r := routingtest.Request{Request: routing.Request{Port: port, Host: host, Path: "/", Method: "GET"}}
	headers := ""
	switch place {
	case "path":
		r.Path = value
	case "query":
		r.Query = "a=" + value
	default:
		r.Header = map[string][]string{"x-a": {value}}
		headers = "X-A: " + value + "\r\n"
	}
	r.Bytes = fmt.Sprintf("GET %s?%s HTTP/1.1\r\nHost: %s\r\n%s\r\n", r.Path, r.Query, host, headers)
	return r
}

// places are where an expression may be, with what a value has to begin with there.
var places = map[string]string{"path": "/", "header": "", "query": ""}

// TestGuardHoldsWhateverItTakes: no value takes so much work that it passes by an expression that matches it.
func TestGuardHoldsWhateverItTakes(t *testing.T) {
	t.Parallel()
	for place, start := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			g := startGateway(t, guardWorld(t, place, start+".*[0-9]x.*[0-9]y.*", start+"b.*(?:ab?)[0-9]*x.*(?:c|dd)[0-9].*z"))
			for _, value := range []string{
				"1x1y", "1x1y" + strings.Repeat("1x", 500), "1x1y" + strings.Repeat("1x", 1000), "1x1y" + strings.Repeat("1x", 6000),
				"ba1xc1z", "b" + strings.Repeat("a1xc1", 200) + "z",
			} {
				if got := newClient(t, g.ports[80]).send(guarded(80, "x", place, start+value).Bytes); got.Status != 403 && got.Status != 400 && got.Status != 500 {
					t.Errorf("%.20s of %d bytes: got %d, want 403 or 400", value, len(value), got.Status)
				}
			}
		})
	}
}

// TestNoExpressionStopsHAProxy: an expression that takes too much work is refused, and no request gets to what is
// behind it.
func TestNoExpressionStopsHAProxy(t *testing.T) {
	t.Parallel()
	var branches []string
	for i := range 40 {
		branches = append(branches, fmt.Sprintf("[a-%c]*%d", 'z'-i%20, i))
	}
	for place, start := range places {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			w := guardWorld(t, place, start+"[a-z]*(?:"+strings.Join(branches, "|")+")")
			_, problems := routingtest.Compile(&w.Spec)
			if len(problems) != 1 || problems[0].Reason != model.ReasonUnsupportedValue {
				t.Errorf("it is not refused: %v", problems)
			}
			g := startGateway(t, w)
			for _, n := range []int{1, 1000, 3000, 14500} {
				got := newClient(t, g.ports[80]).send(guarded(80, "x", place, start+strings.Repeat("a", n)).Bytes)
				if got.Status != 500 && got.Status != 400 {
					t.Errorf("%d bytes: got %d, want 500 or 400", n, got.Status)
				}
			}
		})
	}
}

// ofHost returns a world of a guard that is for one host of several.
func ofHost(t testing.TB, w *rendertest.World, host, place string, expressions ...string) {
	t.Helper()
	one := guardWorld(t, place, expressions...)
	route := one.Spec.Routes[0]
	route.Name, route.Hostnames = appv1.Name("guard-"+host), []appv1.Hostname{appv1.Hostname(host)}
	route.Rules[0].Filters, route.Rules[0].BackendRefs = nil, []appv1.BackendRef{{Name: "one", Port: 80}}
	w.Spec.Routes = append(w.Spec.Routes, route)
}

// TestLongestValues: HAProxy refuses values of the same lengths as the reference matcher.
func TestLongestValues(t *testing.T) {
	t.Parallel()
	w := guardWorld(t, "path", "/guard")
	expressions := []string{"/?[a-z]*", "/?.*a.*b", "/?[a-z]*[a-z]*0", "/?(.*;)?[a-z]+", "/?.*b.*ab.*"}
	for i, expression := range expressions {
		for place := range places {
			ofHost(t, &w, fmt.Sprint(place, i), place, expression)
		}
	}
	ofHost(t, &w, "many", "header", "b*1", "b*2", "[a-z]*")
	g := startGateway(t, w)
	c := newClient(t, g.ports[80])
	outcomes := map[string]int{}
	for place, start := range places {
		for i := range expressions {
			for _, n := range []int{1, 1023, 1024, 1025, 2048, 2049, 3197, 3198, 3199, 4096, 4097, 8191, 8192, 8193, 10000} {
				r := guarded(g.ports[80], fmt.Sprint(place, i), place, start+strings.Repeat("a", n-len(start)))
				got := c.send(r.Bytes)
				if message := judge(g.in, r, got); message != "" {
					t.Errorf("%s %s, %d bytes: %s", place, expressions[i], n, message)
				}
				outcomes[fmt.Sprint(got.Status, got.Header.Get("Matched"))]++
			}
		}
	}
	if len(outcomes) < 3 {
		t.Errorf("only these outcomes: %v", outcomes)
	}
}

// timed sends a request twenty times, and returns the shortest time for the answer: the machine may have other things
// to do.
func timed(c *client, request string) (answer, time.Duration) {
	c.t.Helper()
	var got answer
	shortest := time.Hour
	for range 20 {
		began := time.Now()
		got = c.send(request)
		shortest = min(shortest, time.Since(began))
	}
	return got, shortest
}

// almostTooMuch returns an expression that could not be longer without being refused.
func almostTooMuch(random *rand.Rand, start string) string {
	parts := []string{
		".*", "[a-c]*", "[ab]+", "a*", "[^b]*", "a", "b", "[bc]", "(a|bb)", "(a|ab|c)", "(b*|a)", "(.*c)?", "(a|[ab]*){0,3}", ".*?", "(ac|b)?", "[ab]{1,9}", `\b`, "(a?b){2,9}",
	}
	expression := start
	for refused := 0; refused < 5; {
		longer := expression + parts[random.IntN(len(parts))]
		if _, _, err := regex.Translate(longer); err == nil && len(longer) < 300 {
			expression = longer
		} else {
			refused++
		}
	}
	return expression
}

// TestExpressionsNearTheBound: HAProxy does with the longest values what the reference matcher says, whose expressions
// need no steps to be counted. So PCRE does not give up.
func TestExpressionsNearTheBound(t *testing.T) {
	t.Parallel()
	random := testtier.Rand(t)
	const hosts = 120
	w := guardWorld(t, "path", "/guard")
	expressions := make([]string, hosts)
	for i := range hosts {
		expressions[i] = almostTooMuch(random, "/?")
		for place := range places {
			ofHost(t, &w, fmt.Sprint(place, i), place, expressions[i])
		}
	}
	g := startGateway(t, w)
	c := newClient(t, g.ports[80])
	met := 0
	for i, expression := range expressions {
		for place, start := range places {
			for range 8 {
				unit := "aabacbcaabbc"[random.IntN(12):]
				unit = unit[:1+random.IntN(min(3, len(unit)))]
				end := []string{"", "d", "dd", "b", "ad"}[random.IntN(5)]
				value := start + strings.Repeat(unit, 1024)
				r := guarded(g.ports[80], fmt.Sprint(place, i), place, value[:1024-len(end)]+end)
				got := c.send(r.Bytes)
				if message := judge(g.in, r, got); message != "" {
					t.Errorf("%s and %.30s...%s: %s", expression, value, end, message)
				}
				if strings.Contains(got.Header.Get("Matched"), "guard-") {
					met++
				}
			}
		}
	}
	t.Logf("%d of %d values match", met, hosts*len(places)*8)
}

// TestTheWorstRequest has as many conditions as a host may, in the three lists that a request to it is compared with,
// and sends what takes them most.
func TestTheWorstRequest(t *testing.T) {
	t.Parallel()
	w := guardWorld(t, "path", "/guard")
	path := "/" + strings.Repeat("a", 1023)
	expression := func(i int) string { return fmt.Sprintf("/?[a-z]*[a-z]*%d", i) }
	var rules []appv1.RouteRule
	for _, match := range []func(i int) appv1.RouteMatch{
		func(i int) appv1.RouteMatch {
			return appv1.RouteMatch{Path: appv1.PathMatch{Type: appv1.PathMatchRegularExpression, Value: expression(i)}}
		},
		func(i int) appv1.RouteMatch {
			header := appv1.HeaderMatch{Name: "X-A", Type: appv1.ValueMatchRegularExpression, Value: expression(i)}
			return appv1.RouteMatch{Path: appv1.PathMatch{Type: appv1.PathMatchExact, Value: path}, Headers: []appv1.HeaderMatch{header}}
		},
		func(i int) appv1.RouteMatch {
			return appv1.RouteMatch{Headers: []appv1.HeaderMatch{{Name: []appv1.HeaderName{"X-B", "X-C"}[i%2], Value: fmt.Sprint(i)}}}
		},
	} {
		w.Spec.Routes[0].Rules = nil
		const tried = 2200
		for i := range tried {
			rule := appv1.RouteRule{Matches: []appv1.RouteMatch{match(i)}, BackendRefs: []appv1.BackendRef{{Name: "one", Port: 80}}}
			w.Spec.Routes[0].Rules = append(w.Spec.Routes[0].Rules, rule)
		}
		_, problems := routingtest.Compile(&w.Spec)
		refused := len(problems)
		if refused == 0 || refused == tried {
			t.Fatalf("%d of %d rules are refused", refused, tried)
		}
		t.Logf("%d conditions", tried-refused)
		rules = append(rules, w.Spec.Routes[0].Rules[:tried-refused]...)
	}
	w.Spec.Routes[0].Rules = rules
	if _, problems := routingtest.Compile(&w.Spec); len(problems) > 0 {
		t.Fatal(problems)
	}
	g := startGateway(t, w)
	r := guarded(g.ports[80], "x", "header", strings.Repeat("a", 1024))
	r.Path, r.Header["x-b"], r.Header["x-c"] = path, []string{strings.Repeat("b", 12000)}, []string{"none"}
	r.Bytes = fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nX-A: %s\r\nX-B: %s\r\nX-C: none\r\n\r\n", path, r.Header["x-a"][0], r.Header["x-b"][0])
	got, took := timed(newClient(t, g.ports[80]), r.Bytes)
	if message := judge(g.in, r, got); message != "" || got.Status != 200 {
		t.Errorf("status %d: %s", got.Status, message)
	}
	t.Logf("the answer took %.1f ms", took.Seconds()*1000)
}

// TestExpressionsOnEncodedValues: an expression is compared with what encodings of printable characters stand for, and
// of spaces in a path. It has to have all others in upper case.
func TestExpressionsOnEncodedValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ place, expression, value string }{
		{"path", "/docs/[a-z ]+", "/docs/a%20b"},
		{"path", "/docs/[a-z ]+", "/%64ocs//%61%20%62"},
		{"path", `/"<a>[[]b[]]\|\^c{}[?]#`, "/%22%3Ca%3E%5bb%5d%7C%5Ec%7B%7D%3F%23"},
		{"path", "/a%25 %09%0A%0D%C3%A4", "/a%25%20%09%0a%0d%c3%a4"},
		{"query", "a%20b", "a%20b"},
		{"query", "a%20b", "a+b"},
		{"query", `"%25\+%C3%A4`, "%22%25%2b%c3%a4"},
	} {
		g := startGateway(t, guardWorld(t, test.place, test.expression))
		r := guarded(g.ports[80], "x", test.place, test.value)
		if got := newClient(t, g.ports[80]).send(r.Bytes); got.Status != 403 {
			t.Errorf("%s %s: %s gets %d, want 403", test.place, test.expression, test.value, got.Status)
		}
		if match, ok := g.in.Table.Match(r.Request); !ok || match.Rule.Response == nil {
			t.Errorf("%s %s: %s is matched by %+v", test.place, test.expression, test.value, match)
		}
	}
}
