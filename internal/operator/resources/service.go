package resources

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/proxypod"
)

// DesiredService is the Service in front of the proxies: one port for each port of the listeners. live is the existing
// Service, nil for none. Its ports keep their names.
func DesiredService(gateway *appv1.Gateway, live *corev1.Service) *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec().
		WithType(gateway.Spec.Service.Type).
		WithSelector(proxypod.SelectorLabels(gateway.Name))
	addServiceOptions(spec, &gateway.Spec.Service)
	ports := listenerPorts(gateway)
	names, wanted := portNames(ports, live), nodePorts(gateway)
	for _, port := range ports {
		configuration := corev1ac.ServicePort().
			WithName(names[port.number]).
			WithProtocol(corev1.ProtocolTCP).
			WithPort(port.number).
			WithTargetPort(intstr.FromInt32(port.number))
		if nodePort := wanted[port.number]; nodePort != 0 {
			configuration.WithNodePort(nodePort)
		}
		spec.WithPorts(configuration)
		if port.hasHTTP3 {
			spec.WithPorts(corev1ac.ServicePort().
				WithName(udpName(port.number, names)).
				WithProtocol(corev1.ProtocolUDP).
				WithPort(port.number).
				WithTargetPort(intstr.FromInt32(port.number)))
		}
	}
	return corev1ac.Service(proxypod.ChildName(gateway.Name), gateway.Namespace).
		WithLabels(inheritedLabels(gateway)).
		WithLabels(childLabels(gateway.Name)).
		WithAnnotations(gateway.Spec.Service.Annotations).
		WithOwnerReferences(ownerReference(gateway)).
		WithSpec(spec)
}

// addServiceOptions sets the fields that the Gateway has. The rest is left to others.
func addServiceOptions(spec *corev1ac.ServiceSpecApplyConfiguration, from *appv1.ServiceSpec) {
	if from.LoadBalancerClass != "" {
		spec.WithLoadBalancerClass(from.LoadBalancerClass)
	}
	switch {
	case from.Address == "":
	case from.Type == corev1.ServiceTypeLoadBalancer:
		spec.WithLoadBalancerIP(from.Address)
	default:
		spec.WithClusterIP(from.Address)
	}
	for _, cidr := range from.LoadBalancerSourceRanges {
		spec.WithLoadBalancerSourceRanges(string(cidr))
	}
	if from.ExternalTrafficPolicy != "" {
		spec.WithExternalTrafficPolicy(from.ExternalTrafficPolicy)
	}
	if from.IPFamilyPolicy != "" {
		spec.WithIPFamilyPolicy(from.IPFamilyPolicy)
	}
}

// nodePorts are the node ports that the Gateway asks for, by the ports of its listeners.
func nodePorts(gateway *appv1.Gateway) map[int32]int32 {
	wanted := map[int32]int32{}
	for _, port := range gateway.Spec.Service.Ports {
		wanted[port.Port] = port.NodePort
	}
	return wanted
}

// listenerPort is a port of listeners, and the name of the first of them. With HTTP/3, it is a UDP port, too.
type listenerPort struct {
	number   int32
	listener string
	hasHTTP3 bool
}

func listenerPorts(gateway *appv1.Gateway) []listenerPort {
	var ports []listenerPort
	seen := map[int32]bool{}
	for _, listener := range gateway.Spec.Listeners {
		if !seen[listener.Port] {
			seen[listener.Port] = true
			hasHTTP3 := listener.Protocol == appv1.ProtocolHTTPS && gateway.Spec.Http3 != nil
			ports = append(ports, listenerPort{listener.Port, string(listener.Name), hasHTTP3})
		}
	}
	return ports
}

// portNames are the names of the Service's ports, by their numbers. A port is named after its first listener, and keeps
// that name even if the listener goes. kube-proxy finds the endpoints of a port by its name, and refuses connections
// until a new name has endpoints.
func portNames(ports []listenerPort, live *corev1.Service) map[int32]string {
	names, taken := map[int32]string{}, map[string]bool{}
	for _, port := range ports {
		if name := liveName(port.number, live); name != "" {
			names[port.number], taken[name] = name, true
		}
	}
	for _, port := range ports {
		if names[port.number] != "" {
			continue
		}
		name := port.listener
		for n := port.number; taken[name]; n++ {
			name = fmt.Sprintf("port-%d", n)
		}
		names[port.number], taken[name] = name, true
	}
	return names
}

// udpName is the name of a port for HTTP/3, which the listener of no other port has.
func udpName(number int32, names map[int32]string) string {
	taken := slices.Collect(maps.Values(names))
	name := fmt.Sprintf("udp-%d", number)
	for slices.Contains(taken, name) {
		name += "-" + fmt.Sprint(number)
	}
	return name
}

// liveName is the name of a port in the Service, "" if it has none.
func liveName(number int32, live *corev1.Service) string {
	if live != nil {
		for _, port := range live.Spec.Ports {
			if port.Port == number && port.Protocol == corev1.ProtocolTCP {
				return port.Name
			}
		}
	}
	return ""
}
