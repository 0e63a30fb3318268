package ingress

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/kinds"
	"gateway/internal/model"
)

const (
	// ClassName is the GatewayClass of the Gateways.
	ClassName = "gateway"
	// portHTTP is the name of the Gateway's listener for HTTP.
	portHTTP = "http"
	// maxRules and maxHostnames are how many an HTTPRoute may have, and maxListeners a Gateway with its ListenerSets.
	maxRules, maxHostnames, maxListeners = 16, 16, 64
)

// add adds an object with a namespace and name. Its kind is that of its type.
func add(to *[]Object, object Object, namespace, name string) {
	kind := reflect.TypeOf(object).Elem().Name()
	object.GetObjectKind().SetGroupVersionKind(kinds.VersionOf(kind))
	object.SetNamespace(namespace)
	object.SetName(name)
	*to = append(*to, object)
}

// named returns the name for an object of the Gateway.
func (s *site) named(kind, namespace, name string) string {
	return s.claim(kind, namespace, label(s.gateways[0].name+"-"+name, maxLabel))
}

// translate makes the objects of a class: first the Gateway and the ListenerSets, then what routes refer to, then the
// routes.
func (s *site) translate() {
	s.closeLocations()
	isOfAll := func(h *host) bool { return h.name == "" && h.secret.Name != "" }
	if s.Certificate.Name != "" && !slices.ContainsFunc(s.hosts, isOfAll) {
		name := gatewayv1.SectionName(s.claim("Listener", s.Certificate.Namespace, "default"))
		s.listeners = append(s.listeners, &listener{
			name: name, namespace: s.Certificate.Namespace, secret: s.Certificate.Name, gateway: s.gatewayFor(authority{}, 1), isDefault: true,
		})
	}
	for _, h := range s.hosts {
		s.addListeners(h)
	}
	for _, h := range s.hosts {
		s.addRoutes(h)
	}
	s.addHealth()
	s.addPolicies()
	add(&s.objects, s.gatewayConfig(), s.Namespace, s.gateways[0].name)
	for _, g := range s.gateways {
		s.addGateway(g)
	}
	s.addListenerSets()
	for _, all := range [][]Object{s.others, s.routes} {
		slices.SortStableFunc(all, func(a, b Object) int { return cmp.Compare(a.GetNamespace(), b.GetNamespace()) })
		s.objects = append(s.objects, all...)
	}
}

func (s *site) addGateway(g *gateway) {
	all := gatewayv1.NamespacesFromAll
	gateway := &gatewayv1.Gateway{Spec: gatewayv1.GatewaySpec{
		GatewayClassName: ClassName,
		Infrastructure: &gatewayv1.GatewayInfrastructure{ParametersRef: &gatewayv1.LocalParametersReference{
			Group: appv1.GroupName, Kind: "GatewayConfig", Name: s.gateways[0].name,
		}},
		TLS:              s.frontend(g.authority),
		AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: &all}},
		Listeners: []gatewayv1.Listener{{
			Name: portHTTP, Port: 80, Protocol: gatewayv1.HTTPProtocolType,
			AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
		}},
	}}
	add(&s.objects, gateway, s.Namespace, g.name)
}

// listener is one of a ListenerSet: for a hostname with a certificate, or one whose TLS is passed through.
type listener struct {
	name                        gatewayv1.SectionName
	namespace, hostname, secret string
	passthrough                 bool
	gateway                     *gateway
	// shared says that routes of other namespaces belong to it.
	shared bool
	// isDefault says that it is for the hosts that have no other one.
	isDefault bool
}

