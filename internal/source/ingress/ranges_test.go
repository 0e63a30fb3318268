package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const ingressWithPath = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, namespace: a, annotations: {%[2]s}}
spec: {rules: [{host: a.example.com, http: {paths: [{path: "%[3]s", pathType: %[4]s, backend: {service: {name: %[1]s, port: {number: 80}}}}]}}]}
---`

// annotated converts an Ingress with ingress-nginx's annotations.
func annotated(t *testing.T, annotations map[string]string) *Result {
	t.Helper()
	var all []string
	for short, value := range annotations {
		all = append(all, fmt.Sprintf("%s%s: %q", Prefix, short, value))
	}
	return convertText(t, fmt.Sprintf(ingressWithPath, "a", strings.Join(all, ", "), "/", "Prefix"))
}

// limits returns the path of each rule, what becomes of its requests, for whom, and which Service is asked before.
func limits(result *Result) (all []string) {
	for _, rule := range flatten(result) {
		text := rule.path() + " " + rule.answer()
		for _, filter := range rule.extension.Filters {
			if clients := filter.ClientAddress; clients != nil {
				text += fmt.Sprintf(" allow %v deny %v", clients.Allow, clients.Deny)
			}
			if basic := filter.BasicAuth; basic != nil {
				text += fmt.Sprintf(" users of %s for %q", basic.SecretRef.Name, basic.Realm)
			}
			if auth := filter.ExternalAuth; auth != nil {
				text += fmt.Sprintf(" asks %s:%d%s %v", auth.BackendRef.Name, auth.BackendRef.Port, auth.Path, auth.ResponseHeaders)
			}
		}
		all = append(all, text)
	}
	return all
}

// TestRanges is about the annotations that say which clients may come in.
func TestRanges(t *testing.T) {
	const closed = Answered
	many := make([]string, maxRanges+1)
	for i := range many {
		many[i] = fmt.Sprintf("10.%d.%d.0/24", i>>8, i&255)
	}
	for name, test := range map[string]struct {
		annotations map[string]string
		want, note  string
	}{
		"a whitelist":       {map[string]string{"whitelist-source-range": "10.0.0.0/8"}, "/ Service a allow [10.0.0.0/8] deny []", ""},
		"an allowlist":      {map[string]string{"allowlist-source-range": "10.0.0.0/8"}, "/ Service a allow [10.0.0.0/8] deny []", ""},
		"a denylist":        {map[string]string{"denylist-source-range": "fd00::/8"}, "/ Service a allow [] deny [fd00::/8]", ""},
		"both":              {map[string]string{"whitelist-source-range": "10.0.0.0/8", "denylist-source-range": "10.1.0.0/16"}, "/ Service a allow [10.0.0.0/8] deny [10.1.0.0/16]", ""},
		"addresses":         {map[string]string{"whitelist-source-range": " 10.0.0.1 ,fd00::1"}, "/ Service a allow [10.0.0.1/32 fd00::1/128] deny []", ""},
		"the same twice":    {map[string]string{"whitelist-source-range": "10.1.2.3/8,10.0.0.0/8"}, "/ Service a allow [10.0.0.0/8] deny []", ""},
		"as many as may be": {map[string]string{"denylist-source-range": strings.Join(many[1:], ",")}, "/ Service a allow [] deny [" + strings.Join(many[1:], " ") + "]", ""},
		"more":              {map[string]string{"denylist-source-range": strings.Join(many, ",")}, "/ 503", "it has 4097 ranges where 4096 are allowed. " + closed},
		"none":              {map[string]string{"whitelist-source-range": ""}, "/ 503", `"" is no range of addresses. ` + closed},
		"none at the end":   {map[string]string{"whitelist-source-range": "10.0.0.0/8,"}, "/ 503", `"" is no range of addresses. ` + closed},
		"a name":            {map[string]string{"whitelist-source-range": "10.0.0.0/8,all"}, "/ 503", `"all" is no range of addresses. ` + closed},
		"an unreadable one": {map[string]string{"denylist-source-range": "10.0.0.0/33"}, "/ 503", `"10.0.0.0/33" is no range of addresses. ` + closed},
		"a zone":            {map[string]string{"denylist-source-range": "fe80::1%eth0"}, "/ 503", `"fe80::1%eth0" is no range of addresses. ` + closed},
		"both names":        {map[string]string{"whitelist-source-range": "10.0.0.0/8", "allowlist-source-range": "10.0.0.0/8"}, "/ 503", rangesTwice + ". " + closed},
		"one of two":        {map[string]string{"whitelist-source-range": "10.0.0.0/8", "denylist-source-range": "x"}, "/ 503", `"x" is no range of addresses. ` + closed},
	} {
		t.Run(name, func(t *testing.T) {
			result := annotated(t, test.annotations)
			if got := limits(result); !slices.Equal(got, []string{test.want}) {
				t.Errorf("got %.300q, want %.300q", got, test.want)
			}
			if !slices.ContainsFunc(result.Notes, func(n Note) bool { return test.note == "" || strings.HasSuffix(n.Text, ": "+test.note) }) {
				t.Errorf("got the notes %q, want %q", result.Notes, test.note)
			}
		})
	}
}

// TestWhatRangesAreFor: whatever nginx takes for a path with ranges is for their clients alone.
func TestWhatRangesAreFor(t *testing.T) { //nolint:funlen // a flat table
	const ranges = Prefix + "whitelist-source-range: 10.0.0.0/8"
	const rewrite = ranges + ", " + Prefix + "rewrite-target: /$2"
	const allowed = " allow [10.0.0.0/8] deny []"
	type path struct{ name, annotations, path, pathType string }
	root := path{"web", "", "/", "Prefix"}
	for name, test := range map[string]struct {
		paths []path
		open  []string
		wants []string
		note  string
	}{
		"a prefix":        {[]path{root, {"a", ranges, "/a", "Prefix"}}, nil, []string{"/ Service web", "/a Service a" + allowed}, ""},
		"not by segments": {[]path{root, {"a", ranges, "/a", "ImplementationSpecific"}}, nil, []string{"/a.* Service a" + allowed, "/ Service web"}, ""},
		"not by segments, one in another": {
			[]path{root, {"a", ranges, "/a", "ImplementationSpecific"}, {"ab", ranges, "/ab", "ImplementationSpecific"}}, nil,
			[]string{"/ab.* Service ab" + allowed, "/a.* Service a" + allowed, "/ Service web"}, "",
		},
		"a longer path": {
			[]path{{"a", ranges, "/a", "ImplementationSpecific"}, {"b", "", "/a/b", "Prefix"}}, nil,
			[]string{"/a/b(/.*)? Service b", "/a.* Service a" + allowed}, "",
		},
		"a longer path with other ranges": {
			[]path{{"a", ranges, "/a", "ImplementationSpecific"}, {"b", Prefix + "denylist-source-range: 10.1.0.0/16", "/a/b", "Prefix"}, {"c", Prefix + "auth-url: c", "/a/c/", "Prefix"}},
			nil, []string{"/a/c(/.*)? 503", "/a/b(/.*)? Service b allow [] deny [10.1.0.0/16]", "/a.* Service a" + allowed}, "",
		},
		"an expression": {
			[]path{{"a", ranges + ", " + Prefix + `use-regex: "true"`, "/a[0-9]", "ImplementationSpecific"}, root}, nil,
			[]string{"(?i)/a[0-9].* Service a" + allowed, "/ Service web"}, "",
		},
		"an expression that cannot be given": {
			[]path{{"a", ranges + ", " + Prefix + `use-regex: "true"`, "/a/(?!b)", "ImplementationSpecific"}, root}, nil,
			[]string{"(?i)/a/.* 503", "/ Service web"}, "a.example.com/a/(?!b): annotation whitelist-source-range: " + rangesPath,
		},
		"captures": {[]path{{"a", rewrite, "/a(/|$)(.*)", "ImplementationSpecific"}}, nil, []string{"(?i)/a(/|$)(.*) Service a" + allowed}, ""},
		"captures, beside another Ingress": {
			[]path{root, {"a", rewrite, "/a(/|$)(.*)", "ImplementationSpecific"}}, nil,
			[]string{"(?i)/a(/|$)(.*) Service a" + allowed, "/ Service web"}, "",
		},
		"captures that cannot be given": {
			[]path{{"a", ranges + ", " + Prefix + "rewrite-target: /$uri", "/a(/|$)(.*)", "ImplementationSpecific"}}, nil,
			[]string{"(?i)/a(/|$)(.*) 503"}, "a.example.com/a(/|$)(.*): rewrite-target /$uri is no path with captures of the expression. " + Answered,
		},
		"the root, beside another Ingress": {
			[]path{{"a", rewrite, "/(.*)", "ImplementationSpecific"}, {"b", Prefix + "rewrite-target: /$2", "/b(/|$)(.*)", "ImplementationSpecific"}}, nil,
			[]string{"(?i)/b(/|$)(.*) Service b", "(?i)/(.*) Service a" + allowed}, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			for _, p := range test.paths {
				fmt.Fprintf(&text, ingressWithPath, p.name, p.annotations, p.path, p.pathType)
			}
			result := convertText(t, text.String(), test.open...)
			if got := limits(result); !slices.Equal(got, test.wants) {
				t.Errorf("got %q, want %q", got, test.wants)
			}
			if !slices.ContainsFunc(result.Notes, func(n Note) bool { return strings.Contains(n.Text, test.note) }) {
				t.Errorf("got the notes %q, want %q", result.Notes, test.note)
			}
			for _, note := range result.Notes {
				if strings.Contains(note.Text, "refuses") {
					t.Error(note)
				}
			}
		})
	}
}
