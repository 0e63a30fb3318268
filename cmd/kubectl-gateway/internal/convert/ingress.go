package convert

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	appv1 "gateway/api/app/v1"
)

// classOf returns the class of an Ingress, "" if that is not known.
func (o *objects) classOf(ingress *networkingv1.Ingress) string {
	return cmp.Or(or(ingress.Spec.IngressClassName, ""), ingress.Annotations["kubernetes.io/ingress.class"], o.defaultClass)
}

// chooseClass passes over the Ingresses of other classes than the one that is given, if one is.
func (r *reader) chooseClass(class string) {
	r.ingresses = slices.DeleteFunc(r.ingresses, func(ingress *networkingv1.Ingress) bool {
		other := class != "" && r.classOf(ingress) != class
		if other {
			r.converted["Ingress"]--
			r.passedOver["Ingress"]++
		}
		return other
	})
	if r.converted["Ingress"] == 0 {
		delete(r.converted, "Ingress")
	}
}

// home identifies the Gateway of an Ingress. Other classes have other addresses: internal hosts must not answer in
// public.
type home struct{ namespace, class string }

func (h home) compare(other home) int {
	return cmp.Or(strings.Compare(h.namespace, other.namespace), strings.Compare(h.class, other.class))
}

// gatewayName is that of the Gateway, with the class if that is not the one that was asked for.
func (h home) gatewayName(options Input) string {
	if h.class == "" || options.Class != "" {
		return options.Name
	}
	return gatewayName(options.Name + "-" + h.class)
}

// fromIngresses returns a Gateway for the Ingresses of each namespace and class, read as ingress-nginx reads them. The
// oldest comes first, and wins where two disagree about a path.
func fromIngresses(in *objects, options Input, n *notes) []*appv1.Gateway {
	ingresses := slices.Clone(in.ingresses)
	slices.SortStableFunc(ingresses, func(a, b *networkingv1.Ingress) int { return cmp.Or(compareAge(a, b), compareNames(b, a)) })
	sites, classes := map[home]*site{}, map[string]guards{}
	for _, canaries := range []bool{false, true} {
		for _, ingress := range ingresses {
			if isCanary(ingress) != canaries {
				continue
			}
			at := home{ingress.Namespace, in.classOf(ingress)}
			s, ok := sites[at]
			if !ok {
				s = newSite(in, ingress.Namespace, n)
				sites[at] = s
			}
			if classes[at.class] == nil {
				classes[at.class] = guards{}
			}
			settings := readSettings(ingress, &in.closings, n)
			s.add(settings)
			classes[at.class].add(settings)
		}
	}
	var gateways []*appv1.Gateway
	taken := map[string]string{}
	for _, at := range slices.SortedFunc(maps.Keys(sites), home.compare) {
		s := sites[at]
		s.guard(classes[at.class])
		s.closeServices()
		gateway := s.gateway(at.gatewayName(options))
		gateways = append(gateways, gateway)
		for _, h := range s.hosts {
			if other, ok := taken[h.name]; ok {
				n.note(objectName(gateway)+" Gateway", "%s is a host of Gateway %s too: each Gateway has an address of its own, and a host has one address: "+
					"move these Ingresses into one namespace and class, with their Services", h, other)
			}
			taken[h.name] = objectName(gateway)
		}
	}
	return gateways
}

// site are the settings of the Ingresses of a namespace.
type site struct {
	*notes
	in        *objects
	namespace string
	// hosts are in the order in which they were first named.
	hosts    []*host
	aliases  map[appv1.Hostname]bool
	secrets  []string
	backends []appv1.Backend
}

func newSite(in *objects, namespace string, n *notes) *site {
	return &site{notes: n, in: in, namespace: namespace, aliases: map[appv1.Hostname]bool{}}
}

// host is a server of nginx.
type host struct {
	// name is "" for every host that is not named.
	name      string
	aliases   []appv1.Hostname
	locations []*location
	// root takes what no location takes, nil: that is answered with 404.
	root *location
	tls  bool
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
}

func (l *location) equals(other *location) bool {
	return l.path == other.path && l.pathType == other.pathType
}

