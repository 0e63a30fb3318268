package ingress

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// hostSettings are the settings of Ingresses, by annotation.
type hostSettings map[string]*settings

// hostGuards are the annotations of guards, with the advice about them.
var hostGuards = map[string]string{authTLS: clientsHost, serverSnippet: noSnippets}

// The annotations that nginx goes by on whole hosts.
const (
	authTLS       = "auth-tls-secret"
	serverSnippet = "server-snippet"
)

// guards reports whether nginx goes by an annotation of the Ingress on whole hosts. A canary can only ask for
// certificates.
func (s *settings) guards(annotation string) bool {
	if annotation == authTLS {
		return s.values[annotation] != "" && s.values["auth-tls-verify-client"] != "off"
	}
	return s.values[annotation] != "" && s.canary == nil
}

// addGuards notes the first Ingress with each annotation. nginx then applies it to all paths of the host, of any
// Ingress and namespace.
func (h *host) addGuards(settings *settings) {
	for _, annotation := range keysOf(hostGuards) {
		if h.guards[annotation] == nil && settings.guards(annotation) {
			h.guards[annotation] = settings
		}
	}
}

// passThrough closes the locations whose TLS would be passed through, on a host where requests are checked or refused:
// nobody sees them then. nginx checks them unless it has --enable-ssl-passthrough.
func (h *host) passThrough() {
	i := slices.IndexFunc(h.locations, func(l *location) bool { return l.isChecked() || l.closed })
	for _, l := range h.locations {
		if i >= 0 && l.passthrough && !l.closed {
			text := fmt.Sprintf(noPassthrough, h.locations[i].path)
			l.note(l.name(), "%s: annotation ssl-passthrough: %s", h, l.own().close(Prefix+"ssl-passthrough", text))
		}
	}
}

// isChecked reports whether some requests for a location are refused, for whatever they are or ask.
func (l *location) isChecked() bool {
	return l.hasGuards() || len(l.blocked) > 0 ||
		slices.ContainsFunc(l.rule.extension.Filters, func(filter appv1.RuleFilter) bool { return filter.WAF != nil })
}

const noPassthrough = "nginx checks requests for %s unless it has --enable-ssl-passthrough, which nobody can where TLS is passed through"

// close closes all paths of a host that has guards.
func (h *host) close() {
	h.askClients()
	for _, annotation := range keysOf(h.guards) {
		headers := h.guards[annotation].serverHeaders
		if annotation == authTLS && h.authority.isAsked() {
			continue
		}
		for _, l := range h.locations {
			if annotation == serverSnippet && headers != nil {
				l.addServerHeaders(headers)
				continue
			}
			l.guard(h, annotation, h.guards[annotation])
			if l.canary != nil {
				l.canary.guard(h, annotation, h.guards[annotation])
			}
		}
	}
}

// guard closes a location. An Ingress that closes by the annotation itself has a note of that already.
func (l *location) guard(h *host, annotation string, guard *settings) {
	own := l.own()
	isNoted := own.guards(annotation) && own.closed
	text := own.close(Prefix+annotation, hostGuards[annotation])
	if own.closed { // nginx asks before it redirects
		own.redirect, own.appRoot = nil, ""
	}
	if !isNoted {
		l.note(l.name(), "%s: nginx has %s of %s on all its paths: %s", h, annotation, guard.name(), text)
	}
}

// noGrant is noted of a Service of another namespace that does not consent.
const noGrant = "namespace %s has no ReferenceGrant from HTTPRoutes of %s to Service %s: it has to consent"

// mayRefer reports whether an Ingress may refer to a Service. The administrator may in the ConfigMap.
func (s *settings) mayRefer(service types.NamespacedName) bool {
	if !s.Serving || service.Namespace == s.ingress.Namespace || s.defaults[strings.TrimPrefix(s.annotation, Prefix)] {
		return true
	}
	return slices.ContainsFunc(s.Grants, func(grant *gatewayv1.ReferenceGrant) bool {
		return grant.Namespace == service.Namespace &&
			slices.ContainsFunc(grant.Spec.From, func(from gatewayv1.ReferenceGrantFrom) bool {
				return from.Group == gatewayv1.GroupName && from.Kind == "HTTPRoute" && string(from.Namespace) == s.ingress.Namespace
			}) &&
			slices.ContainsFunc(grant.Spec.To, func(to gatewayv1.ReferenceGrantTo) bool {
				return to.Group == "" && to.Kind == "Service" && (to.Name == nil || string(*to.Name) == service.Name)
			})
	})
}
