package dataplanetest_test

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/regex"
	"gateway/internal/routing"
	"gateway/internal/testtier"
)

const pathRegexWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: shop
      rules:
        - matches: [{path: {value: /something}}]
          filters: [{type: PathRegexRewrite, pathRegexRewrite: {pattern: '^/something(/|$)(.*)', substitution: '/\2'}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /host}}]
          filters:
            - {type: PathRegexRewrite, pathRegexRewrite: {pattern: '(?i)^/host/([a-z]+)', substitution: '/a%2Fb/\1'}}
            - {type: URLRewrite, urlRewrite: {hostname: other.example.com}}
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /old}}]
          filters:
            - {type: PathRegexRewrite, pathRegexRewrite: {pattern: '^/old/([0-9]{4})/(.+?)(\.html)?$', substitution: '/new/\2-\1'}}
            - {type: RequestRedirect, requestRedirect: {scheme: https, hostname: new.example.com, statusCode: 301}}
        - matches: [{path: {value: /files}}]
          filters: [{type: PathRegexRewrite, pathRegexRewrite: {pattern: '^/files-?(.*)', substitution: 'x/\1'}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {type: RegularExpression, value: /dots.*}}]
          filters: [{type: PathRegexRewrite, pathRegexRewrite: {pattern: '^/dots-(.*)', substitution: '/files/\1'}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /cut}}]
          filters: [{type: PathRegexRewrite, pathRegexRewrite: {pattern: '^/cut/(%)(..)', substitution: '/\2\1'}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /long}}]
          filters: [{type: PathRegexRewrite, pathRegexRewrite: {pattern: '^/long/(.*)/(.*)/(.*)$', substitution: '/\3'}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /grow}}]
          filters: [{type: PathRegexRewrite, pathRegexRewrite: {pattern: '^/grow(.*)', substitution: '\1\1'}}]
          backendRefs: [{name: one, port: 80}]
