package gatewayapi

import (
	"strings"
	"testing"
)

// TestUnreachableRules: a route whose rules get no requests says so as long as the other route is there, and is
// accepted all the same. An edit of the other one is enough.
func TestUnreachableRules(t *testing.T) {
	const other = `apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: web, name: zzz}
spec: {parentRefs: [{name: shop}], rules: [{matches: [{path: {value: PATH}}], backendRefs: [{name: api, port: 80}]}]}
`
	f := newSettled(t, shop+"---\n"+strings.Replace(other, "PATH", "/other", 1))
	isThere := func() bool {
		return strings.Contains(strings.Join(f.conditions(routeKind("HTTPRoute"), "web", "zzz"), "\n"), "UnreachableRules")
	}
	if isThere() {
		t.Error("a rule with a path of its own is called unreachable")
	}
	f.put(strings.Replace(other, "PATH", "/", 1))
	f.catchUp()
	f.settle()
	f.expectConditions(routeKind("HTTPRoute"), "web", "zzz", "parents[0] Accepted=True Accepted",
		"parents[0] UnreachableRules=True UnreachableRules: rules[0] gets no requests: HTTPRoute web/api rules[0] comes first and gets all of them")
	f.put(strings.Replace(shop[strings.LastIndex(shop, "---\n")+len("---\n"):], "rules: [{", "rules: [{matches: [{path: {value: /api}}], ", 1))
	f.catchUp()
	f.settle()
	if isThere() {
		t.Error("the condition stays although the other rule is for another path")
	}
}
