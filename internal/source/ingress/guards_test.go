package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"
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
	const secretName = Prefix + "auth-tls-secret"
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
		{"a name", "api.example.com", secret, nil, Answered, all503},
		{"a wildcard", `"*.example.com"`, secret, nil, Answered, all503},
		{"no name", `""`, secret, nil, Answered, all503},
		{"open", "api.example.com", secret, []string{secretName}, LetThrough, routed},
		{"no Secret", "api.example.com", Prefix + `auth-tls-secret: ""`, nil, "", slices.Concat([]string{"/ 503"}, routed[1:])},
		{"ranges", "api.example.com", Prefix + "whitelist-source-range: 10.0.0.0/8", nil, "", routed},
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
						return n.Object.String() == name && strings.Contains(n.Text, "auth-tls-secret of a/guard Ingress") && strings.HasSuffix(n.Text, test.noted)
					})
					if found != (test.noted != "") {
						t.Errorf("a note about %s: %v, in %q", name, found, result.Notes)
					}
				}
			})
		}
	}
}
