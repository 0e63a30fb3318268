package gatewayapi

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	routesclient "sigs.k8s.io/gateway-api/pkg/client/clientset/versioned"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

// testClusterAddress: a Gateway that asks for addresses in the cluster alone has no load balancer, whatever its
// GatewayConfig says.
func testClusterAddress(t *testing.T, api routesclient.Interface) {
	t.Helper()
	ctx := t.Context()
	must.Get(server.App.AppV1().GatewayConfigs(infra).Create(ctx, &appv1.GatewayConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "balanced"},
		Spec:       appv1.GatewayConfigSpec{Service: &appv1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}},
	}, metav1.CreateOptions{}))(t)
	gateways := api.GatewayV1().Gateways(infra)
	must.Get(gateways.Create(ctx, &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Name: "internal"},
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: "gateway", Listeners: []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}},
			Addresses: []gatewayv1.GatewaySpecAddress{{Routability: gatewayv1.GatewayAddressRoutabilityCluster}},
			Infrastructure: &gatewayv1.GatewayInfrastructure{
				ParametersRef: &gatewayv1.LocalParametersReference{Group: appv1.GroupName, Kind: "GatewayConfig", Name: "balanced"},
			},
		},
	}, metav1.CreateOptions{}))(t)
	t.Cleanup(func() { _ = gateways.Delete(context.Background(), "internal", metav1.DeleteOptions{}) })
	testenv.Eventually(t, soon, "an address in the cluster", func(ctx context.Context) error {
		service, err := server.Kube.CoreV1().Services(infra).Get(ctx, "internal-gateway", metav1.GetOptions{})
		if err != nil {
			return err
		}
		gateway, err := gateways.Get(ctx, "internal", metav1.GetOptions{})
		if err != nil {
			return err
		}
		addresses := gateway.Status.Addresses
		if service.Spec.Type != corev1.ServiceTypeClusterIP || len(addresses) != 1 || addresses[0].Value != service.Spec.ClusterIP ||
			ptr.Deref(addresses[0].Routability, "") != gatewayv1.GatewayAddressRoutabilityCluster {
			err = fmt.Errorf("the Service is of type %s, and the addresses are %+v", service.Spec.Type, addresses)
		}
		return errors.Join(err, expect(gateway.Status.Conditions, 1, "AddressesAssigned=True"))
	})
}