backends: [{service: one, port: 80, servers: ["127.0.0.1:1"]}]
`

func TestPathRegexRewrites(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, pathRegexWorld))
	c := newClient(t, g.ports[80])
	long := strings.Repeat("a", 5000)
	for path, want := range map[string]string{
		"/something/new?q=/something/": "GET /new?q=/something/",
		"/something":                   "GET /",
		"/something/":                  "GET /",
		"/something/a%2Fb/%41%20//c":   "GET /a/b/A%20/c",
		"//%73omething/new":            "GET /new",
		"/something/a;v=1/b+c":         "GET /a;v=1/b+c",
		"/host/ABC/d":                  "GET /a%2Fb/ABC/d",
		"/host/1":                      "GET /host/1",
		"/files":                       "GET /x/",
		"/dots-a/b":                    "GET /files/a/b",
		"/dots-..a/b":                  "GET /files/..a/b",
		"/dots-../secret":              "400",
		"/dots-.":                      "400",
		"/dots-..;a/b":                 "400",
		"/cut/%20":                     "400",
		"/long/a/b/c":                  "GET /c",
		"/long/" + long[:1018]:         "GET /long/" + long[:1018],
		"/long/" + long[:1019]:         "400",
		"/grow/" + long:                "GET /" + long + "/" + long,
		"/grow/" + long + long[:1000]:  "400",
	} {
		got := c.send(get("w.example.com", path))
		line, _, _ := strings.Cut(got.Body, "\n")
		if got.Status != 200 {
			line = fmt.Sprint(got.Status)
		}
		if line != want {
			t.Errorf("%.60s: got %.100q, want %.100q", path, line, want)
		}
	}
	if got := c.send(get("w.example.com", "/host/a")); !strings.Contains(got.Body, "Host: other.example.com\n") {
		t.Errorf("the backend got\n%s", got.Body)
	}
	for path, want := range map[string]string{
		"/old/2026/first/post.html?a=b": "https://new.example.com/new/first/post-2026?a=b", "/old/first": "https://new.example.com/old/first",
	} {
		if got := c.send(get("w.example.com", path)); got.Status != 301 || got.Header.Get("Location") != want {
			t.Errorf("%s: got %d to %q, want %q", path, got.Status, got.Header.Get("Location"), want)
		}
	}
}

// TestPathRegexesShareEntries: HAProxy compares a request with few entries, however many rules have patterns.
func TestPathRegexesShareEntries(t *testing.T) {
	t.Parallel()
	w := rendertest.Parse(t, pathRegexWorld)
	route := &w.Spec.Routes[0]
	first := route.Rules[0]
	route.Rules = nil
	const rules = 2000
	for i := range rules {
		rule := first
		rule.Matches = []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchPathPrefix, Value: fmt.Sprintf("/app-%d", i)}}}
		rule.Filters = []appv1.RuleFilter{{Type: appv1.RuleFilterPathRegexRewrite, PathRegexRewrite: &appv1.PathRegexRewrite{
			Pattern: fmt.Sprintf(`^/app-%d(/|$)(.*)`, i), Substitution: fmt.Sprintf(`/v%d/\2`, i),
		}}}
		route.Rules = append(route.Rules, rule)
	}
	g := startGateway(t, w)
	if n := len(ir.ConditionEntries(render.Render(g.in).Lists)); n > rules/50 {
		t.Errorf("HAProxy has %d entries for %d patterns", n, rules)
	}
	c := newClient(t, g.ports[80])
	for i := 0; i < rules; i += 97 {
		got := c.send(get("x", fmt.Sprintf("/app-%d/a", i)))
		if line, _, _ := strings.Cut(got.Body, "\n"); line != fmt.Sprintf("GET /v%d/a", i) {
			t.Errorf("rule %d: the backend got %q", i, line)
		}
	}
}

// randomPattern returns a pattern that may be refused, and a substitution.
func randomPattern(random *rand.Rand) (pattern, substitution string) {
	parts := []string{
		"/", "a", "b", "[ab]+", "[^/]+", "(.*)", "(.*?)", "(/.*)?", "(a|b|ab)", "(/|$)", "(?:x|(a))", "(b??)", `\b`, "(?i:A)", "([a-c]{1,3})", ".", "$", "(?:/[a-b]*){0,3}", "()", "(%41|c)",
	}
	pattern = "^" + []string{"/", "", "(?i)/", "(?:/|)"}[random.IntN(4)]
	for range 1 + random.IntN(5) {
		pattern += parts[random.IntN(len(parts))]
	}
	pieces := []string{"/", "x", `\0`, `\1`, `\2`, `\3`, "%2F", "-", `0`}
	for range 1 + random.IntN(6) {
		substitution += pieces[random.IntN(len(pieces))]
	}
	return pattern, substitution
}

// replacedPath returns what Go makes of a path, "400" if the proxy has to refuse it.
func replacedPath(path, pattern, substitution string) string {
	groups := regexp.MustCompile(`\\([0-9])`).ReplaceAllString(substitution, "$${$1}")
	path = regexp.MustCompile(pattern).ReplaceAllString(path, groups)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	if _, ok := routing.CanonicalPath(path); !ok {
		return "400"
	}
	return "GET " + path
}

// TestPathRegexProperty: what HAProxy makes of a path is what Go's ReplaceAllString does.
func TestPathRegexProperty(t *testing.T) {
	t.Parallel()
	random := testtier.Rand(t)
	w := rendertest.Parse(t, pathRegexWorld)
	route := w.Spec.Routes[0]
	w.Spec.Routes = nil
	type change struct{ pattern, substitution string }
	var changes []change
	for len(changes) < 150 {
		pattern, substitution := randomPattern(random)
		if _, err := regex.NewReplacement(pattern, substitution); err != nil {
			continue
		}
		one := route
		one.Name, one.Hostnames = appv1.Name(fmt.Sprintf("r%d", len(changes))), []appv1.Hostname{appv1.Hostname(fmt.Sprintf("h%d.io", len(changes)))}
		one.Rules = []appv1.RouteRule{{
			BackendRefs: route.Rules[0].BackendRefs,
			Filters: []appv1.RuleFilter{{
				Type: appv1.RuleFilterPathRegexRewrite, PathRegexRewrite: &appv1.PathRegexRewrite{Pattern: pattern, Substitution: substitution},
			}},
		}}
		w.Spec.Routes = append(w.Spec.Routes, one)
		changes = append(changes, change{pattern, substitution})
	}
	g := startGateway(t, w)
	c := newClient(t, g.ports[80])
	changed := 0
	for i, change := range changes {
		for range 12 {
			path := "/"
			for range random.IntN(8) {
				path += []string{"a", "b", "/", "ab", "c", ".", "%20", "A", "%2541", "x"}[random.IntN(10)]
			}
			canonical, ok := routing.CanonicalPath(path)
			if !ok {
				continue
			}
			got := c.send(get(fmt.Sprintf("h%d.io", i), path))
			line, _, _ := strings.Cut(got.Body, "\n")
			if got.Status != 200 {
				line = fmt.Sprint(got.Status)
			}
			want := replacedPath(canonical, change.pattern, change.substitution)
			if want == "GET "+canonical {
				want = line // A path that does not change stays as the client wrote it, or is canonical.
				if other, _ := routing.CanonicalPath(strings.TrimPrefix(line, "GET ")); other != canonical {
					t.Errorf("%s with %s: %s became %s", change.pattern, change.substitution, path, line)
				}
			} else {
				changed++
			}
			if line != want {
				t.Errorf("%s with %s: %s became %q, want %q", change.pattern, change.substitution, path, line, want)
			}
		}
	}
	t.Logf("%d paths changed", changed)
	if changed == 0 {
		t.Error("no path changed")
	}
}
