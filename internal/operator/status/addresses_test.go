package status

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	appv1 "gateway/api/app/v1"
)

// withHostPorts gives a Gateway ports of the nodes, and the addresses that its status has.
func withHostPorts(values ...string) func(*appv1.Gateway) {
	return func(gateway *appv1.Gateway) {
		gateway.Spec.Pods = appv1.PodsSpec{Kind: appv1.PodsKindDaemonSet, HostPorts: true}
		for _, value := range values {
			gateway.Status.Addresses = append(gateway.Status.Addresses, appv1.GatewayAddress{Type: appv1.AddressTypeIPAddress, Value: value})
		}
	}
}

// on is a report of a pod on a node with the addresses.
func on(proxy *appv1.GatewayProxy, addresses ...appv1.NodeAddress) *appv1.GatewayProxy {
	proxy.Status.Addresses = addresses
	return proxy
}

// TestAddressesOfNodes: a name in DNS leads to nodes whose proxy takes requests, and to some while none does.
func TestAddressesOfNodes(t *testing.T) {
	clusterIP, balanced := newService(corev1.ServiceTypeClusterIP), newService(corev1.ServiceTypeLoadBalancer)
	clusterIP.Spec.ClusterIPs = []string{"10.96.0.7"}
	balanced.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
	a, b, c := on(report("a", 7), "192.0.2.10", "2001:db8::10"), on(report("b", 6), "192.0.2.9", "2001:db8::9"), on(report("c", 7), "192.0.2.8")
	for name, test := range map[string]struct {
		gateway  *appv1.Gateway
		service  *corev1.Service
		observed Observed
		want     string
	}{
		"of ready proxies, in order": {
			newGateway(withHostPorts()), clusterIP, reporting(slicesOf(ready("a"), ready("b"), notReady("c")), a, b, c),
			"192.0.2.9 192.0.2.10 2001:db8::9 2001:db8::10",
		},
		"two pods of a node":                  {newGateway(withHostPorts()), clusterIP, reporting(slicesOf(ready("a"), ready("b")), c, on(report("a", 7), "192.0.2.8"), on(report("b", 7), "192.0.2.8")), "192.0.2.8"},
		"a load balancer is in front":         {newGateway(withHostPorts()), balanced, reporting(slicesOf(ready("a")), a), "203.0.113.1"},
		"none is ready, and none was":         {newGateway(withHostPorts()), clusterIP, reporting(slicesOf(notReady("c")), c), ""},
		"none is ready any more":              {newGateway(withHostPorts("192.0.2.8")), clusterIP, reporting(slicesOf(notReady("c")), c), "192.0.2.8"},
		"one is ready again":                  {newGateway(withHostPorts("192.0.2.8")), clusterIP, reporting(slicesOf(ready("b")), b), "192.0.2.9 2001:db8::9"},
		"of another Gateway of the name":      {newGateway(withHostPorts()), clusterIP, reporting(slicesOf(ready("a")), another(on(report("a", 7), "192.0.2.10"))), ""},
		"the ports of the nodes are not used": {newGateway(), clusterIP, reporting(slicesOf(ready("a")), a), "10.96.0.7"},
	} {
		test.observed.Service = test.service
		var got []string
		for _, address := range Compute(test.gateway, test.observed, now).Addresses {
			got = append(got, address.Value)
		}
		if got := strings.Join(got, " "); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// TestManyNodes: the schema allows as many addresses.
func TestManyNodes(t *testing.T) {
	var observed Observed
	for i := range 40 {
		pod := fmt.Sprint("pod-", i)
		observed.Slices = append(observed.Slices, newSlice(ready(pod)))
		observed.Reports = append(observed.Reports, on(report(pod, 7), appv1.NodeAddress(fmt.Sprint("192.0.2.", 100-i))))
	}
	got := Compute(newGateway(withHostPorts()), observed, now).Addresses
	if len(got) != maxAddresses || got[0].Value != "192.0.2.61" || got[15].Value != "192.0.2.76" {
		t.Errorf("got %v, want the first %d", got, maxAddresses)
	}
}
