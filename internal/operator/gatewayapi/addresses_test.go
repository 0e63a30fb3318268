package gatewayapi

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// gateway returns a Gateway of the Gateway API as the API server has it.
func (f *fixture) gateway(namespace, name string) *gatewayv1.Gateway {
	f.t.Helper()
	for _, object := range f.list(routeKind("Gateway")) {
		if object.GetNamespace() == namespace && object.GetName() == name {
			return object.(*gatewayv1.Gateway)
		}
	}
	f.t.Fatalf("there is no Gateway %s/%s", namespace, name)
	return nil
}

// TestClusterIPs are the cluster IPs of the Service that our Gateway owns.
func TestClusterIPs(t *testing.T) {
	for _, test := range []struct {
		isForeign bool
		want      []string
	}{{true, []string{"192.0.2.1 "}}, {false, []string{"192.0.2.1 ", "10.96.0.7 Cluster"}}} {
		f := newFixture(t, shop)
		gateway := f.gateway("web", "shop")
		gateway.Spec.Addresses = []gatewayv1.GatewaySpecAddress{{}, {Routability: gatewayv1.GatewayAddressRoutabilityCluster}}
		f.putObject(routeKind("Gateway"), gateway)
		f.settle()
		owner := metav1.NewControllerRef(f.ownGateway("web", "shop"), ownKind("Gateway"))
		if test.isForeign {
			owner.UID = "another"
		}
		f.putObject(coreKind("Service"), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "shop-gateway", OwnerReferences: []metav1.OwnerReference{*owner}},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.7"}},
		})
		f.programShop()
		var got []string
		for _, address := range f.gateway("web", "shop").Status.Addresses {
			got = append(got, address.Value+" "+string(*address.Routability))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("the addresses are %q, want %q", got, test.want)
		}
	}
}

// TestTheStandardChannel has no routability: a status that differs in that alone is written once, until the object
// changes.
func TestTheStandardChannel(t *testing.T) {
	f := newFixture(t, shop)
	f.routes.PrependReactor("update", "gateways", func(action clienttesting.Action) (bool, runtime.Object, error) {
		update := action.(clienttesting.UpdateActionImpl)
		gateway := update.Object.(*gatewayv1.Gateway).DeepCopy()
		for i := range gateway.Status.Addresses {
			gateway.Status.Addresses[i].Routability = nil
		}
		if now := f.gateway(gateway.Namespace, gateway.Name); equality.Semantic.DeepEqual(now.Status, gateway.Status) {
			return true, now, nil
		}
		update.Object = gateway
		return f.write(f.routes.Tracker())(update)
	})
	f.settle()
	f.programShop()
	const write = "update gateways/status web/shop"
	for range 3 {
		f.now = f.now.Add(lastRetry)
		f.later[rebuild] = true
		if writes := f.mustSync(); slices.Contains(writes, write) {
			t.Error("it is written again")
		}
	}
	gateway := f.gateway("web", "shop")
	gateway.Status.Conditions = nil
	f.putObject(routeKind("Gateway"), gateway)
	if writes := f.mustSync(); !slices.Contains(writes, write) {
		t.Errorf("what somebody else changed stays: %q", writes)
	}
	f.settle()
	f.expectConditions(routeKind("Gateway"), "web", "shop", "Programmed=True Programmed", "AddressesAssigned=True AddressesAssigned")
}
