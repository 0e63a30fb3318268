package endpoints

import (
	"reflect"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"gateway/internal/proxypod"
)

// Strip is the transform of caches of Services and EndpointSlices. It keeps what States reads. It does nothing to
// objects that it has returned: client-go calls it twice for the objects that a watch begins with.
func Strip(obj any) (any, error) {
	switch obj := obj.(type) {
	case *corev1.Service:
		return stripService(obj), nil
	case *discoveryv1.EndpointSlice:
		return stripSlice(obj), nil
	}
	return obj, nil
}

func stripService(service *corev1.Service) *corev1.Service {
	kept := &corev1.Service{ObjectMeta: Identity(&service.ObjectMeta)}
	kept.Spec.Type, kept.Spec.IPFamilies = service.Spec.Type, service.Spec.IPFamilies
	kept.Spec.Selector = service.Spec.Selector
	for _, port := range service.Spec.Ports {
		kept.Spec.Ports = append(kept.Spec.Ports, corev1.ServicePort{
			Name: port.Name, Port: port.Port, Protocol: port.Protocol, AppProtocol: port.AppProtocol,
		})
	}
	return kept
}

func stripSlice(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	kept := &discoveryv1.EndpointSlice{
		ObjectMeta:  Identity(&slice.ObjectMeta),
		AddressType: slice.AddressType,
		Ports:       slice.Ports,
	}
	kept.Labels = map[string]string{discoveryv1.LabelServiceName: slice.Labels[discoveryv1.LabelServiceName]}
	gateway, ofProxies := slice.Labels[proxypod.LabelGateway]
	if ofProxies {
		kept.Labels[proxypod.LabelGateway] = gateway
	}
	for _, endpoint := range slice.Endpoints {
		stripped := discoveryv1.Endpoint{Addresses: endpoint.Addresses, Conditions: endpoint.Conditions, Hints: endpoint.Hints}
		if ofProxies { // whether a proxy pod is an endpoint matters
			stripped.TargetRef = endpoint.TargetRef
		}
		kept.Endpoints = append(kept.Endpoints, stripped)
	}
	return kept
}

// Equal reports whether States reads the same of two Services, or two EndpointSlices, that Strip returned.
func Equal(old, new any) bool {
	switch old := old.(type) {
	case *corev1.Service:
		return reflect.DeepEqual(old.Spec, new.(*corev1.Service).Spec)
	case *discoveryv1.EndpointSlice:
		new := new.(*discoveryv1.EndpointSlice)
		return old.AddressType == new.AddressType && reflect.DeepEqual(old.Labels, new.Labels) &&
			reflect.DeepEqual(old.Ports, new.Ports) && reflect.DeepEqual(old.Endpoints, new.Endpoints)
	}
	return false
}

// Identity keeps what identifies an object and its version.
func Identity(meta *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: meta.Namespace, Name: meta.Name, UID: meta.UID,
		ResourceVersion: meta.ResourceVersion, Generation: meta.Generation,
	}
}
