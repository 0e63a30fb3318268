package clustertest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/must"
	"gateway/internal/proxypod"
	"gateway/internal/source/gatewayapi"
)

// teamRoutes belong to Gateway attached/shop, and are in another namespace with their Service.
const teamRoutes = `---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{group: app.example.com, kind: Gateway, name: shop, namespace: attached}]
  hostnames: [shop.example.com]
  rules:
    - matches: [{path: {value: /api}}]
      backendRefs: [{name: api, port: 80}]
    - matches: [{path: {value: /none}}]
      backendRefs: [{name: none, port: 80}]
    - matches: [{path: {value: /tls}}]
      backendRefs: [{name: api, port: 443}]
    - matches: [{path: {value: /limited}}]
      filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: limit}}]
      backendRefs: [{name: api, port: 80}]
`

const teamObjects = `---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: grpc}
spec:
  parentRefs: [{group: app.example.com, kind: Gateway, name: shop, namespace: attached}]
  hostnames: [grpc.example.com]
  rules: [{matches: [{method: {service: cart.Cart}}], backendRefs: [{name: api, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: system}
spec:
  targetRefs: [{group: "", kind: Service, name: api, sectionName: tls}]
  validation: {hostname: api.example.com, wellKnownCACertificates: example.com/ours}
---
apiVersion: app.example.com/v1
kind: RouteFilter
metadata: {name: limit}
spec: {filters: [{type: RateLimit, rateLimit: {limits: [{requests: 7, unit: Second}]}}]}
---
apiVersion: v1
kind: Service
metadata: {name: api}
spec: {ports: [{name: http, port: 80}, {name: tls, port: 443, appProtocol: https}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: api-1, labels: {kubernetes.io/service-name: api}}
addressType: IPv4
ports: [{name: http, port: 8080}, {name: tls, port: 8443}]
endpoints: [{addresses: [10.0.0.7], conditions: {ready: true}}]
`

