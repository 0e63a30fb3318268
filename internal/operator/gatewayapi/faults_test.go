package gatewayapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"gateway/internal/must"
	source "gateway/internal/source/gatewayapi"
)

// panicAt makes the Controller panic when it looks up an object called web/bad, until the caches catch up.
func panicAt(f *fixture, informer cache.SharedIndexInformer) {
	f.t.Helper()
	wrong := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "bad"}}
	must.Do(f.t, informer.GetIndexer().Add(wrong))
}

// routeTo returns an HTTPRoute of namespace web.
func routeTo(name, service string) string {
	return strings.NewReplacer("web, name: api}", "web, name: "+name+"}", "{name: api,", "{name: "+service+",").Replace(route)
}

// gatewayWith returns a Gateway of namespace web that has a GatewayConfig.
func gatewayWith(name, config string) string {
	return strings.NewReplacer("name: shop}", "name: "+name+"}", "gatewayClassName: app", "gatewayClassName: app\n"+
		"  infrastructure: {parametersRef: {group: app.example.com, kind: GatewayConfig, name: "+config+"}}",
	).Replace(strings.Split(shop, "\n---")[3])
}

const (
	bug       = "the operator fails at it: this is a bug, please report it with the operator's log: "
	wrongType = "panic: interface conversion: interface {} is *v1.Pod, not "
	atConfigs = "Accepted=False InternalError: " + bug + wrongType + "*v1.GatewayConfig"
)

// TestAPanicStaysWithItsRule: it is refused, as agents refuse it, and the other routes are looked after as ever.
func TestAPanicStaysWithItsRule(t *testing.T) {
	f := newSettled(t, shop)
	f.put(routeTo("bad", "bad"))
	f.put(routeTo("good", "api"))
	f.catchUp()
	panicAt(f, f.inputs.Services.Core().V1().Services().Informer())
	writes, err := f.sync()
	if err != nil || len(f.controller.faults) != 0 {
		t.Errorf("got %v, and the faults %v", err, f.controller.faults)
	}
	f.expectWrites(writes, "update gateways/status web/shop", "update httproutes/status web/bad", "update httproutes/status web/good")
	const refused = "parents[0] Accepted=False UnsupportedValue: requests are answered with 500: rules[0]: " +
		"this is a bug, please report it: " + wrongType + "*v1.Service, at "
	if conditions := f.conditions(routeKind("HTTPRoute"), "web", "bad"); !strings.HasPrefix(conditions[0], refused) {
		t.Errorf("the route has\n  %s", strings.Join(conditions, "\n  "))
	}
	f.expectConditions(routeKind("HTTPRoute"), "web", "good", "parents[0] Accepted=True Accepted")
}

// TestAPanicStaysWithItsObject: whichever it is of many, all others are looked after as ever.
func TestAPanicStaysWithItsObject(t *testing.T) {
	for _, at := range []int{0, 1, 7, 20} {
		t.Run(fmt.Sprintf("Gateway %d", at), func(t *testing.T) {
			f := newSettled(t, shop)
			for i := range 21 {
				f.put(gatewayWith(fmt.Sprintf("g%02d", i), "good"))
			}
			bad := fmt.Sprintf("g%02d", at)
			f.put(gatewayWith(bad, "bad"))
			f.put(gatewayWith("also", "bad"))
			f.put("apiVersion: app.example.com/v1\nkind: GatewayConfig\nmetadata: {namespace: web, name: good}\n")
			f.catchUp()
			panicAt(f, f.inputs.Configs.Informer())
			writes, err := f.sync()
			if err != nil || len(writes) != 22+20 { // 22 statuses, and 20 Gateways of our own
				t.Errorf("got %v, and wrote %q", err, writes)
			}
			f.expectConditions(routeKind("Gateway"), "web", bad, atConfigs)
			f.expectConditions(routeKind("Gateway"), "web", "also", atConfigs)
			f.expectConditions(routeKind("Gateway"), "web", "g13", "Accepted=True Accepted")
		})
	}
}

