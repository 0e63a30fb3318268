package gatewayapi

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/operator/children"
)

// These tests have a Controller whose caches are behind, as in a leader that was frozen and has lost its lease:
// another one has changed what it is about to write.

// expectOutdated checks that the API server refused what a sync wrote, and that the sync is to be tried again.
func (f *fixture) expectOutdated(want ...string) {
	f.t.Helper()
	writes, err := f.sync()
	if !children.OnlyOutdated(err) {
		f.t.Errorf("got %v, want an error that the caches are behind", err)
	}
	f.expectWrites(writes, want...)
}

// edited is shop with another port of its listener.
var edited = strings.Replace(shop, "name: http, port: 80", "name: http, port: 81", 1)

func TestAStaleLeaderDoesNotChangeAnOwnGateway(t *testing.T) {
	f := newSettled(t, shop)
	f.put(edited)
	f.catchUp()
	newer := f.ownGateway("web", "shop")
	newer.Spec.Listeners[0].Port = 82
	f.putObject(ownKind("Gateway"), newer)
	f.expectOutdated("patch own gateways web/shop", "update gateways/status web/shop")
	if port := f.ownGateway("web", "shop").Spec.Listeners[0].Port; port != 82 {
		t.Errorf("the port is %d, want what the other one wrote", port)
	}
}

func TestAStaleLeaderDoesNotBringBackAnOwnGateway(t *testing.T) {
	f := newSettled(t, shop)
	f.put(edited)
	f.catchUp()
	f.remove(ownKind("Gateway"), "web", "shop")
	f.expectOutdated("patch own gateways web/shop", "update gateways/status web/shop")
	if own := f.ownGateway("web", "shop"); own != nil {
		t.Errorf("there is %+v again", own)
	}
}

func TestAStaleLeaderDoesNotReplaceAnOwnGatewayThatItDoesNotKnow(t *testing.T) {
	f := newFixture(t, shop)
	f.put("apiVersion: app.example.com/v1\nkind: Gateway\nmetadata: {namespace: web, name: shop}\n" +
		"spec: {listeners: [{name: a, port: 82, protocol: HTTP}]}")
	f.expectOutdated("patch own gateways web/shop",
		"update gatewayclasses/status app", "update gateways/status web/shop", "update httproutes/status web/api")
	if listeners := f.ownGateway("web", "shop").Spec.Listeners; listeners[0].Port != 82 || len(listeners) != 1 {
		t.Errorf("the listeners are %+v", listeners)
	}
}

func TestAStaleLeaderDoesNotTellAgents(t *testing.T) {
	f := newSettled(t, shop)
	f.put("apiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {namespace: web, name: tls}\n" +
		"spec: {targetRefs: [{group: '', kind: Service, name: api}], validation: {hostname: a.io, caCertificateRefs: [{group: '', kind: ConfigMap, name: ca}]}}")
	f.catchUp()
	newer := f.list(ownKind("GatewayAttachment"))[0].(*appv1.GatewayAttachment)
	newer.Spec.WAF = true
	f.putObject(ownKind("GatewayAttachment"), newer)
	writes, err := f.sync()
	if !children.OnlyOutdated(err) || !slices.Contains(writes, "patch own gatewayattachments web/shop.web") || !f.told().WAF {
		t.Errorf("got %v after %q, and agents are told %+v", err, writes, f.told())
	}
}

// TestAStaleLeaderTellsAgentsOfAGatewayThatIsGone: what it writes belongs to that one, so it goes with it.
func TestAStaleLeaderTellsAgentsOfAGatewayThatIsGone(t *testing.T) {
	f := newFixture(t, shop)
	f.mustSync()
	f.catchUp()
	own := f.ownGateway("web", "shop")
	f.remove(ownKind("Gateway"), "web", "shop")
	writes := must.Get(f.sync())(t)
	f.expectWrites(writes, "patch own gatewayattachments web/shop.web")
	if f.ownGateway("web", "shop") != nil || !metav1.IsControlledBy(f.list(ownKind("GatewayAttachment"))[0], own) {
		t.Errorf("there is %+v, of %+v", f.list(ownKind("GatewayAttachment")), f.ownGateway("web", "shop"))
	}

	// Another one of that name does not get it.
	f.settle()
	if again := f.ownGateway("web", "shop"); !metav1.IsControlledBy(f.list(ownKind("GatewayAttachment"))[0], again) {
		t.Errorf("there is %+v", f.list(ownKind("GatewayAttachment")))
	}
}

