package convert

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/cli"
)

// guarded is an Ingress that asks for client certificates, and others: with the same host, in this namespace and in
// another, and with another host.
const guarded = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: guard, namespace: a, creationTimestamp: "2024-01-%02dT00:00:00Z", annotations: {%s}}
spec: {rules: [{host: %s, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: guard, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: beside, namespace: a, creationTimestamp: "2024-01-%02dT00:00:00Z"}
spec:
  rules:
    - {host: %[3]s, http: {paths: [{path: /internal, pathType: Prefix, backend: {service: {name: beside, port: {number: 80}}}}]}}
    - {host: other.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: other, port: {number: 80}}}}]}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: elsewhere, namespace: b, annotations: {nginx.ingress.kubernetes.io/permanent-redirect: "https://new.example.com"}}
spec: {rules: [{host: %[3]s, http: {paths: [{path: /moved, pathType: Prefix, backend: {service: {name: moved, port: {number: 80}}}}]}}]}
`

// TestClientCertificatesAreOfTheHost is about an annotation that nginx takes for all paths of a host.
func TestClientCertificatesAreOfTheHost(t *testing.T) {
	const secretName = prefix + "auth-tls-secret"
	const secret = secretName + ": a/ca"
	all503 := []string{"/ 503", "/internal 503", "/ Service other", "/moved 503"}
	routed := []string{"/ Service guard", "/internal Service beside", "/ Service other", "/moved redirect"}
	for _, test := range []struct {
		name, host, annotations string
		open                    []string
		// noted is how the note about the Ingress beside ends.
		noted string
		want  []string
	}{
		{"a name", "api.example.com", secret, nil, "; until then, or until --open names it, requests are answered with 503", all503},
		{"a wildcard", `"*.example.com"`, secret, nil, "; until then, or until --open names it, requests are answered with 503", all503},
		{"no name", `""`, secret, nil, "; until then, or until --open names it, requests are answered with 503", all503},
		{"open", "api.example.com", secret, []string{secretName}, "; requests are let through", routed},
		{"no Secret", "api.example.com", prefix + `auth-tls-secret: ""`, nil, "", slices.Concat([]string{"/ 503"}, routed[1:])},
		{"ranges", "api.example.com", prefix + "whitelist-source-range: 10.0.0.0/8", nil, "", routed},
	} {
		for _, days := range [][2]int{{1, 2}, {2, 1}} { // the guard is the older one, or the younger one
			t.Run(fmt.Sprint(test.name, days), func(t *testing.T) {
				result := convertText(t, fmt.Sprintf(guarded, days[0], test.annotations, test.host, days[1]), test.open...)
				got := answers(result)
				slices.Sort(got)
				if want := slices.Sorted(slices.Values(test.want)); !slices.Equal(got, want) {
					t.Errorf("got rules %q, want %q", got, want)
				}
				for _, name := range []string{"a/beside Ingress", "b/elsewhere Ingress"} {
					found := slices.ContainsFunc(result.Notes, func(n Note) bool {
						return n.Object == name && strings.Contains(n.Text, "auth-tls-secret of a/guard Ingress") && strings.HasSuffix(n.Text, test.noted)
					})
					if found != (test.noted != "") {
						t.Errorf("a note about %s: %v, in %q", name, found, result.Notes)
					}
				}
			})
		}
	}
}

// convertText converts the objects of a text.
func convertText(t *testing.T, text string, open ...string) *Result {
	t.Helper()
	documents, err := cli.Files{Paths: []string{"-"}}.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	result, err := Convert(Input{Documents: documents, Namespace: "default", Name: "ingress", Open: open})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// answers returns the path of each rule, and what becomes of its requests.
func answers(result *Result) []string {
	var all []string
	for _, gateway := range result.Gateways {
		for _, route := range gateway.Spec.Routes {
			for _, rule := range route.Rules {
				answer := "500"
				switch {
				case len(rule.BackendRefs) > 0:
					answer = "Service " + rule.BackendRefs[0].Name
				case len(rule.Filters) > 0 && rule.Filters[0].DirectResponse != nil:
					answer = fmt.Sprint(*rule.Filters[0].DirectResponse.StatusCode)
				case len(rule.Filters) > 0 && rule.Filters[0].RequestRedirect != nil:
					answer = "redirect"
				}
				path := ""
				if len(rule.Matches) > 0 {
					path = rule.Matches[0].Path.Value
				}
				all = append(all, path+" "+answer)
			}
		}
	}
	return all
}