// addListeners adds the listeners for HTTPS of a host, its aliases and the name that is redirected to it.
func (s *site) addListeners(h *host) {
	aliases := h.aliases
	h.aliases = nil
	for _, alias := range aliases {
		if !s.isHost(alias) && !s.aliases[alias] {
			s.aliases[alias] = true
			h.aliases = append(h.aliases, alias)
		}
	}
	if h.www != "" && s.isHost(h.www) {
		h.www = ""
	}
	through := slices.IndexFunc(h.locations, func(l *location) bool { return l.passthrough && !l.closed && l.path == "/" })
	if h.secret.Name == "" && through < 0 || len(h.locations) == 0 {
		return
	}
	isKnown := func(name string) bool {
		return slices.ContainsFunc(s.listeners, func(l *listener) bool { return l.hostname == name })
	}
	names := h.names()
	if h.www != "" {
		names = append(names, h.www)
	}
	if names = slices.DeleteFunc(names, isKnown); len(names) == 0 {
		return
	}
	gateway := s.gatewayFor(h.authority, len(names))
	for _, name := range names {
		one := &listener{namespace: h.secret.Namespace, hostname: name, secret: h.secret.Name, gateway: gateway}
		if through >= 0 {
			one.namespace, one.passthrough = h.locations[through].ingress.Namespace, true
		}
		one.name = gatewayv1.SectionName(s.claim("Listener", one.namespace, label(cmp.Or(name, "default"), maxLabel)))
		s.listeners = append(s.listeners, one)
	}
	if through >= 0 {
		s.addTLSRoute(h, h.locations[through], gateway)
	}
}

// gatewayFor returns the Gateway for listeners that ask for the certificates of an authority, a new one if none has
// room.
func (s *site) gatewayFor(a authority, listeners int) *gateway {
	isKnown := false
	for _, g := range s.gateways {
		if isKnown = isKnown || g.authority == a; g.authority == a && g.room >= listeners {
			g.room -= listeners
			return g
		}
	}
	if isKnown {
		s.noteOnce(fmt.Sprintf(anotherGateway, maxListeners))
	}
	s.gateways = append(s.gateways, &gateway{s.claim("Gateway", s.Namespace, s.gateways[0].name), maxListeners - 1 - listeners, a})
	return s.gateways[len(s.gateways)-1]
}

// anotherGateway is noted where a class has more hosts than a Gateway can have.
const anotherGateway = "a Gateway has up to %d listeners, so others of the class take more hosts, each with an address of its own"

// names returns the name of a host, and those of its aliases.
func (h *host) names() []string { return append([]string{h.name}, h.aliases...) }

func (s *site) isHost(name string) bool {
	return slices.ContainsFunc(s.hosts, func(h *host) bool { return h.name == name })
}

// addTLSRoute passes the TLS of a host through to its backend.
func (s *site) addTLSRoute(h *host, l *location, at *gateway) {
	l.noteAnnotation("ssl-passthrough", "nginx does so only with --enable-ssl-passthrough")
	ref := s.ref(l, l.ingress.Namespace)
	if ref == nil || h.name == "" {
		return
	}
	route := &gatewayv1.TLSRoute{}
	set := s.listenerSet(l.ingress.Namespace, at.name)
	route.Spec.ParentRefs = []gatewayv1.ParentReference{s.parent("ListenerSet", set, l.ingress.Namespace, l.ingress.Namespace)}
	for _, name := range h.names() {
		route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(name))
	}
	route.Spec.Rules = []gatewayv1.TLSRouteRule{{BackendRefs: []gatewayv1.BackendRef{ref.BackendRef}}}
	add(&s.routes, route, l.ingress.Namespace, s.named("TLSRoute", l.ingress.Namespace, h.name))
	s.own(route, l.ingress)
}

// parent returns a reference from one namespace to a parent in another.
func (s *site) parent(kind gatewayv1.Kind, name, from, namespace string) gatewayv1.ParentReference {
	ref := gatewayv1.ParentReference{Name: gatewayv1.ObjectName(name)}
	if kind != "Gateway" {
		ref.Group, ref.Kind = new(gatewayv1.Group(gatewayv1.GroupName)), &kind
	}
	if from != namespace {
		ref.Namespace = new(gatewayv1.Namespace(namespace))
	}
	return ref
}

// listenerSet returns the name of the ListenerSet for a Gateway in a namespace.
func (s *site) listenerSet(namespace, gateway string) string {
	key := types.NamespacedName{Namespace: namespace, Name: gateway}
	if s.sets[key] == "" {
		s.sets[key] = s.claim("ListenerSet", namespace, gateway)
	}
	return s.sets[key]
}

