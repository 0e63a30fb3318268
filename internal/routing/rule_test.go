package routing_test

import (
	"fmt"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/model"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
	source "gateway/internal/source/appv1"
)

// compileOne returns what is made of a rule, which is given without its braces.
func compileOne(t *testing.T, rule string) (*routing.Rule, []routing.Problem) {
	t.Helper()
	table, problems := routingtest.Compile(parseSpec(t, "listeners: [{name: http, port: 80}]\nroutes: [{name: r, rules: [{"+rule+"}]}]"))
	return table.Listeners[0].ByPrecedence()[0].Entries[0].Rule, problems
}

func TestFiltersThatAreTooLong(t *testing.T) {
	setting := func(n int, name, value string) string {
		var headers strings.Builder
		for i := range n {
			fmt.Fprintf(&headers, "{name: %s%d, value: '%s'},", name, i, value)
		}
		return "{type: RequestHeaderModifier, requestHeaderModifier: {set: [" + headers.String() + "]}}"
	}
	path := func(n int) string {
		return "{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /" + strings.Repeat("%20", n) + "}}}"
	}
	tests := map[string]string{
		setting(16, "h", strings.Repeat("%", 500)):                                                                             "its filters have 10",
		setting(16, strings.Repeat("h", 127), strings.Repeat("a", 300)):                                                        "its filters have 11",
		setting(14, "h", strings.Repeat("a", 500)) + ", " + path(341):                                                          "its filters have 11",
		"{type: CORS, cors: {allowOrigins: ['*'], allowHeaders: [" + strings.Repeat(strings.Repeat("h", 160)+", ", 64) + "]}}": "its filters have 10",
	}
	for filters, want := range tests {
		filters = "filters: [" + filters + "]"
		rules := []string{filters + ", backendRefs: [{name: a, port: 80}]"}
		if !strings.Contains(filters, "URLRewrite") && !strings.Contains(filters, "CORS") {
			rules = append(rules, "sessionPersistence: {}, backendRefs: [{name: a, port: 80}, {name: b, port: 80, weight: 0, "+filters+"}]")
		}
		for _, rule := range rules {
			compiled, problems := compileOne(t, rule)
			if len(compiled.Targets) != 0 || len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
				t.Errorf("got %+v and %+v, want %s", compiled, problems, want)
			}
		}
	}
}

// TestRangesThatCannotBeRead: the first is named, and nobody has access.
func TestRangesThatCannotBeRead(t *testing.T) {
	for ranges, want := range map[string]string{
		"allow: [10.0.0.0/8], deny: [fd00::/8]":                     "",
		"allow: [10.0.0.0/8, 999.0.0.0/8], deny: [10.0.0.0/33]":     "clientAddress.allow[1] is no range of addresses: write one such as 10.0.0.0/8 or fd00::/8",
		"deny: [10.0.0.0/8, fd00::/8, 'fe80::1%eth0/64', 10.0.0.1]": "clientAddress.deny[2] is no range of addresses: write one such as 10.0.0.0/8 or fd00::/8",
	} {
		compiled, problems := compileOne(t, "filters: [{type: ClientAddress, clientAddress: {"+ranges+"}}], backendRefs: [{name: a, port: 80}]")
		isRefused := len(compiled.Targets) == 0 && len(problems) == 1 && strings.HasSuffix(problems[0].Message, "rules[0] are answered with 500: "+want)
		if isRefused != (want != "") {
			t.Errorf("%s: got %+v and %+v, want %q", ranges, compiled, problems, want)
		}
	}
}

