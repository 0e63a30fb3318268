package ingress

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// ofB are Ingresses of namespace b, one with a certificate, and one that asks a Service behind a path of the host.
const ofB = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: b, creationTimestamp: "2024-01-01T00:00:00Z"}
spec:
  tls: [{hosts: [shop.test], secretName: shop-tls}]
  rules: [{host: shop.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: pay, namespace: b, creationTimestamp: "2024-01-01T00:00:00Z", annotations: {` + Prefix + `auth-url: 'https://$host/oauth2/auth'}}
spec: {rules: [{host: shop.test, http: {paths: [{path: /pay, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: login, namespace: b, creationTimestamp: "2024-01-01T00:00:00Z"}
spec: {rules: [{host: shop.test, http: {paths: [{path: /oauth2, pathType: Prefix, backend: {service: {name: login, port: {number: 80}}}}]}}]}
---`

// TestHostsOfOthers: an Ingress changes nothing of a host that its namespace may not use, and is told so.
func TestHostsOfOthers(t *testing.T) {
	owned := appv1.AllowedHostnames{Rules: []appv1.HostnameRule{
		{Hostnames: []appv1.HostnamePattern{"shop.test"}, Namespaces: &appv1.HostnameNamespaces{Names: []appv1.Name{"b"}}},
		{Hostnames: []appv1.HostnamePattern{"*.{label:team}.test"}},
	}}
	const byRules = "namespace c may use *.red.test, and not shop.test: see allowedHostnames.rules of the GatewayConfig of Gateway a/ingress"
	const byAge = "hostname shop.test belongs to namespace b, which used it first: see allowedHostnames.ownership of the GatewayConfig of Gateway a/ingress"
	older := func(text string) string {
		return strings.Replace(text, "namespace: c,", `namespace: c, creationTimestamp: "2023-01-01T00:00:00Z",`, 1)
	}
	younger := func(text string) string {
		return strings.Replace(text, "namespace: c,", `namespace: c, creationTimestamp: "2025-01-01T00:00:00Z",`, 1)
	}
	secure := strings.Replace(pathOf("c", "evil", "shop.test", "/x", ""), "spec: {", "spec: {tls: [{hosts: [shop.test], secretName: evil}], ", 1)
	for name, evil := range map[string]string{
		"another path":                  pathOf("c", "evil", "shop.test", "/x", ""),
		"the same path":                 older(pathOf("c", "evil", "shop.test", "/", "")),
		"a snippet for the whole host":  pathOf("c", "evil", "shop.test", "/x", Prefix+"server-snippet: return 403;"),
		"certificates of clients":       pathOf("c", "evil", "shop.test", "/x", Prefix+"auth-tls-secret: c/ca"),
		"a canary that asks for them":   pathOf("c", "evil", "shop.test", "/x", Prefix+"canary: 'true', "+Prefix+"auth-tls-secret: c/ca"),
		"expressions":                   pathOf("c", "evil", "shop.test", "/x", Prefix+"use-regex: 'true'"),
		"an app-root":                   pathOf("c", "evil", "shop.test", "/x", Prefix+"app-root: /x"),
		"its own certificate":           older(secure),
		"who decides about requests":    pathOf("c", "evil", "shop.test", "/oauth2/auth", ""),
		"passwords":                     pathOf("c", "evil", "shop.test", "/x", Prefix+"auth-type: basic, "+Prefix+"auth-secret: users"),
		"all hosts, beside another one": pathOf("c", "evil", "SHOP.test", "/x", ""),
	} {
		for _, hostnames := range []appv1.AllowedHostnames{owned, {Ownership: appv1.HostnameOwnershipFirst}} {
			t.Run(fmt.Sprint(name, hostnames.Ownership), func(t *testing.T) {
				evil, why := evil, byRules
				if hostnames.Rules == nil {
					evil, why = younger(strings.Replace(evil, `creationTimestamp: "2023-01-01T00:00:00Z",`, "", 1)), byAge
				}
				in := parseText(t, ofB+evil)
				in.Serving = true
				if without := objectsOf(t, Translate(parseServed(t, ofB))); slices.Equal(without, objectsOf(t, Translate(in))) && name != "the same path" {
					t.Error("it does nothing, without hostnames that belong to somebody")
				}
				in.Hostnames = &AllowedHostnames{hostnames, map[string]labels.Set{"c": {"team": "red"}}}
				result := Translate(in)
				if got, want := objectsOf(t, result), objectsOf(t, Translate(parseServed(t, ofB))); !slices.Equal(got, want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				if note := (Note{Subject{"Ingress", "c", "evil"}, "host shop.test: " + why, true}); !slices.Contains(result.Notes, note) {
					t.Errorf("there is no note %q in %q", note, result.Notes)
				}
			})
		}
	}
}

func parseServed(t *testing.T, text string) Input {
	t.Helper()
	in := parseText(t, text)
	in.Serving = true
	return in
}

// objectsOf returns what is made, but for the settings of the Gateway.
func objectsOf(t *testing.T, result *Result) (all []string) {
	t.Helper()
	for _, object := range result.Objects {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return all
}

// TestAllowedHosts: an Ingress keeps the hosts and aliases that its namespace may use.
func TestAllowedHosts(t *testing.T) {
	rules := []appv1.HostnameRule{{Hostnames: []appv1.HostnamePattern{"*.{namespace}.test"}}}
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"its own":       {pathOf("c", "web", "www.c.test", "/", Prefix+"server-alias: 'api.c.test,shop.test'"), []string{"www.c.test", "api.c.test"}},
		"of all hosts":  {pathOf("c", "web", "", "/", ""), nil},
		"one of others": {pathOf("c", "web", "shop.test", "/", Prefix+"server-alias: www.c.test"), nil},
		"a backend of all hosts": {
			"\n{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web, namespace: c}, spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}}", nil,
		},
		"a backend beside hosts of others": {
			strings.Replace(pathOf("c", "web", "shop.test", "/", ""), "spec: {", "spec: {defaultBackend: {service: {name: web, port: {number: 80}}}, ", 1), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := parseServed(t, test.text)
			in.Hostnames = &AllowedHostnames{AllowedHostnames: appv1.AllowedHostnames{Rules: rules}}
			var got []string
			for _, route := range objects[*gatewayv1.HTTPRoute](Translate(in)) {
				for _, hostname := range append(route.Spec.Hostnames, []gatewayv1.Hostname{"*"}[min(1, len(route.Spec.Hostnames)):]...) {
					got = append(got, string(hostname))
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("routes are for %q, want %q", got, test.want)
			}
		})
	}
}

// TestRoutesAreForTheirNamespaces: a route in the namespace of the Gateway tells for whom it is, and is for one
// namespace. The order of nginx stays.
func TestRoutesAreForTheirNamespaces(t *testing.T) {
	const password, ordered = Prefix + "auth-type: basic, " + Prefix + "auth-secret: users", Prefix + "use-regex: 'true', "
	text := pathOf("b", "one", "a.test", "/aaa", ordered+password) + pathOf("c", "two", "a.test", "/aa", ordered+password) +
		pathOf("b", "three", "a.test", "/a", ordered+password) + pathOf(home, "own", "a.test", "/", password) + pathOf("b", "open", "b.test", "/", "")
	var got []string
	for _, route := range objects[*gatewayv1.HTTPRoute](convertText(t, text)) {
		for _, rule := range route.Spec.Rules {
			got = append(got, fmt.Sprint(objectName(route), " ", route.Labels[gatewayapi.LabelFor], " ", *rule.Matches[0].Path.Value))
		}
	}
	want := []string{
		"a/ingress-a-test b (?i)/aaa.*", "a/ingress-a-test-02 c (?i)/aa.*", "a/ingress-a-test-03 b (?i)/a.*", "a/ingress-a-test-04  /", "b/ingress-b-test  /",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestGuestsOfListeners: routes of namespaces with a path of the host belong to its listener, and no others.
func TestGuestsOfListeners(t *testing.T) {
	result := convertText(t, ofB+pathOf("d", "api", "shop.test", "/api", "")+pathOf("c", "two", "shop.test", "/two", ""))
	for _, set := range objects[*gatewayv1.ListenerSet](result) {
		allowed := set.Spec.Listeners[0].AllowedRoutes
		if allowed == nil || *allowed.Namespaces.From != gatewayv1.NamespacesFromSelector {
			t.Fatalf("allowedRoutes is %+v", allowed)
		}
		if names := allowed.Namespaces.Selector.MatchExpressions[0]; !slices.Equal(names.Values, []string{"b", "c", "d"}) || names.Key != "kubernetes.io/metadata.name" {
			t.Errorf("it takes routes of %+v", names)
		}
	}
}
