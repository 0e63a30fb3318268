package status

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// maxAddresses is the most that the CRD allows in status.addresses.
const maxAddresses = 16

// isBalanced reports whether a Service has a load balancer, or is to get one.
func isBalanced(service *corev1.Service) bool {
	return service != nil && service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// lacksAddress reports whether a Service has no address yet, or not the one that the Gateway asks for.
func lacksAddress(gateway *appv1.Gateway, service *corev1.Service) bool {
	found, wanted := serviceAddresses(service), gateway.Spec.Service.Address
	if wanted == "" || service == nil {
		return isBalanced(service) && len(found) == 0
	}
	return !slices.ContainsFunc(found, func(address appv1.GatewayAddress) bool { return model.SameAddress(address.Value, wanted) })
}

// addresses returns the addresses for clients, which DNS tools publish. Where nodes pass connections on to the proxies
// and there is no load balancer, these are the addresses of nodes with a ready proxy. While no node has one, the
// earlier addresses stay: a name that is gone from DNS is gone for longer than a proxy that restarts.
func addresses(gateway *appv1.Gateway, service *corev1.Service, proxies endpoints, reports reports) []appv1.GatewayAddress {
	if !gateway.Spec.Pods.HostPorts || isBalanced(service) {
		return serviceAddresses(service)
	}
	found := nodeAddresses(proxies, reports)
	if len(found) == 0 {
		return gateway.Status.Addresses
	}
	return found[:min(len(found), maxAddresses)]
}

// nodeAddresses are the addresses of nodes that ready proxies report, in order.
func nodeAddresses(proxies endpoints, reports reports) []appv1.GatewayAddress {
	var sorted []netip.Addr
	for _, pod := range proxies.ready {
		for _, reported := range reports[pod].Addresses {
			if address, err := netip.ParseAddr(string(reported)); err == nil { // the schema has checked it
				sorted = append(sorted, address)
			}
		}
	}
	slices.SortFunc(sorted, netip.Addr.Compare)
	var found []appv1.GatewayAddress
	for _, address := range slices.Compact(sorted) {
		found = append(found, appv1.GatewayAddress{Type: appv1.AddressTypeIPAddress, Value: address.String()})
	}
	return found
}

// serviceAddresses returns the addresses of the Service's load balancer, none until it has some. A Service without a
// load balancer has its cluster IPs.
func serviceAddresses(service *corev1.Service) []appv1.GatewayAddress {
	var found []appv1.GatewayAddress
	switch {
	case isBalanced(service):
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			if ingress.IP != "" {
				found = append(found, appv1.GatewayAddress{Type: appv1.AddressTypeIPAddress, Value: ingress.IP})
			}
			if ingress.Hostname != "" {
				found = append(found, appv1.GatewayAddress{Type: appv1.AddressTypeHostname, Value: ingress.Hostname})
			}
		}
	case service != nil:
		for _, ip := range service.Spec.ClusterIPs {
			if ip != corev1.ClusterIPNone {
				found = append(found, appv1.GatewayAddress{Type: appv1.AddressTypeIPAddress, Value: ip})
			}
		}
	}
	return found[:min(len(found), maxAddresses)]
}
