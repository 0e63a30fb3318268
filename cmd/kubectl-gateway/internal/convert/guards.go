package convert

import "strings"

// guards are the Ingresses that ask for client certificates, the first for each host. nginx then asks for them on all paths of the
// host, of whichever Ingress and namespace, and also if it is a canary that says so.
type guards map[string]*settings

// asksForCertificates says whether nginx asks the clients of an Ingress for certificates: the other auth-tls annotations do not.
func (s *settings) asksForCertificates() bool { return s.values["auth-tls-secret"] != "" }

func (g guards) add(settings *settings) {
	if !settings.asksForCertificates() {
		return
	}
	for i := range settings.ingress.Spec.Rules {
		name := strings.ToLower(settings.ingress.Spec.Rules[i].Host)
		if _, ok := g[name]; !ok {
			g[name] = settings
		}
	}
}

// guard closes all paths of the hosts for which an Ingress asks for client certificates.
func (s *site) guard(by guards) {
	for _, h := range s.hosts {
		guard, ok := by[h.name]
		if !ok {
			continue
		}
		s.addRoot(h)
		for _, l := range h.locations {
			l.guard(h, guard)
			if l.canary != nil {
				l.canary.guard(h, guard)
			}
		}
	}
}

// guard closes a location. An Ingress that asks for certificates itself has a note of that already.
func (l *location) guard(h *host, guard *settings) {
	own := *l.settings // the Ingress may have other hosts
	l.settings = &own
	text := own.close(ownListener)
	if own.closed { // nginx asks before it redirects
		own.redirect, own.appRoot = nil, ""
	}
	if !own.asksForCertificates() {
		l.note(l.name(), "%s: nginx asks for client certificates on all its paths, by auth-tls-secret of %s: %s", h, guard.name(), text)
	}
}
