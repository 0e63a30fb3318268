package ingress

import (
	"strings"
)

// guard is a host with an annotation that restricts access to the whole host.
type guard struct{ annotation, host string }

// guards are the Ingresses with guards, the first for each. nginx then applies the annotation to all paths of the host,
// of any Ingress and namespace.
type guards map[guard]*settings

// hostGuards are the annotations of guards, with the advice about them.
var hostGuards = map[string]string{"auth-tls-secret": noCertificates, "server-snippet": noSnippets}

// guards reports whether nginx goes by an annotation of the Ingress on whole hosts. A canary can only ask for
// certificates.
func (s *settings) guards(annotation string) bool {
	return s.values[annotation] != "" && (annotation == "auth-tls-secret" || s.canary == nil)
}

func (g guards) add(settings *settings) {
	for _, annotation := range keysOf(hostGuards) {
		if !settings.guards(annotation) {
			continue
		}
		for i := range settings.ingress.Spec.Rules {
			key := guard{annotation, strings.ToLower(settings.ingress.Spec.Rules[i].Host)}
			if _, ok := g[key]; !ok {
				g[key] = settings
			}
		}
	}
}

// guard closes all paths of the hosts that have guards.
func (s *site) guard() {
	for _, h := range s.hosts {
		for _, annotation := range keysOf(hostGuards) {
			guard, ok := s.guards[guard{annotation, h.name}]
			if !ok {
				continue
			}
			s.addRoot(h)
			for _, l := range h.locations {
				l.guard(h, annotation, guard)
				if l.canary != nil {
					l.canary.guard(h, annotation, guard)
				}
			}
		}
	}
}

// guard closes a location. An Ingress that has the annotation itself has a note of that already.
func (l *location) guard(h *host, annotation string, guard *settings) {
	own := l.own()
	text := own.close(Prefix+annotation, hostGuards[annotation])
	if own.closed { // nginx asks before it redirects
		own.redirect, own.appRoot = nil, ""
	}
	if !own.guards(annotation) {
		l.note(l.name(), "%s: nginx has %s of %s on all its paths: %s", h, annotation, guard.name(), text)
	}
}
