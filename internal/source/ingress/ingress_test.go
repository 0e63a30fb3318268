package ingress

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/testtier"
)

// pathOf is an Ingress with one path.
func pathOf(namespace, name, host, path, annotations string) string {
	return fmt.Sprintf(`
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: %[2]s, namespace: %[1]s, annotations: {%[5]s}}
spec: {rules: [{host: %[3]q, http: {paths: [{path: %[4]q, pathType: ImplementationSpecific, backend: {service: {name: %[2]s, port: {number: 80}}}}]}}]}
---`, namespace, name, host, path, annotations)
}

// TestOneGatewayForManyNamespaces: a host of two namespaces has routes in both, and one listener for HTTPS.
func TestOneGatewayForManyNamespaces(t *testing.T) {
	const secure = `
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web, namespace: b, creationTimestamp: "2024-01-01T00:00:00Z"}
spec:
  tls: [{hosts: [shop.test], secretName: shop-tls}]
  rules: [{host: shop.test, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]
---`
	result := convertText(t, secure+pathOf("c", "api", "shop.test", "/api/", ""))
	var got []string
	for _, rule := range flatten(result) {
		got = append(got, fmt.Sprint(rule.route, rule.parents, rule.path(), " ", rule.answer()))
	}
	want := []string{
		"b/ingress-shop-test-http[http]/ redirect", "b/ingress-shop-test[ListenerSet]/ Service web",
		"c/ingress-shop-test-http[http]/api redirect", "c/ingress-shop-test-http[http]/api/ redirect",
		"c/ingress-shop-test[ListenerSet]/api redirect", "c/ingress-shop-test[ListenerSet]/api/ Service api",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	sets := objects[*gatewayv1.ListenerSet](result)
	if len(sets) != 1 || sets[0].Namespace != "b" || sets[0].Spec.Listeners[0].AllowedRoutes == nil {
		t.Errorf("got the ListenerSets %+v", sets)
	}
}

// TestGuardsOfOtherNamespaces: routes are where the proxies can mount a Secret with users, or where the Service is that
// is asked.
func TestGuardsOfOtherNamespaces(t *testing.T) {
	const passwords = Prefix + "auth-type: basic, " + Prefix + "auth-secret: users"
	result := convertText(t, pathOf("b", "web", "shop.test", "/", passwords))
	rule := flatten(result)[0]
	grants := objects[*gatewayv1.ReferenceGrant](result)
	if !strings.HasPrefix(rule.route, home+"/") || ptr.Deref(rule.BackendRefs[0].Namespace, "") != "b" || len(grants) != 1 || grants[0].Namespace != "b" {
		t.Errorf("got the rule %+v and grants %+v", rule, grants)
	}
	if !slices.ContainsFunc(result.Notes, func(n Note) bool {
		return strings.HasSuffix(n.Text, "copy Secret b/users to namespace a, that of the Gateway, as b.users")
	}) {
		t.Errorf("got the notes %q", result.Notes)
	}
	result = convertText(t, pathOf("b", "web", "shop.test", "/", Prefix+"auth-url: http://login.c.svc/"))
	rule, grants = flatten(result)[0], objects[*gatewayv1.ReferenceGrant](result)
	if !strings.HasPrefix(rule.route, "c/") || ptr.Deref(rule.BackendRefs[0].Namespace, "") != "b" || len(grants) != 1 || grants[0].Spec.From[0].Namespace != "c" {
		t.Errorf("with a Service to ask in another namespace, got the rule %+v and grants %+v", rule, grants)
	}
	result = convertText(t, pathOf("b", "web", "shop.test", "/", passwords+", "+Prefix+"auth-url: http://login.b.svc/"))
	if got := limits(result); !slices.Equal(got, []string{"/ 503"}) {
		t.Errorf("with a Service of the other namespace, got %q", got)
	}
}

// TestOrderOfNamespaces: an expression with guards is not behind one of another namespace that nginx tries later.
func TestOrderOfNamespaces(t *testing.T) {
	const guard = Prefix + "use-regex: 'true', " + Prefix + "whitelist-source-range: 10.0.0.0/8"
	for _, test := range []struct {
		guarded, other string
		open           []string
		want           []string
	}{
		{"c", "b", nil, []string{"(?i)/s.* 503", "(?i)/secret.* Service guarded allow [10.0.0.0/8] deny []"}},
		{"c", "b", []string{Prefix + "whitelist-source-range"}, []string{"(?i)/s.* Service other", "(?i)/secret.* Service guarded allow [10.0.0.0/8] deny []"}},
		{"b", "c", nil, []string{"(?i)/secret.* Service guarded allow [10.0.0.0/8] deny []", "(?i)/s.* Service other"}},
	} {
		text := pathOf(test.guarded, "guarded", "a.test", "/secret", guard) + pathOf(test.other, "other", "a.test", "/s", "")
		if got := limits(convertText(t, text, test.open...)); !slices.Equal(got, test.want) {
			t.Errorf("guarded in %s, open %q: got %q, want %q", test.guarded, test.open, got, test.want)
		}
	}
}

// TestRootOfAnotherNamespace: the path / takes what no expression takes, also where its routes come before others.
func TestRootOfAnotherNamespace(t *testing.T) {
	text := pathOf("c", "guarded", "a.test", "/api/(.*)", Prefix+"rewrite-target: /$1, "+Prefix+"auth-url: http://login.c.svc/") + pathOf("b", "open", "a.test", "/", "")
	want := []string{"/ Service open", "(?i)/api/(.*) Service guarded asks login:80/ []"}
	if got := limits(convertText(t, text)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestCanaryBesideAGuard: rules with a header come before other expressions, so a canary's may not be there.
func TestCanaryBesideAGuard(t *testing.T) {
	const canary = Prefix + "canary: 'true', " + Prefix + "canary-by-header: X-Canary"
	text := pathOf(home, "guarded", "a.test", "/secret", Prefix+"use-regex: 'true', "+Prefix+"whitelist-source-range: 10.0.0.0/8") +
		pathOf(home, "web", "a.test", "/s", "") + pathOf(home, "web-canary", "a.test", "/s", canary)
	want := []string{"(?i)/secret.* Service guarded allow [10.0.0.0/8] deny []", "(?i)/s.* 503"}
	if got := limits(convertText(t, text)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLimitsOfTheAPI: what is more than an object may have is in several, in the order of nginx.
func TestLimitsOfTheAPI(t *testing.T) {
	var text strings.Builder
	var aliases []string
	for i := range 40 {
		text.WriteString(pathOf("b", fmt.Sprintf("s%02d", i), "a.test", fmt.Sprintf("/%s", strings.Repeat("a", 60-i)), Prefix+"use-regex: 'true'"))
		aliases = append(aliases, fmt.Sprintf("x%d.test", i))
	}
	text.WriteString(pathOf("b", "more", "b.test", "/", Prefix+"server-alias: "+fmt.Sprintf("%q", strings.Join(aliases, ","))))
	result := convertText(t, text.String())
	var services []string
	last := ""
	hostnames := 0
	for _, rule := range flatten(result) {
		if last > rule.route {
			t.Errorf("%s comes after %s", rule.route, last)
		}
		last = rule.route
		services = append(services, rule.answer())
	}
	if len(services) != 40+3 || !slices.IsSorted(services[:40]) {
		t.Errorf("got the Services %q", services)
	}
	for _, route := range objects[*gatewayv1.HTTPRoute](result) {
		if len(route.Spec.Rules) > maxRules || len(route.Spec.Hostnames) > maxHostnames {
			t.Errorf("route %s has %d rules and %d hostnames", route.Name, len(route.Spec.Rules), len(route.Spec.Hostnames))
		}
		if strings.Contains(route.Name, "b-test") {
			hostnames += len(route.Spec.Hostnames)
		}
	}
	if hostnames != 41 {
		t.Errorf("%d hostnames have routes", hostnames)
	}
}

// TestOthers is about annotations that become other objects or filters.
func TestOthers(t *testing.T) {
	const headers = "\n{apiVersion: v1, kind: ConfigMap, metadata: {name: headers}, data: {X-A: b}}\n---"
	result := convertText(t, pathOf(home, "web", "a.test", "/", Prefix+"custom-headers: headers, "+Prefix+"mirror-target: http://copy.a.svc$request_uri")+headers)
	filters := flatten(result)[0].Filters
	if len(filters) != 2 || filters[0].ResponseHeaderModifier.Set[0] != (gatewayv1.HTTPHeader{Name: "X-A", Value: "b"}) || filters[1].RequestMirror.BackendRef.Name != "copy" {
		t.Errorf("got the filters %+v", filters)
	}
	result = convertText(t, pathOf("b", "web", "a.test", "/", Prefix+"ssl-passthrough: 'true'"))
	routes := objects[*gatewayv1.TLSRoute](result)
	set := objects[*gatewayv1.ListenerSet](result)[0]
	if len(routes) != 1 || set.Spec.Listeners[0].Protocol != gatewayv1.TLSProtocolType || *set.Spec.Listeners[0].TLS.Mode != gatewayv1.TLSModePassthrough {
		t.Errorf("got the routes %+v and the listeners %+v", routes, set.Spec.Listeners)
	}
}

// TestErrors: the Service of default-backend answers in place of errors, at its first port.
func TestErrors(t *testing.T) {
	const (
		service = "\n{apiVersion: v1, kind: Service, metadata: {name: errors, namespace: a}, spec: {ports: [{port: 8080}, {port: 80}]}}\n---"
		codes   = Prefix + "custom-http-errors: '503,404, 302,404,x'"
		named   = ", " + Prefix + "default-backend: errors"
	)
	for _, test := range []struct{ text, override, note string }{
		{pathOf("a", "web", "a.test", "/", codes+named) + service, "404 503 by errors:8080", "answers with 302 are passed on"},
		{pathOf("a", "web", "a.test", "/", codes+named), "", "the port of Service errors is not known: give the Service too"},
		{pathOf("a", "web", "a.test", "/", codes) + service, "", "name one in the annotation default-backend"},
	} {
		result, got := convertText(t, test.text), ""
		for _, filter := range objects[*appv1.RouteFilter](result) {
			for _, part := range filter.Spec.Filters[0].ResponseOverride.Responses {
				got += fmt.Sprintf("%s by %s:%d", strings.Trim(fmt.Sprint(part.Statuses), "[]"), part.BackendRef.Name, part.BackendRef.Port)
			}
		}
		if isNoted := func(note Note) bool { return strings.Contains(note.Text, test.note) }; got != test.override || !slices.ContainsFunc(result.Notes, isNoted) {
			t.Errorf("got %q and the notes %q, want %q", got, result.Notes, test.override)
		}
	}
}

// TestConfiguration is about the controller's ConfigMap.
func TestConfiguration(t *testing.T) {
	const text = `
apiVersion: v1
kind: ConfigMap
metadata: {name: controller}
data:
  proxy-body-size: "0"
  hsts-max-age: "60"
  hsts-include-subdomains: "false"
  add-headers: a/headers
  block-cidrs: 192.0.2.0/24
  use-gzip: "true"
  gzip-types: text/css
  use-forwarded-headers: "true"
  compute-full-forwarded-for: "true"
  proxy-real-ip-cidr: 10.0.0.0/8
  whitelist-source-range: 10.0.0.0/8
  global-auth-url: http://login.b.svc/
  http-redirect-code: "301"
  worker-shutdown-timeout: 60s
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: headers}, data: {X-A: b}}
---`
	result := convertText(t, text+
		pathOf("b", "web", "a.test", "/", "")+pathOf("b", "own", "a.test", "/own/", Prefix+"whitelist-source-range: 10.1.0.0/16, "+Prefix+"enable-global-auth: 'false'"))
	want := []string{
		"/ Service web allow [10.0.0.0/8] deny [192.0.2.0/24] asks login:80/ []", "/own redirect", "/own/ Service own allow [10.1.0.0/16] deny [192.0.2.0/24]",
	}
	got := limits(result)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	config, err := json.Marshal(objects[*appv1.GatewayConfig](result)[0].Spec)
	const spec = `{"trustedProxies":["10.0.0.0/8"],"clientLimits":{"maxHeaders":1000,"maxHeaderBytes":32768},"compression":{"contentTypes":["text/html","text/css"],"minBytes":256},"filters":[` +
		`{"type":"ClientAddress","clientAddress":{"deny":["192.0.2.0/24"]}},` + replaced + `,{"type":"ResponseHeaderModifier","responseHeaderModifier":{"set":[{"name":"X-A","value":"b"}],"remove":["Server"]}}],` +
		`"drainTimeout":"1m"}`
	if err != nil || string(config) != spec {
		t.Errorf("got the GatewayConfig %s (%v), want %s", config, err, spec)
	}
	for _, note := range result.Notes {
		if note.Object.Kind == "Ingress" && strings.HasPrefix(note.Text, "annotation ") {
			t.Errorf("a key of the ConfigMap is noted of an Ingress: %s", note)
		}
	}
}

// replaced is how clients' headers of nginx are replaced.
const replaced = `{"type":"RequestHeaderModifier","requestHeaderModifier":{"remove":["X-Original-Forwarded-For","X-Original-Forwarded-Host","X-Forwarded-Scheme","X-Scheme","Forwarded"]}},` +
	`{"type":"HeaderVariables","headerVariables":{"set":[{"name":"X-Real-IP","variable":"ClientAddress"}]}}`

// TestAlwaysTheSame: the order of the input does not matter.
func TestAlwaysTheSame(t *testing.T) {
	var parts []string
	for i := range 12 {
		parts = append(parts, pathOf(string(rune('a'+i%3)), fmt.Sprintf("s%d", i), fmt.Sprintf("h%d.test", i%4), fmt.Sprintf("/p%d", i%5), Prefix+"limit-rps: '2'"))
	}
	want, random := answersAndNotes(t, parts), testtier.Rand(t)
	for range 20 {
		random.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
		if got := answersAndNotes(t, parts); got != want {
			t.Fatalf("got\n%s\nwant\n%s", got, want)
		}
	}
}

func answersAndNotes(t *testing.T, parts []string) string {
	t.Helper()
	result := convertText(t, strings.Join(parts, ""))
	content := must.Get(json.Marshal(result))(t)
	return string(content)
}
