package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
)

const apiObjects = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: infra}
spec:
  gatewayClassName: ours
  listeners: [{name: http, port: 80, protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: team}
spec:
  parentRefs: [{name: shop, namespace: infra}]
  hostnames: [shop.example.com]
  rules:
    - matches: [{path: {type: PathPrefix, value: /api}}]
      backendRefs: [{name: api, port: 8080}]
    - matches: [{path: {type: Exact, value: /}}]
      backendRefs: [{name: web, namespace: other, port: 8080}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: refused, namespace: team}
spec:
  parentRefs: [{name: own, group: app.example.com, kind: Gateway}]
  rules:
    - filters: [{type: ExternalAuth, externalAuth: {protocol: GRPC, backendRef: {name: api, port: 80}, grpc: {}}}]
      backendRefs: [{name: api, port: 80}]
    - matches: [{path: {value: /asked}}]
      filters: [{type: ExternalAuth, externalAuth: {protocol: HTTP, backendRef: {name: api, port: 80}, http: {path: /check}}}]
      backendRefs: [{name: api, port: 80}]
    - matches: [{path: {value: /copied}}]
      filters: [{type: RequestMirror, requestMirror: {backendRef: {name: api, port: 80}, fraction: {numerator: 1, denominator: 8}}}]
      backendRefs: [{name: api, port: 80}]
---
apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: own, namespace: team}
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes: [{name: own, rules: [{matches: [{path: {value: /own}}], backendRefs: [{name: own, port: 80}]}]}]
`

// TestExplainGatewayAPI: files with objects of the Gateway API are explained as what they are, also where their routes
// belong to a Gateway of our own.
func TestExplainGatewayAPI(t *testing.T) {
	file := clitest.WriteFile(t, "objects.yaml", apiObjects)
	for _, test := range []struct {
		args  []string
		code  int
		wants []string
	}{
		{[]string{"shop", "http://shop.example.com/api/v1"}, 0, []string{
			"gateway   infra/shop\n", "route     team/web rules[0]: host shop.example.com, path prefix /api\nbackend   100% to Service team/api port 8080, endpoints not known\n",
		}},
		{[]string{"shop", "http://shop.example.com/"}, 3, []string{
			"backend   100% to no Service, answered with 500: no ReferenceGrant of namespace other lets HTTPRoutes of namespace team refer to Service web\n",
			"HTTPRoute team/web: rules[1].backendRefs[0]: no ReferenceGrant of namespace other lets HTTPRoutes of namespace team refer to Service web",
		}},
		{[]string{"shop", "http://other.example.com/api"}, 3, []string{"404: listener http has no route for the host other.example.com"}},
		{[]string{"own", "http://x.test/own/a"}, 0, []string{"route     own rules[0]: path prefix /own\n"}},
		{[]string{"own", "http://x.test/asked"}, 0, []string{"ExternalAuth: Service team/api:80 at /check/... has to answer 200, else"}},
		{[]string{"own", "http://x.test/copied"}, 0, []string{"filter    copies: 12.5% of the requests, to Service team/api:80\n"}},
		{[]string{"own", "http://x.test/"}, 3, []string{
			"500: the rule cannot be carried out: see the warnings", "HTTPRoute team/refused: requests for rules[0] are answered with 500: externalAuth.protocol GRPC is not supported: use HTTP",
		}},
	} {
		result := clitest.Run(t, "", append([]string{"explain", "-f", file}, test.args...)...)
		result.Out += result.Err
		result.Want(t, test.code, test.wants...)
	}
}

// TestRenderGatewayAPI: HAProxy accepts what is made of objects of the Gateway API.
func TestRenderGatewayAPI(t *testing.T) {
	file := clitest.WriteFile(t, "objects.yaml", apiObjects)
	clitest.Run(t, "", "render", "-f", file, "shop", "--only", "hosts.map").Want(t, 0, "80/moc.elpmaxe.pohs! http|")
	clitest.Run(t, "", "render", "-f", file, "shop", "--check").Want(t, 3, "")
}

const filterObjects = `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: guarded, namespace: team}
spec:
  parentRefs: [{name: shop, namespace: infra}]
  hostnames: [guarded.example.com]
  rules:
    - filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: office}}]
      backendRefs: [{name: api, port: 8080}]
    - matches: [{path: {value: /none}}]
      filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: none}}]
      backendRefs: [{name: api, port: 8080}]
---
apiVersion: app.example.com/v1
kind: RouteFilter
metadata: {name: office, namespace: team}
spec:
  filters:
    - {type: ClientAddress, clientAddress: {allow: [10.0.0.0/8]}}
    - {type: RateLimit, rateLimit: {limits: [{requests: 10, unit: Minute}]}}
    - {type: Cache, cache: {}}
