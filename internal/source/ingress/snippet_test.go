package ingress

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// changes tells what a rule does to headers.
func changes(rule *flat) string {
	var all []string
	tell := func(of string, headers *gatewayv1.HTTPHeaderFilter) {
		for _, name := range headers.Remove {
			all = append(all, of+"-"+name)
		}
		for _, header := range headers.Set {
			all = append(all, fmt.Sprintf("%s=%s:%s", of, header.Name, header.Value))
		}
		for _, header := range headers.Add {
			all = append(all, fmt.Sprintf("%s+%s:%s", of, header.Name, header.Value))
		}
	}
	for _, filter := range rule.Filters {
		switch {
		case filter.RequestHeaderModifier != nil:
			tell(">", filter.RequestHeaderModifier)
		case filter.ResponseHeaderModifier != nil:
			tell("<", filter.ResponseHeaderModifier)
		}
	}
	for _, filter := range rule.extension.Filters {
		for i := 0; filter.HeaderVariables != nil && i < len(filter.HeaderVariables.Set); i++ {
			all = append(all, fmt.Sprintf(">=%s:%s", filter.HeaderVariables.Set[i].Name, filter.HeaderVariables.Set[i].Variable))
		}
	}
	return strings.Join(all, " ")
}

// TestSnippets: a snippet changes headers as in nginx, or closes its paths.
func TestSnippets(t *testing.T) {
	const closed = "closed"
	for _, test := range []struct {
		name, snippet string
		beside        map[string]string
		want          string
	}{
		{"answers", `more_set_headers "X-Frame-Options: DENY" "X-A: b;c"; add_header X-B 'two words' always;`, nil, "<=X-Frame-Options:DENY <=X-A:b;c <+X-B:two words"},
		{"removed from answers", "more_clear_headers Server X-Powered-By;\n# a comment; with one\nproxy_hide_header X-A;more_set_headers 'X-B:';", nil, "<-Server <-X-Powered-By <-X-A <-X-B"},
		{"requests", `proxy_set_header X-A "b"; proxy_set_header X-C "";`, nil, ">-X-C >=X-A:b"},
		{"requests, first of all", `more_set_input_headers "pathType: exact" 'X-B:c';`, nil, ">=pathType:exact >=X-B:c"},
		{"variables", "proxy_set_header X-Client $remote_addr; proxy_set_header X-TLS $ssl_protocol;", nil, ">=X-Real-IP:ClientAddress >=X-Client:ClientAddress >=X-TLS:TLSVersion"},
		{"with a prefix", "proxy_set_header X-A b;", map[string]string{"rewrite-target": "/x", "x-forwarded-prefix": "/p"}, ">=X-A:b >=X-Forwarded-Prefix:/p"},
		{"without directives", "# nothing", nil, ""},
		{"the client's password, which nobody checks", "proxy_set_header Authorization '';", nil, ">-Authorization"},

		{"the password that is checked", "proxy_set_header Authorization '';", map[string]string{"auth-type": "basic", "auth-secret": "users"}, closed},
		{"what a Service says", "proxy_set_header X-User a;", map[string]string{"auth-url": "http://login.a.svc/", "auth-response-headers": "X-User"}, closed},
		{"a header of nginx", "proxy_set_header X-Forwarded-For 1;", nil, closed},
		{"a header of nginx, first of all", "more_set_input_headers 'X-Real-IP: 1';", nil, closed},
		{"a variable, first of all", "more_set_input_headers 'X-A: $host';", nil, closed},
		{"the host", "proxy_set_header Host b.test;", nil, closed},
		{"another variable", "more_set_headers 'X-A: $host';", nil, closed},
		{"some statuses", "more_set_headers -s 404 'X-A: b';", nil, closed},
		{"many names", "more_clear_headers X-*;", nil, closed},
		{"a name twice", "more_set_headers 'X-A: b'; add_header x-a c;", nil, closed},
		{"another directive", "more_set_headers 'X-A: b'; deny all;", nil, closed},
		{"a condition", "if ($host = a) { return 403; }", nil, closed},
		{"no end", "more_set_headers 'X-A: b'", nil, closed},
		{"no end of a text", `add_header X-A "b;`, nil, closed},
		{"an escape", `add_header X-A "b\\";`, nil, closed},
		{"no header", "more_set_headers X-A;", nil, closed},
		{"no value", "add_header X-A;", nil, closed},
		{"too many", strings.Repeat("add_header X-A b;", 17), nil, closed},
	} {
		t.Run(test.name, func(t *testing.T) {
			annotations := map[string]string{"configuration-snippet": test.snippet}
			for name, value := range test.beside {
				annotations[name] = value
			}
			rule := flatten(annotated(t, annotations))[0]
			got := changes(&rule)
			if rule.answer() == "503" {
				got = closed
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestSnippetBesideHeaders: the headers of custom-headers come after the snippet's.
func TestSnippetBesideHeaders(t *testing.T) {
	const headers = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: headers}, data: {x-a: two}}\n---"
	text := headers + pathOf(home, "web", "a.test", "/", Prefix+"custom-headers: headers, "+Prefix+`configuration-snippet: "more_set_headers 'X-A: one' 'X-B: b';"`)
	rule := flatten(convertText(t, text))[0]
	if got := strings.Fields(changes(&rule)); !slices.Equal(got, []string{"<=X-B:b", "<=x-a:two"}) {
		t.Errorf("got %q", got)
	}
}

// TestServerSnippets: what they do to headers is for all paths of the host, but for headers that a path has itself.
func TestServerSnippets(t *testing.T) {
	for snippet, want := range map[string][]string{
		"more_set_headers 'X-A: one' 'X-B: b';": {"/ <=X-A:one <=X-B:b", "/own <=X-A:two <=X-B:b"},
		"more_clear_headers Server;":            {"/ <-Server", "/own <-Server <=X-A:two"},
		"add_header X-A b;":                     {"/ 503", "/own.* 503"},
		"more_set_headers 'X-A: $host';":        {"/ 503", "/own.* 503"},
		"location /a { deny all; }":             {"/ 503", "/own.* 503"},
	} {
		text := pathOf(home, "web", "a.test", "/", fmt.Sprintf("%s: %q", Prefix+"server-snippet", snippet)) +
			pathOf("b", "own", "a.test", "/own", Prefix+`configuration-snippet: "more_set_headers 'X-A: two';"`) + pathOf("b", "other", "b.test", "/other", "")
		var got []string
		for _, rule := range flatten(convertText(t, text)) {
			if becomes := rule.answer(); becomes != "503" {
				got = append(got, strings.TrimSpace(rule.path()+" "+changes(&rule)))
			} else {
				got = append(got, rule.path()+" "+becomes)
			}
		}
		if want = append(want, "/other"); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: got %q, want %q", snippet, got, want)
		}
	}
}

// TestSnippetsOfAll: snippets of the ConfigMap change headers of all answers, or close everything.
func TestSnippetsOfAll(t *testing.T) {
	for data, want := range map[string]string{
		`{server-snippet: "more_set_headers 'X-A: b';", http-snippet: "more_clear_headers Server;"}`:          `{"set":[{"name":"X-A","value":"b"}],"remove":["Server"]} Service web`,
		`{server-snippet: "more_set_headers 'X-A: b';", http-snippet: "more_set_headers 'x-a: c' 'X-C: d';"}`: `{"set":[{"name":"X-C","value":"d"},{"name":"X-A","value":"b"}],"remove":["Server"]} Service web`,
		`{server-snippet: "deny all;"}`: `{"remove":["Server"]} 503`,
	} {
		result := convertText(t, "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: "+data+"}\n---"+pathOf(home, "web", "a.test", "/", ""))
		var headers *appv1.HeaderFilter
		for _, filter := range objects[*appv1.GatewayConfig](result)[0].Spec.Filters {
			if filter.ResponseHeaderModifier != nil {
				headers = filter.ResponseHeaderModifier
			}
		}
		content, err := json.Marshal(headers)
		if rules := flatten(result); err != nil || string(content)+" "+rules[0].answer() != want {
			t.Errorf("%s: got %s %s (%v), want %s", data, content, rules[0].answer(), err, want)
		}
	}
}
