package gatewayapi_test

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// TestReportsChangeTheStatusAlone: a pod that reports what it cannot use is not replaced for that. The one in its place
// would lack what it needs, report the same, and wait to be replaced for ever.
func TestReportsChangeTheStatusAlone(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("there is no testdata: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			objects := read(t, file)
			var got, want strings.Builder
			describePlanes(&got, gatewayapi.Translate(objects))
			objects.Reported = nil
			describePlanes(&want, gatewayapi.Translate(objects))
			if got.String() != want.String() {
				t.Errorf("with reports:\n%s\nwithout:\n%s", got.String(), want.String())
			}
		})
	}
}

// TestEachReferenceIsNamed that cannot be resolved, of a route and of a listener, up to a number.
func TestEachReferenceIsNamed(t *testing.T) {
	route := func(kind, rules string) string {
		return "\n---\nkind: " + kind + "\nmetadata: {name: r, namespace: infra}\nspec: {parentRefs: [{name: gw}], rules: [" + rules + "]}"
	}
	two := "{backendRefs: [{name: a, port: 1}, {name: b, namespace: team, port: 1}]}"
	backends := `rules[0].backendRefs[0]: there is no Service infra/a: create it or change the reference; ` +
		`rules[0].backendRefs[1]: no ReferenceGrant of namespace team lets %[1]ss of namespace infra refer to Service b`
	for _, test := range []struct{ name, kind, rules, want string }{
		{"of one rule", "HTTPRoute", two, backends},
		{"of a call", "GRPCRoute", two, backends},
		{"of a connection", "TCPRoute", two, backends},
		{"of several rules, by filters and backends", "HTTPRoute",
			"{filters: [{type: RequestMirror, requestMirror: {backendRef: {name: a, port: 1}}}]}, " +
				"{filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: f}}], backendRefs: [{name: c, port: 1}]}",
			"rules[0].filters[0]: there is no Service infra/a: create it or change the reference; rules[1].filters[0]: there is no RouteFilter infra/f: create it or change the reference; " +
				"rules[1].backendRefs[0]: there is no Service infra/c: create it or change the reference"},
		{"more than fit", "HTTPRoute", strings.Repeat("{backendRefs: [{name: a, port: 1}]}, ", 7) + "{}",
			"rules[0].backendRefs[0]: there is no Service infra/a: create it or change the reference; rules[1].backendRefs[0]: there is no Service infra/a: create it or change the reference; " +
				"rules[2].backendRefs[0]: there is no Service infra/a: create it or change the reference; rules[3].backendRefs[0]: there is no Service infra/a: create it or change the reference; " +
				"rules[4].backendRefs[0]: there is no Service infra/a: create it or change the reference; and 2 more"},
	} {
		result := gatewayapi.Translate(parseAll(t, []byte(oneGateway+route(test.kind, test.rules))))
		want := strings.ReplaceAll(test.want, "%[1]s", test.kind)
		parents := result.Status(nil, allLive{}).Routes[gatewayapi.Object{Kind: test.kind, Namespace: "infra", Name: "r"}]
		if len(parents) != 1 {
			t.Fatalf("%s: the route is at %d parents", test.name, len(parents))
		}
		if c := meta.FindStatusCondition(parents[0].Conditions, "ResolvedRefs"); c == nil || c.Message != want {
			t.Errorf("%s: ResolvedRefs is\n%+v, want\n%s", test.name, c, want)
		}
		problems := result.Planes[gatewayapi.GatewayParent("infra", "gw")].Problems
		if last := problems[len(problems)-1].Message; last != test.kind+" infra/r: "+want {
			t.Errorf("%s: the problem is\n%s, want\n%s", test.name, last, want)
		}
	}
	listeners := gatewayapi.Translate(parseAll(t, []byte(oneGateway))).Status(nil, allLive{}).
		Gateways[types.NamespacedName{Namespace: "infra", Name: "gw"}].Listeners
	want := "tls.certificateRefs[0]: Secret infra/x does not exist; tls.certificateRefs[1]: Secret infra/w does not exist; " +
		"caCertificateRefs[0]: ConfigMap infra/z does not exist"
	if c := meta.FindStatusCondition(listeners[1].Conditions, "ResolvedRefs"); c == nil || c.Message != want {
		t.Errorf("ResolvedRefs of the listener is\n%+v, want\n%s", c, want)
	}
}

