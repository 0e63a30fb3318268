package ingress

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
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

// meta returns the metadata of an object.
func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: gatewayv1.GroupVersion.String(), Kind: kind}
}

func ownTypeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: appv1.SchemeGroupVersion.String(), Kind: kind}
}

// translate makes the objects of a class: first the Gateway and the ListenerSets, then what routes refer to, then the
// routes.
func (s *site) translate() {
	s.guard()
	s.closeServices()
	for _, h := range s.hosts {
		s.addListeners(h)
	}
	before := len(s.objects)
	for _, h := range s.hosts {
		s.addRoutes(h)
	}
	routes := slices.Clone(s.objects[before:])
	s.objects = s.objects[:before]
	s.addGateway()
	s.addListenerSets()
	s.addFilters()
	s.addPolicies()
	s.addGrants()
	slices.SortStableFunc(routes, func(a, b Object) int { return cmp.Compare(a.GetNamespace(), b.GetNamespace()) })
	s.objects = append(s.objects, routes...)
}

func (s *site) addGateway() {
	all := gatewayv1.NamespacesFromAll
	s.objects = append(s.objects, s.gatewayConfig(meta(s.Namespace, s.gateway)), &gatewayv1.Gateway{
		TypeMeta: typeMeta("Gateway"), ObjectMeta: meta(s.Namespace, s.gateway),
		Spec: gatewayv1.GatewaySpec{
			GatewayClassName: ClassName,
			Infrastructure: &gatewayv1.GatewayInfrastructure{ParametersRef: &gatewayv1.LocalParametersReference{
				Group: appv1.GroupName, Kind: "GatewayConfig", Name: s.gateway,
			}},
			AllowedListeners: &gatewayv1.AllowedListeners{Namespaces: &gatewayv1.ListenerNamespaces{From: &all}},
			Listeners: []gatewayv1.Listener{{
				Name: portHTTP, Port: 80, Protocol: gatewayv1.HTTPProtocolType,
				AllowedRoutes: &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: &all}},
			}},
		},
	})
}

// listener is one of a ListenerSet: for a hostname with a certificate, or one whose TLS is passed through.
type listener struct {
	namespace, hostname, secret string
	passthrough                 bool
	// shared says that routes of other namespaces belong to it.
	shared bool
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
	through := slices.IndexFunc(h.locations, func(l *location) bool { return l.passthrough && l.path == "/" })
	if h.secret.Name == "" && through < 0 || len(h.locations) == 0 {
		return
	}
	for _, name := range append(h.names(), h.www) {
		one := &listener{namespace: h.secret.Namespace, hostname: name, secret: h.secret.Name}
		switch {
		case name == "" && h.name != "", slices.ContainsFunc(s.listeners, func(l *listener) bool { return l.hostname == name }):
			continue
		case len(s.listeners)+1 == maxListeners:
			h.locations[0].note(h.locations[0].name(), "%s: it has no HTTPS here. A Gateway has up to %d listeners", name, maxListeners)
			continue
		case through >= 0:
			one.namespace, one.passthrough = h.locations[through].ingress.Namespace, true
		}
		s.listeners = append(s.listeners, one)
	}
	if through >= 0 {
		s.addTLSRoute(h, h.locations[through])
	}
}

// names returns the name of a host, and those of its aliases.
func (h *host) names() []string { return append([]string{h.name}, h.aliases...) }

func (s *site) isHost(name string) bool {
	return slices.ContainsFunc(s.hosts, func(h *host) bool { return h.name == name })
}

