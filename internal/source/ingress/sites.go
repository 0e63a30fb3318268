package ingress

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// site is what the Ingresses of a class ask for.
type site struct {
	*translator
	// class is the class of the Ingresses, "" if they have none.
	class string
	// gateways are the Gateways: one, and one for each authority of client certificates. Those that only an earlier
	// release made are in earlier.
	gateways, earlier []*gateway
	// hosts are in the order in which they were first named, and byName has the same.
	hosts   []*host
	byName  map[string]*host
	aliases map[string]bool

	// listeners are in their order, and byHostname has the same.
	listeners  []*listener
	byHostname map[string][]*listener
	// sets are the ListenerSets by namespace and Gateway, and places those that hosts of an earlier translation are in.
	sets     map[types.NamespacedName][]*listenerSet
	places   map[place]*listenerSet
	backends []backendSettings
	// filters are RouteFilters by namespace and Ingress, and grants are by namespace.
	filters map[string][]*appv1.RouteFilter
	grants  map[string]*gatewayv1.ReferenceGrant
	// others are the objects that routes refer to.
	others, routes []Object
}

// host is a server of nginx.
type host struct {
	// name is "" for every host that is not named.
	name      string
	aliases   []string
	locations []*location
	// root takes what no location takes, nil: that is answered with 404. It is of the first Ingress of the host.
	root *location
	// secret has the certificate, and is empty if there is none, or the one of all hosts. isSecure reports whether an
	// Ingress asks for one.
	secret   types.NamespacedName
	isSecure bool
	// guards are the Ingresses with annotations that restrict access to the whole host, by annotation.
	guards hostSettings
	// authority is who signs the certificates that clients are asked for.
	authority authority
	// www is the name with "www." before it, or without, if it is to be redirected to this one.
	www string
}

func (h *host) String() string { return cmp.Or(h.name, "the host *") }

// location is a path of a host.
type location struct {
	*settings
	path     string
	pathType networkingv1.PathType
	backend  networkingv1.IngressBackend
	canary   *location
	// newPath replaces the path for the backend, and replacement makes another one of parts of it.
	newPath     string
	replacement *appv1.PathRegexRewrite
}

// own returns settings of the location alone: the Ingress may have others.
func (l *location) own() *settings {
	own := *l.settings
	l.settings = &own
	return &own
}

func (l *location) equals(other *location) bool {
	return l.path == other.path && l.pathType == other.pathType
}

// add adds an Ingress. Canaries come last.
func (s *site) add(settings *settings) {
	ingress := settings.ingress
	if !s.isController(s.class) {
		settings.note(settings.name(), "it is of class %s: it is read as ingress-nginx reads Ingresses", s.class)
	}
	if ingress.Spec.DefaultBackend != nil && (len(ingress.Spec.Rules) == 0 || settings.canary != nil) {
		s.addDefault(settings)
	}
	for i := range ingress.Spec.Rules {
		rule := &ingress.Spec.Rules[i]
		name := strings.ToLower(rule.Host)
		if name != "" && !isHostname(name) {
			settings.note(settings.name(), "host %q: it is no hostname", rule.Host)
			continue
		}
		if settings.canary != nil {
			s.addCanary(settings, name, rule)
			continue
		}
		s.addRule(settings, name, rule)
	}
	if settings.canary == nil {
		s.addTLS(settings)
	}
}

// addDefault makes the backend of an Ingress without rules the backend of all hosts without a name. A canary's is left
// out.
func (s *site) addDefault(settings *settings) {
	if settings.canary != nil {
		settings.note(settings.name(), "defaultBackend: a canary has none")
		return
	}
	// nginx leaves redirects and rewrites out here.
	settings.redirect, settings.rewriteTarget, settings.appRoot = nil, "", ""
	if h := s.host("", settings); h.root == nil {
		h.root = &location{settings: settings, path: "/", pathType: networkingv1.PathTypePrefix, backend: *settings.ingress.Spec.DefaultBackend}
	}
}

// host returns the host of that name. Settings for whole hosts come from the first Ingress that names the host.
func (s *site) host(name string, settings *settings) *host {
	if h := s.byName[name]; h != nil {
		return h
	}
	h := &host{name: name, guards: hostSettings{}}
	backend := settings.ingress.Spec.DefaultBackend
	if backend != nil && len(settings.ingress.Spec.Rules) > 0 || backend == nil && name != "" && settings.redirect != nil {
		h.root = &location{settings: settings, path: "/", pathType: networkingv1.PathTypePrefix, backend: ptr.Deref(backend, networkingv1.IngressBackend{})}
	}
	if strings.HasPrefix(name, "*.") {
		settings.note(settings.name(), "host %s: it stands for names with more labels too, like a.b%s", name, name[1:])
	}
	s.hosts, s.byName[name] = append(s.hosts, h), h
	return h
}

// addRule adds the paths of a host. The first Ingress with a path wins.
func (s *site) addRule(settings *settings, name string, rule *networkingv1.IngressRule) {
	h := s.host(name, settings)
	h.addGuards(settings)
	if len(h.aliases) == 0 {
		h.aliases = settings.aliases
	}
	if other, found := strings.CutPrefix(name, "www."); settings.wwwRedirect && isPreciseHostname(name) {
		h.www = either(found, other, "www."+name)
	}
	for _, l := range locations(settings, rule) {
		if slices.ContainsFunc(h.locations, l.equals) {
			l.note(l.name(), "%s%s: another Ingress was the first with this path, so nginx ignores it", h, l.path)
			continue
		}
		h.locations = append(h.locations, l)
	}
}

