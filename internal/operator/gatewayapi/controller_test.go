package gatewayapi

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"gateway/internal/proxypod"
	source "gateway/internal/source/gatewayapi"
)

// shop is a Gateway with one HTTPRoute to a Service of its namespace.
const shop = `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: app}
spec: {controllerName: app.example.com/gateway}
---
apiVersion: v1
kind: Namespace
metadata: {name: web}
---
apiVersion: v1
kind: Service
metadata: {namespace: web, name: api}
spec: {ports: [{port: 80}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {namespace: web, name: shop}
spec:
  gatewayClassName: app
  listeners: [{name: http, port: 80, protocol: HTTP}]
---` + route

const route = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {namespace: web, name: api}
spec:
  parentRefs: [{name: shop}]
  rules: [{backendRefs: [{name: api, port: 80}]}]
`

func TestAGatewayBecomesAnOwnGateway(t *testing.T) {
	f := newFixture(t, shop)
	f.expectWrites(f.mustSync(),
		"patch own gateways web/shop",
		"update gatewayclasses/status app", "update gateways/status web/shop", "update httproutes/status web/api")
	own := f.ownGateway("web", "shop")
	if len(own.Spec.Listeners) != 1 || own.Spec.Listeners[0].Port != 80 || proxypod.Parent(own) != "shop" {
		t.Errorf("our Gateway is %+v", own)
	}
	f.expectConditions(routeKind("GatewayClass"), "", "app", "Accepted=True Accepted")
	f.expectConditions(routeKind("Gateway"), "web", "shop",
		"Accepted=True Accepted", "Programmed=False Pending: its proxies do not run yet",
		"listeners[0] Accepted=True Accepted")

	// The agents learn what belongs to our Gateway once it is there.
	f.expectWrites(f.mustSync(), "patch own gatewayattachments web/shop.web")
	f.expectAttached("web")
}

func TestAnEditReachesTheOwnGateway(t *testing.T) {
	f := newSettled(t, shop)
	f.put(strings.Replace(strings.Split(shop, "\n---")[3], "port: 80", "port: 81", 1))
	f.expectWrites(f.mustSync(), "patch own gateways web/shop", "update gateways/status web/shop")
	if own := f.ownGateway("web", "shop"); own.Spec.Listeners[0].Port != 81 {
		t.Errorf("our Gateway has %+v", own.Spec.Listeners)
	}
}

func TestARouteIsProgrammedOnceAllProxiesRunIt(t *testing.T) {
	f := newSettled(t, shop)
	f.expectConditions(routeKind("HTTPRoute"), "web", "api", "parents[0] Accepted=True Accepted",
		"parents[0] ResolvedRefs=True ResolvedRefs", "parents[0] Programmed=False Pending: its proxies do not run yet")
	f.program("web", "shop")
	f.expectWrites(f.mustSync(), "update gateways/status web/shop", "update httproutes/status web/api")
	f.expectConditions(routeKind("HTTPRoute"), "web", "api", "parents[0] Programmed=True Programmed")
	f.expectConditions(routeKind("Gateway"), "web", "shop", "Programmed=True Programmed")

	// The proxies do not run an edit before they report it.
	f.put(strings.Replace(route, "rules: [{", "rules: [{name: edited, ", 1))
	f.expectWrites(f.mustSync(), "update httproutes/status web/api")
	f.expectConditions(routeKind("HTTPRoute"), "web", "api",
		"parents[0] Programmed=False Pending: not all proxies run it yet")
	f.programShop()
	f.expectConditions(routeKind("HTTPRoute"), "web", "api", "parents[0] Programmed=True Programmed")
}

func TestSteadyStateWritesNothing(t *testing.T) {
	f := newSettled(t, shop)
	f.programShop()
	f.put("apiVersion: v1\nkind: Service\nmetadata: {namespace: web, name: other}\nspec: {ports: [{port: 80}]}")
	f.expectWrites(f.mustSync())
}

// TestAFailureOfOneWriteLeavesTheOthers: the statuses are written though our Gateway cannot be.
func TestAFailureOfOneWriteLeavesTheOthers(t *testing.T) {
	f := newFixture(t, shop)
	f.fail("patch", "gateways", errors.New("not now"))
	writes, err := f.sync()
	if err == nil || !strings.Contains(err.Error(), "failed to apply Gateway web/shop: not now") {
		t.Errorf("got %v", err)
	}
	f.expectWrites(writes, "patch own gateways web/shop",
		"update gatewayclasses/status app", "update gateways/status web/shop", "update httproutes/status web/api")
}

// TestAnEditLooksAtWhatItChanges: at no other route, however many there are.
func TestAnEditLooksAtWhatItChanges(t *testing.T) {
	f := newFixture(t, shop)
	for i := range 9 {
		f.put(routeTo(fmt.Sprint("r", i), "api"))
	}
	filter := "apiVersion: app.example.com/v1\nkind: RouteFilter\nmetadata: {namespace: web, name: office}\n" +
		"spec: {filters: [{type: ClientAddress, clientAddress: {allow: [10.0.0.0/8]}}]}"
	f.put(strings.Replace(routeTo("filtered", "other"), "rules: [{",
		"rules: [{filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: office}}], ", 1))
	f.settle()
	f.programShop()
	gateway := source.Object{Kind: "Gateway", Namespace: "web", Name: "shop"}
	edited := source.Object{Kind: "HTTPRoute", Namespace: "web", Name: "api"}
	filtered := source.Object{Kind: "HTTPRoute", Namespace: "web", Name: "filtered"}
	for _, test := range []struct {
		what string
		edit func()
		task source.Object
		want []source.Object
	}{
		{"a route", func() { f.put(strings.Replace(route, "rules: [{", "rules: [{name: edited, ", 1)) }, edited, []source.Object{edited, gateway}},
		{"a report", func() { f.program("web", "shop") }, source.Object{Kind: kindProxies, Namespace: "web", Name: "shop"}, []source.Object{edited}},
		{"a RouteFilter", func() { f.put(strings.Replace(filter, "10.0.0.0/8", "10.0.0.0/9", 1)) },
			source.Object{Kind: kindFilter, Namespace: "web", Name: "office"}, []source.Object{filtered, gateway}},
		{"a Service", func() {
			f.put("apiVersion: v1\nkind: Service\nmetadata: {namespace: web, name: other}\nspec: {ports: [{port: 80}]}")
		},
			source.Object{Kind: kindService, Namespace: "web", Name: "other"}, []source.Object{filtered, gateway}},
		{"a policy", func() {
			f.put(strings.NewReplacer("web, name: api", "web, name: p", "Service, name: api", "Service, name: other").Replace(policy))
		},
			source.Object{Kind: kindPolicy, Namespace: "web", Name: "p"}, nil}, // no route depends on it
	} {
		test.edit()
		f.catchUp()
		wanted := f.controller.evaluateChanged(t.Context(), []task{{test.task, true}})
		if wanted == nil {
			t.Errorf("%s: everything is looked at", test.what)
			continue
		}
		delete(wanted.objects, test.task)
		delete(wanted.objects, source.Object{Kind: source.KindOwn, Namespace: "web", Name: "shop"}) // it has no status here
		for _, id := range test.want {
			if id != test.task && !wanted.objects[id] {
				t.Errorf("%s: %+v is not looked at", test.what, id)
			}
			delete(wanted.objects, id)
		}
		if len(wanted.objects) > 0 {
			t.Errorf("%s: %v are looked at, too", test.what, wanted.objects)
		}
		f.settle()
	}
}

// TestARouteIsFreedByTheEditOfAnother: together, their expressions take too many steps.
func TestARouteIsFreedByTheEditOfAnother(t *testing.T) {
	f := newFixture(t, shop)
	for _, name := range []string{"first", "second"} {
		f.put(routes + "{namespace: web, name: " + name + "}\n" + dear)
	}
	f.settle()
	refused := func() int {
		return strings.Count(strings.Join(f.conditions(routeKind("HTTPRoute"), "web", "second"), " "), "PartiallyInvalid")
	}
	if refused() != 1 {
		t.Errorf("the second route has %q", f.conditions(routeKind("HTTPRoute"), "web", "second"))
	}
	f.remove(routeKind("HTTPRoute"), "web", "first")
	f.settle()
	if refused() != 0 {
		t.Errorf("without the first one, the second route has %q", f.conditions(routeKind("HTTPRoute"), "web", "second"))
	}
}
