package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	source "gateway/internal/source/appv1"
)

// maxListed is how many problems of a kind a message lists; it counts the rest.
const maxListed = 5

// checkAccepted reports what the administrator forbids, then a summary of the problems, and then possible mistakes.
// withoutHTTP3 are ports that lack what is asked for, total is the number of the Gateway's routes.
func checkAccepted(refused []string, problems []model.Problem, unused, withoutHTTP3 []string, total int) condition {
	const served = "every route is served"
	remarks := slices.Concat(withoutHTTP3, unused)
	switch {
	case len(refused)+len(problems)+len(remarks) == 0:
		return isTrue(appv1.ConditionAccepted, ReasonAccepted, served)
	case len(refused)+len(problems)+len(withoutHTTP3) == 0:
		return isTrue(appv1.ConditionAccepted, ReasonUnusedBackend, served+"; "+list(unused))
	case len(refused)+len(problems) == 0:
		return isTrue(appv1.ConditionAccepted, ReasonWithoutHTTP3, served+"; "+list(remarks))
	}
	reason := ReasonNotAllowed
	if len(refused) == 0 {
		reason = string(problems[0].Reason)
	}
	messages := slices.Concat(refused, summary(problems, total), remarks)
	return isFalse(appv1.ConditionAccepted, reason, list(messages))
}

// references returns what the routes and listeners name, each once and in order.
func references(gateway *appv1.Gateway) []model.Reference {
	var all []model.Reference
	seen := map[model.Reference]bool{}
	for ref := range source.References(gateway) {
		if !seen[ref] {
			seen[ref] = true
			all = append(all, ref)
		}
	}
	return all
}

// UnusedBackends returns a note about each entry of spec.backends that no route or listener refers to. The schema
// does not refuse it: an entry may come before its route. Of a Gateway with routes of the Gateway API it returns none:
// one of those may refer to it.
func UnusedBackends(gateway *appv1.Gateway) []model.Problem {
	if gateway.Status.Attachments != nil {
		return nil
	}
	var notes []model.Problem
	for _, i := range source.UnusedBackends(gateway) {
		const message = "no route or listener refers to spec.%s %q port %d: correct its name or port, or remove it"
		entry, field := &gateway.Spec.Backends[i], fmt.Sprintf("backends[%d]", i)
		notes = append(notes, model.Problem{Origin: originOf(gateway), Field: field, Message: fmt.Sprintf(message, field, entry.Name, entry.Port)})
	}
	return notes
}

func originOf(gateway *appv1.Gateway) model.Origin {
	return model.Origin{Kind: "Gateway", Namespace: gateway.Namespace, Name: gateway.Name, Generation: gateway.Generation}
}

// RefProblems are the references of routes and listeners to Services and ports that cannot be used. service returns the
// Service called name, nil if there is none; false: unknown. References of a listener that was made for the Gateway API
// are in the status of that Gateway.
func RefProblems(gateway *appv1.Gateway, service func(name string) (*corev1.Service, bool)) []model.Problem {
	from := originOf(gateway)
	var problems []model.Problem
	add := func(ref model.Reference, reason model.Reason, message string) {
		problem := model.Problem{Origin: from, RouteKind: ref.Kind, Route: ref.Route, Reason: reason}
		if ref.Kind == source.Listener {
			problem = model.Problem{Origin: from, Listener: ref.Route, Reason: reason}
		}
		problem.Message = fmt.Sprintf("%s %q: %s", called[ref.Kind], ref.Route, message)
		problems = append(problems, problem)
	}
	isElsewhere := func(ref model.Reference) bool { return ref.Kind == source.Listener && proxypod.Parent(gateway) != "" }
	tls := backendsWithTLS(gateway)
	for _, ref := range references(gateway) {
		if found, known := service(ref.Backend.Service); known && !isElsewhere(ref) {
			if reason, message := CheckRef(ref, found, tls[ref.Backend]); reason != "" {
				add(ref, model.Reason(reason), message)
			}
		}
	}
	// WAFs may leave out rules that the Core Rule Set does not have.
	for of, action := range source.Actions(gateway) {
		if action.WAF != nil && !isElsewhere(of) {
			for _, wrong := range action.WAF.Settings.Problems() {
				add(of, ReasonInvalidRulesRef, wrong)
			}
		}
	}
	return problems
}

// checkRefs reports references that cannot be used: Services and ports first, which the operator sees, then
// certificates, which only the proxies see.
func checkRefs(unresolved []model.Problem, reported reported) condition {
	reason, messages := "", messagesOf(unresolved)
	if len(unresolved) > 0 {
		reason = string(unresolved[0].Reason)
	}
	for _, problem := range reported.problems {
		reason = cmp.Or(reason, reasonOf(problem))
		messages = append(messages, messageOf(problem))
	}
	switch {
	case reason != "":
		return isFalse(appv1.ConditionResolvedRefs, reason, list(messages))
	case reported.omitted != "":
		return unknownRefs(reported.omitted)
	}
	return isTrue(appv1.ConditionResolvedRefs, ReasonResolvedRefs, "everything that is named exists and can be used")
}

func backendsWithTLS(gateway *appv1.Gateway) map[model.Backend]bool {
	tls := map[model.Backend]bool{}
	for _, backend := range gateway.Spec.Backends {
		if backend.TLS != nil {
			tls[model.Backend{Namespace: gateway.Namespace, Service: backend.Name, Port: backend.Port}] = true
		}
	}
	return tls
}

// CheckRef returns a reason and a message, or "" if requests can be sent there. service is nil if there is none. tls
// reports whether TLS is spoken to the port.
func CheckRef(ref model.Reference, service *corev1.Service, tls bool) (reason, message string) {
	name, from := ref.Backend.Namespace+"/"+ref.Backend.Service, "route"
	switch {
	case ref.IsBackup:
		from = "backup"
	case ref.Kind == source.Listener:
		from = "listener"
	}
	if service == nil {
		return ReasonBackendNotFound, fmt.Sprintf("Service %s does not exist: create it or change the %s", name, from)
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return ReasonUnsupportedBackend, fmt.Sprintf("Service %s is of type ExternalName, which is refused: use a Service with endpoints", name)
	}
	if proxypod.SelectsProxies(service) {
		return ReasonUnsupportedBackend, fmt.Sprintf("Service %s selects the proxies of a Gateway, so that requests would go in a loop: use a Service of your application", name)
	}
	port := findPort(service, ref.Backend.Port)
	if port == nil {
		return ReasonPortNotFound, fmt.Sprintf("Service %s has no TCP port %d: add it or change the %s", name, ref.Backend.Port, from)
	}
	if (ref.Kind == source.HTTPRoute || ref.Kind == source.Listener) && !ref.IsBackup && port.AppProtocol != nil {
		if problem := ProtocolProblem(*port.AppProtocol, tls); problem != "" {
			return ReasonUnsupportedProtocol, fmt.Sprintf("port %d of Service %s has appProtocol %q, %s", ref.Backend.Port, name, *port.AppProtocol, problem)
		}
	}
	return "", ""
}

// ProtocolProblem returns the problems of an appProtocol for requests, "" if there are none. Case does not matter. A
// connection may have any appProtocol: the proxies do not look into it.
func ProtocolProblem(appProtocol string, tls bool) string {
	switch protocol := model.ProtocolOf(appProtocol, ""); {
	case protocol == model.UnknownProtocol:
		return "which the proxies do not speak: use " + model.KnownProtocols + ", or remove it"
	case protocol.NeedsTLS() && !tls:
		return "which is over TLS, and spec.backends does not say how to verify it: add its tls there"
	}
	return ""
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
