package command_test

import (
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

// doubtful is a Gateway with a route, and ours a GatewayClass of another name.
const doubtful = `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge, namespace: demo}
spec:
  gatewayClassName: gateway
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: r, namespace: demo}
spec:
  parentRefs: [{name: edge}]
  rules:
    - backendRefs: [{name: api, port: 80}]
---
{apiVersion: v1, kind: Service, metadata: {name: api, namespace: demo}, spec: {ports: [{port: 80}]}}
---
{apiVersion: v1, kind: Service, metadata: {name: web-frontend, namespace: demo}, spec: {ports: [{port: 80}]}}
`

const ours = "---\n{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: ours}, spec: {controllerName: app.example.com/gateway}}\n"

// TestDoubts: what a cluster would do otherwise than meant is named on a line, and makes the exit code 3.
func TestDoubts(t *testing.T) {
	for name, test := range map[string]struct {
		old, new, add string
		code          int
		want          string
	}{
		"nothing":                     {code: 0},
		"a Service that is not there": {old: "name: api, port", new: "name: apii, port", code: 3, want: "edge: Service demo/apii is not in the files, though others of its namespace are (there is demo/api): "},
		"a Service of a namespace without others": {
			old: "name: api, port", new: "name: api, namespace: other, port", code: 3, want: "no ReferenceGrant",
			add: "---\n{apiVersion: v1, kind: Service, metadata: {name: x, namespace: third}, spec: {ports: [{port: 80}]}}\n",
		},
		"a class with an error":  {old: "gatewayClassName: gateway", new: "gatewayClassName: gatway", code: 3, want: "GatewayClass gatway is not in the files (do you mean gateway?)"},
		"a class of one's own":   {old: "gatewayClassName: gateway", new: "gatewayClassName: internal", code: 0},
		"a class among others":   {add: ours, code: 3, want: "GatewayClass gateway is not in the files (do you mean ours?)"},
		"weights that are all 0": {old: "{name: api, port: 80}", new: "{name: api, port: 80, weight: 0}, {name: web-frontend, port: 80, weight: 0}", code: 3, want: "HTTPRoute demo/r: rules[0]: the weights of all backends are 0, so its requests are answered with 500\n"},
		"one weight that is not": {old: "{name: api, port: 80}", new: "{name: api, port: 80, weight: 0}, {name: web-frontend, port: 80}", code: 0},
		"a RouteFilter that nothing names": {
			add:  "---\n{apiVersion: app.example.com/v1, kind: RouteFilter, metadata: {name: f, namespace: demo}, spec: {maxRequestBytes: 1}}\n",
			code: 3, want: "RouteFilter demo/f has no effect: no route of its namespace names it in an extensionRef\n",
		},
		"a GatewayConfig that nothing names": {
			add:  "---\n{apiVersion: app.example.com/v1, kind: GatewayConfig, metadata: {name: c, namespace: demo}, spec: {maxRequestBytes: 1}}\n",
			code: 3, want: "GatewayConfig demo/c has no effect: no Gateway and no GatewayClass names it in a parametersRef\n",
		},
		"a rule that gets no requests": {
			add:  "---\n{apiVersion: gateway.networking.k8s.io/v1, kind: HTTPRoute, metadata: {name: s, namespace: demo}, spec: {parentRefs: [{name: edge}], rules: [{backendRefs: [{name: api, port: 80}]}]}}\n",
			code: 3, want: ":20: demo/edge: HTTPRoute demo/s: rules[0] gets no requests: HTTPRoute demo/r rules[0] comes first and gets all of them\n",
		},
		"an object twice": {
			add:  "---\n{apiVersion: v1, kind: Service, metadata: {name: api, namespace: demo}, spec: {ports: [{port: 80}]}}\n",
			code: 3, want: "Service demo/api is also in ",
		},
		"cookies for all origins": {
			old: "- backendRefs", new: "- filters: [{type: CORS, cors: {allowOrigins: ['*'], allowCredentials: true}}]\n      backendRefs",
			code: 3, want: "HTTPRoute demo/r: rules[0]: CORS has the origin * with credentials, so a page of any origin can act for the user: name the origins\n",
		},
		"no cookies for all origins": {old: "- backendRefs", new: "- filters: [{type: CORS, cors: {allowOrigins: ['*']}}]\n      backendRefs", code: 0},
		"the experimental channel": {
			old: "- backendRefs", new: "- sessionPersistence: {cookie: {name: s}}\n      backendRefs",
			code: 0, want: ":14: HTTPRoute demo/r: spec.rules[0].sessionPersistence needs the CRDs of the Gateway API's experimental channel\n",
		},
		"an experimental ListenerSet": {
			add:  "---\n{apiVersion: gateway.networking.x-k8s.io/v1alpha1, kind: XListenerSet, metadata: {name: more, namespace: demo}, spec: {}}\n",
			code: 3, want: "XListenerSet demo/more has no effect here: use the kind ListenerSet of gateway.networking.k8s.io/v1\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := clitest.WriteFile(t, "objects.yaml", strings.Replace(doubtful, test.old, test.new, 1)+test.add)
			result := clitest.Run(t, "", "render", "--check", "-f", file)
			result.Want(t, test.code, test.want, "edge: HAProxy accepts it")
			if test.want == "" && result.Err != "" {
				t.Errorf("it warns: %s", result.Err)
			}
		})
	}
}