// attach writes where the objects are that belong to a Gateway, as the operator would.
func attach(t *testing.T, gateway *appv1.Gateway, namespace string, resources ...string) {
	t.Helper()
	attachment := &appv1.GatewayAttachment{
		ObjectMeta: metav1.ObjectMeta{
			Name: gateway.Name + "." + namespace, Labels: proxypod.SelectorLabels(gateway.Name),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: appv1.SchemeGroupVersion.String(), Kind: "Gateway", Name: gateway.Name, UID: gateway.UID, Controller: new(true),
			}},
		},
		Spec: appv1.GatewayAttachmentSpec{GatewayName: gateway.Name, Namespace: namespace, Resources: resources},
		Status: appv1.GatewayAttachmentStatus{Conditions: []metav1.Condition{{
			Type: appv1.ConditionBound, Status: metav1.ConditionTrue, Reason: "Bound", LastTransitionTime: metav1.Now(),
		}}},
	}
	_, err := clients.Gateways.AppV1().GatewayAttachments(gateway.Namespace).Create(t.Context(), attachment, metav1.CreateOptions{})
	if err == nil {
		err = setStatus(t.Context(), gateway, programmed(gateway, ""))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAttached: commands about a Gateway show its routes of other namespaces, too.
func TestAttached(t *testing.T) {
	namespace, team := newNamespace(t, "attached"), newNamespace(t, "attached-team")
	shop := strings.Replace(gateway("shop", "  routes: [{name: own, rules: [{matches: [{path: {value: /own}}], backendRefs: [{name: own, port: 80}]}]}]\n"),
		"protocol: HTTP}", "protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}", 1)
	in := func(args ...string) []string { return append(args, "-n", namespace) }
	clitest.Run(t, shop, in("apply", "-f", "-")...).Want(t, 0)
	clitest.Run(t, teamRoutes+teamObjects, "apply", "-n", team, "-f", "-").Want(t, 0)
	attach(t, get(t, namespace, "shop"), team, "backendtlspolicies", "grpcroutes", "httproutes", "routefilters")

	clitest.Run(t, "", in("list")...).Want(t, 0, "shop   HTTP:80     3 ")
	for _, test := range []struct {
		url   string
		code  int
		wants []string
	}{
		{"http://shop.example.com/api", 0, []string{"route     attached-team/web rules[0]: host shop.example.com, path prefix /api\nbackend   100% to Service attached-team/api port 80, ready: 10.0.0.7:8080\n"}},
		{"http://grpc.example.com/cart.Cart/Add", 0, []string{"route     attached-team/grpc rules[0]: host grpc.example.com, path prefix /cart.Cart\n"}},
		{"http://shop.example.com/own", 3, []string{"route     own rules[0]", "100% to Service own port 80, answered with 500: Service attached/own does not exist: create it or change the route"}},
		{"http://shop.example.com/none", 3, []string{"backend   100% to no Service, answered with 500", "rules[1].backendRefs[0]: there is no Service attached-team/none"}},
		{"http://shop.example.com/tls", 3, []string{"answered with 500: BackendTLSPolicy attached-team/system: wellKnownCACertificates: example.com/ours is not known"}},
		{"http://shop.example.com/limited", 0, []string{"7 requests per second", "100% to Service attached-team/api port 80"}},
	} {
		clitest.Run(t, "", in("explain", "shop", test.url)...).Want(t, test.code, test.wants...)
	}
	clitest.Run(t, "", in("render", "shop")...).Want(t, 0, "server 10.0.0.7_8080 10.0.0.7:8080", "|attached-team/web|")
	clitest.Run(t, "", in("check")...).Want(t, 3, "ok       Gateway attached/shop: generation 1 is live in 2 proxies\n",
		"wrong    Gateway attached/shop: HTTPRoute attached-team/web: rules[1].backendRefs[0]: there is no Service attached-team/none: create it or change the reference\n")

	clitest.Run(t, "", "routes", "-n", team).Want(t, 0, "GRPCRoute   grpc   grpc.example.com ", "HTTPRoute   web    shop.example.com ", "no operator has looked at it")
	clitest.Run(t, "", in("routes")...).Want(t, 0, "Gateway   shop/own   *       shop      True         0.0 ")
	clitest.Run(t, "", in("bundle", "--output-file", filepath.Join(t.TempDir(), "b.tar.gz"), "-o", "json")...).Want(t, 0,
		`"name": "objects/attached-team/httproutes.gateway.networking.k8s.io.yaml"`, `"name": "gateways/attached/shop/haproxy/haproxy.cfg"`, `"missing": []`)

	t.Run("diff", func(t *testing.T) {
		diff := in("render", "-f", "-", "--diff")
		clitest.Run(t, shop, diff...).Want(t, 0, "attached/shop: no difference")
		edited := clitest.Run(t, strings.Replace(shop, "/own", "/mine", 1), diff...)
		edited.Want(t, 3, "+", "/mine/ ")
		for line := range strings.Lines(edited.Out) {
			if strings.HasPrefix(line, "-") && strings.Contains(line, "attached-team") {
				t.Errorf("the edit of a Gateway takes a route of others away: %s", line)
			}
		}
		route := strings.NewReplacer("/api", "/v2", "{name: web}", "{name: web, namespace: attached-team}").Replace(teamRoutes)
		clitest.Run(t, shop+route, diff...).Want(t, 3, "/api/ ", "/v2/ ", "loading it takes no reload")
	})
	t.Run("as somebody who may not read them", func(t *testing.T) { asSomebody(t, namespace, shop) })
}

// asSomebody may read the namespace of the Gateway, but not all namespaces of its routes: nothing is shown with fewer
// routes.
func asSomebody(t *testing.T, namespace, shop string) {
	t.Helper()
	read := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list"}}
	}
	allow(t, namespace, read(appv1.GroupName, "gateways", "gatewayattachments"), read("", "services", "configmaps"), read("discovery.k8s.io", "endpointslices"))
	as := func(args ...string) []string { return append(args, "-n", namespace, "--as", "somebody") }
	const forbidden = `httproutes.gateway.networking.k8s.io is forbidden: User "somebody" cannot list resource "httproutes"`
	eventually(t, succeeds, as("list")...)
	clitest.Run(t, "", as("list")...).Want(t, 0, "shop   HTTP:80     <unknown>", "warning: not all is known of Gateway attached/shop: ", forbidden)
	clitest.Run(t, "", as("explain", "shop", "http://shop.example.com/api")...).Want(t, 1, "unknown   "+forbidden, "error: the answer is incomplete: ", "unknown   services is forbidden")
	clitest.Run(t, "", as("explain", "shop", "http://shop.example.com/own", "-o", "json")...).Want(t, 1, `"unread": [`)
	clitest.Run(t, "", as("check")...).Want(t, 0, "warning  Gateway attached/shop: not all is known of it: "+forbidden)
	for _, args := range [][]string{as("render", "shop"), as("render", "-f", "-", "--diff")} {
		result := clitest.Run(t, shop, args...)
		if result.Want(t, 1, "error: not all is known of Gateway attached/shop: ", forbidden); result.Out != "" {
			t.Errorf("%v prints\n%s", args, result.Out)
		}
	}
	// Routes are one thing, the endpoints of their backends another.
	allow(t, "attached-team", read("gateway.networking.k8s.io", "httproutes", "grpcroutes", "backendtlspolicies"), read(appv1.GroupName, "routefilters"))
	eventually(t, func(result clitest.Result) bool { return strings.Contains(result.Out, "HTTP:80     3 ") }, as("list")...)
	clitest.Run(t, "", as("explain", "shop", "http://shop.example.com/none")...).Want(t, 1,
		"to Service attached-team/none port 80, endpoints not known\n", `unknown   services is forbidden: User "somebody"`)
}

