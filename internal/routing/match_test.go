package routing_test

import (
	"fmt"
	"strings"
	"testing"

	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

func TestNormalizeHost(t *testing.T) {
	const malformed = "malformed"
	longest := strings.Repeat("a.", 126) + "a"
	tests := map[string]struct{ header, want string }{
		"a plain host":                         {"example.com", "example.com"},
		"no host":                              {"", ""},
		"upper case":                           {"EXAMPLE.com", "example.com"},
		"a port":                               {"example.com:8080", "example.com"},
		"an empty port":                        {"example.com:", "example.com"},
		"a port alone":                         {":80", ""},
		"a port that is no number":             {"example.com:http", malformed},
		"two ports":                            {"example.com:80:81", malformed},
		"one trailing dot":                     {"example.com.", "example.com"},
		"one trailing dot before a port":       {"example.com.:80", "example.com"},
		"two trailing dots":                    {"example.com..", malformed},
		"a dot":                                {".", malformed},
		"a leading dot":                        {".example.com", malformed},
		"an empty label":                       {"a..com", malformed},
		"an underscore":                        {"a_b.com", "a_b.com"},
		"an IPv4 address":                      {"10.0.0.1:80", "10.0.0.1"},
		"an IPv6 address":                      {"[FD00::1]", "[fd00::1]"},
		"an IPv6 address with a port":          {"[fd00::1]:80", "[fd00::1]"},
		"an IPv6 address without brackets":     {"fd00::1", malformed},
		"an IPv6 address that does not end":    {"[fd00::1", malformed},
		"brackets around nothing":              {"[]", malformed},
		"brackets around a name":               {"[example.com]", malformed},
		"a trailing dot after an IPv6 address": {"[fd00::1].", malformed},
		"a slash":                              {"example.com/a", malformed},
		"a comma":                              {"example.com,a.com", malformed},
		"a space":                              {"example.com ", malformed},
		"a wildcard":                           {"*.example.com", malformed},
		"an escape":                            {"%65xample.com", malformed},
		"a letter that has an ASCII lower case, but is none": {"\u212a.com", malformed},
		"a byte that is no UTF-8":                            {"a\xff", malformed},
		"the longest name":                                   {longest, longest},
		"the longest name with a trailing dot":               {longest + ".", longest},
		"a longer name":                                      {longest + "a", malformed},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, ok := routing.NormalizeHost(test.header)
			if !ok {
				got = malformed
			}
			if got != test.want {
				t.Errorf("NormalizeHost(%q) is %q, want %q", test.header, got, test.want)
			}
		})
	}
}

func TestMatch(t *testing.T) {
	table, _ := routingtest.Compile(parseSpec(t, `
listeners:
  - {name: any, port: 80}
  - {name: wild, port: 80, hostname: "*.example.com"}
  - {name: exact, port: 80, hostname: www.example.com}
  - {name: strict, port: 81, hostname: strict.io}
routes:
  - {name: default, listeners: [any, strict], rules: [{}]}
  - {name: www, listeners: [exact], rules: [{matches: [{path: {value: /www}}]}]}
  - name: wild
    listeners: [wild]
    rules: [{matches: [{path: {value: /everywhere}}]}]
  - name: example
    listeners: [wild]
    hostnames: [a.example.com, "*.b.example.com"]
    rules:
      - matches: [{path: {value: /api}}]
      - matches: [{path: {type: Exact, value: /api}}, {path: {value: /api/v1/}}]
`))
	tests := map[string]struct {
		port       int32
		host, path string
		want       string
	}{
		"any host":                 {80, "other.io", "/x", "any default/0"},
		"no host":                  {80, "", "/", "any default/0"},
		"a port nobody listens on": {82, "other.io", "/", ""},
		"a host the port's listeners do not have":      {81, "other.io", "/", ""},
		"a host the port's one listener has":           {81, "strict.io", "/", "strict default/0"},
		"the most specific listener":                   {80, "www.example.com", "/www", "exact www/0"},
		"no route of a less specific listener":         {80, "www.example.com", "/everywhere", ""},
		"the wildcard's suffix itself is another host": {80, "example.com", "/everywhere", "any default/0"},
		"a wildcard stands for several labels":         {80, "x.y.example.com", "/everywhere/x", "wild wild/0"},
		"an exact path before the same prefix":         {80, "a.example.com", "/api", "wild example/1"},
		"a prefix with a trailing slash":               {80, "a.example.com", "/api/", "wild example/0"},
		"a longer prefix":                              {80, "a.example.com", "/api/v1", "wild example/1"},
		"a prefix ends on a segment":                   {80, "a.example.com", "/apis", ""},
		"case matters in paths":                        {80, "a.example.com", "/API/", ""},
		"falling through to a less specific hostname":  {80, "x.b.example.com", "/everywhere", "wild wild/0"},
		"a wildcard of the route":                      {80, "x.b.example.com", "/api/v2", "wild example/0"},
		"a hostname that is like a wildcard's suffix":  {80, "xb.example.com", "/api", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if match, ok := table.Match(routing.Request{Port: test.port, Host: test.host, Path: test.path}); ok {
				got = fmt.Sprintf("%s %s/%d", match.Listener, match.Rule.Route, match.Rule.Index)
				if candidates := table.Candidates(routing.Request{Port: test.port, Host: test.host, Path: test.path}); test.host != "" && (len(candidates) != 1 || candidates[0] != match.Rule) {
					t.Errorf("without conditions, there are %d candidates", len(candidates))
				}
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
