package gatewayapi_test

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// TestReportsChangeTheStatusAlone: a pod that reports what it cannot use is not replaced for that. The one in its place would
// lack what it needs, report the same, and wait to be replaced for ever.
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
spec: {filters: [{type: JWT, jwt: {issuer: a, audiences: [a], keys: {configMapRef: {name: keys}}}}]}
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

// TestReportsStayWithTheirGateway: the status of a route at a Gateway says what the proxies of that Gateway report.
func TestReportsStayWithTheirGateway(t *testing.T) {
	objects := parseAll(t, []byte(twoGateways))
	objects.Cache = &gatewayapi.Cache{}
	objects.Reported = func(of gatewayapi.Subject) string {
		if of.Reason != appv1.ProblemInvalidKeysRef || of.Name != "keys" {
			t.Errorf("it is asked for %+v", of)
		}
		return "no keys, say the proxies of " + of.Plane.Name
	}
	for range 2 { // the second translation has the routes from the cache
		routes := gatewayapi.Translate(objects).Status(nil, allLive{}).Routes
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
