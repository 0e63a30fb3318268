package schema

import (
	"strings"
	"testing"
)

const path0 = "spec.routes[0].rules[0].matches[0].path"

// invalidRoutes are about rules: what they match, and how long they wait.
var invalidRoutes = []refusal{
	{"a path that is a regular expression with a line break", "", match + "{type: RegularExpression, value: \"/a\\nb\"}}]}]}]}",
		[]string{path0 + ".value: Invalid value: \"/a\\nb\"", "should match '^[ -~]+$'"}},
	{"a path that is a regular expression outside of ASCII", "", match + "{type: RegularExpression, value: /ä}}]}]}]}",
		[]string{path0 + ".value: Invalid value: \"/ä\"", "should match '^[ -~]+$'"}},
	{"a kind of path match that is not supported", "", match + "{type: Prefix, value: /a}}]}]}]}",
		[]string{path0 + `.type: Unsupported value: "Prefix": supported values: "Exact", "PathPrefix", "RegularExpression"`}},
	{"a path without a slash", "", match + "{value: api}}]}]}]}", []string{`"` + path0 + `" ` + none, "should match '^/("}},
	{"an exact path without a slash", "", match + "{type: Exact, value: api}}]}]}]}", []string{`"` + path0 + `" ` + none, "should match '^/("}},
	{"a header twice", "", rule + "[{matches: [{headers: [{name: a, value: b}, {name: a, value: c}]}]}]}]}",
		[]string{`matches[0].headers[1]: Duplicate value: {"name":"a"}`}},
	{"a header's value with a space at its end", "", rule + "[{matches: [{headers: [{name: a, value: 'b '}]}]}]}]}",
		[]string{`matches[0].headers[0].value: Invalid value: "b "`}},
	{"a header that the proxies remove", "", rule + "[{matches: [{headers: [{name: a_b, value: b}, {name: a.b, value: b}]}]}]}]}",
		[]string{`matches[0].headers[0].name: Invalid value: "a_b"`, `matches[0].headers[1].name: Invalid value: "a.b"`}},
	{"a pseudo-header", "", rule + "[{matches: [{headers: [{name: ':path', value: b}]}]}]}]}",
		[]string{`matches[0].headers[0].name: Invalid value: ":path"`}},
	{"a parameter's value with a space", "", rule + "[{matches: [{queryParams: [{name: a, value: b c}]}]}]}]}",
		[]string{`matches[0].queryParams[0].value: Invalid value: "b c"`}},
	{"a parameter's name that ends the parameter", "", rule + "[{matches: [{queryParams: [{name: a&b, value: c}]}]}]}]}",
		[]string{`matches[0].queryParams[0].name: Invalid value: "a&b"`}},
	{"a parameter twice", "", rule + "[{matches: [{queryParams: [{name: a, value: b}, {name: a, value: c}]}]}]}]}",
		[]string{`matches[0].queryParams[1]: Duplicate value: {"name":"a"}`}},
	{"a method in lower case", "", rule + "[{matches: [{method: get}]}]}]}",
		[]string{`matches[0].method: Unsupported value: "get": supported values: "GET", "HEAD", "POST"`}},
	{"the method CONNECT", "", rule + "[{matches: [{method: CONNECT}]}]}]}", []string{`matches[0].method: Unsupported value: "CONNECT"`}},

	{"a time without a unit", "", rule + "[{timeouts: {request: '10'}}]}]}",
		[]string{`spec.routes[0].rules[0].timeouts.request: Invalid value: "10"`, "should match"}},
	{"a number as a time", "", rule + "[{timeouts: {request: 10}}]}]}",
		[]string{"spec.routes[0].rules[0].timeouts.request: Invalid value: \"integer\"", "must be of type string"}},
	{"a negative time", "", rule + "[{timeouts: {backendRequest: -1s}}]}]}",
		[]string{`spec.routes[0].rules[0].timeouts.backendRequest: Invalid value: "-1s"`}},
	{"a fraction of a second", "", rule + "[{timeouts: {backendRequest: 1.5s}}]}]}",
		[]string{`spec.routes[0].rules[0].timeouts.backendRequest: Invalid value: "1.5s"`}},
	{"an attempt that may take longer than the request", "", rule + "[{timeouts: {request: 1s, backendRequest: 1001ms}}]}]}",
		[]string{"spec.routes[0].rules[0].timeouts: Invalid value: timeouts.backendRequest must not be longer than timeouts.request"}},
	{"a code that HAProxy does not try again", "", rule + "[{retry: {codes: [505]}}]}]}",
		[]string{"spec.routes[0].rules[0].retry.codes[0]: Unsupported value: 505: supported values: \"401\""}},
	{"a session of no length", "", rule + "[{sessionPersistence: {absoluteTimeout: 0s}}]}]}",
		[]string{"sessionPersistence.absoluteTimeout: Invalid value: \"0s\": absoluteTimeout must be at least 1s"}},
	{"a session that is kept by a header", "", rule + "[{sessionPersistence: {type: Header}}]}]}",
		[]string{`sessionPersistence.type: Unsupported value: "Header": supported values: "Cookie"`}},
	{"a cookie's name that ends the cookie", "", rule + "[{sessionPersistence: {sessionName: 'a;b'}}]}]}",
		[]string{`sessionPersistence.sessionName: Invalid value: "a;b"`}},
}

