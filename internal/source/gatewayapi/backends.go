package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
	"gateway/internal/proxypod"
)

// backend returns the Service port that a reference of a route is to, or the problem of the reference. requests is the
// kind of route whose requests the Service gets: not the route's own kind if a filter has the reference.
func (t *translator) backend(r *route, requests string, ref gatewayv1.BackendObjectReference) (model.Backend, verdict) {
	from := reference{gatewayv1.GroupName, r.kind, r.GetNamespace()}
	backend := backendOf(ref, from.namespace)
	problem := t.backendProblem(from, requests, ref, backend)
	if problem.reason() == "" {
		r.backends = append(r.backends, backend)
	}
	return backend, problem
}

// backendOf returns the Service port that a reference from a namespace is to.
func backendOf(ref gatewayv1.BackendObjectReference, namespace string) model.Backend {
	backend := model.Backend{
		Namespace: string(ptr.Deref(ref.Namespace, gatewayv1.Namespace(namespace))), Service: string(ref.Name), Port: ptr.Deref(ref.Port, 0),
	}
	if isImport(string(ptr.Deref(ref.Group, corev1.GroupName)), string(ptr.Deref(ref.Kind, kindService))) {
		backend.Service = model.ServiceImport(backend.Service)
	}
	return backend
}

// isImport reports whether a reference is to a ServiceImport.
func isImport(group, kind string) bool {
	return group == proxypod.GroupMultiCluster && kind == kindImport
}

// serviceName returns the name of a Service, or of what stands for a ServiceImport.
func serviceName(kind, name string) string {
	if kind == kindImport {
		return model.ServiceImport(name)
	}
	return name
}

// backendProblem returns the problems of a reference to a port of a Service or ServiceImport.
func (t *translator) backendProblem(from reference, requests string, ref gatewayv1.BackendObjectReference, backend model.Backend) verdict {
	var v verdict
	group, kind := string(ptr.Deref(ref.Group, corev1.GroupName)), string(ptr.Deref(ref.Kind, kindService))
	switch {
	case kind == kindImport && !isImport(group, kind):
		v.no(gatewayv1.RouteReasonInvalidKind, "a ServiceImport is of the group %s, and not of %q", proxypod.GroupMultiCluster, group)
	case !isImport(group, kind) && (group != corev1.GroupName || kind != kindService):
		v.no(gatewayv1.RouteReasonInvalidKind, "only Services and ServiceImports can be backends, and not objects of kind %s", kind)
	case backend.Name() != string(ref.Name): // no Service has such a name
		v.no(gatewayv1.RouteReasonBackendNotFound, "there is no Service %s/%s: create it or change the reference", backend.Namespace, ref.Name)
	case !t.isGranted(from, kind, backend.Namespace, backend.Name()):
		v.no(gatewayv1.RouteReasonRefNotPermitted, "no ReferenceGrant of namespace %s lets %ss of namespace %s refer to %s %s",
			backend.Namespace, from.kind, from.namespace, kind, backend.Name())
	case backend.Port == 0:
		v.no(gatewayv1.RouteReasonBackendNotFound, "the reference to %s has no port", backend.Object())
	default:
		t.checkPort(&v, requests, backend)
	}
	return v
}

// checkPort returns the problems of a Service port that gets requests of a kind of route.
func (t *translator) checkPort(v *verdict, kind string, backend model.Backend) {
	service, known := t.service(backend)
	if !known {
		return
	}
	if service == nil {
		v.no(gatewayv1.RouteReasonBackendNotFound, "there is no %s: create it or change the reference", backend.Object())
		return
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		v.no(gatewayv1.RouteReasonBackendNotFound, "Service %s/%s is of type ExternalName, and has no endpoints", backend.Namespace, backend.Service)
		return
	}
	i := slices.IndexFunc(service.Spec.Ports, func(port corev1.ServicePort) bool { return port.Port == backend.Port && isForTCP(port) })
	if i < 0 {
		v.no(gatewayv1.RouteReasonBackendNotFound, "%s has no port %d for TCP, but %s: add it or change the reference",
			backend.Object(), backend.Port, portNumbers(service))
		return
	}
	if kind == "TCPRoute" || kind == "TLSRoute" {
		return
	}
	appProtocol := ptr.Deref(service.Spec.Ports[i].AppProtocol, "")
	of := fmt.Sprintf("port %d of %s has appProtocol %q, which", backend.Port, backend.Object(), appProtocol)
	switch protocol := model.ProtocolOf(appProtocol, kind); {
	case protocol == model.UnknownProtocol:
		v.no(gatewayv1.RouteReasonUnsupportedProtocol, "%s the proxies do not speak: use %s, or remove it", of, model.KnownProtocols)
	case protocol.NeedsTLS() && len(t.tlsPolicies.of(t, backend)) == 0:
		v.no(gatewayv1.RouteReasonUnsupportedProtocol, "%s needs a BackendTLSPolicy", of)
	case !protocol.Carries(kind, len(t.tlsPolicies.of(t, backend)) > 0):
		v.no(gatewayv1.RouteReasonUnsupportedProtocol, "%s is HTTP/1.1, and gRPC takes HTTP/2: use kubernetes.io/h2c, or remove it", of)
	}
}

func isForTCP(port corev1.ServicePort) bool {
	return port.Protocol == "" || port.Protocol == corev1.ProtocolTCP
}

// portNumbers lists ports of a Service for TCP: the first ones, as it may have thousands.
func portNumbers(service *corev1.Service) string {
	var numbers []string
	for _, port := range service.Spec.Ports {
		if isForTCP(port) {
			numbers = append(numbers, fmt.Sprint(port.Port))
		}
	}
	return cmp.Or(model.Some(numbers, maxListed), "none")
}

// service returns a Service, false if nobody knows about it.
func (t *translator) service(backend model.Backend) (*corev1.Service, bool) {
	t.dependOn(kindService, backend.Namespace, backend.Service)
	if t.Service == nil {
		return nil, false
	}
	return t.Service(backend.Namespace, backend.Service)
}
