package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
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
		{"no Secret", "api.example.com", Prefix + `auth-tls-secret: ""`, nil, "", routed},
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

// TestPassthroughBesideGuards: TLS is not passed through on a host where requests are checked or refused.
func TestPassthroughBesideGuards(t *testing.T) {
	const passthrough = Prefix + "ssl-passthrough: 'true'"
	const closes = "annotation ssl-passthrough: nginx checks requests for / unless it has --enable-ssl-passthrough, " +
		"which nobody can where TLS is passed through. " + Answered
	web := func(annotations string) string { return pathOf(home, "web", "a.test", "/", passthrough+annotations) }
	controller := func(data string) string {
		return fmt.Sprintf("\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {%s}}\n---", data)
	}
	for name, test := range map[string]struct {
		text   string
		open   []string
		passes bool
	}{
		"no guards":                             {web(""), nil, true},
		"ranges":                                {web(", " + Prefix + "whitelist-source-range: 192.0.2.1"), nil, false},
		"a Service to ask":                      {web(", " + Prefix + "auth-url: http://login.a.svc/"), nil, false},
		"passwords":                             {web(", " + Prefix + "auth-type: basic, " + Prefix + "auth-secret: users"), nil, false},
		"a firewall":                            {web(", " + Prefix + "enable-modsecurity: 'true'"), nil, false},
		"ranges of the ConfigMap":               {controller("denylist-source-range: 192.0.2.1") + web(""), nil, false},
		"blocked clients":                       {controller("block-cidrs: 192.0.2.1") + web(""), nil, false},
		"a Service to ask, of all":              {controller("global-auth-url: 'http://login.a.svc/'") + web(""), nil, false},
		"another path with ranges":              {pathOf(home, "other", "a.test", "/b", Prefix+"denylist-source-range: 192.0.2.1") + web(""), nil, false},
		"another path that is closed":           {pathOf(home, "other", "a.test", "/b", Prefix+"auth-type: digest") + web(""), nil, false},
		"ranges of another host":                {pathOf(home, "other", "b.test", "/", Prefix+"denylist-source-range: 192.0.2.1") + web(""), nil, true},
		"open by the annotation":                {web(", " + Prefix + "whitelist-source-range: 192.0.2.1"), []string{Prefix + "ssl-passthrough"}, true},
		"closed by ranges that nobody can read": {web(", " + Prefix + "whitelist-source-range: x"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			result := convertText(t, test.text, test.open...)
			if passes := len(objects[*gatewayv1.TLSRoute](result)) > 0; passes != test.passes {
				t.Errorf("TLS is passed through: %v; notes: %q", passes, result.Notes)
			}
			for _, rule := range flatten(result) {
				if !test.passes && strings.HasSuffix(rule.route, "a-test") && rule.path() == "/" && rule.answer() != "503" {
					t.Errorf("/ has %s", rule.answer())
				}
			}
		})
	}
	result := convertText(t, web(", "+Prefix+"whitelist-source-range: 192.0.2.1"))
	if !slices.ContainsFunc(result.Notes, func(n Note) bool { return n.Text == "a.test: "+closes }) {
		t.Errorf("got the notes %q", result.Notes)
	}
}