// badPaths are refused as the value of a path match of type Exact or PathPrefix.
var badPaths = map[string]string{
	"a relative path":               "api",
	"a query":                       "/a?b=c",
	"a fragment":                    "/a#b",
	"a space":                       "/a b",
	"a line break":                  "/a\\nb",
	"a line break at the end":       "/a\\n",
	"a quote":                       "/a\\\"b",
	"a backslash":                   "/a\\\\b",
	"a control character":           "/a\\u0001",
	"a NUL":                         "/a\\0",
	"a character outside of ASCII":  "/ä",
	"a slash that only looks so":    "/a∕b",
	"a bracket":                     "/%[src]",
	"an empty segment":              "/a//b",
	"an empty segment at the start": "//a",
	"an empty segment at the end":   "/a//",
	"a segment of one dot":          "/a/./b",
	"a segment of one dot at the end, and a slash": "/a/./",
	"a segment of one dot alone":                   "/.",
	"a segment of two dots":                        "/../a",
	"two dots at the end":                          "/a/..",
	"two dots at the end, and a slash":             "/a/../",
	"two dots in the middle":                       "/a/.../../b",
	"an encoded slash":                             "/a%2Fb",
	"an encoded slash, lower case":                 "/a%2fb",
	"an encoded backslash":                         "/a%5Cb",
	"an encoded backslash, lower case":             "/a%5cb",
	"an encoded segment of one dot":                "/a/%2e/b",
	"an encoded segment of one dot at the end":     "/%2E",
	"an encoded segment of two dots":               "/%2e%2E/a",
	"a segment of two dots, the first encoded":     "/a/%2e.",
	"a segment of two dots, the second encoded":    "/a/.%2E/",
	"an encoded NUL":                               "/a%00b",
	"a percent sign without digits":                "/a%",
	"a percent sign with one digit":                "/a%2",
	"a percent sign with other digits":             "/a%2g",
	"more than 1024 characters":                    "/" + strings.Repeat("a", 1024),
	"nothing":                                      "",
}

// goodPaths are not what they look like.
var goodPaths = []string{"/...", "/a/.../b", "/.a/b", "/..a", "/a..", "/a../b", "/..;a", "/.well-known/", "/-", "/%252e", "/%25", "/a%5Bb", "/a%255Cb", "/%2e%2E%2e", "/%2ea", "/a%2E", "/..%2e", "/%2e;", "/%01"}

func TestPaths(t *testing.T) {
	t.Parallel()
	for why, path := range badPaths {
		for _, kind := range []string{"Exact", "PathPrefix"} {
			t.Run(kind+" with "+why, func(t *testing.T) {
				t.Parallel()
				expectRefusal(t, "shop", match+"{type: "+kind+", value: \""+path+"\"}}]}]}]}", path0+".value: ")
			})
		}
	}
	for _, path := range goodPaths {
		t.Run("good: "+path, func(t *testing.T) {
			t.Parallel()
			expectAdmission(t, match+"{type: Exact, value: \""+path+"\"}}, {path: {value: \""+path+"\"}}]}]}]}")
		})
	}
}

// expectAdmission checks that the API server would create a Gateway.
func expectAdmission(t *testing.T, spec string) {
	t.Helper()
	if _, err := create(t.Context(), object(t, "shop", spec), true); err != nil {
		t.Errorf("the API server refuses it, and should not: %s\n%s", abridged(err.Error()), abridged(spec))
	}
}
