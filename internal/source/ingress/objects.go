package ingress

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/kinds"
	"gateway/internal/model"
	"gateway/internal/source/gatewayapi"
)

const (
	// ClassName is the GatewayClass of the Gateways.
	ClassName = "gateway"
	// portHTTP is the name of the Gateway's listener for HTTP.
	portHTTP = "http"
	// maxRules and maxHostnames are how many an HTTPRoute may have, and maxListeners a ListenerSet.
	maxRules, maxHostnames, maxListeners = 16, 16, 64
)

// add adds an object with a namespace and name. Its kind follows from its type.
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
		s.addListenersAt(s.gateways[0], []string{""}, listener{namespace: s.Certificate.Namespace, secret: s.Certificate.Name, isDefault: true})
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
	for _, g := range slices.Concat(s.gateways, s.earlier) {
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
		for _, chunk := range s.parts(namespace, rules) {
			route := &gatewayv1.HTTPRoute{}
			if of := chunk[0].namespace(); of != "" && of != namespace && namespace == s.Namespace {
				route.Labels = map[string]string{gatewayapi.LabelFor: of}
			}
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

// parts cuts rules into those of a route each. In the namespace of the Gateway, a route is for one namespace.
func (s *site) parts(namespace string, rules []rule) (all [][]rule) {
	for i := range rules {
		last := len(all) - 1
		if last < 0 || len(all[last]) == maxRules || namespace == s.Namespace && rules[i].namespace() != rules[i-1].namespace() {
			all, last = append(all, nil), last+1
		}
		all[last] = append(all[last], rules[i])
	}
	return all
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
	for _, port := range ptr.Deref(s.Services[one.service], corev1.Service{}).Spec.Ports {
		if port.Port == number {
			one.port, protocol = port.Name, ptr.Deref(port.AppProtocol, "")
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
