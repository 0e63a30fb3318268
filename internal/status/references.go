package status

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/routing"
)

// maxListed is how many problems of a kind a message lists; it counts the rest.
const maxListed = 5

// checkAccepted reports the routes that cannot be served.
func checkAccepted(problems []routing.Problem) condition {
	if len(problems) == 0 {
		return accepted()
	}
	messages := make([]string, 0, len(problems))
	for _, problem := range problems {
		messages = append(messages, problem.Message)
	}
	return noMatchingListenerHostname(list(messages))
}

// reference is one route's use of a Service port.
type reference struct {
	route   appv1.Name
	service string
	port    int32
}

// checkRefs reports the Services and ports that routes name and that cannot be used, also those with weight zero: they
// are about to be used.
func checkRefs(gateway *appv1.Gateway, backends map[string]*corev1.Service) condition {
	var reason string
	var messages []string
	seen := map[reference]bool{}
	for _, route := range gateway.Spec.Routes {
		for _, rule := range route.Rules {
			for _, backend := range rule.BackendRefs {
				ref := reference{route.Name, backend.Name, backend.Port}
				if seen[ref] {
					continue
				}
				seen[ref] = true
				found, message := checkRef(gateway.Namespace, ref, backends[backend.Name])
				if found == "" {
					continue
				}
				if reason == "" {
					reason = found
				}
				messages = append(messages, message)
			}
		}
	}
	if reason == "" {
		return resolvedRefs()
	}
	return unresolvedRefs(reason, list(messages))
}

// checkRef returns a reason and a message, or "" if requests can be sent there. service is nil if there is none.
func checkRef(namespace string, ref reference, service *corev1.Service) (reason, message string) {
	name := namespace + "/" + ref.service
	switch {
	case service == nil:
		return ReasonBackendNotFound, fmt.Sprintf(
			"route %q: Service %s does not exist: create it or change the route", ref.route, name)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return ReasonUnsupportedBackend, fmt.Sprintf(
			"route %q: Service %s is of type ExternalName, which is refused: use a Service with endpoints", ref.route, name)
	case !hasPort(service, ref.port):
		return ReasonPortNotFound, fmt.Sprintf(
			"route %q: Service %s has no TCP port %d: add it or change the route", ref.route, name, ref.port)
	}
	return "", ""
}

func hasPort(service *corev1.Service, number int32) bool {
	for _, port := range service.Spec.Ports {
		if port.Port == number && (port.Protocol == corev1.ProtocolTCP || port.Protocol == "") {
			return true
		}
	}
	return false
}

func list(messages []string) string {
	if len(messages) <= maxListed {
		return strings.Join(messages, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(messages[:maxListed], "; "), len(messages)-maxListed)
}
