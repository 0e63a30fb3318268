package routing_test

import (
	"fmt"
	"slices"
	"testing"

	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

// ofSessions is a spec whose rules 2 and 5 no request reaches: rule 1 has their matches, whatever session a request
// has.
const ofSessions = `
listeners: [{name: http, port: 80}]
routes:
  - name: r
    rules:
      - {matches: [{path: {value: /}, headers: [{name: X-Beta, value: "1"}]}], backendRefs: [{name: beta, port: 80}]}
      - matches: [{path: {value: /}}, {path: {value: /b}, headers: [{name: Cookie, type: RegularExpression, value: ".*b=1.*"}]}]
        sessionPersistence: {sessionName: s}
        backendRefs: [{name: a, port: 80, weight: 0}, {name: b, port: 80}, {name: c, port: 80}]
      - matches: [{path: {value: /}}]
        sessionPersistence: {sessionName: s}
        backendRefs: [{name: never, port: 80}, {name: a, port: 80}]
      - {matches: [{path: {value: /off}}], sessionPersistence: {sessionName: s}, backendRefs: [{name: a, port: 80, weight: 0}]}
      - {matches: [{path: {value: /one}}], sessionPersistence: {sessionName: s}, backendRefs: [{name: a, port: 80}, {name: a, port: 80}]}
      - matches: [{path: {value: /b}, headers: [{name: Cookie, type: RegularExpression, value: ".*b=1.*"}]}]
        sessionPersistence: {sessionName: s}
        backendRefs: [{name: never, port: 80}, {name: a, port: 80}]
`

// TestSessions: a session decides which backend of a rule gets a request, but not which rule.
func TestSessions(t *testing.T) {
	table, _ := routingtest.Compile(parseSpec(t, ofSessions))
	cookie := func(service string) string {
		return (&routing.Affinity{Name: "s"}).Cookie(routing.Backend{Service: service, Port: 80})
	}
	tests := map[string]struct {
		path, cookies, beta string
		want                string
	}{
		"no session":                        {"/", "", "", "1 [b c]"},
		"another cookie":                    {"/", "x=" + cookie("a") + "=1; " + cookie("a") + "x=1", "", "1 [b c]"},
		"a name without a value":            {"/", cookie("a"), "", "1 [b c]"},
		"a session":                         {"/", cookie("c") + "=1", "", "1 [c]"},
		"a session with one without weight": {"/", "x=y;" + cookie("a") + "=", "", "1 [a]"},
		"two sessions":                      {"/", cookie("c") + "=1,\t" + cookie("b") + "=2", "", "1 [b]"},
		"a more specific rule":              {"/", cookie("c") + "=1", "1", "0 [beta]"},
		"a rule with cookies, no session":   {"/b", "b=1", "", "1 [b c]"},
		"a rule with cookies, a session":    {"/b", "b=1; " + cookie("c") + "=1", "", "1 [c]"},
		"no rule of the session's":          {"/", cookie("never") + "=1", "", "1 [b c]"},
		"weight 0 alone":                    {"/off", "", "", "3 []"},
		"weight 0 alone, a session":         {"/off", cookie("a") + "=1", "", "3 [a]"},
		"one Service":                       {"/one", cookie("a") + "=1", "", "4 [a a]"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			header := map[string][]string{}
			if test.cookies != "" {
				header["cookie"] = []string{test.cookies}
			}
			if test.beta != "" {
				header["x-beta"] = []string{test.beta}
			}
			match, _ := table.Match(routing.Request{Port: 80, Host: "x", Path: test.path, Header: header})
			var services []string
			for _, target := range match.Rule.Targets {
				services = append(services, slices.Repeat([]string{target.Backend.Service}, int(target.Weight))...)
			}
			if got := fmt.Sprint(match.Rule.Index, " ", services); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestRulesThatNoRequestReaches(t *testing.T) {
	table, _ := routingtest.Compile(parseSpec(t, ofSessions))
	for entry := range table.Listeners[0].Entries() {
		if entry.Rule.Index == 2 || entry.Rule.Index == 5 {
			t.Errorf("no request reaches %+v", entry)
		}
	}
}