// TestWhatReportsOmitIsUnknown: conditions that would be False for a problem are neither True nor False. What is known
// to be wrong comes first.
func TestWhatReportsOmitIsUnknown(t *testing.T) {
	const more = "pod a has more problems"
	objects := parseAll(t, []byte(oneGateway+`
---
kind: Service
metadata: {name: api, namespace: infra}
spec: {ports: [{port: 1}]}
---
kind: RouteFilter
metadata: {name: login, namespace: infra}
spec: {filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}}}]}
---
kind: HTTPRoute
metadata: {name: login, namespace: infra}
spec: {parentRefs: [{name: gw}], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: login}}], backendRefs: [{name: api, port: 1}]}]}
---
kind: BackendTLSPolicy
metadata: {name: policy, namespace: infra}
spec: {targetRefs: [{group: "", kind: Service, name: api}], validation: {hostname: a.io, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}`))
	for _, test := range []struct {
		name, bad string // bad is what is known to be wrong
		want      []string
	}{
		{"nothing is known", "", []string{
			"Accepted=Unknown ResolvedRefs=Unknown Programmed=Unknown", "ResolvedRefs=Unknown", "Accepted=Unknown ResolvedRefs=Unknown",
		}},
		{"one certificate is bad", "x", []string{
			"Accepted=Unknown ResolvedRefs=False Programmed=Unknown", "ResolvedRefs=Unknown", "Accepted=Unknown ResolvedRefs=Unknown",
		}},
		{"the CA certificates for clients are bad", "z", []string{
			"Accepted=False ResolvedRefs=False Programmed=False", "ResolvedRefs=Unknown", "Accepted=Unknown ResolvedRefs=Unknown",
		}},
		{"users are bad", "users", []string{
			"Accepted=Unknown ResolvedRefs=Unknown Programmed=Unknown", "ResolvedRefs=False", "Accepted=Unknown ResolvedRefs=Unknown",
		}},
		{"the CA certificates for backends are bad", "ca", []string{
			"Accepted=Unknown ResolvedRefs=Unknown Programmed=Unknown", "ResolvedRefs=Unknown", "Accepted=False ResolvedRefs=False",
		}},
	} {
		objects.Reported = func(of gatewayapi.Subject) gatewayapi.Report {
			if of.Name == test.bad {
				return gatewayapi.Report{Problem: "it is bad", Unknown: more}
			}
			return gatewayapi.Report{Unknown: more}
		}
		status := gatewayapi.Translate(objects).Status(nil, allLive{})
		name := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "infra", Name: name} }
		route := status.Routes[gatewayapi.Object{Kind: "HTTPRoute", Namespace: "infra", Name: "login"}]
		for i, conditions := range [][]metav1.Condition{
			status.Gateways[name("gw")].Listeners[1].Conditions, route[0].Conditions, status.Policies[name("policy")][0].Conditions,
		} {
			for _, want := range strings.Fields(test.want[i]) {
				kind, value, _ := strings.Cut(want, "=")
				c := meta.FindStatusCondition(conditions, kind)
				if string(c.Status) != value || c.Status == "Unknown" && (c.Reason != "TooManyProblems" || c.Message != more) {
					t.Errorf("%s: %+v, want %s", test.name, c, want)
				}
			}
		}
	}
}

const oneGateway = `
kind: GatewayClass
metadata: {name: ours}
spec: {controllerName: app.example.com/gateway}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: infra}
spec:
  gatewayClassName: ours
  tls: {frontend: {default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: z}]}}}}
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: x}, {name: w}]}}
    - {name: tcp, port: 81, protocol: TCP}`

// twoGateways are in one namespace, and have a route each, one for both, and keys from one ConfigMap.
const twoGateways = `
kind: GatewayClass
metadata: {name: ours}
spec: {controllerName: app.example.com/gateway}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: one, namespace: infra}
spec: {gatewayClassName: ours, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: two, namespace: infra}
spec: {gatewayClassName: ours, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
kind: RouteFilter
metadata: {name: token, namespace: infra}
spec: {filters: [{type: JWT, jwt: {issuers: [{issuer: a, audiences: [a], keys: {configMapRef: {name: keys}}}]}}]}
---
kind: HTTPRoute
metadata: {name: at-one, namespace: infra}
spec: {parentRefs: [{name: one}], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: token}}]}]}
---
kind: HTTPRoute
metadata: {name: at-two, namespace: infra}
spec: {parentRefs: [{name: two}], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: token}}]}]}
---
kind: HTTPRoute
metadata: {name: at-both, namespace: infra}
spec: {parentRefs: [{name: two}, {name: one}], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: token}}]}]}
`

