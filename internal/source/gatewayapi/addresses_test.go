package gatewayapi_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/source/gatewayapi"
)

// reachable is a Service with addresses of a load balancer, and cluster IPs.
type reachable struct {
	allLive
	balanced, cluster []string
	problem           string
}

func (s reachable) Plane(gatewayapi.Parent) (live bool, reason, message string) {
	return s.problem == "", "Pending", s.problem
}

func (s reachable) Addresses(gatewayapi.Parent) []gatewayv1.GatewayStatusAddress {
	var all []gatewayv1.GatewayStatusAddress
	for _, address := range s.balanced {
		kind := gatewayv1.IPAddressType
		if strings.HasPrefix(address, "lb.") {
			kind = gatewayv1.HostnameAddressType
		}
		all = append(all, gatewayv1.GatewayStatusAddress{Type: &kind, Value: address})
	}
	return all
}

func (s reachable) ClusterIPs(gatewayapi.Parent) []string { return s.cluster }

// TestAddresses: each entry of spec.addresses gets an address of its own, with the routability that it asks for, or the
// status names it.
func TestAddresses(t *testing.T) {
	const (
		anyAddress = `{type: IPAddress}`
		cluster    = `{routability: Cluster}`
		inside     = `{value: 10.96.0.7, routability: Cluster}`
		outside    = `{value: 192.0.2.1, routability: Cluster}`
		suite      = `{routability: testing.x-k8s.io/sentinel}`
		other      = `{routability: example.com/private}`
	)
	one := reachable{balanced: []string{"203.0.113.1"}, cluster: []string{"10.96.0.7"}}
	internal := reachable{balanced: []string{"10.96.0.7"}, cluster: []string{"10.96.0.7"}}
	dual := reachable{balanced: []string{"203.0.113.1", "2001:db8::1"}, cluster: []string{"10.96.0.7", "fd00::7"}}
	const unsupported = `the routability example.com/private is not supported: use Cluster, or leave it out`
	for _, test := range []struct {
		spec, service string
		live          reachable
		// own are the type and address of the Service; "": there is none.
		own, addresses, assigned, programmed string
	}{
		{"", "", one, "", "203.0.113.1", "True AddressesAssigned", "True Programmed"},
		{"", "", dual, "", "203.0.113.1 2001:db8::1", "True AddressesAssigned", "True Programmed"},
		{"", "", reachable{}, "", "", "none", "False AddressNotAssigned"},
		{"", "type: ClusterIP", internal, "ClusterIP", "10.96.0.7=Cluster", "True AddressesAssigned", "True Programmed"},
		{anyAddress, "", one, "", "203.0.113.1", "True AddressesAssigned", "True Programmed"},
		{anyAddress, "", dual, "", "203.0.113.1", "True AddressesAssigned", "True Programmed"},
		{anyAddress, "", reachable{balanced: []string{"lb.example.com"}}, "", "", "False NotAssigned", "False AddressNotAssigned"},
		{anyAddress, "type: ClusterIP", internal, "ClusterIP", "10.96.0.7=Cluster", "True AddressesAssigned", "True Programmed"},
		{cluster, "", internal, "ClusterIP", "10.96.0.7=Cluster", "True AddressesAssigned", "True Programmed"},
		{cluster, "address: 203.0.113.1", internal, "ClusterIP", "10.96.0.7=Cluster", "True AddressesAssigned", "True Programmed"},
		{cluster, "type: ClusterIP, address: 10.96.0.7", internal, "ClusterIP 10.96.0.7", "10.96.0.7=Cluster", "True AddressesAssigned", "True Programmed"},
		{cluster, "", reachable{problem: "its proxies do not run yet"}, "ClusterIP", "", "False NotAssigned", "False Pending"},
		{inside, "", internal, "ClusterIP 10.96.0.7", "10.96.0.7=Cluster", "True AddressesAssigned", "True Programmed"},
		{outside, "", reachable{problem: "not in the range"}, "ClusterIP 192.0.2.1", "", "False NotAssigned", "False AddressNotAssigned"},
		{anyAddress + "," + cluster, "", one, "", "203.0.113.1 10.96.0.7=Cluster", "True AddressesAssigned", "True Programmed"},
		{cluster + "," + anyAddress, "", one, "", "10.96.0.7=Cluster 203.0.113.1", "True AddressesAssigned", "True Programmed"},
		{anyAddress + "," + cluster, "type: ClusterIP", internal, "ClusterIP", "10.96.0.7=Cluster", "False PartiallyAssigned addresses[0]: the Service has no address for it yet", "True Programmed"},
		{cluster + "," + cluster, "", internal, "ClusterIP", "10.96.0.7=Cluster", "False PartiallyAssigned addresses[1]: the Service has no other cluster IP", "True Programmed"},
		{cluster + "," + cluster, "", dual, "ClusterIP", "10.96.0.7=Cluster fd00::7=Cluster", "True AddressesAssigned", "True Programmed"},
		{anyAddress + "," + outside, "", one, "", "203.0.113.1", "False PartiallyAssigned addresses[1]: the Service does not have the cluster IP 192.0.2.1: leave", "True Programmed"},
		{suite, "", one, "", "203.0.113.1=testing.x-k8s.io/sentinel", "True AddressesAssigned", "True Programmed"},
		{other, "", one, "-", "", "False NotAssigned addresses[0]: " + unsupported, "False AddressNotAssigned addresses[0]: " + unsupported},
		{other + "," + cluster, "", internal, "ClusterIP", "10.96.0.7=Cluster", "False PartiallyAssigned addresses[0]: " + unsupported, "True Programmed"},
		{other + "," + anyAddress, "", one, "", "203.0.113.1", "False PartiallyAssigned addresses[0]: " + unsupported, "True Programmed"},
		{`{routability: testing.x-k8s.io/other}`, "", one, "-", "", "False NotAssigned", "False AddressNotAssigned"},
		{`{value: 203.0.113.9}`, "", one, " 203.0.113.9", "", "False NotAssigned", "False AddressNotUsable"},
		{`{value: 203.0.113.1},` + cluster, "", one, " 203.0.113.1", "203.0.113.1 10.96.0.7=Cluster", "True AddressesAssigned", "True Programmed"},
	} {
		objects := parseAll(t, []byte(strings.Replace(oneGateway, "gatewayClassName: ours", "gatewayClassName: ours\n  addresses: ["+test.spec+"]\n  infrastructure: "+
			"{parametersRef: {group: app.example.com, kind: GatewayConfig, name: own}}", 1)+
			"\n---\nkind: GatewayConfig\nmetadata: {name: own, namespace: infra}\nspec: {service: {"+test.service+"}}"))
		result := gatewayapi.Translate(objects)
		own := "-"
		if spec := result.DataPlanes()[0].Spec; spec != nil {
			own = serviceOf(spec)
		}
		status := result.Status(nil, test.live).Gateways[types.NamespacedName{Namespace: "infra", Name: "gw"}]
		assigned, programmed := conditionOf(&status, "AddressesAssigned"), conditionOf(&status, "Programmed")
		if got := addressesOf(t, &status); own != test.own || got != test.addresses ||
			!strings.HasPrefix(assigned, test.assigned) || !strings.HasPrefix(programmed, test.programmed) {
			t.Errorf("%s with service {%s}: the Service is %q, the addresses %q, AddressesAssigned %s, Programmed %s", test.spec, test.service, own, got, assigned, programmed)
		}
	}
}

func serviceOf(spec *appv1.GatewaySpec) string {
	own := string(spec.Service.Type)
	if spec.Service.Type == corev1.ServiceTypeLoadBalancer {
		own = ""
	}
	if spec.Service.Address != "" {
		own += " " + spec.Service.Address
	}
	return own
}

func addressesOf(t *testing.T, status *gatewayv1.GatewayStatus) string {
	t.Helper()
	var all []string
	for _, address := range status.Addresses {
		if address.Routability == nil {
			t.Errorf("address %s has no routability", address.Value)
			continue
		}
		all = append(all, strings.TrimSuffix(fmt.Sprintf("%s=%s", address.Value, *address.Routability), "="))
	}
	return strings.Join(all, " ")
}

func conditionOf(status *gatewayv1.GatewayStatus, kind string) string {
	c := meta.FindStatusCondition(status.Conditions, kind)
	if c == nil {
		return "none"
	}
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
}
