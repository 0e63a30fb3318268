package ingress

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
)

// rewrites returns what is rewritten of answers, by rule.
func rewrites(result *Result) (all []string) {
	for _, rule := range flatten(result) {
		text := ""
		for _, filter := range rule.extension.Filters {
			if r := filter.ResponseRewrite; r != nil {
				text += fmt.Sprint(ptr.Deref(r.Location, appv1.LocationRewrite{}), ptr.Deref(r.CookieDomain, appv1.CookieDomainRewrite{}), ptr.Deref(r.CookiePath, appv1.CookiePathRewrite{}))
			}
		}
		all = append(all, text)
	}
	return all
}

// TestRewrittenAnswers has what nginx does by the template of ingress-nginx.
func TestRewrittenAnswers(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        string
		notes       []string
	}{
		"a domain":                   {map[string]string{"proxy-cookie-domain": "App.internal .example.com"}, "{ } {app.internal example.com} { }", nil},
		"no domain":                  {map[string]string{"proxy-cookie-domain": "off"}, "", nil},
		"one domain":                 {map[string]string{"proxy-cookie-domain": "example.com"}, "", []string{"proxy-cookie-domain: " + twoDomains}},
		"an expression for domains":  {map[string]string{"proxy-cookie-domain": "~example.com a.com"}, "", []string{"proxy-cookie-domain: " + twoDomains}},
		"a path":                     {map[string]string{"proxy-cookie-path": "/one/  /"}, "{ } { } {/one/ /}", nil},
		"more than a path":           {map[string]string{"proxy-cookie-path": `/ "/; Secure"`}, "", []string{"proxy-cookie-path: " + twoPaths}},
		"another attribute":          {map[string]string{"proxy-cookie-path": `/ /;Secure`}, "", []string{"proxy-cookie-path: " + twoPaths}},
		"an expression for paths":    {map[string]string{"proxy-cookie-path": "~/one /two"}, "", []string{"proxy-cookie-path: " + twoPaths}},
		"a location":                 {map[string]string{"proxy-redirect-from": "http://", "proxy-redirect-to": "https://"}, "{http:// https://} { } { }", nil},
		"a location without a host":  {map[string]string{"proxy-redirect-from": "http://a/", "proxy-redirect-to": "/"}, "{http://a/ /} { } { }", []string{"proxy-redirect-from: " + isRelative}},
		"an expression":              {map[string]string{"proxy-redirect-from": "~a", "proxy-redirect-to": "b"}, "", []string{"proxy-redirect-from: " + twoLocations}},
		"only a beginning":           {map[string]string{"proxy-redirect-from": "http://a/"}, "", []string{"proxy-redirect-from: " + twoLocations}},
		"a beginning that is off":    {map[string]string{"proxy-redirect-from": "off", "proxy-redirect-to": "http://b/"}, "", nil},
		"the beginning of nginx":     {map[string]string{"proxy-redirect-from": "default", "proxy-redirect-to": "http://b/"}, "", nil},
		"another one that is off":    {map[string]string{"proxy-redirect-from": "http://a/", "proxy-redirect-to": "off"}, "", nil},
		"a new beginning alone":      {map[string]string{"proxy-redirect-to": "http://b/"}, "", []string{"proxy-redirect-to: it has no effect without proxy-redirect-from"}},
		"all of them":                {map[string]string{"proxy-redirect-from": "a", "proxy-redirect-to": "b", "proxy-cookie-path": "/c /d", "proxy-cookie-domain": "e f"}, "{a b} {e f} {/c /d}", nil},
		"a redirect in place of all": {map[string]string{"permanent-redirect": "https://a.test$request_uri", "proxy-cookie-path": "/c /d"}, "", nil},
	} {
		result := convertText(t, mainAndOther(test.annotations))
		got := slices.DeleteFunc(rewrites(result), func(s string) bool { return s == "" })
		if want := slices.DeleteFunc([]string{test.want}, func(s string) bool { return s == "" }); !slices.Equal(slices.Compact(got), want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		var notes []string
		for _, note := range ofIngresses(result) {
			notes = append(notes, note.Text)
		}
		for i, want := range test.notes {
			test.notes[i] = "annotation " + want
		}
		if !slices.Equal(notes, test.notes) {
			t.Errorf("%s: got %q, want %q", name, notes, test.notes)
		}
	}
}
