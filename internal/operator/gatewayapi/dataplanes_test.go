package gatewayapi

import (
	"strings"
	"testing"

	"gateway/internal/operator/children"
)

func TestWhatWasAppliedIsForgottenWithItsGateway(t *testing.T) {
	f := newFixture(t, shop)
	f.settle()
	if len(f.controller.applied) != 1 {
		t.Errorf("%d Gateways are remembered", len(f.controller.applied))
	}
	f.remove(routeKind("Gateway"), "web", "shop")
	f.remove(ownKind("Gateway"), "web", "shop")
	f.settle()
	if len(f.controller.applied) != 0 || len(f.controller.firstSeen) != 2 {
		t.Errorf("remembered are %v and %v, want the HTTPRoute and the class alone", f.controller.applied, f.controller.firstSeen)
	}
}

func TestAnOwnGatewayGoesWithTheClass(t *testing.T) {
	f := newFixture(t, shop)
	f.settle()
	f.put(strings.Replace(shop, "app.example.com/gateway", "example.com/other", 1))
	f.catchUp()
	if _, err := f.sync(); !children.OnlyOutdated(err) { // what is deleted cannot be told that it has no attachments
		t.Errorf("got %v", err)
	}
	if own := f.ownGateway("web", "shop"); own != nil {
		t.Errorf("there is still %+v", own)
	}
}

// TestAnOwnGatewayOfSomebodyElseIsLeftAlone: the status says what is in the way.
func TestAnOwnGatewayOfSomebodyElseIsLeftAlone(t *testing.T) {
	f := newFixture(t, shop)
	f.put("apiVersion: app.example.com/v1\nkind: Gateway\nmetadata: {namespace: web, name: shop}\n" +
		"spec: {listeners: [{name: a, port: 82, protocol: HTTP}]}")
	f.expectWrites(f.mustSync(),
		"update gatewayclasses/status app", "update gateways/status web/shop", "update httproutes/status web/api")
	f.expectConditions(routeKind("Gateway"), "web", "shop", "Programmed=False Invalid: "+
		"a Gateway of group app.example.com is called shop and was not made for this one: rename one of them")
}