// TestReportedRules: the status of a route says what proxies report of the ConfigMap that its RouteFilter names. Pods
// of another namespace cannot mount it.
func TestReportedRules(t *testing.T) {
	objects := parseAll(t, []byte(strings.ReplaceAll(strings.ReplaceAll(twoGateways, "name: two, namespace: infra", "name: two, namespace: other"),
		"{type: JWT, jwt: {issuers: [{issuer: a, audiences: [a], keys: {configMapRef: {name: keys}}}]}}", "{type: WAF, waf: {rulesRef: {name: keys}, excludedRules: [{id: 911100}, {id: 911101}]}}")+`
---
kind: HTTPRoute
metadata: {name: elsewhere, namespace: infra}
spec: {parentRefs: [{name: two, namespace: other}], rules: [{filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: token}}]}]}
`))
	objects.Gateways[1].Spec.Listeners[0].AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromAll)}}
	objects.Reported = func(of gatewayapi.Subject) gatewayapi.Report {
		if of.Reason != appv1.ProblemInvalidRulesRef || of.Name != "keys" {
			t.Errorf("it is asked for %+v", of)
		}
		return gatewayapi.Report{Problem: "ConfigMap infra/keys: rules.conf: line 3: it is bad"}
	}
	index := gatewayapi.NewIndex(objects)
	result := index.Result()
	const excluded = "rules[0]: WAF excludes rule 911101, which the Core Rule Set does not have: correct the ID, or remove it"
	for name, want := range map[string]string{
		"at-one":    "InvalidRulesRef rules[0]: ConfigMap infra/keys: rules.conf: line 3: it is bad; " + excluded,
		"elsewhere": "RefNotPermitted rules[0]: WAF needs a Gateway in the namespace of its ConfigMap, infra: the pods of Gateway other/two cannot mount ConfigMap keys; " + excluded,
	} {
		parent := result.Status(nil, allLive{}).Routes[gatewayapi.Object{Kind: "HTTPRoute", Namespace: "infra", Name: name}][0]
		if c := meta.FindStatusCondition(parent.Conditions, "ResolvedRefs"); c == nil || c.Reason+" "+c.Message != want {
			t.Errorf("route %s: ResolvedRefs is %+v, want %s", name, c, want)
		}
	}
	attachments := result.Attachments(gatewayapi.GatewayParent("infra", "one"), nil)["infra"]
	if !attachments.WAF || len(attachments.ConfigMaps) != 1 || attachments.ConfigMaps[0].Name != "keys" {
		t.Errorf("the pods get %+v, want gateway-waf and the ConfigMap", attachments)
	}
}

// TestReportsStayWithTheirGateway: the status of a route at a Gateway says what the proxies of that Gateway report.
func TestReportsStayWithTheirGateway(t *testing.T) {
	objects := parseAll(t, []byte(twoGateways))
	index := gatewayapi.NewIndex(objects)
	objects.Reported = func(of gatewayapi.Subject) gatewayapi.Report {
		if of.Reason != appv1.ProblemInvalidKeysRef || of.Name != "keys" {
			t.Errorf("it is asked for %+v", of)
		}
		return gatewayapi.Report{Problem: "no keys, say the proxies of " + of.Plane.Name}
	}
	for range 2 { // the second time, the routes are translated
		index.Replace(objects)
		routes := index.Result().Status(nil, allLive{}).Routes
		for _, name := range []string{"at-one", "at-two", "at-both"} {
			for _, parent := range routes[gatewayapi.Object{Kind: "HTTPRoute", Namespace: "infra", Name: name}] {
				c := meta.FindStatusCondition(parent.Conditions, "ResolvedRefs")
				if want := "rules[0]: no keys, say the proxies of " + string(parent.ParentRef.Name); c == nil || c.Message != want {
					t.Errorf("route %s: ResolvedRefs is %+v, want %s", name, c, want)
				}
			}
		}
	}
}