// TestAttachedToGatewayAPI: the Gateway that the operator makes for one of the Gateway API has the routes of that.
func TestAttachedToGatewayAPI(t *testing.T) {
	namespace := newNamespace(t, "attached-api")
	in := func(args ...string) []string { return append(args, "-n", namespace) }
	route := strings.Replace(teamRoutes, "{group: app.example.com, kind: Gateway, name: shop, namespace: attached}", "{name: edge}", 1)
	const edge = `---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec:
  gatewayClassName: ours
  listeners: [{name: web, port: 8080, protocol: HTTP, hostname: "*.example.com"}]
`
	clitest.Run(t, gateway("edge", "")+route+teamObjects+edge, in("apply", "-f", "-")...).Want(t, 0)
	own := get(t, namespace, "edge")
	own.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "gateway.networking.k8s.io/v1", Kind: "Gateway", Name: "edge", UID: types.UID("edge"), Controller: new(true),
	}}
	own = must.Get(clients.Gateways.AppV1().Gateways(namespace).Update(t.Context(), own, metav1.UpdateOptions{}))(t)
	attach(t, own, namespace, "backendtlspolicies", "httproutes", "routefilters")
	clitest.Run(t, "", in("list")...).Want(t, 0, "edge   HTTP:80     1 ")
	clitest.Run(t, "", in("explain", "edge", "http://shop.example.com:8080/api")...).Want(t, 0,
		"listener  web: HTTP on port 8080, for *.example.com\nroute     attached-api/web rules[0]: ", "Service api port 80, ready: 10.0.0.7:8080\n")
	clitest.Run(t, "", in("explain", "edge", "http://other.example.com:8080/api")...).Want(t, 3, "404")

	// A file has the Gateway, or routes alone; all else is as in the cluster.
	diff := in("render", "-f", "-", "--diff")
	clitest.Run(t, edge, diff...).Want(t, 0, "attached-api/edge: no difference")
	clitest.Run(t, strings.Replace(edge, "8080", "8081", 1), diff...).Want(t, 3, "-    bind :8080", "+    bind :8081", "loading it takes a reload: ")
	clitest.Run(t, edge+strings.Replace(route, "/api", "/v2", 1), diff...).Want(t, 3, "/api/ ", "/v2/ ", "loading it takes no reload")
	// A team's routes alone are checked with what the cluster has.
	against := func(args ...string) []string { return in(append(args, "-f", "-", "--against-cluster")...) }
	second := strings.NewReplacer("{name: web}", "{name: second}", "shop.example.com", "SHOP").Replace(route)
	taken := strings.Replace(second, "SHOP", "shop.example.com", 1)
	clitest.Run(t, taken, against("render", "--check")...).Want(t, 3, "warning: standard input:", "HTTPRoute attached-api/second: ", " gets no requests: ", "attached-api/web")
	clitest.Run(t, strings.Replace(second, "SHOP", "elsewhere.org", 1), against("render", "--check")...).Want(t, 3, "hostnames: no listener is for elsewhere.org (web: *.example.com): change them, or the hostname of a listener")
	if result := clitest.Run(t, taken, against("render", "--check")...); strings.Contains(result.Err, "attached-api/web: ") {
		t.Errorf("it warns of what others have:\n%s", result.Err)
	}
	clitest.Run(t, taken, against("explain", "http://shop.example.com:8080/api")...).Want(t, 0, "route     attached-api/web rules[0]", "ready: 10.0.0.7:8080")
	clitest.Run(t, strings.Replace(second, "SHOP", "own.example.com", 1), against("explain", "http://own.example.com:8080/api")...).Want(t, 0, "route     attached-api/second rules[0]")
	allow(t, namespace, rbacv1.PolicyRule{APIGroups: []string{"gateway.networking.k8s.io"}, Resources: []string{"httproutes"}, Verbs: []string{"get", "list"}})
	clitest.Run(t, taken, append(against("explain", "http://shop.example.com/api"), "--as", "somebody")...).Want(t, 0,
		"note: Gateway attached-api/edge of the cluster is not known, and assumed to take all hosts and namespaces: ", "route     attached-api/second rules[0]")
	clitest.Run(t, route, diff...).Want(t, 0, "note: Gateway attached-api/edge is not in the files", "attached-api/edge: no difference")
	clitest.Run(t, strings.Replace(route, "/api", "/v2", 1), diff...).Want(t, 3, "/api/ ", "/v2/ ", "loading it takes no reload")
	clitest.Run(t, gateway("edge", ""), diff...).Want(t, 1, "Gateway attached-api/edge is of one group in the files, and of another one in the cluster")
	const configured = `---
{apiVersion: app.example.com/v1, kind: GatewayConfig, metadata: {name: c}, spec: {maxRequestBytes: 1234, clientLimits: {maxHeaders: 77}}}
`
	with := strings.Replace(edge, "gatewayClassName: ours", "gatewayClassName: ours\n  infrastructure: {parametersRef: {group: app.example.com, kind: GatewayConfig, name: c}}", 1)
	clitest.Run(t, with+configured, diff...).Want(t, 3, "1234", "77")
}

