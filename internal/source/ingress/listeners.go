package ingress

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

// MadeGateway is a Gateway of an earlier translation.
type MadeGateway struct {
	Name string
	// Authority is the name of the ConfigMap with who signs clients' certificates, "" if they are not asked for any, and
	// Optional reports whether clients without one may come in, too.
	Authority string
	Optional  bool
}

// MadeListenerSet is a ListenerSet of an earlier translation, with the hostnames of its listeners.
type MadeListenerSet struct {
	types.NamespacedName
	Gateway   string
	Hostnames []string
}

// ReadGateway returns what a translation has to know of a Gateway that was made.
func ReadGateway(object *gatewayv1.Gateway) MadeGateway {
	made := MadeGateway{Name: object.Name}
	if tls := object.Spec.TLS; tls != nil && tls.Frontend != nil && tls.Frontend.Default.Validation != nil {
		validation := tls.Frontend.Default.Validation
		if made.Optional = validation.Mode == gatewayv1.AllowInsecureFallback; len(validation.CACertificateRefs) > 0 {
			made.Authority = string(validation.CACertificateRefs[0].Name)
		}
	}
	return made
}

// ReadListenerSet returns what a translation has to know of a ListenerSet that was made.
func ReadListenerSet(object *gatewayv1.ListenerSet) MadeListenerSet {
	made := MadeListenerSet{types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, string(object.Spec.ParentRef.Name), nil}
	for i := range object.Spec.Listeners {
		made.Hostnames = append(made.Hostnames, string(ptr.Deref(object.Spec.Listeners[i].Hostname, "")))
	}
	return made
}

// gateway is a Gateway of a class.
type gateway struct {
	name string
	// authority is who signs the certificates that it asks for.
	authority authority
}

// listenerSet is a ListenerSet of a Gateway.
type listenerSet struct {
	name string
	// used is how many listeners it has, and those that it had, which may go.
	used int
}

// place is where a host may be: in a namespace at a Gateway.
type place struct{ namespace, gateway, hostname string }

// listener is one of a ListenerSet: for a hostname with a certificate, or one whose TLS is passed through.
type listener struct {
	name                        gatewayv1.SectionName
	namespace, hostname, secret string
	passthrough                 bool
	gateway                     *gateway
	set                         *listenerSet
	// order is its place among the listeners of the class.
	order int
	// guests are other namespaces whose routes belong to it.
	guests []string
	// isDefault reports whether it is for the hosts that have no other one.
	isDefault bool
}

// readMade reads where hosts are by an earlier translation. The names of what it made are not free.
func (s *site) readMade() {
	slices.SortFunc(s.Gateways, func(a, b MadeGateway) int { return strings.Compare(a.Name, b.Name) })
	for _, made := range s.Gateways {
		s.taken[Subject{"Gateway", s.Namespace, made.Name}] = true
	}
	slices.SortFunc(s.ListenerSets, func(a, b MadeListenerSet) int { return strings.Compare(a.Name, b.Name) })
	for _, made := range s.ListenerSets {
		s.taken[Subject{"ListenerSet", made.Namespace, made.Name}] = true
		set, at := &listenerSet{made.Name, len(made.Hostnames)}, types.NamespacedName{Namespace: made.Namespace, Name: made.Gateway}
		s.sets[at] = append(s.sets[at], set)
		for _, name := range made.Hostnames {
			if known := (place{made.Namespace, made.Gateway, name}); s.places[known] == nil {
				s.places[known] = set
			}
		}
	}
}