`

// TestRouteFilters: the RouteFilters that HTTPRoutes of a file name are explained and rendered, and refused where the
// API server refuses them.
func TestRouteFilters(t *testing.T) {
	file := clitest.WriteFile(t, "objects.yaml", apiObjects+filterObjects)
	explain := func(args ...string) clitest.Result {
		return clitest.Run(t, "", append([]string{"explain", "-f", file, "shop"}, args...)...)
	}
	explain("http://guarded.example.com/", "--client-address", "10.0.0.1").Want(t, 0, "ClientAddress: clients from 10.0.0.0/8", "10 requests per minute", "filter    Cache: answers are stored")
	explain("http://guarded.example.com/", "--client-address", "192.0.2.1").Want(t, 3, "403: ClientAddress: 192.0.2.1 is in no range that is allowed")
	explain("http://guarded.example.com/none").Want(t, 3, "500: the rule cannot be carried out: see the warnings", "rules[1].filters[0]: there is no RouteFilter team/none")
	clitest.Run(t, "", "render", "-f", file, "shop", "--only", "filters.map").Want(t, 0, "cache=1&client=1&", "limit=HTTPRoute/team/guarded/0&limit.minute=10&")

	wrong := clitest.WriteFile(t, "wrong.yaml", apiObjects+strings.Replace(filterObjects, "type: RateLimit, rateLimit: {limits: [{requests: 10, unit: Minute}]}", "type: CORS, cors: {allowOrigins: ['*']}", 1))
	clitest.Run(t, "", "explain", "-f", wrong, "shop", "http://guarded.example.com/").Want(t, 1,
		"RouteFilter team/office: spec.", "HTTPRoutes and GRPCRoutes have RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect, URLRewrite, CORS and RequestMirror themselves")
}

const configObjects = `---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: closed, namespace: infra}
spec:
  gatewayClassName: gateway
  infrastructure: {parametersRef: {group: app.example.com, kind: GatewayConfig, name: closed}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: closed, namespace: infra}
spec: {parentRefs: [{name: closed}], rules: [{backendRefs: [{name: api, port: 8080}]}]}
---
apiVersion: app.example.com/v1
kind: GatewayConfig
metadata: {name: closed, namespace: infra}
spec: {maxRequestBytes: 10, filters: [{type: ClientAddress, clientAddress: {allow: [10.0.0.0/8]}}]}
`

// TestGatewayConfigs: the filters of the GatewayConfig in a file are explained, and refused where the API server
// refuses them.
func TestGatewayConfigs(t *testing.T) {
	for address, want := range map[string]int{"10.0.0.1": 0, "192.0.2.1": 3} {
		file := clitest.WriteFile(t, "objects.yaml", configObjects)
		clitest.Run(t, "", "explain", "-f", file, "closed", "http://a/", "--client-address", address).Want(t, want, "ClientAddress: clients from 10.0.0.0/8", "maxRequestBytes: bodies of up to 10 bytes, else 413")
	}
	wrong := clitest.WriteFile(t, "wrong.yaml", strings.Replace(configObjects, "10.0.0.0/8", "10.0.0.0", 1))
	clitest.Run(t, "", "explain", "-f", wrong, "closed", "http://a/").Want(t, 1,
		"GatewayConfig infra/closed: spec.", "write ")
}

// TestRouteFilterExample: explain shows what the example's comments promise.
func TestRouteFilterExample(t *testing.T) {
	const file = "../../../../artifacts/gateway-api/route-filter.yaml"
	for path, want := range map[string]string{"/": "10 requests per minute", "/admin": "ClientAddress: clients from 10.0.0.0/8, fd00::/8, else 403\n", "/admin/": "maxRequestBytes: bodies of up to 1048576 bytes, else 413"} {
		clitest.Run(t, "", "explain", "-f", file, "http://shop.example.com"+path, "--client-address", "10.0.0.1").Want(t, 0, want, "10 requests per minute")
	}
	clitest.Run(t, "", "explain", "-f", file, "http://shop.example.com/admin", "--client-address", "192.0.2.1").Want(t, 3, "answer    403: ")
}

// TestBackendPolicyExample: the settings of a BackendPolicy are rendered, and it is refused where the API server
// refuses it.
func TestBackendPolicyExample(t *testing.T) {
	const file = "../../../../artifacts/gateway-api/backend-policy.yaml"
	files := []string{"-f", file, "-f", "../../../../artifacts/examples/shop.yaml"}
	clitest.Run(t, "", append([]string{"render", "-n", "shop", "checked", "--check"}, files...)...).Want(t, 0)
	clitest.Run(t, "", append([]string{"render", "-n", "shop", "checked"}, files...)...).Want(t, 0, "balance roundrobin", "http-check send", "/healthz")
	content := must.Get(os.ReadFile(file))(t)
	wrong := clitest.WriteFile(t, "wrong.yaml", strings.Replace(string(content), "RoundRobin", "Header", 1))
	clitest.Run(t, "", "explain", "-f", wrong, "http://shop.example.com/").Want(t, 1,
		"BackendPolicy default/echo-v1: spec.", "header is required for algorithm Header")
	second := clitest.WriteFile(t, "second.yaml", strings.Replace(strings.Split(string(content), "---")[0], "name: echo-v1\nspec", "name: second\nspec", 1))
	clitest.Run(t, "", append([]string{"render", "-n", "shop", "checked", "--check", "-f", second}, files...)...).Want(t, 3,
		"BackendPolicy shop/second: another policy for the same Service port comes first")
}

// TestPoliciesWithoutEffect: policies for Services and ports that are not there are named, and explain names those that
// have an effect.
func TestPoliciesWithoutEffect(t *testing.T) {
	const policies = `---
