package command_test

import (
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
)

// alone are the objects of a team whose Gateway somebody else has.
const alone = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web, namespace: team}
spec:
  parentRefs: [{name: shop, namespace: infra, sectionName: https}]
  hostnames: [shop.example.com]
  rules:
    - filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: office}}]
      backendRefs: [{name: web, port: 8080}]
---
apiVersion: app.example.com/v1
kind: RouteFilter
metadata: {name: office, namespace: team}
spec: {filters: [{type: ClientAddress, clientAddress: {allow: [10.0.0.0/8]}}]}
---
apiVersion: app.example.com/v1
kind: BackendPolicy
metadata: {name: web, namespace: team}
spec: {targetRefs: [{name: web}], healthCheck: {path: /healthz}}
`

// TestRoutesAlone: files without a Gateway are checked and explained, with one that is assumed, which is noted.
func TestRoutesAlone(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	const note = "note: Gateway infra/shop is not in the files: it is assumed, with the listeners https (HTTPS, port 443), for all hosts and namespaces\n"
	clitest.Run(t, alone, "render", "--check", "-f", "-").Want(t, 0, note, "infra/shop: HAProxy accepts it")
	clitest.Run(t, alone, "render", "--check", "-f", "-", "-n", "team").Want(t, 0, note)
	clitest.Run(t, alone, "explain", "-f", "-", "https://shop.example.com/", "--client-address", "192.0.2.1").Want(t, 3, note,
		"route     team/web rules[0]", "answer    403: ClientAddress: ")
	// Their problems are reported as ever.
	clitest.Run(t, strings.Replace(alone, "kind: RouteFilter, name: office", "kind: RouteFilter, name: ofice", 1), "render", "--check", "-f", "-").Want(t, 3,
		"warning: standard input:8: infra/shop: HTTPRoute team/web: rules[0].filters[0]: there is no RouteFilter team/ofice: create it or change the reference: do you mean office?\n")
	clitest.Run(t, strings.Replace(alone, "10.0.0.0/8", "10.0.0.0", 1), "render", "--check", "-f", "-").Want(t, 1, "error: standard input:14: RouteFilter team/office: ")
	// One object is enough.
	parts := strings.Split(alone, "---\n")
	clitest.Run(t, parts[1], "render", "--check", "-f", "-").Want(t, 0, "no HTTPRoute of the files uses RouteFilter team/office: one is assumed, for the host office.team.test\n", "default/assumed: HAProxy accepts it")
	clitest.Run(t, parts[2], "render", "--check", "-f", "-").Want(t, 0, "no HTTPRoute of the files uses Service team/web: one is assumed, for the host web.team.test\n")
	clitest.Run(t, parts[1], "explain", "-f", "-", "http://office.team.test/", "--client-address", "10.0.0.1").Want(t, 0, "100% to Service team/assumed port 80")
}

// TestKindsAlone: what is assumed fits what asks for it.
func TestKindsAlone(t *testing.T) {
	t.Setenv("KUBECONFIG", "/nonexistent")
	const route = "---\n{apiVersion: gateway.networking.k8s.io/v1, kind: %, metadata: {name: NAME, namespace: team}, spec: {parentRefs: [REF], rules: [{backendRefs: [{name: a, port: 80}]}]HOSTS}}\n"
	made := func(kind, name, ref, hosts string) string {
		return strings.NewReplacer("%", kind, "NAME", name, "REF", ref, "HOSTS", hosts).Replace(route)
	}
	for name, test := range map[string]struct{ file, want string }{
		"no section":               {made("HTTPRoute", "r", "{name: g}", ""), "the listeners http (HTTP, port 80), https (HTTPS, port 443), for"},
		"a section":                {made("HTTPRoute", "r", "{name: g, sectionName: web}", ""), "the listeners web (HTTP, port 80), for"},
		"a port":                   {made("GRPCRoute", "r", "{name: g, port: 8443}", ""), "the listeners https (HTTPS, port 8443), for"},
		"two sections":             {made("HTTPRoute", "r", "{name: g, sectionName: a}, {name: g, sectionName: b}", ""), "the listeners a (HTTP, port 80), b (HTTP, port 81), for"},
		"TLS beside HTTP":          {made("HTTPRoute", "r", "{name: g}", "") + made("TLSRoute", "t", "{name: g}", ", hostnames: [a.test]"), "tls (TLS, port 8443), for"},
		"TCP":                      {made("TCPRoute", "r", "{name: g}", ""), "the listeners tcp (TCP, port 9000), for"},
		"a Gateway of our own":     {made("HTTPRoute", "r", "{name: g, group: app.example.com}", ""), "Gateway team/g is not in the files: "},
		"a ListenerSet":            {"{apiVersion: gateway.networking.k8s.io/v1, kind: ListenerSet, metadata: {name: l, namespace: team}, spec: {parentRef: {name: g, namespace: infra}, listeners: [{name: x, port: 8080, protocol: HTTP}]}}\n" + made("HTTPRoute", "r", "{name: l, kind: ListenerSet}", ""), "Gateway infra/g is not in the files: "},
		"a GatewayClass of a team": {"{apiVersion: gateway.networking.k8s.io/v1, kind: GatewayClass, metadata: {name: c}, spec: {controllerName: example.net/c}}\n" + made("HTTPRoute", "r", "{name: g}", ""), "it is assumed"},
	} {
		t.Run(name, func(t *testing.T) {
			clitest.Run(t, test.file, "render", "--check", "-f", "-").Want(t, 0, test.want, "HAProxy accepts it")
		})
	}
}