// addTLSRoute passes the TLS of a host through to its backend.
func (s *site) addTLSRoute(h *host, l *location) {
	l.noteAnnotation("ssl-passthrough", "nginx does so only with --enable-ssl-passthrough")
	ref := s.ref(l, l.ingress.Namespace)
	if ref == nil || h.name == "" {
		return
	}
	route := &gatewayv1.TLSRoute{
		TypeMeta: typeMeta("TLSRoute"), ObjectMeta: meta(l.ingress.Namespace, s.unique("TLSRoute", l.ingress.Namespace, label(s.gateway+"-"+h.name, maxLabel))),
	}
	route.Spec.ParentRefs = []gatewayv1.ParentReference{s.listenerSet(l.ingress.Namespace, l.ingress.Namespace)}
	for _, name := range h.names() {
		route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(name))
	}
	route.Spec.Rules = []gatewayv1.TLSRouteRule{{BackendRefs: []gatewayv1.BackendRef{ref.BackendRef}}}
	s.objects = append(s.objects, route)
}

// listenerSet returns a reference from one namespace to the ListenerSet of another.
func (s *site) listenerSet(from, namespace string) gatewayv1.ParentReference {
	ref := gatewayv1.ParentReference{Group: new(gatewayv1.Group(gatewayv1.GroupName)), Kind: new(gatewayv1.Kind("ListenerSet")), Name: gatewayv1.ObjectName(s.gateway)}
	if from != namespace {
		ref.Namespace = new(gatewayv1.Namespace(namespace))
	}
	return ref
}

func (s *site) addListenerSets() {
	namespaces := map[string][]gatewayv1.ListenerEntry{}
	for _, l := range s.listeners {
		name := label(cmp.Or(l.hostname, "default"), maxLabel)
		for i, base := 2, name; slices.ContainsFunc(namespaces[l.namespace], func(e gatewayv1.ListenerEntry) bool { return string(e.Name) == name }); i++ {
			name = fmt.Sprintf("%.60s-%d", base, i)
		}
		entry := gatewayv1.ListenerEntry{Name: gatewayv1.SectionName(name), Port: 443, Protocol: gatewayv1.HTTPSProtocolType}
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
		namespaces[l.namespace] = append(namespaces[l.namespace], entry)
	}
	for _, namespace := range keysOf(namespaces) {
		set := &gatewayv1.ListenerSet{TypeMeta: typeMeta("ListenerSet"), ObjectMeta: meta(namespace, s.gateway)}
		set.Spec.ParentRef.Name, set.Spec.Listeners = gatewayv1.ObjectName(s.gateway), namespaces[namespace]
		if namespace != s.Namespace {
			set.Spec.ParentRef.Namespace = new(gatewayv1.Namespace(s.Namespace))
		}
		s.objects = append(s.objects, set)
	}
}

// parents returns the listeners of a host for routes of a namespace: that for HTTP, and the ListenerSets with
// certificates for it.
func (s *site) parents(h *host, from string) (http, https []gatewayv1.ParentReference) {
	gateway := gatewayv1.ParentReference{Name: gatewayv1.ObjectName(s.gateway), SectionName: new(gatewayv1.SectionName(portHTTP))}
	if from != s.Namespace {
		gateway.Namespace = new(gatewayv1.Namespace(s.Namespace))
	}
	var namespaces []string
	for _, l := range s.listeners {
		isFor := func(name string) bool { return model.HostnameMatches(l.hostname, name) }
		if l.passthrough || !slices.ContainsFunc(append(h.names(), h.www), isFor) {
			continue
		}
		l.shared = l.shared || l.namespace != from
		namespaces = append(namespaces, l.namespace)
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		ref := s.listenerSet(from, namespace)
		if h.name == "" {
			ref.SectionName = new(gatewayv1.SectionName("default"))
		}
		https = append(https, ref)
	}
	return []gatewayv1.ParentReference{gateway}, https
}