apiVersion: v1
kind: Service
metadata: {name: api, namespace: team}
spec: {ports: [{name: http, port: 8080}]}
---
apiVersion: app.example.com/v1
kind: BackendPolicy
metadata: {name: api, namespace: team}
spec: {targetRefs: [{name: TARGET}], loadBalancing: {algorithm: RoundRobin}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: api, namespace: team}
spec: {targetRefs: [{group: "", kind: Service, name: api, sectionName: PORT}], validation: {hostname: api.test, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}
`
	gateway, _, _ := strings.Cut(apiObjects, "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: refused")
	gateway = strings.Replace(gateway, "web, namespace: other", "api", 1)
	write := func(target, port string) string {
		return clitest.WriteFile(t, "objects.yaml", gateway+strings.NewReplacer("TARGET", target, "PORT", port).Replace(policies))
	}
	const url = "http://shop.example.com/api"
	good := write("api", "http")
	clitest.Run(t, "", "render", "-f", good, "--check").Want(t, 0)
	clitest.Run(t, "", "explain", "-f", good, url).Want(t, 0, "            settings of BackendPolicy team/api\n            settings of BackendTLSPolicy team/api\n")
	for _, args := range [][]string{{"render", "--check"}, {"explain", url}, {"try", "--once", "--port-offset", fmt.Sprint(haproxytest.FreePort(t) - 80)}} {
		code := 3
		if args[0] == "explain" {
			code = 0
		}
		clitest.Run(t, "", append(args, "-f", write("apj", "https"))...).Want(t, code,
			"BackendPolicy team/api: spec.targetRefs[0] has no effect: no attached route sends requests to Service team/apj\n",
			"BackendTLSPolicy team/api: spec.targetRefs[0] has no effect: Service team/api has no port with the name https, but http\n")
	}
}

// TestBackendReasons: explain says of each backend why it gets nothing, in the words of the status.
func TestBackendReasons(t *testing.T) {
	const gateway = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: demo}
spec: {gatewayClassName: gateway, listeners: [{name: web, port: 80, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: demo}
spec:
  parentRefs: [{name: edge}]
  hostnames: [a.test]
  rules: [{backendRefs: [{name: x, namespace: n1, port: 80}, {name: web, port: 81}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: g, namespace: demo}
spec:
  parentRefs: [{name: edge}]
  hostnames: [g.test]
  rules: [{backendRefs: [{name: web, port: 80}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: demo}
spec: {ports: [{port: 80, appProtocol: http}]}
`
	const own = `
apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: edge, namespace: demo}
spec:
  listeners: [{name: web, port: 80, protocol: HTTP}]
  routes: [{name: r, rules: [{backendRefs: [{name: web, port: 80}]}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: demo}
spec: {type: ExternalName, externalName: example.org, ports: [{port: 80}]}
`
	for _, test := range []struct {
		file, url string
		wants     []string
	}{
		{gateway, "http://a.test/", []string{
			"50% to no Service, answered with 500: no ReferenceGrant of namespace n1 lets HTTPRoutes of namespace demo refer to Service x\n",
			"50% to no Service, answered with 500: Service demo/web has no port 81 for TCP, but 80: add it or change the reference\n",
		}},
		{gateway, "http://g.test/", []string{
			`answered with 500: port 80 of Service demo/web has appProtocol "http", which is HTTP/1.1, and gRPC takes HTTP/2: use kubernetes.io/h2c, or remove it` + "\n",
		}},
		{own, "http://a.test/", []string{"Service web port 80, answered with 500: Service demo/web is of type ExternalName, which is refused: use a Service with endpoints\n"}},
	} {
		file := clitest.WriteFile(t, "objects.yaml", test.file)
		clitest.Run(t, "", "explain", "-f", file, test.url).Want(t, 3, test.wants...)
		clitest.Run(t, "", "render", "-f", file, "--check").Want(t, 3)
		clitest.Run(t, "", "try", "-f", file, "--once", "--port-offset", fmt.Sprint(haproxytest.FreePort(t)-80), "--request", test.url, "--expect", "500").
			Want(t, 3, test.url+": 500\n")
	}
}

