package gatewayapi

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clienttesting "k8s.io/client-go/testing"

	"gateway/internal/must"
)

func TestWhatWasAppliedIsForgottenWithItsGateway(t *testing.T) {
	f := newSettled(t, shop)
	if len(f.controller.applied) != 1 {
		t.Errorf("%d Gateways are remembered", len(f.controller.applied))
	}
	f.remove(routeKind("Gateway"), "web", "shop")
	f.remove(ownKind("Gateway"), "web", "shop")
	f.settle()
	if len(f.controller.applied) != 0 || len(f.controller.versions) != 2 {
		t.Errorf("remembered are %v and %v, want the HTTPRoute and the class alone", f.controller.applied, f.controller.versions)
	}
}

func TestAnOwnGatewayGoesWithTheClass(t *testing.T) {
	f := newSettled(t, shop)
	f.put(strings.Replace(shop, "app.example.com/gateway", "example.com/other", 1))
	f.catchUp()
	must.Get(f.sync())(t)
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

// TestAnOwnGatewayThatIsRefused: a GatewayConfig asks for what cannot change. The status tells it until the
// GatewayConfig asks for it no more.
func TestAnOwnGatewayThatIsRefused(t *testing.T) {
	f := newSettled(t, shop)
	f.programShop()
	f.expectConditions(routeKind("Gateway"), "web", "shop", "Programmed=True Programmed")
	f.put("apiVersion: app.example.com/v1\nkind: GatewayConfig\nmetadata: {namespace: web, name: nodes}\nspec: {pods: {kind: DaemonSet}}")
	f.put(strings.Replace(shop, "  gatewayClassName: app\n",
		"  gatewayClassName: app\n  infrastructure: {parametersRef: {group: app.example.com, kind: GatewayConfig, name: nodes}}\n", 1))
	f.own.PrependReactor("patch", "gateways", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if patch := action.(clienttesting.PatchAction); !strings.Contains(string(patch.GetPatch()), `"kind":"DaemonSet"`) {
			return false, nil, nil
		}
		return true, nil, apierrors.NewInvalid(ownKind("Gateway").GroupKind(), "shop",
			field.ErrorList{field.Invalid(field.NewPath("spec", "pods", "kind"), "DaemonSet", "it cannot change")})
	})
	for i := range 2 {
		writes := f.mustSync()
		if i == 1 && len(writes) > 0 {
			t.Errorf("it is sent again: %q", writes)
		}
		f.later[rebuild] = true
		f.expectConditions(routeKind("Gateway"), "web", "shop",
			`Programmed=False Invalid: Gateway.app.example.com "shop" is invalid: spec.pods.kind: Invalid value: "DaemonSet": it cannot change`)
	}
	if f.controller.evaluateChanged(t.Context(), nil) == nil {
		t.Error("everything is looked at for each edit of another object")
	}
	f.put(shop)
	f.settle()
	f.programShop()
	f.expectConditions(routeKind("Gateway"), "web", "shop", "Programmed=True Programmed")
}