// addListeners adds the listeners for HTTPS of a host, its aliases and the name that is redirected to it.
func (s *site) addListeners(h *host) {
	aliases := h.aliases
	h.aliases = nil
	for _, alias := range aliases {
		if s.byName[alias] == nil && !s.aliases[alias] {
			s.aliases[alias] = true
			h.aliases = append(h.aliases, alias)
		}
	}
	if h.www != "" && s.byName[h.www] != nil {
		h.www = ""
	}
	through := slices.IndexFunc(h.locations, func(l *location) bool { return l.passthrough && !l.closed && l.path == "/" })
	if h.secret.Name == "" && through < 0 || len(h.locations) == 0 {
		return
	}
	names := h.names()
	if h.www != "" {
		names = append(names, h.www)
	}
	if names = slices.DeleteFunc(names, func(name string) bool { return len(s.byHostname[name]) > 0 }); len(names) == 0 {
		return
	}
	like := listener{namespace: h.secret.Namespace, secret: h.secret.Name}
	if through >= 0 {
		like.namespace, like.passthrough = h.locations[through].ingress.Namespace, true
	}
	all := s.addListenersAt(s.gatewayFor(h.authority), names, like)
	for _, made := range s.Gateways {
		isAbsent := func(name string) bool { return s.places[place{like.namespace, made.Name, name}] == nil }
		if there := slices.DeleteFunc(slices.Clone(names), isAbsent); len(there) > 0 && made.isFor(s.authorityKey(h.authority)) {
			if g := s.earlierGateway(made.Name, h.authority); g != nil {
				all = append(all, s.addListenersAt(g, there, like)...)
			}
		}
	}
	if through >= 0 {
		s.addTLSRoute(h, h.locations[through], all)
	}
}

// addListenersAt adds listeners for hostnames to a Gateway, where each one is already, or else in one ListenerSet.
func (s *site) addListenersAt(g *gateway, hostnames []string, like listener) []*listener {
	places := make([]*listenerSet, len(hostnames))
	unplaced := 0
	for i, name := range hostnames {
		if places[i] = s.places[place{like.namespace, g.name, name}]; places[i] == nil {
			unplaced++
		}
	}
	var all []*listener
	for i, name := range hostnames {
		one := like
		if one.gateway, one.hostname, one.set = g, name, places[i]; one.set == nil {
			one.set = s.roomFor(unplaced, like.namespace, g.name)
			one.set.used++
			unplaced--
		}
		if one.order = len(s.listeners); len(s.byHostname[name]) > 0 {
			one.name = s.byHostname[name][0].name // in another ListenerSet
		} else {
			one.name = gatewayv1.SectionName(s.claim("Listener", one.namespace, label(cmp.Or(name, "default"), maxLabel)))
		}
		s.listeners, s.byHostname[name], all = append(s.listeners, &one), append(s.byHostname[name], &one), append(all, &one)
	}
	return all
}

// roomFor returns a ListenerSet of a Gateway in a namespace with room for listeners.
func (s *site) roomFor(listeners int, namespace, gateway string) *listenerSet {
	at := types.NamespacedName{Namespace: namespace, Name: gateway}
	for _, set := range s.sets[at] {
		if set.used+listeners <= maxListeners {
			return set
		}
	}
	set := &listenerSet{name: s.claim("ListenerSet", namespace, gateway)}
	s.sets[at] = append(s.sets[at], set)
	return set
}

// authorityKey returns the authority as a MadeGateway names it.
func (s *site) authorityKey(a authority) (name string, optional bool) {
	if !a.isAsked() {
		return "", false
	}
	return s.authorityName(a), a.optional
}

func (m *MadeGateway) isFor(authority string, optional bool) bool {
	return m.Authority == authority && m.Optional == optional
}

// gatewayFor returns the Gateway for listeners that ask for the certificates of an authority.
func (s *site) gatewayFor(a authority) *gateway {
	if i := slices.IndexFunc(s.gateways, func(g *gateway) bool { return g.authority == a }); i >= 0 {
		return s.gateways[i]
	}
	one := &gateway{authority: a}
	if i := slices.IndexFunc(s.Gateways, func(made MadeGateway) bool { return made.isFor(s.authorityKey(a)) }); i >= 0 {
		one.name = s.Gateways[i].Name
	} else {
		one.name = s.claim("Gateway", s.Namespace, s.gateways[0].name)
	}
	s.gateways = append(s.gateways, one)
	return one
}

const earlierGateway = "an earlier release made it, as a Gateway had up to 64 hosts. They are at Gateway %s, too: " +
	"delete this one once nobody uses its address"