// challengeRoute is what cert-manager makes for a challenge of HTTP-01: it copies the issuer's parentRefs.
const challengeRoute = `
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {generateName: cm-acme-http-solver-, name: cm-acme-http-solver-b5wzq, namespace: NAMESPACE}
spec:
  parentRefs: [PARENT]
  hostnames: [shop.example.com]
  rules:
    - matches: [{path: {type: Exact, value: /.well-known/acme-challenge/token}}]
      backendRefs: [{group: "", kind: Service, name: cm-acme-http-solver-x7k2p, port: 8089, weight: 1}]
`

// ownToHTTPS is a Gateway of our own kind that sends everything to HTTPS.
const ownToHTTPS = `apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: shop, namespace: shop}
spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: https, port: 443, protocol: HTTPS, hostname: shop.example.com, tls: {certificateRefs: [{name: shop-tls}]}}
  routes:
    - {name: to-https, listeners: [http], rules: [{filters: [{type: RequestRedirect, requestRedirect: {scheme: https, statusCode: 301}}]}]}
    - {name: shop, listeners: [https], rules: [{backendRefs: [{name: echo-v1, port: 80}]}]}
`

// TestChallenges: the HTTPRoute that cert-manager makes for a challenge of HTTP-01 gets its request, beside a route
// that sends everything else to HTTPS.
func TestChallenges(t *testing.T) {
	read := func(page, part string) string {
		content := must.Get(os.ReadFile(filepath.Join(clitest.Root, page)))(t)
		return strings.TrimSuffix(regexp.MustCompile(part).FindString(string(content)), "```")
	}
	for _, test := range []struct{ gateway, namespace, parent string }{
		{read("artifacts/gateway-api/https.yaml", `(?s).*`), "default", "{name: https}"},
		{read("docs/how-to/https.md", "(?s)apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\n.*?\n\x60\x60\x60"), "default", "{kind: Gateway, name: shop, namespace: default, sectionName: http}"},
		{ownToHTTPS, "shop", "{group: app.example.com, kind: Gateway, name: shop, namespace: shop, sectionName: http}"},
	} {
		route := strings.NewReplacer("NAMESPACE", test.namespace, "PARENT", test.parent).Replace(challengeRoute)
		file := clitest.WriteFile(t, "objects.yaml", test.gateway+route)
		for path, want := range map[string]string{
			"/.well-known/acme-challenge/token": "backend   100% to Service cm-acme-http-solver-x7k2p port 8089",
			"/.well-known/acme-challenge/other": "answer    301: redirect to scheme https",
			"/":                                 "answer    301: redirect to scheme https",
		} {
			clitest.Run(t, "", "explain", "-f", file, "http://shop.example.com"+path).Want(t, 0, want)
		}
	}
}

// TestIgnoredPolicies: what another controller reads is named, as it guards nothing here.
func TestIgnoredPolicies(t *testing.T) {
	const policy = `
---
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: SecurityPolicy
metadata: {name: jwt, namespace: team}
spec: {targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: web}], jwt: {providers: []}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: admins, namespace: team}
spec: {rules: []}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: kong, namespace: team, annotations: {konghq.com/plugins: key-auth}}
spec: {parentRefs: [{name: team}]}
---
apiVersion: autoscaling.k8s.io/v1
kind: VerticalPodAutoscaler
metadata: {name: web, namespace: team}
spec: {targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}
`
	const example = "../../../../artifacts/gateway-api/other.yaml"
	file := clitest.WriteFile(t, "policy.yaml", strings.TrimPrefix(policy, "\n---\n"))
	result := clitest.Run(t, "", "render", "-f", example, "-f", file, "--check")
	result.Want(t, 3, "SecurityPolicy team/jwt has no effect here, although it is for the kind HTTPRoute (spec.targetRefs)",
		"AuthorizationPolicy team/admins has no effect here, although it is for the namespace",
		"HTTPRoute team/kong: annotation konghq.com/plugins has no effect here, as it is for another controller", "HAProxy accepts it, but there are warnings")
	if strings.Contains(result.Err, "VerticalPodAutoscaler") {
		t.Errorf("it warns of what is for pods:\n%s", result.Err)
	}
	clitest.Run(t, "", "explain", "-f", example, "-f", file, "http://shop.example.com/").Want(t, 0, "warning: ", "SecurityPolicy team/jwt")
}