// addRoutes adds the routes of a host, in each namespace that has some of its locations.
func (s *site) addRoutes(h *host) {
	all := s.rules(h)
	if len(all) == 0 {
		return
	}
	redirects := slices.ContainsFunc(all, func(p placed) bool { return p.redirect != nil })
	only := redirects && !slices.ContainsFunc(all, func(p placed) bool { return p.redirect == nil || p.namespace != all[0].namespace })
	var namespaces []string
	for _, one := range all {
		if !slices.Contains(namespaces, one.namespace) {
			namespaces = append(namespaces, one.namespace)
		}
	}
	for _, namespace := range namespaces {
		var rules, http []rule
		for _, one := range all {
			if one.namespace != namespace {
				continue
			}
			rules = append(rules, one.rules...)
			if one.redirect != nil {
				http = append(http, *one.redirect)
			} else {
				http = append(http, one.rules...)
			}
		}
		plain, secure := s.parents(h, namespace)
		name := cmp.Or(h.name, "default")
		switch {
		case !redirects:
			s.addHTTPRoutes(namespace, name, append(plain, secure...), h.names(), rules)
			continue
		case only:
			s.addHTTPRoutes(namespace, name+"-redirect", plain, h.names(), []rule{s.httpsRedirect(pathMatch{prefix, "/"})})
		default:
			s.addHTTPRoutes(namespace, name+"-http", plain, h.names(), http)
		}
		s.addHTTPRoutes(namespace, name, secure, h.names(), rules)
	}
	if isPreciseHostname(h.www) {
		plain, secure := s.parents(h, namespaces[0])
		s.addHTTPRoutes(namespaces[0], h.www, append(plain, secure...), []string{h.www}, []rule{redirecting(pathMatch{prefix, "/"}, &gatewayv1.HTTPRequestRedirectFilter{
			Hostname: new(gatewayv1.PreciseHostname(h.name)), StatusCode: new(308),
		})})
	}
}

// addHTTPRoutes adds the rules of hosts, to as many routes as it takes.
func (s *site) addHTTPRoutes(namespace, name string, parents []gatewayv1.ParentReference, hostnames []string, rules []rule) {
	for names := range slices.Chunk(hostnames, maxHostnames) {
		for chunk := range slices.Chunk(rules, maxRules) {
			route := &gatewayv1.HTTPRoute{
				TypeMeta: typeMeta("HTTPRoute"), ObjectMeta: meta(namespace, s.unique("HTTPRoute", namespace, label(s.gateway+"-"+name, maxLabel))),
			}
			route.Spec.ParentRefs = parents
			for _, hostname := range names {
				if hostname != "" {
					route.Spec.Hostnames = append(route.Spec.Hostnames, gatewayv1.Hostname(hostname))
				}
			}
			for i := range chunk {
				route.Spec.Rules = append(route.Spec.Rules, s.withFilter(namespace, &chunk[i]))
			}
			s.objects = append(s.objects, route)
		}
	}
}

// namedFilter is a RouteFilter of a namespace.
type namedFilter struct {
	name, owner string
	spec        appv1.RouteFilterSpec
}

// withFilter returns a rule that names its RouteFilter, if it needs one. Equal ones of an Ingress are one.
func (s *site) withFilter(namespace string, r *rule) gatewayv1.HTTPRouteRule {
	if r.extension.MaxRequestBytes == nil && len(r.extension.Filters) == 0 {
		return r.HTTPRouteRule
	}
	all := s.filters[namespace]
	i := slices.IndexFunc(all, func(f namedFilter) bool { return f.owner == r.owner && reflect.DeepEqual(f.spec, r.extension) })
	if i < 0 {
		i = len(all)
		name := r.owner
		if name == "" {
			name = fmt.Sprint("answer-", *r.extension.Filters[0].DirectResponse.StatusCode)
		}
		name = s.unique("RouteFilter", namespace, label(s.gateway+"-"+name, maxLabel))
		s.filters[namespace] = append(all, namedFilter{name, r.owner, r.extension})
	}
	to := *r.DeepCopy()
	to.Filters = append(to.Filters, gatewayv1.HTTPRouteFilter{
		Type: gatewayv1.HTTPRouteFilterExtensionRef, ExtensionRef: &gatewayv1.LocalObjectReference{
			Group: appv1.GroupName, Kind: "RouteFilter", Name: gatewayv1.ObjectName(s.filters[namespace][i].name),
		},
	})
	return to
}