func (s *site) addListenerSets() {
	sets := map[types.NamespacedName]*gatewayv1.ListenerSet{}
	for _, l := range s.listeners {
		entry := gatewayv1.ListenerEntry{Name: l.name, Port: 443, Protocol: gatewayv1.HTTPSProtocolType}
		if l.hostname != "" {
			entry.Hostname = new(gatewayv1.Hostname(l.hostname))
		}
		if l.passthrough {
			entry.Protocol, entry.TLS = gatewayv1.TLSProtocolType, &gatewayv1.ListenerTLSConfig{Mode: new(gatewayv1.TLSModePassthrough)}
		} else {
			entry.TLS = &gatewayv1.ListenerTLSConfig{CertificateRefs: []gatewayv1.SecretObjectReference{{Name: gatewayv1.ObjectName(l.secret)}}}
		}
		if l.shared {
			entry.AllowedRoutes = &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromAll)}}
		}
		name := types.NamespacedName{Namespace: l.namespace, Name: l.gateway.name}
		if sets[name] == nil {
			sets[name] = &gatewayv1.ListenerSet{}
			if sets[name].Spec.ParentRef.Name = gatewayv1.ObjectName(l.gateway.name); l.namespace != s.Namespace {
				sets[name].Spec.ParentRef.Namespace = new(gatewayv1.Namespace(s.Namespace))
			}
			add(&s.others, sets[name], l.namespace, s.listenerSet(l.namespace, l.gateway.name))
		}
		sets[name].Spec.Listeners = append(sets[name].Spec.Listeners, entry)
	}
}

// parents returns the listeners of a host for routes of a namespace: that for HTTP, and the ListenerSets with
// certificates for it.
func (s *site) parents(h *host, from string) (http, https []gatewayv1.ParentReference) {
	var gateways []string
	seen := map[types.NamespacedName]bool{}
	isFor := func(l *listener) bool {
		return l.gateway.authority == h.authority &&
			slices.ContainsFunc(append(h.names(), h.www), func(name string) bool { return model.HostnameMatches(l.hostname, name) })
	}
	hasOther := slices.ContainsFunc(s.listeners, func(l *listener) bool { return !l.isDefault && isFor(l) })
	for _, l := range s.listeners {
		if l.passthrough || !isFor(l) || l.isDefault && hasOther {
			continue
		}
		l.shared = l.shared || l.namespace != from
		name := types.NamespacedName{Namespace: l.namespace, Name: l.gateway.name}
		if ref := s.parent("ListenerSet", s.listenerSet(l.namespace, l.gateway.name), from, l.namespace); !seen[name] {
			if seen[name] = true; h.name == "" {
				ref.SectionName = &l.name
			}
			gateways, https = append(gateways, l.gateway.name), append(https, ref)
		}
	}
	if len(gateways) == 0 {
		gateways = []string{s.gateways[0].name}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(gateways))) {
		ref := s.parent("Gateway", name, from, s.Namespace)
		ref.SectionName = new(gatewayv1.SectionName(portHTTP))
		http = append(http, ref)
	}
	return http, https
}