// TestWhatProxiesReport: problems that a route's status has from the reports of proxies are shown at its Gateway.
func TestWhatProxiesReport(t *testing.T) {
	namespace := newNamespace(t, "reported")
	in := func(args ...string) []string { return append(args, "-n", namespace) }
	shop := strings.Replace(gateway("shop", ""), "protocol: HTTP}", "protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}", 1)
	clitest.Run(t, shop+`---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec:
  parentRefs: [{group: app.example.com, kind: Gateway, name: shop}]
  rules:
    - filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: users}}]
      backendRefs: [{name: none, port: 80}]
---
apiVersion: app.example.com/v1
kind: RouteFilter
metadata: {name: users}
spec: {filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}}}]}
`, in("apply", "-f", "-")...).Want(t, 0)
	attach(t, get(t, namespace, "shop"), namespace, "httproutes", "routefilters")
	routes := must.Get(versioned.NewForConfig(clients.Config))(t)
	web := must.Get(routes.GatewayV1().HTTPRoutes(namespace).Get(t.Context(), "web", metav1.GetOptions{}))(t)
	const missing, unusable = "rules[0].backendRefs[0]: there is no Service reported/none: create it or change the reference", "rules[0]: Secret reported/users does not exist"
	web.Status.Parents = []gatewayv1.RouteParentStatus{{
		ParentRef: web.Spec.ParentRefs[0], ControllerName: gatewayapi.ControllerName, Conditions: []metav1.Condition{{
			Type: "ResolvedRefs", Status: metav1.ConditionFalse, Reason: "BackendNotFound", ObservedGeneration: web.Generation,
			LastTransitionTime: metav1.Now(), Message: missing + "; " + unusable,
		}},
	}}
	must.Get(routes.GatewayV1().HTTPRoutes(namespace).UpdateStatus(t.Context(), web, metav1.UpdateOptions{}))(t)
	const about = "wrong    Gateway reported/shop: HTTPRoute reported/web: "
	result := clitest.Run(t, "", in("check")...)
	if result.Want(t, 3, about+missing+"\n", about+unusable+"\n"); strings.Count(result.Out, "HTTPRoute reported/web") != 2 {
		t.Errorf("a problem is there twice:\n%s", result.Out)
	}
	clitest.Run(t, "", in("explain", "shop", "http://a/")...).Want(t, 3, "warning: reported/shop: HTTPRoute reported/web: "+unusable)
	clitest.Run(t, "", in("list", "-o", "wide")...).Want(t, 0, "HTTPRoute reported/web: "+missing+"; "+unusable)
}