// TestClaimsNeedTokens: a rule that counts requests by a claim, and verifies no token, lets none through.
func TestClaimsNeedTokens(t *testing.T) {
	const limits = "{type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Second}, {requests: 1, unit: Hour, key: {type: Claim, name: realm.user}}]}}"
	const jwt = ", {type: JWT, jwt: {issuers: [{issuer: a, audiences: [a], keys: {configMapRef: {name: keys}}}]}}"
	const concurrent = "{type: RateLimit, rateLimit: {concurrent: {requests: 1, key: {type: Claim, name: realm.user}}}}"
	for i, isRefused := range []bool{false, true, true, false, true, true} {
		others := []string{jwt, "", ", {type: BasicAuth, basicAuth: {secretRef: {name: a}}}"}[i%3]
		compiled, problems := compileOne(t, "filters: ["+[]string{limits, concurrent}[i/3]+others+"], backendRefs: [{name: a, port: 80}]")
		const want = "requests for rules[0] are answered with 500: rateLimit counts by the claim realm.user, which needs a JWT or an OIDC: add one, or a RateLimit without claims"
		if isRefused && (len(compiled.Targets) != 0 || len(problems) != 1 || !strings.HasSuffix(problems[0].Message, want)) || !isRefused && len(problems) != 0 {
			t.Errorf("with %q: got %+v and %+v", others, compiled, problems)
		}
	}
}

// TestClientsNeedNames: the same for limits by client, which the user of a token is not.
func TestClientsNeedNames(t *testing.T) {
	t.Parallel()
	const limit = "filters: [{type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Second, key: {type: Client}}]}}"
	const want = "requests for rules[0] are answered with 500: rateLimit counts by the client, which needs an APIKey or a BasicAuth: add one, or a RateLimit with another key"
	for others, isRefused := range map[string]bool{
		", {type: APIKey, apiKey: {secretRef: {name: a}, from: [{type: Cookie, name: key}]}}": false, "": true,
		", {type: BasicAuth, basicAuth: {secretRef: {name: a}}}": false, ", {type: JWT, jwt: {issuers: [{issuer: a, audiences: [a], keys: {configMapRef: {name: keys}}}]}}": true,
	} {
		compiled, problems := compileOne(t, limit+others+"], backendRefs: [{name: a, port: 80}]")
		if isRefused && (len(compiled.Targets) != 0 || len(problems) != 1 || !strings.HasSuffix(problems[0].Message, want)) || !isRefused && len(problems) != 0 {
			t.Errorf("with %q: got %+v and %+v", others, compiled, problems)
		}
	}
}

// TestRoutesOfManyObjects: routes may come from objects of their own, in several namespaces. Each has its own
// problems, the first of two equals wins, and Services of one name are two.
func TestRoutesOfManyObjects(t *testing.T) {
	t.Parallel()
	route := func(namespace, name string, matches ...model.Match) model.Route {
		backend := model.Backend{Namespace: namespace, Service: "web", Port: 80}
		return model.Route{
			Origin: model.Origin{Kind: "HTTPRoute", Namespace: namespace, Name: name, Generation: 7}, Name: namespace + "/" + name,
			Listeners: []string{"http"}, Hostnames: []string{"a.io"},
			Rules: []model.Rule{{Action: &model.Action{}, Matches: matches, Backends: []model.Target{{Backend: backend, Weight: 1}}}},
		}
	}
	root, broken := model.Match{PathType: model.Prefix, Path: "/"}, model.Match{PathType: model.Regex, Path: "/x(a*)*"}
	api := model.Match{PathType: model.Prefix, Path: "/api"}
	table, problems := routing.Compile(&model.Gateway{
		Listeners: []model.Listener{{Name: "http", Port: 80, Protocol: model.ProtocolHTTP}},
		Routes:    model.Ordered(route("one", "first", root), route("two", "second", root, api), route("two", "third", broken)),
		Problems:  []model.Problem{{Message: "of the source"}},
	}, filters.Problem)
	if len(problems) != 2 || problems[0].Origin.Name != "third" || problems[0].Origin.Namespace != "two" || problems[1].Message != "of the source" {
		t.Errorf("got the problems %+v", problems)
	}
	for path, want := range map[string]string{"/": "one/web:80", "/api": "two/web:80"} {
		match, ok := table.Match(routing.Request{Port: 80, Host: "a.io", Path: path})
		if !ok || match.Rule.Targets[0].Backend.String() != want {
			t.Errorf("%s: got %+v, want %s", path, match.Rule, want)
		}
	}
	if backends := fmt.Sprint(table.Backends()); backends != "[one/web:80 two/web:80]" {
		t.Errorf("got the backends %s", backends)
	}
}