// TestHTTP3IsNotThere: a port that has no HTTP/3, though it is asked for, is named, with the reason.
func TestHTTP3IsNotThere(t *testing.T) {
	const gateway = `apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: edge, namespace: demo}
spec:
  http3: {}
  trustedProxies: ["127.0.0.0/8"]
  listeners:
    - {name: pp, port: 8443, protocol: HTTPS, proxyProtocol: Any, hostname: a.test, tls: {certificateRefs: [{name: t}]}}
    - {name: ok, port: 9443, protocol: HTTPS, hostname: b.test, tls: {certificateRefs: [{name: t}]}}
    - {name: mtls, port: 9444, protocol: HTTPS, tls: {certificateRefs: [{name: t}], clientValidation: {caCertificateRefs: [{name: ca}]}}}
    - {name: mixed, port: 9445, protocol: HTTPS, hostname: c.test, tls: {certificateRefs: [{name: t}]}}
    - {name: passed, port: 9445, protocol: TLS, hostname: d.test, tls: {mode: Passthrough}}
    - {name: plain, port: 8080, protocol: HTTP}
  routes: [{name: r, rules: [{backendRefs: [{name: app, port: 80}]}]}]
  tlsRoutes: [{name: t, listeners: [passed], hostnames: [d.test], rules: [{backendRefs: [{name: app, port: 443}]}]}]
`
	result := clitest.Run(t, gateway, "render", "--check", "-f", "-")
	result.Want(t, 3,
		"port 8443 has no HTTP/3, which http3 asks for: it takes PROXY headers\n", "port 9444 has no HTTP/3, which http3 asks for: it asks clients for certificates\n",
		"port 9445 has no HTTP/3, which http3 asks for: listener passed passes TLS through\n")
	if strings.Count(result.Err, "has no HTTP/3") != 3 {
		t.Errorf("it warns of other ports: %s", result.Err)
	}
	plain := strings.Replace(strings.Split(gateway, "    - {name: pp")[0], "trustedProxies: [\"127.0.0.0/8\"]", "routes: [{name: r, rules: [{backendRefs: [{name: app, port: 80}]}]}]", 1)
	clitest.Run(t, plain+"    - {name: plain, port: 8080, protocol: HTTP}\n", "render", "--check", "-f", "-").Want(t, 3, "http3 has no effect: no listener is of protocol HTTPS\n")
}

// TestLostCallbacks: logins that end at a path without the OIDC are named, for each host.
func TestLostCallbacks(t *testing.T) {
	const gateway = `apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: edge, namespace: demo}
spec:
  listeners:
    - name: https
      port: 443
      protocol: HTTPS
      hostname: "*.test"
      tls: {certificateRefs: [{name: t}]}
      filters: [{type: OIDC, oidc: {issuer: "https://idp.test", clientID: shop, secretRef: {name: login}, caCertificateRefs: [{name: idp-ca}]}}]
  routes:
    - {name: app, hostnames: [wiki.test], rules: [{matches: [{path: {value: /app}}], backendRefs: [{name: app, port: 80}]}]}
    - {name: all, hostnames: [shop.test], rules: [{backendRefs: [{name: app, port: 80}]}]}
`
	const want = "route app rules[0]: logins for the host wiki.test fail: no rule with this OIDC has the path /oauth2, where they end: add it to such a rule\n"
	result := clitest.Run(t, gateway, "render", "--check", "-f", "-")
	result.Want(t, 3, want)
	if strings.Count(result.Err, "logins") != 1 {
		t.Errorf("it warns of others: %s", result.Err)
	}
	clitest.Run(t, gateway, "explain", "-f", "-", "https://wiki.test/app/x").Want(t, 3, want)
	all := strings.Replace(gateway, `- {name: all, hostnames: [shop.test]`, `- {name: all`, 1)
	clitest.Run(t, all, "render", "--check", "-f", "-").Want(t, 0)
}
