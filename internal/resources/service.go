package resources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appv1 "gateway/api/app/v1"
)

// DesiredService is the Service in front of the proxies: one port for each port of the listeners, named after the first
// listener that has it.
func DesiredService(gateway *appv1.Gateway) *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec().
		WithType(gateway.Spec.Service.Type).
		WithSelector(selectorLabels(gateway.Name))
	seen := map[int32]bool{}
	for _, listener := range gateway.Spec.Listeners {
		if seen[listener.Port] {
			continue
		}
		seen[listener.Port] = true
		spec.WithPorts(corev1ac.ServicePort().
			WithName(string(listener.Name)).
			WithProtocol(corev1.ProtocolTCP).
			WithPort(listener.Port).
			WithTargetPort(intstr.FromInt32(listener.Port)))
	}
	return corev1ac.Service(ChildName(gateway.Name), gateway.Namespace).
		WithLabels(childLabels(gateway.Name)).
		WithAnnotations(gateway.Spec.Service.Annotations).
		WithOwnerReferences(ownerReference(gateway)).
		WithSpec(spec)
}