// TestExpressionsOfEncodedPaths: an expression with a part that no path has would guard nothing.
func TestExpressionsOfEncodedPaths(t *testing.T) {
	const none = "the regular expression of path has a part that none has: write printable characters and spaces as they are, " +
		"and all other bytes as %25 or %C3, in upper case"
	for expression, want := range map[string]string{
		"/docs/a b|/docs/%C3%A4|/a%25b":   "",
		"/docs/%2[0-9]":                   "",
		"/docs/[%20]":                     "",
		`/docs/[^/]*(%[0-9A-F]{2}){1,3}.`: "",
		`/docs/%.*|/%(0[1-9]|C3%A4)`:      "",
		`(?i)/docs/%c3%a4[\x20-\xff]\b$`:  "",
		"/docs/a%20b":                     `the regular expression of path has "%20", which none has: it is compared decoded, so write " "`,
		"/docs/%c3%A4":                    `the regular expression of path has "%c3", which none has: it is compared decoded, so write "%C3"`,
		"/docs/%7b.*":                     `the regular expression of path has "%7b", which none has: it is compared decoded, so write "{"`,
		`/docs/a\tb`:                      none,
		`/docs/\xe9`:                      none,
		`/docs/(a|\xe9x)`:                 none,
		"/docs/ä?":                        none,
		`/docs/[\x00-\x1f]`:               none,
		`/docs/a[^ -~]*`:                  none,
		"/docs/100%":                      none,
		"/docs/(100%)?":                   none,
		"/a%zzb":                          none,
		"/a%2":                            none,
		"/a%00":                           none,
		"/a%[a-f]{2,3}z":                  none,
		"/a%(2|7)0":                       none,
		"/a%[3-6].*":                      none,
	} {
		_, problems := compileOne(t, "matches: [{path: {type: RegularExpression, value: '"+expression+"'}}], backendRefs: [{name: a, port: 80}]")
		if want == "" && len(problems) == 0 || len(problems) == 1 && want != "" && strings.HasSuffix(problems[0].Message, want) {
			continue
		}
		t.Errorf("%s: got %+v, want %q", expression, problems, want)
	}
	for expression, refused := range map[string]bool{"a.*": false, "a%20b": false, "100%25": false, "a b": true, `\xe9`: true, "%41": true, "100%": true} {
		_, problems := compileOne(t, "matches: [{queryParams: [{name: q, type: RegularExpression, value: '"+expression+"'}]}], backendRefs: [{name: a, port: 80}]")
		if refused != (len(problems) == 1) {
			t.Errorf("a query parameter with %s: got %+v, refused %t", expression, problems, refused)
		}
	}
}

// TestAPanicOfACheckStaysWithItsRule: the rule is closed at its matches, and all others go on.
func TestAPanicOfACheckStaysWithItsRule(t *testing.T) {
	gateway := source.Translate(&appv1.Gateway{Spec: *parseSpec(t, `
listeners: [{name: http, port: 80}]
routes:
- name: r
  rules:
  - {matches: [{path: {value: /good}}], backendRefs: [{name: a, port: 1}]}
  - {matches: [{path: {value: /bad}}], backendRefs: [{name: a, port: 1}]}
`)})
	table, problems := routing.Compile(gateway, func(rule *routing.Rule) string {
		if rule.Index == 1 {
			panic("a bug")
		}
		return ""
	})
	const want = `
http :80 ""
  "" prefix /good/ -> r/0 a:1*1
  "" prefix /bad/ -> r/1
`
	if got := "\n" + format(table); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	const message = `route "r": requests for rules[1] are answered with 500: this is a bug, please report it: panic: a bug, at routing_test.`
	if len(problems) != 1 || !strings.HasPrefix(problems[0].Message, message) || !strings.Contains(problems[0].Message, ", routing.filterProblem:") {
		t.Errorf("the problems are %+v", problems)
	}
}