func locations(settings *settings, rule *networkingv1.IngressRule) []*location {
	if rule.HTTP == nil {
		return nil
	}
	var all []*location
	for _, path := range rule.HTTP.Paths {
		l := &location{settings: settings, path: cmp.Or(path.Path, "/"), pathType: networkingv1.PathTypeImplementationSpecific, backend: path.Backend}
		if path.PathType != nil {
			l.pathType = *path.PathType
		}
		all = append(all, l)
	}
	return all
}

// addTLS adds the certificates. The first one of a host counts.
func (s *site) addTLS(settings *settings) {
	for _, entry := range settings.ingress.Spec.TLS {
		hosts := entry.Hosts
		if entry.SecretName == "" && s.Certificate.Name == "" {
			const text = "tls for %s: name the Secret in secretName, or that of nginx's flag --default-ssl-certificate: " + certificateOfAll
			settings.note(settings.name(), text, cmp.Or(strings.Join(hosts, ", "), "all hosts"))
			continue
		}
		if len(hosts) == 0 && entry.SecretName != "" {
			for _, rule := range settings.ingress.Spec.Rules {
				hosts = append(hosts, rule.Host)
			}
			settings.note(settings.name(), "tls with Secret %s: it names no hosts, so the certificate is taken to be for all hosts of the Ingress", entry.SecretName)
		}
		used, secret := false, types.NamespacedName{Namespace: settings.ingress.Namespace, Name: entry.SecretName}
		for i := range settings.ingress.Spec.Rules {
			h := s.byName[strings.ToLower(settings.ingress.Spec.Rules[i].Host)]
			if h == nil || !slices.ContainsFunc(hosts, func(name string) bool { return covers(name, h.name) }) {
				continue
			}
			used, h.isSecure = true, true
			if h.secret.Name == "" {
				h.secret = secret
			} else if secret.Name != "" && h.secret != secret {
				settings.note(settings.name(), "tls with Secret %s: %s has the certificate of Secret %s already", secret.Name, h, h.secret)
			}
		}
		if !used && secret.Name != "" {
			settings.note(settings.name(), "tls with Secret %s: its hosts have no rule in the Ingress, so nginx ignores it", entry.SecretName)
		}
	}
}

// covers reports whether a certificate's name fits a host: a wildcard stands for one label.
func covers(name, host string) bool {
	_, domain, ok := strings.Cut(host, ".")
	return strings.EqualFold(name, host) || ok && strings.EqualFold(name, "*."+domain)
}

// ref returns the backend of a location for a route of a namespace, nil with a note if no route can have it.
func (s *site) ref(l *location, home string) *gatewayv1.HTTPBackendRef {
	service := l.backend.Service
	if service == nil {
		l.note(l.name(), "path %s: it has no Service. Requests get 500 until backendRefs names one", l.path)
		return nil
	}
	object := s.Services[types.NamespacedName{Namespace: l.ingress.Namespace, Name: service.Name}]
	port := s.portOf(l.ingress.Namespace, service)
	if object != nil && object.Spec.Type == corev1.ServiceTypeExternalName {
		l.note(l.name(), externalName, service.Name, object.Spec.ExternalName)
	}
	switch {
	case !isServiceName(service.Name):
		l.note(l.name(), "Service %q: no route can name it. Requests get 500 until backendRefs names one", service.Name)
		return nil
	case port == 0 && object == nil:
		l.note(l.name(), "Service %s: the number of port %q is not known. Give the Service too, or requests get 500", service.Name, service.Port.Name)
		return nil
	case port == 0:
		l.note(l.name(), "Service %s: it has no port %q. Requests get 500", service.Name, service.Port.Name)
		return nil
	}
	s.addBackend(l, service.Name, port)
	ref := &gatewayv1.HTTPBackendRef{}
	ref.Name, ref.Port = gatewayv1.ObjectName(service.Name), &port
	ref.Namespace = s.grant(home, l.ingress.Namespace, service.Name)
	return ref
}

const externalName = "Service %s: it is of type ExternalName, so requests get 500: make a Service without a selector, and an EndpointSlice with the addresses of %s"

// portOf returns the number of the port that an Ingress names, 0 if it is not known. nginx takes the first port of the
// Service with that number, name or targetPort.
func (t *translator) portOf(namespace string, service *networkingv1.IngressServiceBackend) int32 {
	wanted := cmp.Or(service.Port.Name, strconv.Itoa(int(service.Port.Number)))
	for _, port := range ptr.Deref(t.Services[types.NamespacedName{Namespace: namespace, Name: service.Name}], corev1.Service{}).Spec.Ports {
		if port.Name == wanted || strconv.Itoa(int(port.Port)) == wanted || port.TargetPort.String() == wanted {
			return port.Port
		}
	}
	return service.Port.Number
}

// closeLocations closes the locations of hosts with guards, and of Services that policies are for or that have
// annotations of controllers.
func (s *site) closeLocations() {
	for _, h := range s.hosts {
		s.addRoot(h)
		h.close()
		for _, l := range h.locations {
			if s.isBehindClosed(l) || l.canary != nil && (s.isBehindClosed(l.canary) || l.canary.closed) {
				l.own().closed = true
			}
		}
		h.passThrough()
	}
}

// isBehindClosed reports whether the Service of a location is closed.
func (s *site) isBehindClosed(l *location) bool {
	if l.backend.Service == nil {
		return false
	}
	name := types.NamespacedName{Namespace: l.ingress.Namespace, Name: l.backend.Service.Name}
	for _, annotation := range keysOf(ptr.Deref(s.Services[name], corev1.Service{}).Annotations) {
		if IsController(annotation) && s.mayKeepOut(annotation, s.class) {
			then := s.close(annotation, Target{"Service", name.Namespace, name.Name})
			s.note(Subject{"Service", name.Namespace, name.Name}, "annotation %s: %s. %s", annotation, otherController, then)
		}
	}
	return s.isClosed("Service", name.Namespace, name.Name)
}
