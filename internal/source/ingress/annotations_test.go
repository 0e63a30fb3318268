package ingress

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"gateway/internal/must"
)

// TestEveryAnnotation gives an Ingress each of ingress-nginx's annotations (testdata/annotations.txt, from its
// documentation and source) beside those that it is part of. It does what its class says: nothing if it is harmless,
// 503 for some value if it is closed. Any other changes an object, or has a note.
func TestEveryAnnotation(t *testing.T) {
	content := must.Get(os.ReadFile("testdata/annotations.txt"))(t)
	names := strings.Fields(string(content))
	if known := keysOf(annotations); !slices.Equal(known, names) {
		t.Errorf("the table has\n%s\nand the documentation\n%s", known, names)
	}
	values := []string{"true", "false", "7", "https://b.example.com", "/b", "b.example.com", "cookie", "round_robin", "64k", "http://b.a.svc$request_uri"}
	for _, name := range names {
		var without map[string]string
		for _, beginning := range keysOf(wholes) { // the longest comes last
			if strings.HasPrefix(name, beginning) {
				without = wholes[beginning]
			}
		}
		outWithout, _, notesWithout := withAnnotations(t, without)
		changes, closes := false, false
		for _, value := range values {
			with := map[string]string{name: value}
			for other, value := range without {
				if other != name {
					with[other] = value
				}
			}
			out, closed, notes := withAnnotations(t, with)
			isNew := func(note Note) bool { return !slices.Contains(notesWithout, note) }
			changes, closes = changes || out != outWithout || slices.ContainsFunc(notes, isNew), closes || closed
		}
		class := annotations[name].Class
		if changes == (class == Harmless) || class == Closed && !closes {
			t.Errorf("%s beside %v is of class %q: it changes something: %v, and closes: %v", name, without, class, changes, closes)
		}
	}
}

// withAnnotations returns the objects of two Ingresses of which one has annotations, and whether that answers 503.
func withAnnotations(t *testing.T, annotations map[string]string) (out string, closed bool, notes []Note) {
	t.Helper()
	result := convertText(t, mainAndOther(annotations))
	content := must.Get(json.Marshal(result.Objects))(t)
	return string(content), slices.ContainsFunc(answers(result), func(s string) bool { return strings.HasSuffix(s, " 503") }), result.Notes
}

// wholes are the annotations that those with a beginning are part of.
var wholes = map[string]map[string]string{
	"cors-":                   {"enable-cors": "true", "cors-allow-origin": "https://a.example.com"},
	"session-cookie-":         {"affinity": "cookie"},
	"canary-":                 {"canary": "true", "canary-by-header": "X-Canary"},
	"permanent-redirect-code": {"permanent-redirect": "https://a.example.com"},
	"temporal-redirect-code":  {"temporal-redirect": "https://a.example.com"},
	"x-forwarded-prefix":      {"rewrite-target": "/c"},
	"limit-":                  {"limit-rps": "10"},
	"auth-":                   {"auth-url": "http://login.a.svc/check"},
	"auth-tls-match-cn":       {"auth-tls-secret": "a/ca"},
	"modsecurity-snippet":     {"enable-modsecurity": "true"},
	"custom-http-errors":      {"default-backend": "errors"},
	"disable-proxy-":          {"default-backend": "errors", "custom-http-errors": "404"},
	"mirror-":                 {"mirror-target": "http://b.a.svc$request_uri"},
}

// mainAndOther are an Ingress with certificates, and another of the same host that has ingress-nginx's annotations.
func mainAndOther(annotations map[string]string) string {
	const ingress = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[1]s, annotations: {%[2]s}}
spec:
  tls: [{hosts: [www.example.com], secretName: www}]
  rules: [{host: www.example.com, http: {paths: [{path: %[3]s, pathType: Prefix, backend: {service: {name: %[1]s, port: {number: 80}}}}]}}]
---`
	var all []string
	path := "/"
	for name, value := range annotations {
		all = append(all, fmt.Sprintf("%s%s: %q", Prefix, name, value))
		if name == "canary" {
			path = "/main"
		}
	}
	const service = "\n{apiVersion: v1, kind: Service, metadata: {name: errors}, spec: {ports: [{port: 80}]}}\n---"
	return service + fmt.Sprintf(ingress, "main", "", "/main") + fmt.Sprintf(ingress, "other", strings.Join(all, ", "), path)
}

// TestSessionCookies has an Ingress with certificates: where nginx makes another cookie, it is noted.
func TestSessionCookies(t *testing.T) {
	const secure, ends = "annotation affinity: a cookie that was set over HTTPS is sent over HTTP too", "annotation session-cookie-max-age: the cookie ends with the browser's session"
	for _, test := range []struct {
		annotations map[string]string
		wants       []string
	}{
		{map[string]string{"affinity": "cookie"}, []string{secure}},
		{map[string]string{"affinity": "cookie", "session-cookie-secure": "true"}, []string{"annotation session-cookie-secure: the cookie is sent over HTTP too"}},
		{map[string]string{"affinity": "cookie", "session-cookie-secure": "false"}, []string{secure}},
		{map[string]string{"affinity": "cookie", "session-cookie-secure": "false", "session-cookie-max-age": "60"}, []string{ends, secure}},
	} {
		result := convertText(t, mainAndOther(test.annotations))
		if notes := ofIngresses(result); !slices.EqualFunc(notes, test.wants, func(note Note, want string) bool { return strings.HasPrefix(note.Text, want) }) {
			t.Errorf("%v: got %q, want %q", test.annotations, notes, test.wants)
		}
	}
}
