package gatewayapi

import (
	"errors"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/proxypod"
)

// lists counts the requests that list a resource, since the last sync began.
func (f *fixture) lists(resource string) (n int) {
	for _, action := range slices.Concat(f.kube.Actions(), f.own.Actions()) {
		if action.GetVerb() == "list" && action.GetResource().Resource == resource {
			n++
		}
	}
	return n
}

// TestProgrammedIsConfirmed: a pod that the caches lack runs older routes, and is about to receive traffic.
func TestProgrammedIsConfirmed(t *testing.T) {
	filtered := strings.Replace(strings.Replace(route, "name: api}", "name: other}", 1), "rules: [{",
		"rules: [{filters: [{type: ExtensionRef, extensionRef: {group: app.example.com, kind: RouteFilter, name: office}}], ", 1)
	f := newFixture(t, shop+"\n---"+filtered+`
---
apiVersion: app.example.com/v1
kind: RouteFilter
metadata: {namespace: web, name: office}
spec: {filters: [{type: ClientAddress, clientAddress: {allow: [10.0.0.0/8]}}]}`)
	f.settle()
	f.program("web", "shop")
	f.catchUp()
	second := &appv1.GatewayProxy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "second", Labels: proxypod.SelectorLabels("shop")},
		Status: appv1.GatewayProxyStatus{
			Gateway:   appv1.ProxiedGateway{Name: "shop", UID: f.ownGateway("web", "shop").UID},
			Resources: []appv1.ProxiedResource{{Resource: "httproutes", Namespace: "web", ResourceVersion: "1"}}, // an older one
		},
	}
	f.putObject(ownKind("GatewayProxy"), second)
	var slice *discoveryv1.EndpointSlice
	for _, object := range f.list(endpointSlices) {
		slice = object.(*discoveryv1.EndpointSlice)
	}
	slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
		Addresses: []string{"192.0.2.3"}, TargetRef: podRef(second.Name),
	})
	f.putObject(endpointSlices, slice)
	must.Get(f.sync())(t)
	for _, name := range []string{"api", "other"} {
		f.expectConditions(routeKind("HTTPRoute"), "web", name, "parents[0] Programmed=False Pending: not all proxies run it yet")
	}
	f.expectConditions(routeKind("Gateway"), "web", "shop", "Programmed=False Pending: not all proxies run it yet")
	if slices, reports := f.lists("endpointslices"), f.lists("gatewayproxies"); slices != 1 || reports != 2 {
		t.Errorf("EndpointSlices are listed %d times, reports %d times, want once for all objects, and reports once before", slices, reports)
	}

	f.program("web", "shop") // there is one endpoint again, which runs everything
	f.settle()
	for _, name := range []string{"api", "other"} {
		f.expectConditions(routeKind("HTTPRoute"), "web", name, "parents[0] Programmed=True Programmed")
	}
	f.mustSync()
	if lists := f.lists("endpointslices"); lists != 0 {
		t.Errorf("EndpointSlices are listed %d times though all is Programmed", lists)
	}
}

// TestReportsConfirm: where all proxies that reported run a route, nobody lists EndpointSlices. A report of a pod that
// receives no traffic, such as an evicted one, keeps no route from being Programmed.
func TestReportsConfirm(t *testing.T) {
	for name, slices := range map[string]int{"": 0, "evicted": 1} {
		f := newSettled(t, shop)
		f.program("web", "shop")
		f.catchUp()
		if name != "" {
			f.putObject(ownKind("GatewayProxy"), &appv1.GatewayProxy{
				ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: name, Labels: proxypod.SelectorLabels("shop")},
				Status: appv1.GatewayProxyStatus{
					Gateway:         appv1.ProxiedGateway{Name: "shop", UID: f.ownGateway("web", "shop").UID},
					ResourceVersion: "1",
				},
			})
		}
		must.Get(f.sync())(t)
		f.expectConditions(routeKind("HTTPRoute"), "web", "api", "parents[0] Programmed=True Programmed")
		if got := f.lists("endpointslices"); got != slices {
			t.Errorf("with the report of pod %q, EndpointSlices are listed %d times, want %d", name, got, slices)
		}
	}
}

// TestProgrammedWaitsForTheAnswer of the API server.
func TestProgrammedWaitsForTheAnswer(t *testing.T) {
	f := newSettled(t, shop)
	f.program("web", "shop")
	f.catchUp()
	failing := true
	f.own.PrependReactor("list", "gatewayproxies", func(clienttesting.Action) (bool, runtime.Object, error) {
		return failing, nil, errors.New("not now")
	})
	if _, err := f.sync(); err == nil || !strings.Contains(err.Error(), "failed to list GatewayProxies of Gateway web/shop: not now") {
		t.Errorf("got %v", err)
	}
	f.expectConditions(routeKind("HTTPRoute"), "web", "api", "parents[0] Programmed=False Pending: not all proxies run it yet")
	failing = false
	f.settle()
	f.expectConditions(routeKind("HTTPRoute"), "web", "api", "parents[0] Programmed=True Programmed")
}