// addRoutes adds the routes of a host, in each namespace that has some of its locations.
func (s *site) addRoutes(h *host) {
	all := s.rules(h)
	if len(all) == 0 {
		return
	}
	redirects := slices.ContainsFunc(all, func(p placed) bool { return p.redirect != nil })
	believes := redirects && len(s.config.TrustedProxies) > 0 && !h.authority.isAsked()
	only := redirects && !believes && !slices.ContainsFunc(all, func(p placed) bool { return p.redirect == nil || p.namespace != all[0].namespace })
	var namespaces []string
	for _, one := range all {
		if !slices.Contains(namespaces, one.namespace) {
			namespaces = append(namespaces, one.namespace)
		}
	}
	for _, namespace := range namespaces {
		var rules, http, secured []rule
		for _, one := range all {
			if one.namespace != namespace {
				continue
			}
			rules = append(rules, one.rules...)
			if believes {
				secured = append(secured, overHTTPS(one.rules)...)
			}
			if one.redirect != nil {
				http = append(http, *one.redirect)
			} else {
				http = append(http, one.rules...)
			}
		}
		plain, secure := s.parents(h, namespace)
		name := cmp.Or(h.name, "default")
		switch {
		case !redirects && (s.hsts == "" || len(secure) == 0):
			s.addHTTPRoutes(namespace, name, append(plain, secure...), h.names(), rules)
			continue
		case only:
			redirect := s.httpsRedirect(pathMatch{prefix, "/"})
			for _, one := range rules {
				redirect.of = append(redirect.of, one.of...)
			}
			s.addHTTPRoutes(namespace, name+"-redirect", plain, h.names(), []rule{redirect})
		default:
			s.addHTTPRoutes(namespace, name+"-http", plain, h.names(), append(secured, http...))
		}
		s.addHTTPRoutes(namespace, name, secure, h.names(), s.withHSTS(rules))
	}
	if isPreciseHostname(h.www) {
		plain, secure := s.parents(h, namespaces[0])
		redirect := redirecting(pathMatch{prefix, "/"}, &gatewayv1.HTTPRequestRedirectFilter{
			Hostname: new(gatewayv1.PreciseHostname(h.name)), StatusCode: &s.redirectCode,
		})
		redirect.of = all[0].rules[0].of
		s.addHTTPRoutes(namespaces[0], h.www, append(plain, secure...), []string{h.www}, []rule{redirect})
	}
}

// addHTTPRoutes adds the rules of hosts, to as many routes as it takes.
func (s *site) addHTTPRoutes(namespace, name string, parents []gatewayv1.ParentReference, hostnames []string, rules []rule) {
	if len(parents) == 0 { // TLS is passed through
		return
	}
	for names := range slices.Chunk(hostnames, maxHostnames) {
		for chunk := range slices.Chunk(rules, maxRules) {
			route := &gatewayv1.HTTPRoute{}
			route.Spec.ParentRefs = parents
			for _, hostname := range names {
				if hostname != "" {
					route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(hostname))
				}
			}
			for i := range chunk {
				route.Spec.Rules = append(route.Spec.Rules, s.withFilter(namespace, &chunk[i]))
				s.own(route, chunk[i].of...)
			}
			add(&s.routes, route, namespace, s.named("HTTPRoute", namespace, name))
		}
	}
}

// withFilter returns a rule that names its RouteFilter, if it needs one. Equal ones of an Ingress are one.
func (s *site) withFilter(namespace string, r *rule) gatewayv1.HTTPRouteRule {
	if r.extension.MaxRequestBytes == nil && len(r.extension.Filters) == 0 {
		return r.HTTPRouteRule
	}
	owner := r.owner
	if owner == "" {
		owner = fmt.Sprint("answer-", *r.extension.Filters[0].DirectResponse.StatusCode)
	}
	known := s.filters[namespace+"/"+owner]
	i := slices.IndexFunc(known, func(f *appv1.RouteFilter) bool { return reflect.DeepEqual(f.Spec, r.extension) })
	if i < 0 {
		i, known = len(known), append(known, &appv1.RouteFilter{Spec: r.extension})
		name := owner
		if s.Serving {
			name += "-" + digest(r.extension)
		}
		add(&s.others, known[i], namespace, s.named("RouteFilter", namespace, name))
		s.filters[namespace+"/"+owner] = known
	}
	s.own(known[i], r.of...)
	to := *r.DeepCopy()
	to.Filters = append(to.Filters, gatewayv1.HTTPRouteFilter{
		Type: gatewayv1.HTTPRouteFilterExtensionRef, ExtensionRef: &gatewayv1.LocalObjectReference{
			Group: appv1.GroupName, Kind: "RouteFilter", Name: gatewayv1.ObjectName(known[i].Name),
		},
	})
	return to
}

// backendSettings are how to talk to a port of a Service, or to all if its name is not known.
type backendSettings struct {
	service   types.NamespacedName
	port      string
	hostname  string
	balancing *appv1.LoadBalancing
}

const h2c = "give the port of the Service appProtocol: kubernetes.io/h2c"