// TestAFaultyObjectIsTriedAgain: at once after an edit, and else after a minute.
func TestAFaultyObjectIsTriedAgain(t *testing.T) {
	f := newSettled(t, shop)
	informer := f.inputs.Configs.Informer()
	put := func(document string) {
		t.Helper()
		f.put(document)
		f.catchUp()
		panicAt(f, informer)
	}
	expect := func(condition string, faults int) {
		t.Helper()
		must.Get(f.sync())(t)
		f.expectConditions(routeKind("Gateway"), "web", "bad", condition)
		if len(f.controller.faults) != faults {
			t.Errorf("known are %v, want %d", f.controller.faults, faults)
		}
		f.catchUpKind(routeKind("Gateway"))
	}
	missing := func(config string) string {
		const message = "Accepted=False InvalidParameters: infrastructure.parametersRef: there is no GatewayConfig web/%s: create it or change the reference"
		return fmt.Sprintf(message, config)
	}
	put(gatewayWith("bad", "bad"))
	expect(atConfigs, 1)
	f.now = f.now.Add(retryFaulty)
	expect(atConfigs, 1)
	must.Do(t, informer.GetIndexer().Replace(nil, ""))
	f.now = f.now.Add(retryFaulty - time.Second)
	expect(atConfigs, 1)
	f.now = f.now.Add(time.Second)
	expect(missing("bad"), 0)

	put(gatewayWith("bad", "bad") + "\n  addresses: [{value: 192.0.2.1}]")
	expect(atConfigs, 1)
	put(gatewayWith("bad", "gone"))
	expect(missing("gone"), 0)

	put(gatewayWith("bad", "bad"))
	expect(atConfigs, 1)
	f.remove(routeKind("Gateway"), "web", "bad")
	f.mustSync()
	if len(f.controller.faults) != 0 {
		t.Errorf("still known are %v", f.controller.faults)
	}
}

// TestAPanicStaysWithItsGateway: its data plane, routes and ListenerSets stay as they are. So does everything of all
// Gateways of a faulty class.
func TestAPanicStaysWithItsGateway(t *testing.T) {
	edited := func(documents string) string {
		return strings.Replace(documents, "name: http, port: 80", "name: http, port: 81", 1)
	}
	second := strings.Replace(strings.Split(shop, "\n---")[3], "name: shop}", "name: second}", 1)
	const parameters = "{group: app.example.com, kind: GatewayConfig, name: bad"
	tests := map[string]struct {
		old, new string
		// want are the conditions of the class and of Gateway shop.
		class, gateway string
	}{
		"Gateway": {
			"gatewayClassName: app", "gatewayClassName: app\n  infrastructure: {parametersRef: " + parameters + "}}",
			"Accepted=True Accepted", atConfigs,
		},
		"class": {
			"app.example.com/gateway}", "app.example.com/gateway, parametersRef: " + parameters + ", namespace: web}}",
			atConfigs, "Accepted=True Accepted",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, shop)
			f.put(second)
			f.settle()
			before, route := f.ownGateway("web", "shop"), f.conditions(routeKind("HTTPRoute"), "web", "api")
			f.put(edited(strings.Replace(shop, test.old, test.new, 1)))
			f.put(edited(second))
			f.catchUp()
			panicAt(f, f.inputs.Configs.Informer())
			must.Get(f.sync())(t)
			f.expectConditions(routeKind("GatewayClass"), "", "app", test.class)
			f.expectConditions(routeKind("Gateway"), "web", "shop", test.gateway)
			if after := f.ownGateway("web", "shop"); after == nil || after.ResourceVersion != before.ResourceVersion {
				t.Errorf("our Gateway was %+v and is %+v", before, after)
			}
			if after := f.conditions(routeKind("HTTPRoute"), "web", "api"); !slices.Equal(after, route) {
				t.Errorf("the status of the route was %q and is %q", route, after)
			}
			if port := f.ownGateway("web", "second").Spec.Listeners[0].Port; (port == 81) != (name == "Gateway") {
				t.Errorf("the other data plane has port %d", port)
			}
		})
	}
}

// TestAPanicOfAWriterIsAnError: the others are written, and the one is tried again.
func TestAPanicOfAWriterIsAnError(t *testing.T) {
	f := newSettled(t, shop)
	f.put(routeTo("other", "api"))
	f.put(routeTo("more", "api"))
	f.catchUp()
	panics := true
	f.routes.PrependReactor("update", "httproutes", func(clienttesting.Action) (bool, runtime.Object, error) {
		if panics {
			panics = false
			panic("a bug")
		}
		return false, nil, nil
	})
	f.expectWrites(f.mustSync(), "update gateways/status web/shop",
		"update httproutes/status web/more", "update httproutes/status web/other")
	f.settle()
	for _, name := range []string{"other", "more"} {
		f.expectConditions(routeKind("HTTPRoute"), "web", name, "parents[0] Accepted=True Accepted")
	}
}

// TestAPanicWithoutAnObjectIsAnError: nothing changes, and the sync is tried again.
func TestAPanicWithoutAnObjectIsAnError(t *testing.T) {
	f := newSettled(t, shop)
	panicAt(f, f.inputs.Gateways.Informer())
	f.controller.queue.Add(task{source.Object{Kind: source.KindOwn, Namespace: "web", Name: "bad"}, true})
	writes, err := f.sync()
	if err == nil || !strings.HasPrefix(err.Error(), wrongType+"*v1.Gateway") {
		t.Errorf("got %v", err)
	}
	f.expectWrites(writes)
}
