package status

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/routing"
)

// maxListed is how many problems of a kind a message lists; it counts the rest.
const maxListed = 5

// checkAccepted reports the routes that cannot be served, and then what may be a mistake.
func checkAccepted(problems []routing.Problem, unused []string) condition {
	switch {
	case len(problems) == 0 && len(unused) == 0:
		return accepted()
	case len(problems) == 0:
		return acceptedBut(ReasonUnusedBackend, list(unused))
	}
	messages := make([]string, 0, len(problems)+len(unused))
	for _, problem := range problems {
		messages = append(messages, problem.Message)
	}
	messages = append(messages, unused...)
	reason := ReasonNoMatchingListenerHostname
	if problems[0].InRule {
		reason = ReasonUnsupportedValue
	}
	return notAccepted(reason, list(messages))
}

// reference is one route's use of a Service port.
type reference struct {
	// kind is what the route is, as messages name it.
	kind    string
	route   appv1.Name
	service string
	port    int32
}

const httpRoute = "route"

// references returns what the routes name, each once and in order, also with weight zero: that is about to be used.
func references(spec *appv1.GatewaySpec) []reference {
	var all []reference
	seen := map[reference]bool{}
	add := func(ref reference) {
		if !seen[ref] {
			seen[ref] = true
			all = append(all, ref)
		}
	}
	connections := func(kind string, route appv1.Name, rules []appv1.ConnectionRule) {
		for _, rule := range rules {
			for _, backend := range rule.BackendRefs {
				add(reference{kind, route, backend.Name, backend.Port})
			}
		}
	}
	for _, route := range spec.Routes {
		for _, rule := range route.Rules {
			for _, backend := range rule.BackendRefs {
				add(reference{httpRoute, route.Name, backend.Name, backend.Port})
			}
		}
	}
	for _, route := range spec.TCPRoutes {
		connections("TCP route", route.Name, route.Rules)
	}
	for _, route := range spec.TLSRoutes {
		connections("TLS route", route.Name, route.Rules)
	}
	return all
}

// UnusedBackends returns a sentence for each entry of spec.backends that no route refers to. The schema does not refuse it: an entry
// may come before its route.
func UnusedBackends(spec *appv1.GatewaySpec) []string {
	return unusedBackends(spec.Backends, references(spec))
}

func unusedBackends(entries []appv1.Backend, refs []reference) []string {
	if len(entries) == 0 {
		return nil
	}
	unused := make(map[servicePort]bool, len(entries))
	for i := range entries {
		unused[servicePort{entries[i].Name, entries[i].Port}] = true
	}
	for _, ref := range refs {
		delete(unused, servicePort{ref.service, ref.port})
	}
	var messages []string
	for i := range entries {
		if entry := &entries[i]; unused[servicePort{entry.Name, entry.Port}] {
			messages = append(messages, fmt.Sprintf("spec.backends[%d] %q port %d has no effect, as no route refers to it: "+
				"correct its name or port, or remove it", i, entry.Name, entry.Port))
		}
	}
	return messages
}

// checkRefs reports what the spec names and what cannot be used: Services and ports first, which the operator sees, then
// certificates, which the proxies alone see.
func checkRefs(gateway *appv1.Gateway, refs []reference, backends map[string]*corev1.Service, proxies endpoints) condition {
	var reason string
	var messages []string
	tls := backendsWithTLS(&gateway.Spec)
	for _, ref := range refs {
		found, message := checkRef(gateway.Namespace, ref, backends[ref.service], tls)
		if found == "" {
			continue
		}
		reason = cmp.Or(reason, found)
		messages = append(messages, fmt.Sprintf("%s %q: %s", ref.kind, ref.route, message))
	}
	for _, problem := range reportedProblems(gateway, proxies) {
		reason = cmp.Or(reason, reasonOf(problem))
		messages = append(messages, messageOf(problem))
	}
	if reason == "" {
		return resolvedRefs()
	}
	return unresolvedRefs(reason, list(messages))
}

// servicePort is a port of a Service.
type servicePort struct {
	service string
	port    int32
}

func backendsWithTLS(spec *appv1.GatewaySpec) map[servicePort]bool {
	tls := map[servicePort]bool{}
	for _, backend := range spec.Backends {
		if backend.TLS != nil {
			tls[servicePort{backend.Name, backend.Port}] = true
		}
	}
	return tls
}

// checkRef returns a reason and a message, or "" if requests can be sent there. service is nil if there is none; tls says
// which ports are spoken TLS to.
func checkRef(namespace string, ref reference, service *corev1.Service, tls map[servicePort]bool) (reason, message string) {
	name := namespace + "/" + ref.service
	if service == nil {
		return ReasonBackendNotFound, fmt.Sprintf("Service %s does not exist: create it or change the route", name)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return ReasonUnsupportedBackend, fmt.Sprintf("Service %s is of type ExternalName, which is refused: use a Service with endpoints", name)
	}
	port := findPort(service, ref.port)
	if port == nil {
		return ReasonPortNotFound, fmt.Sprintf("Service %s has no TCP port %d: add it or change the route", name, ref.port)
	}
	if ref.kind == httpRoute && port.AppProtocol != nil {
		if problem := ProtocolProblem(*port.AppProtocol, tls[servicePort{ref.service, ref.port}]); problem != "" {
			return ReasonUnsupportedProtocol, fmt.Sprintf("port %d of Service %s has appProtocol %q, %s", ref.port, name, *port.AppProtocol, problem)
		}
	}
	return "", ""
}

// ProtocolProblem says what is wrong with an appProtocol for requests, "" if nothing is. Case does not matter. A connection may have any
// appProtocol: the proxies do not look into it.
func ProtocolProblem(appProtocol string, tls bool) string {
	switch strings.ToLower(appProtocol) {
	case "", "http", "kubernetes.io/h2c", "kubernetes.io/ws":
		return ""
	case "https", "kubernetes.io/wss":
		if tls {
			return ""
		}
		return "which is over TLS, and spec.backends does not say how to verify it: add its tls there"
	}
	return "which the proxies do not speak: use http, https, kubernetes.io/h2c, kubernetes.io/ws or kubernetes.io/wss, or remove it"
}

// findPort returns the TCP port of that number, nil if there is none.
func findPort(service *corev1.Service, number int32) *corev1.ServicePort {
	for i := range service.Spec.Ports {
		port := &service.Spec.Ports[i]
		if port.Port == number && (port.Protocol == corev1.ProtocolTCP || port.Protocol == "") {
			return port
		}
	}
	return nil
}

func list(messages []string) string {
	if len(messages) <= maxListed {
		return strings.Join(messages, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(messages[:maxListed], "; "), len(messages)-maxListed)
}