func (s *site) addFilters() {
	for _, namespace := range keysOf(s.filters) {
		for _, filter := range s.filters[namespace] {
			s.objects = append(s.objects, &appv1.RouteFilter{TypeMeta: ownTypeMeta("RouteFilter"), ObjectMeta: meta(namespace, filter.name), Spec: filter.spec})
		}
	}
}

// backendSettings are how to talk to a port of a Service, or to all if its name is not known.
type backendSettings struct {
	service   types.NamespacedName
	port      string
	hostname  string
	balancing *appv1.LoadBalancing
}

// addBackend adds the settings for the Service of a location. The first Ingress of a Service decides.
func (s *site) addBackend(l *location, service string, number int32) {
	one := backendSettings{service: types.NamespacedName{Namespace: l.ingress.Namespace, Name: service}, balancing: l.balancing}
	if object := s.Services[one.service]; object != nil {
		for _, port := range object.Spec.Ports {
			if port.Port == number {
				one.port = port.Name
			}
		}
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
		name := s.unique("BackendPolicy", b.service.Namespace, label(s.gateway+"-"+b.service.Name, maxLabel))
		if b.balancing != nil {
			policy := &appv1.BackendPolicy{TypeMeta: ownTypeMeta("BackendPolicy"), ObjectMeta: meta(b.service.Namespace, name)}
			policy.Spec.TargetRefs = []appv1.BackendPolicyTarget{{Name: b.service.Name, SectionName: b.port}}
			policy.Spec.LoadBalancing = b.balancing
			s.objects = append(s.objects, policy)
		}
		if b.hostname == "" {
			continue
		}
		policy := &gatewayv1.BackendTLSPolicy{TypeMeta: typeMeta("BackendTLSPolicy"), ObjectMeta: meta(b.service.Namespace, name)}
		target := gatewayv1.LocalPolicyTargetReferenceWithSectionName{}
		if target.Kind, target.Name = "Service", gatewayv1.ObjectName(b.service.Name); b.port != "" {
			target.SectionName = new(gatewayv1.SectionName(b.port))
		}
		policy.Spec.TargetRefs = []gatewayv1.LocalPolicyTargetReferenceWithSectionName{target}
		policy.Spec.Validation.Hostname = gatewayv1.PreciseHostname(b.hostname)
		policy.Spec.Validation.CACertificateRefs = []gatewayv1.LocalObjectReference{{Kind: "ConfigMap", Name: gatewayv1.ObjectName(b.service.Name + "-ca")}}
		s.objects = append(s.objects, policy)
	}
}

// grant is a Service that routes of another namespace refer to.
type grant struct{ from, namespace, service string }

// grant lets routes of a namespace refer to a Service. It returns the namespace of the reference, nil within one.
func (s *site) grant(from, namespace, service string) *gatewayv1.Namespace {
	if from == namespace {
		return nil
	}
	if one := (grant{from, namespace, service}); !slices.Contains(s.grants, one) {
		s.grants = append(s.grants, one)
	}
	return new(gatewayv1.Namespace(namespace))
}

func (s *site) addGrants() {
	byNamespace := map[string]*gatewayv1.ReferenceGrant{}
	for _, g := range s.grants {
		if byNamespace[g.namespace] == nil {
			object := &gatewayv1.ReferenceGrant{TypeMeta: typeMeta("ReferenceGrant"), ObjectMeta: meta(g.namespace, s.gateway)}
			object.Spec.From = []gatewayv1.ReferenceGrantFrom{{Group: gatewayv1.GroupName, Kind: "HTTPRoute", Namespace: gatewayv1.Namespace(g.from)}}
			byNamespace[g.namespace] = object
		}
		to := &byNamespace[g.namespace].Spec.To
		*to = append(*to, gatewayv1.ReferenceGrantTo{Kind: "Service", Name: new(gatewayv1.ObjectName(g.service))})
	}
	for _, namespace := range keysOf(byNamespace) {
		s.objects = append(s.objects, byNamespace[namespace])
	}
}
