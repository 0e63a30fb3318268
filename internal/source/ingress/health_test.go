package ingress

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestHealth: load balancers get 200 where they ask, at all Gateways of the class, unless an Ingress has the path.
func TestHealth(t *testing.T) {
	const controller = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: controller}, data: {health-check-path: %s}}\n---"
	for _, test := range []struct{ path, ingresses, want string }{
		{"/healthz", pathOf(home, "web", "a.test", "/", ""), "a/ingress-health[http] /healthz 200"},
		{"/healthz", pathOf(home, "web", "", "/", ""), "a/ingress-health[http] /healthz 200"},
		{"/healthz", pathOf(home, "web", "", "/healthz", ""), ""},
		{"/healthz", pathOf(home, "web", "", "/healthz/", ""), ""},
		{"/healthz", pathOf(home, "web", "", "/.*", Prefix+"use-regex: 'true'"), ""},
		{"/healthz", pathOf(home, "web", "", "/a.*", Prefix+"use-regex: 'true'"), "a/ingress-health[http] /healthz 200"},
		{"/healthz", withClients(""), "a/ingress-health[http http] /healthz 200"},
		{"''", pathOf(home, "web", "a.test", "/", ""), ""},
		{"healthz", pathOf(home, "web", "a.test", "/", ""), ""},
	} {
		var got []string
		for _, rule := range flatten(convertText(t, fmt.Sprintf(controller, test.path)+test.ingresses)) {
			if strings.HasSuffix(rule.route, "-health") {
				got = append(got, fmt.Sprint(rule.route, rule.parents, " ", rule.path(), " ", rule.answer()))
			}
		}
		if test.want == "" && len(got) > 0 || test.want != "" && !slices.Equal(got, []string{test.want}) {
			t.Errorf("%s beside %s: got %q, want %q", test.path, test.ingresses, got, test.want)
		}
	}
}
