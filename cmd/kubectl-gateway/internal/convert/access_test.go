package convert

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
		filters := result.Gateways[0].Spec.Routes[0].Rules[0].Filters
		if closed := len(filters) > 0 && filters[0].DirectResponse != nil; closed != closes {
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
	for _, route := range result.Gateways[0].Spec.Routes {
		for _, rule := range route.Rules {
			answer := "redirect"
			if len(rule.BackendRefs) > 0 {
				answer = rule.BackendRefs[0].Name
			}
			got = append(got, fmt.Sprintf("%s %s %s", route.Listeners, rule.Matches[0].Path.Value, answer))
		}
	}
	slices.Sort(got)
	want := "[http] / redirect\n[http] /.well-known/acme-challenge/ solver\n[https] / web\n[https] /.well-known/acme-challenge/ solver"
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}
