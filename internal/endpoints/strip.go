package endpoints

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/model"
	"gateway/internal/proxypod"
)

// StripService keeps what States reads of a Service, and whose it is.
func StripService(service *corev1.Service) *corev1.Service {
	kept := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: service.Namespace, Name: service.Name}}
	kept.Spec.Type, kept.Spec.IPFamilies = service.Spec.Type, service.Spec.IPFamilies
	kept.Spec.Selector = service.Spec.Selector
	kept.Spec.Ports = make([]corev1.ServicePort, 0, len(service.Spec.Ports))
	for _, port := range service.Spec.Ports {
		kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{
			Name: port.Name, Port: port.Port, Protocol: port.Protocol, AppProtocol: port.AppProtocol,
		})
	}
	return kept
}

// LabelServiceImport is the label of an EndpointSlice with the name of its ServiceImport.
const LabelServiceImport = "multicluster.kubernetes.io/service-name"

// ServicesOf returns the names that an EndpointSlice belongs to: a Service, the stand-in of a ServiceImport, or both,
// as some controllers make a Service for each ServiceImport.
func ServicesOf(slice *discoveryv1.EndpointSlice) (services []string) {
	if service := slice.Labels[discoveryv1.LabelServiceName]; service != "" {
		services = append(services, service)
	}
	if of := slice.Labels[LabelServiceImport]; of != "" {
		services = append(services, model.ServiceImport(of))
	}
	return services
}

// StripSlice keeps what States reads of an EndpointSlice, and whose it is.
func StripSlice(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	kept := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: slice.Namespace, Name: slice.Name},
		AddressType: slice.AddressType,
		Ports:       slice.Ports,
	}
	kept.Labels = map[string]string{discoveryv1.LabelServiceName: slice.Labels[discoveryv1.LabelServiceName]}
	if of := slice.Labels[LabelServiceImport]; of != "" {
		kept.Labels[LabelServiceImport] = of
	}
	gateway, ofProxies := slice.Labels[proxypod.LabelGateway]
	if ofProxies {
		kept.Labels[proxypod.LabelGateway] = gateway
	}
	kept.Endpoints = make([]discoveryv1.Endpoint, 0, len(slice.Endpoints))
	for _, endpoint := range slice.Endpoints {
		stripped := discoveryv1.Endpoint{Addresses: endpoint.Addresses, Conditions: endpoint.Conditions, Hints: endpoint.Hints}
		if ofProxies { // whether a proxy pod is an endpoint matters
			stripped.TargetRef = endpoint.TargetRef
		}
		kept.Endpoints = append(kept.Endpoints, stripped)
	}
	return kept
}