// add adds an Ingress. Canaries come last.
func (s *site) add(settings *settings) {
	ingress := settings.ingress
	if class := cmp.Or(s.in.classOf(ingress), "nginx"); class != "nginx" {
		settings.note(settings.name(), "it is of class %s: it is read as ingress-nginx reads Ingresses", class)
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

// addDefault makes the backend of an Ingress without rules that of all hosts without a name. A canary's is left out.
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
	for _, h := range s.hosts {
		if h.name == name {
			return h
		}
	}
	h := &host{name: name}
	if backend := settings.ingress.Spec.DefaultBackend; backend != nil && len(settings.ingress.Spec.Rules) > 0 {
		h.root = &location{settings: settings, path: "/", pathType: networkingv1.PathTypePrefix, backend: *backend}
	}
	if strings.HasPrefix(name, "*.") {
		settings.note(settings.name(), "host %s: it stands for names with more labels too, like a.b%s", name, name[1:])
	}
	s.hosts = append(s.hosts, h)
	return h
}

// addRule adds the paths of a host. The first Ingress with a path wins.
func (s *site) addRule(settings *settings, name string, rule *networkingv1.IngressRule) {
	h := s.host(name, settings)
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

// addTLS adds the certificates.
func (s *site) addTLS(settings *settings) {
	for _, entry := range settings.ingress.Spec.TLS {
		hosts := entry.Hosts
		if !isObjectName(entry.SecretName) {
			settings.note(settings.name(), "tls for %s: it names no Secret, and what certificate nginx has by default is not known here: name one in secretName",
				cmp.Or(strings.Join(hosts, ", "), "all hosts"))
			continue
		}
		if len(hosts) == 0 {
			for _, rule := range settings.ingress.Spec.Rules {
				hosts = append(hosts, rule.Host)
			}
			settings.note(settings.name(), "tls with Secret %s: it names no hosts, so the certificate is taken to be for all hosts of the Ingress", entry.SecretName)
		}
		used := false
		for _, h := range s.hosts {
			if slices.ContainsFunc(hosts, func(name string) bool { return covers(name, h.name) }) && settings.names(h) {
				h.tls, used = true, true
			}
		}
		switch {
		case !used:
			settings.note(settings.name(), "tls with Secret %s: its hosts have no rule in the Ingress, so nginx ignores it", entry.SecretName)
		case slices.Contains(s.secrets, entry.SecretName):
		case len(s.secrets) == maxCertificates:
			settings.note(settings.name(), "tls with Secret %s: a listener has up to %d certificates: make one with the hostname %s for it", entry.SecretName, maxCertificates, hosts[0])
		default:
			s.secrets = append(s.secrets, entry.SecretName)
		}
	}
}

// covers reports whether a certificate's name fits a host: a wildcard stands for one label.
func covers(name, host string) bool {
	_, domain, ok := strings.Cut(host, ".")
	return strings.EqualFold(name, host) || ok && strings.EqualFold(name, "*."+domain)
}

// maxCertificates is how many a listener may have.
const maxCertificates = 16

// names reports whether the Ingress has a rule for a host.
func (s *settings) names(h *host) bool {
	return slices.ContainsFunc(s.ingress.Spec.Rules, func(rule networkingv1.IngressRule) bool { return strings.EqualFold(rule.Host, h.name) })
}

// ref returns the backend of a location, nil with a note if it has no place in a Gateway.
func (s *site) ref(l *location) *appv1.BackendRef {
	service := l.backend.Service
	if service == nil {
		l.note(l.name(), "path %s: it has no Service: requests are answered with 500 until backendRefs names one", l.path)
		return nil
	}
	name := types.NamespacedName{Namespace: s.namespace, Name: service.Name}
	object := s.in.services[name]
	port := service.Port.Number
	for i := 0; object != nil && i < len(object.Spec.Ports); i++ {
		if service.Port.Name != "" && object.Spec.Ports[i].Name == service.Port.Name {
			port = object.Spec.Ports[i].Port
		}
	}
	switch {
	case !isServiceName(service.Name):
		l.note(l.name(), "Service %q: a Gateway cannot name it: requests are answered with 500 until backendRefs names one", service.Name)
		return nil
	case port == 0 && object == nil:
		l.note(l.name(), "Service %s: the number of port %q is not known: give the Service too, or requests are answered with 500", service.Name, service.Port.Name)
		return nil
	case port == 0:
		l.note(l.name(), "Service %s: it has no port %q: requests are answered with 500", service.Name, service.Port.Name)
		return nil
	case object != nil && object.Spec.Type == "ExternalName":
		l.note(l.name(), "Service %s: it is of type ExternalName, which Gateways refuse: requests are answered with 500", service.Name)
	}
	s.addBackend(l, appv1.Backend{Name: service.Name, Port: port})
	tls := slices.ContainsFunc(s.backends, func(b appv1.Backend) bool { return b.Name == service.Name && b.Port == port && b.TLS != nil })
	if problem := s.in.protocolProblem(name, port, tls); problem != "" {
		l.note(l.name(), "%s", problem)
	}
	return &appv1.BackendRef{Name: service.Name, Port: port}
}

// addBackend adds the settings for the Service of a location.
func (s *site) addBackend(l *location, backend appv1.Backend) {
	backend.TLS, backend.LoadBalancing = l.settings.backend.TLS, l.settings.backend.LoadBalancing
	if backend.TLS != nil {
		hostname := l.values["proxy-ssl-name"]
		if !isPreciseHostname(hostname) {
			hostname = backend.Name + "." + s.namespace + ".svc"
		}
		backend.TLS = &appv1.BackendTLS{
			CACertificateRefs: []appv1.ObjectReference{{Name: backend.Name + "-ca"}}, Hostname: appv1.PreciseHostname(hostname),
		}
	}
	if backend.TLS == nil && backend.LoadBalancing == nil {
		return
	}
	i := slices.IndexFunc(s.backends, func(b appv1.Backend) bool { return b.Name == backend.Name && b.Port == backend.Port })
	switch {
	case i < 0:
		s.backends = append(s.backends, backend)
	case !reflect.DeepEqual(s.backends[i], backend):
		l.note(l.name(), "Service %s: another Ingress was the first to say how to talk to it: a Service has one way here", backend.Name)
	}
}

// closeServices closes the locations of Services that are closed.
func (s *site) closeServices() {
	isClosed := func(l *location) bool {
		return l != nil && l.backend.Service != nil && s.in.isClosed("Service", s.namespace, l.backend.Service.Name)
	}
	for _, h := range s.hosts {
		s.addRoot(h)
		for _, l := range h.locations {
			if isClosed(l) || isClosed(l.canary) || l.canary != nil && l.canary.closed {
				own := *l.settings // the Ingress may have other paths
				own.closed = true
				l.settings = &own
			}
		}
	}
}