// TestAStaleLeaderDoesNotChangeAStatusThatItSeesTooLate: while it waits for the answer to another write, its caches
// learn what the next leader wrote.
func TestAStaleLeaderDoesNotChangeAStatusThatItSeesTooLate(t *testing.T) {
	f := newSettled(t, shop)
	f.put(edited)
	f.catchUp()
	f.own.PrependReactor("patch", "gateways", func(clienttesting.Action) (bool, runtime.Object, error) {
		newer := f.list(routeKind("Gateway"))[0].(*gatewayv1.Gateway)
		newer.Status.Conditions[0].Message = "by the next leader"
		f.putObject(routeKind("Gateway"), newer)
		f.catchUpKind(routeKind("Gateway"))
		return false, nil, nil
	})
	writes := must.Get(f.sync())(t)
	f.expectWrites(writes, "patch own gateways web/shop", "update gateways/status web/shop")
	f.expectConditions(routeKind("Gateway"), "web", "shop", "Accepted=True Accepted: by the next leader")
}

func TestAStaleLeaderDoesNotDeleteAnOwnGatewayThatChanged(t *testing.T) {
	f := newSettled(t, shop)
	f.put(strings.Replace(shop, "app.example.com/gateway", "example.com/other", 1))
	f.catchUp()
	newer := f.ownGateway("web", "shop")
	newer.Status.ObservedGeneration = 1
	f.putObject(ownKind("Gateway"), newer)
	f.expectOutdated("delete own gatewayattachments web/shop.web", "delete own gateways web/shop", "update httproutes/status web/api")
	if f.ownGateway("web", "shop") == nil {
		t.Error("it is gone")
	}
}

func TestAStaleLeaderDoesNotChangeARoleBinding(t *testing.T) {
	newer := strings.Replace(binding, "name: shop-gateway}", "name: newer}", 1)
	older := strings.Replace(binding, "name: shop-gateway}", "name: older}", 1)
	tests := map[string]func(f *fixture){
		"that it does not know": func(f *fixture) { f.put(newer) },
		"that has changed": func(f *fixture) {
			f.put(older)
			f.catchUp()
			f.put(newer)
		},
		"that is gone": func(f *fixture) {
			f.put(older)
			f.catchUp()
			f.remove(roleBindings, "team", "web.shop-gateway")
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			f := newSettled(t, shop)
			f.put(other)
			f.catchUp()
			change(f)
			writes, err := f.sync()
			if !children.OnlyOutdated(err) || !strings.Contains(strings.Join(writes, " "), bindingInTeam) {
				t.Errorf("got %v after %q, want it refused because the caches are behind", err, writes)
			}
			for _, object := range f.list(roleBindings) {
				if subject := object.(*rbacv1.RoleBinding).Subjects[0].Name; subject != "newer" {
					t.Errorf("the subject is %s", subject)
				}
			}
			if name == "that is gone" && len(f.list(roleBindings)) > 0 {
				t.Error("it is back")
			}
		})
	}
}

// TestALateWriteOfARoleBindingGrantsNothing: nothing refuses a write that creates again what another leader has
// deleted.
func TestALateWriteOfARoleBindingGrantsNothing(t *testing.T) {
	f := newSettled(t, shop)
	f.put(other)
	f.catchUp()
	for range 2 {
		if _, err := f.sync(); err != nil && !children.OnlyOutdated(err) {
			t.Fatal(err)
		}
		if made := f.list(roleBindings)[0].(*rbacv1.RoleBinding); len(made.Subjects) > 0 {
			t.Errorf("the subjects are %v before the RoleBinding is in the cache", made.Subjects)
		}
		f.expectAttached("web")
	}
	f.catchUpKind(roleBindings)
	f.remove(roleBindings, "team", "web.shop-gateway")
	if _, err := f.sync(); !children.OnlyOutdated(err) || len(f.list(roleBindings)) > 0 {
		t.Errorf("got %v, and there is %v, want it refused because it is gone", err, f.list(roleBindings))
	}
	f.expectAttached("web")
}
