package command_test

import (
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
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
    - filters: [{type: ExternalAuth}]
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
			"backend   100% to no Service, answered with 500: the reference of the route cannot be resolved\n",
			"HTTPRoute team/web: rules[1].backendRefs[0]: no ReferenceGrant of namespace other lets HTTPRoutes of namespace team refer to Service web",
		}},
		{[]string{"shop", "http://other.example.com/api"}, 3, []string{"404: listener http has no route for the host other.example.com"}},
		{[]string{"own", "http://x.test/own/a"}, 0, []string{"route     own rules[0]: path prefix /own\n"}},
		{[]string{"own", "http://x.test/copied"}, 0, []string{"filter    copies: 12.5% of the requests, to Service team/api:80\n"}},
		{[]string{"own", "http://x.test/"}, 3, []string{
			"500: the rule has no backend", "HTTPRoute team/refused: requests for rules[0] are answered with 500: filters of type ExternalAuth are not supported",
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
	clitest.Run(t, "", "render", "-f", file, "shop", "--diff").Want(t, 2, "")
}