// TestLongName: a Gateway of the Gateway API is found by its name where our own has to have another one.
func TestLongName(t *testing.T) {
	namespace, name := newNamespace(t, "long"), strings.Repeat("edge.", 12)+"shop"
	clitest.Run(t, fmt.Sprintf(`apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: %s}
spec: {gatewayClassName: ours, listeners: [{name: http, port: 80, protocol: HTTP}]}
---
apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: %s}
spec: {listeners: [{name: http, port: 80, protocol: HTTP}]}
`, name, gatewayapi.DataPlaneName(name)), "apply", "-n", namespace, "-f", "-").Want(t, 0)
	for _, command := range []string{"list", "render"} {
		clitest.Run(t, "", command, name, "-n", namespace).Want(t, 0)
	}
}

// TestWithoutProxies: a Gateway of the Gateway API that the operator makes no proxies for is named, and why.
func TestWithoutProxies(t *testing.T) {
	namespace := newNamespace(t, "unserved")
	in := func(args ...string) []string { return append(args, "-n", namespace) }
	clitest.Run(t, `apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: edge}
spec: {gatewayClassName: ours, listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: none}]}}]}
`, in("apply", "-f", "-")...).Want(t, 0)
	commands := [][]string{in("explain", "edge", "https://a/"), in("list", "edge"), in("logs", "edge"), in("render", "edge")}
	for _, command := range commands {
		clitest.Run(t, "", command...).Want(t, 1, "Gateway unserved/edge of the Gateway API has no proxies: see its conditions")
	}
	routes := must.Get(versioned.NewForConfig(clients.Config))(t)
	edge := must.Get(routes.GatewayV1().Gateways(namespace).Get(t.Context(), "edge", metav1.GetOptions{}))(t)
	edge.Status.Listeners = []gatewayv1.ListenerStatus{{Name: "https", SupportedKinds: []gatewayv1.RouteGroupKind{}, Conditions: []metav1.Condition{{
		Type: "Programmed", Status: metav1.ConditionFalse, Reason: "Invalid", LastTransitionTime: metav1.Now(), Message: "there is no Secret unserved/none",
	}}}}
	must.Get(routes.GatewayV1().Gateways(namespace).UpdateStatus(t.Context(), edge, metav1.UpdateOptions{}))(t)
	for _, command := range commands {
		clitest.Run(t, "", command...).Want(t, 1,
			"Gateway unserved/edge of the Gateway API has no proxies: listener https is not served: there is no Secret unserved/none\n")
	}
	clitest.Run(t, "", in("explain", "other", "https://a/")...).Want(t, 1, "failed to get Gateway unserved/other: ", "not found")
}