// earlierGateway returns a Gateway that only an earlier release would have made, nil if it is the one of the authority.
func (s *site) earlierGateway(name string, a authority) *gateway {
	isIt := func(g *gateway) bool { return g.name == name }
	if i := slices.IndexFunc(s.earlier, isIt); i >= 0 {
		return s.earlier[i]
	}
	now := s.gatewayFor(a)
	if slices.ContainsFunc(s.gateways, isIt) {
		return nil
	}
	s.note(Subject{"Gateway", s.Namespace, name}, earlierGateway, now.name)
	s.earlier = append(s.earlier, &gateway{name, a})
	return s.earlier[len(s.earlier)-1]
}

// names returns the name of a host, and the names of its aliases.
func (h *host) names() []string { return append([]string{h.name}, h.aliases...) }

// addTLSRoute passes the TLS of a host through to its backend.
func (s *site) addTLSRoute(h *host, l *location, at []*listener) {
	l.noteAnnotation("ssl-passthrough", "nginx does so only with --enable-ssl-passthrough")
	ref := s.ref(l, l.ingress.Namespace)
	if ref == nil || h.name == "" {
		return
	}
	route := &gatewayv1.TLSRoute{}
	seen := map[*listenerSet]bool{}
	for _, one := range at {
		if !seen[one.set] {
			route.Spec.ParentRefs = append(route.Spec.ParentRefs, s.parent("ListenerSet", one.set.name, l.ingress.Namespace, one.namespace))
		}
		seen[one.set] = true
	}
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

func (s *site) addListenerSets() {
	sets := map[*listenerSet]*gatewayv1.ListenerSet{}
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
		entry.AllowedRoutes = l.allowedRoutes()
		if sets[l.set] == nil {
			set := &gatewayv1.ListenerSet{}
			if set.Spec.ParentRef.Name = gatewayv1.ObjectName(l.gateway.name); l.namespace != s.Namespace {
				set.Spec.ParentRef.Namespace = new(gatewayv1.Namespace(s.Namespace))
			}
			add(&s.others, set, l.namespace, l.set.name)
			sets[l.set] = set
		}
		sets[l.set].Spec.Listeners = append(sets[l.set].Spec.Listeners, entry)
	}
}

// allowedRoutes lets the routes of its guests belong to a listener, and no others: their namespaces may not use its
// hostname. The listener for all hosts may have any guest.
func (l *listener) allowedRoutes() *gatewayv1.AllowedRoutes {
	switch {
	case len(l.guests) == 0:
		return nil
	case l.isDefault:
		return &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromAll)}}
	}
	names := metav1.LabelSelectorRequirement{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: slices.Sorted(slices.Values(append(l.guests, l.namespace))),
	}
	return &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{
		From: new(gatewayv1.NamespacesFromSelector), Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{names}},
	}}
}

// listenersFor returns the listeners that a host can have, in their order.
func (s *site) listenersFor(h *host) []*listener {
	var all []*listener
	for _, name := range append(h.names(), cmp.Or(h.www, h.name)) {
		for _, hostname := range model.WiderHostnames(name) {
			for _, l := range s.byHostname[hostname] {
				if l.gateway.authority == h.authority && !slices.Contains(all, l) {
					all = append(all, l)
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b *listener) int { return cmp.Compare(a.order, b.order) })
	return all
}

// parents returns the listeners of a host for routes of a namespace: that for HTTP, and the ListenerSets with
// certificates for it.
func (s *site) parents(h *host, from string) (http, https []gatewayv1.ParentReference) {
	var gateways []string
	seen := map[*listenerSet]bool{}
	all := s.listenersFor(h)
	hasOther := slices.ContainsFunc(all, func(l *listener) bool { return !l.isDefault })
	for _, l := range all {
		if l.passthrough || l.isDefault && hasOther {
			continue
		}
		if l.namespace != from && !slices.Contains(l.guests, from) {
			l.guests = append(l.guests, from)
		}
		if ref := s.parent("ListenerSet", l.set.name, from, l.namespace); !seen[l.set] {
			if seen[l.set] = true; h.name == "" {
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
