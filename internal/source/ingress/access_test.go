package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestAccessOfOthers: an annotation that may be about access closes the paths, whatever program reads it.
func TestAccessOfOthers(t *testing.T) {
	for annotation, closes := range map[string]bool{
		`ingress.example.net/whitelist-ranges: "10.0.0.0/8"`: true,
		`corp.example.net/auth-url: "http://login"`:          true,
		`example.net/denied-ips: "10.0.0.1"`:                 true,
		`kubernetes.io/ingress.allow-http: "false"`:          true,
		`kubernetes.io/ingress.allow-http: "true"`:           false,
		`example.net/owner: "shop"`:                          false,
		`example.net/description: "the shop"`:                false,
	} {
		result := convertText(t, fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: a, annotations: {%s}}
spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}
`, annotation))
		if closed := answers(result)[0] == "/ 503"; closed != closes {
			t.Errorf("%s: closed is %v; notes: %v", annotation, closed, result.Notes)
		}
	}
}

// TestChallenges: the answers to ACME's challenges are served over HTTP, as ingress-nginx does, and all else is
// redirected.
func TestChallenges(t *testing.T) {
	result := convertText(t, `apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  tls: [{hosts: [a.test], secretName: a-tls}]
  rules:
    - host: a.test
      http:
        paths:
          - {path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}
          - {path: /.well-known/acme-challenge/, pathType: Prefix, backend: {service: {name: solver, port: {number: 8089}}}}
`)
	var got []string
	for _, rule := range flatten(result) {
		got = append(got, fmt.Sprintf("%s %s %s", rule.parents, rule.path(), strings.TrimPrefix(rule.answer(), "Service ")))
	}
	slices.Sort(got)
	want := `[ListenerSet] / web
[ListenerSet] /.well-known/acme-challenge redirect
[ListenerSet] /.well-known/acme-challenge/ solver
[http] / redirect
[http] /.well-known/acme-challenge redirect
[http] /.well-known/acme-challenge/ solver`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