// TestStrayRoutes: a route that names no Gateway of the files is named. One with another parent is not.
func TestStrayRoutes(t *testing.T) {
	content := must.Get(os.ReadFile("../../../../artifacts/gateway-api/maintenance.yaml"))(t)
	example := string(content)
	const parents = "parentRefs: [{name: closed}]"
	const warning = ":31: HTTPRoute default/closed has no effect: spec.parentRefs[0]: "
	for other, why := range map[string]string{
		"parentRefs: [{name: close}]":                            "there is no Gateway default/close in the files: do you mean closed?",
		"parentRefs: [{name: closed, namespace: infra}]":         "there is no Gateway infra/closed in the files, but default/closed: write namespace: default",
		"parentRefs: [{name: closed, group: app.example.com}]":   "Gateway default/closed is of another group: write group: gateway.networking.k8s.io",
		"parentRefs: [{name: closed}, {name: closed, group: x}]": "",
	} {
		file := clitest.WriteFile(t, "objects.yaml", strings.Replace(example, parents, other, 1))
		if why != "" {
			clitest.Run(t, "", "render", "-f", file, "--check").Want(t, 3, warning+why, "there are warnings")
			clitest.Run(t, "", "explain", "-f", file, "http://shop.example.com/").Want(t, 3, warning, "answer    404")
		} else {
			clitest.Run(t, "", "render", "-f", file, "--check").Want(t, 0, "HAProxy accepts it")
		}
	}
	// -n leaves Gateways out, and they are in the files all the same.
	const own = `
---
apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: own, namespace: infra}
spec: {listeners: [{name: http, port: 81, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: other, namespace: default}
spec: {parentRefs: [{group: app.example.com, name: own, namespace: infra}]}
`
	file := clitest.WriteFile(t, "objects.yaml", example+own)
	result := clitest.Run(t, "", "render", "-n", "default", "-f", file, "--check")
	if result.Want(t, 0); strings.Contains(result.Err, "spec.parentRefs") {
		t.Errorf("a Gateway of another namespace is missed:\n%s", result.Err)
	}
}

// TestTelemetryOfFiles: an XTelemetryPolicy of the files has the proxies take part in traces, and what is refused of it
// is named.
func TestTelemetryOfFiles(t *testing.T) {
	const objects = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: demo}
spec: {gatewayClassName: gateway, listeners: [{name: web, port: 80, protocol: HTTP}]}
---
apiVersion: v1
kind: Service
metadata: {name: collector, namespace: demo}
spec: {ports: [{port: 4318}]}
---
apiVersion: gateway.networking.x-k8s.io/v1alpha1
kind: XTelemetryPolicy
metadata: {name: spans, namespace: demo}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: edge}]
  tracing: {mode: Enabled, samplingRate: {numerator: 5}, provider: {backendRef: {name: collector, port: 4318}}}
`
	write := func(old, replacement string) string {
		return clitest.WriteFile(t, "objects.yaml", strings.Replace(objects, old, replacement, 1))
	}
	clitest.Run(t, "", "render", "-f", write("", "")).Want(t, 0, "if { rand(1000000) lt 50000 }")
	clitest.Run(t, "", "render", "-f", write("", ""), "--check").Want(t, 0)
	clitest.Run(t, "", "render", "-f", write("mode: Enabled,", "mode: Enabled, spanName: a,"), "--check").Want(t, 3,
		"XTelemetryPolicy demo/spans: tracing.spanName: it is not supported: remove it")
	clitest.Run(t, "", "render", "-f", write("name: edge}]", "name: gone}]"), "--check").Want(t, 3,
		"XTelemetryPolicy demo/spans: spec.targetRefs[0] has no effect: there is no Gateway demo/gone")
	clitest.Run(t, "", "render", "-f", write("mode: Enabled,", "mode: Sometimes,"), "--check").Want(t, 1, `spec.tracing.mode: Unsupported value: "Sometimes"`)
}