// addBackend adds the settings for the Service of a location. The first Ingress of a Service decides.
func (s *site) addBackend(l *location, service string, number int32) {
	one := backendSettings{service: types.NamespacedName{Namespace: l.ingress.Namespace, Name: service}, balancing: l.balancing}
	protocol := ""
	for _, port := range or(s.Services[one.service], corev1.Service{}).Spec.Ports {
		if port.Port == number {
			one.port, protocol = port.Name, or(port.AppProtocol, "")
		}
	}
	switch speaks := model.ProtocolOf(protocol, "HTTPRoute"); {
	case l.http2 && speaks != model.H2C:
		l.noteAnnotation("backend-protocol", h2c)
	case !l.http2 && (speaks == model.H2C || speaks == model.UnknownProtocol):
		const text = "Service %s: its port has appProtocol %s, which nginx does not read: %s"
		l.note(l.name(), text, service, protocol, either(speaks == model.H2C, "backends get HTTP/2. Remove it if they speak HTTP/1.1", "requests get 500 until you remove it"))
	}
	if l.tls {
		if one.hostname = l.values["proxy-ssl-name"]; !isPreciseHostname(one.hostname) {
			one.hostname = service + "." + l.ingress.Namespace + ".svc"
		}
	}
	if one.hostname == "" && one.balancing == nil {
		return
	}
	i := slices.IndexFunc(s.backends, func(b backendSettings) bool { return b.service == one.service && b.port == one.port })
	switch {
	case i < 0:
		s.backends = append(s.backends, one)
	case !reflect.DeepEqual(s.backends[i], one):
		l.note(l.name(), "Service %s: another Ingress was the first to say how to talk to it", service)
	}
}

func (s *site) addPolicies() {
	for _, b := range s.backends {
		name := s.named("BackendPolicy", b.service.Namespace, b.service.Name)
		if b.balancing != nil {
			policy := &appv1.BackendPolicy{}
			policy.Spec.TargetRefs = []appv1.BackendPolicyTarget{{Name: b.service.Name, SectionName: b.port}}
			policy.Spec.LoadBalancing = b.balancing
			add(&s.others, policy, b.service.Namespace, name)
		}
		if b.hostname == "" {
			continue
		}
		policy := &gatewayv1.BackendTLSPolicy{}
		target := gatewayv1.LocalPolicyTargetReferenceWithSectionName{}
		if target.Kind, target.Name = "Service", gatewayv1.ObjectName(b.service.Name); b.port != "" {
			target.SectionName = new(gatewayv1.SectionName(b.port))
		}
		policy.Spec.TargetRefs = []gatewayv1.LocalPolicyTargetReferenceWithSectionName{target}
		policy.Spec.Validation.Hostname = gatewayv1.PreciseHostname(b.hostname)
		policy.Spec.Validation.CACertificateRefs = []gatewayv1.LocalObjectReference{{Kind: "ConfigMap", Name: gatewayv1.ObjectName(b.service.Name + "-ca")}}
		add(&s.others, policy, b.service.Namespace, name)
	}
}

// grant lets routes of a namespace refer to a Service. It returns the namespace of the reference, nil within one.
func (s *site) grant(from, namespace, service string) *gatewayv1.Namespace {
	if from == namespace {
		return nil
	}
	grant := s.grants[namespace]
	if grant == nil {
		grant = &gatewayv1.ReferenceGrant{}
		add(&s.others, grant, namespace, s.claim("ReferenceGrant", namespace, s.gateways[0].name))
		s.grants[namespace] = grant
	}
	if route := (gatewayv1.ReferenceGrantFrom{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: gatewayv1.Namespace(from)}); !slices.Contains(grant.Spec.From, route) {
		grant.Spec.From = append(grant.Spec.From, route)
	}
	if !slices.ContainsFunc(grant.Spec.To, func(to gatewayv1.ReferenceGrantTo) bool { return string(*to.Name) == service }) {
		grant.Spec.To = append(grant.Spec.To, gatewayv1.ReferenceGrantTo{Kind: "Service", Name: new(gatewayv1.ObjectName(service))})
	}
	return new(gatewayv1.Namespace(namespace))
}
