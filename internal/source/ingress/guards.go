package ingress

// hostSettings are those of Ingresses, by annotation.
type hostSettings map[string]*settings

// hostGuards are the annotations of guards, with the advice about them.
var hostGuards = map[string]string{"auth-tls-secret": noCertificates, "server-snippet": noSnippets}

// guards reports whether nginx goes by an annotation of the Ingress on whole hosts. A canary can only ask for
// certificates.
func (s *settings) guards(annotation string) bool {
	return s.values[annotation] != "" && (annotation == "auth-tls-secret" || s.canary == nil)
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

// close closes all paths of a host that has guards.
func (h *host) close() {
	for _, annotation := range keysOf(h.guards) {
		for _, l := range h.locations {
			l.guard(h, annotation, h.guards[annotation])
			if l.canary != nil {
				l.canary.guard(h, annotation, h.guards[annotation])
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
