package convert

import (
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"

	appv1 "gateway/api/app/v1"
)

// gateway returns the Gateway for the Ingresses of a namespace: a listener for HTTP, and one for HTTPS if there are
// certificates; for each host a route, or one for each listener if HTTP is redirected to HTTPS.
func (s *site) gateway(name string) *appv1.Gateway {
	gateway := newGateway(s.namespace, name)
	gateway.Spec.Listeners = []appv1.Listener{{Name: "http", Port: 80, Protocol: appv1.ProtocolHTTP}}
	if len(s.secrets) > 0 {
		tls := &appv1.ListenerTLS{}
		for _, secret := range s.secrets {
			tls.CertificateRefs = append(tls.CertificateRefs, appv1.ObjectReference{Name: secret})
		}
		gateway.Spec.Listeners = append(gateway.Spec.Listeners, appv1.Listener{Name: "https", Port: 443, Protocol: appv1.ProtocolHTTPS, TLS: tls})
	}
	routes := &routeList{names: names{}}
	for _, h := range s.hosts {
		s.addRoutes(routes, h)
	}
	gateway.Spec.Routes, gateway.Spec.Backends = routes.all, s.backends
	return gateway
}

// routeList collects routes.
type routeList struct {
	names
	all []appv1.Route
}

// maxRules is how many rules a route may have.
const maxRules = 16

// add adds the rules of hosts, to as many routes as it takes.
func (r *routeList) add(name string, listener appv1.Name, hostnames []appv1.Hostname, rules []appv1.RouteRule) {
	for chunk := range slices.Chunk(rules, maxRules) {
		route := appv1.Route{Name: r.unique(name), Hostnames: hostnames, Rules: chunk}
		if listener != "" {
			route.Listeners = []appv1.Name{listener}
		}
		r.all = append(r.all, route)
	}
}

// addRoutes adds the routes of a host.
func (s *site) addRoutes(routes *routeList, h *host) {
	rules, redirects, all := s.rules(h)
	if len(rules) == 0 {
		return
	}
	name, hostnames := h.name, s.hostnames(h)
	if name == "" {
		name = "default"
	}
	switch {
	case len(redirects) == 0:
		routes.add(name, "", hostnames, rules)
	case all:
		routes.add(name, "https", hostnames, rules)
		routes.add(name+"-redirect", "http", hostnames, []appv1.RouteRule{httpsRedirect("/", appv1.PathMatchPathPrefix)})
	default:
		routes.add(name, "https", hostnames, rules)
		routes.add(name+"-http", "http", hostnames, redirects)
	}
	if isPreciseHostname(h.www) && !s.isHost(h.www) {
		redirect := appv1.RouteRule{Filters: []appv1.RuleFilter{redirectFilter(&appv1.RequestRedirect{
			Hostname: appv1.PreciseHostname(h.name), StatusCode: new(int32(308)),
		})}}
		routes.add(h.www, "", []appv1.Hostname{appv1.Hostname(h.www)}, []appv1.RouteRule{redirect})
	}
}

// hostnames returns the name of a host, and those of its aliases that no host before it has, and that are no hosts of
// their own.
func (s *site) hostnames(h *host) []appv1.Hostname {
	if h.name == "" {
		return nil
	}
	all := []appv1.Hostname{appv1.Hostname(h.name)}
	for _, alias := range h.aliases {
		if !s.isHost(string(alias)) && !s.aliases[alias] {
			s.aliases[alias] = true
			all = append(all, alias)
		}
	}
	return all
}

func (s *site) isHost(name string) bool {
	return slices.ContainsFunc(s.hosts, func(h *host) bool { return h.name == name })
}

// rules returns the rules of a host and, if one of them is for HTTPS alone, the rules for HTTP. all means that all are
// for HTTPS alone.
func (s *site) rules(h *host) (rules, http []appv1.RouteRule, all bool) {
	s.addRoot(h)
	if i := slices.IndexFunc(h.locations, func(l *location) bool { return l.appRoot != "" }); i >= 0 {
		rules = append(rules, rootRule(h.locations[i].appRoot))
		http = slices.Clone(rules)
	}
	redirected := 0
	matches := h.matches()
	for i, l := range h.locations {
		match := matches[i]
		if match.Path.Value == "" {
			continue
		}
		own := s.locationRules(h, l, match)
		rules = append(rules, own...)
		if l.forceHTTPS && !h.tls {
			l.noteAnnotation("force-ssl-redirect", h.String()+" has no certificate here: if TLS ends before the Gateway, redirect there")
		}
		if l.redirectsToHTTPS(h) {
			redirected++
			http = append(http, httpsRedirect(match.Path.Value, match.Path.Type))
			continue
		}
		http = append(http, own...)
	}
	if s.fallsThrough(h) {
		notFound := appv1.RouteRule{Filters: []appv1.RuleFilter{directResponse(404)}}
		rules, http = append(rules, notFound), append(http, notFound)
	}
	if redirected == 0 {
		http = nil
	}
	return rules, http, redirected == len(h.locations)
}

// addRoot adds the catch-all location "/" for requests that no other path of the host matches.
func (s *site) addRoot(h *host) {
	if h.root != nil && !h.hasRoot() {
		h.locations = append(h.locations, h.root)
	}
}

func (h *host) hasRoot() bool {
	return slices.ContainsFunc(h.locations, func(l *location) bool { return l.path == "/" && l.pathType != networkingv1.PathTypeExact })
}

// fallsThrough reports whether requests that match no path of a host would go to a host with a wildcard or without a
// name. nginx answers them with 404.
func (s *site) fallsThrough(h *host) bool {
	return h.name != "" && !h.hasRoot() && slices.ContainsFunc(s.hosts, func(other *host) bool {
		suffix, wildcard := strings.CutPrefix(other.name, "*")
		return other != h && (other.name == "" || wildcard && strings.HasSuffix(h.name, suffix))
	})
}

// challenges is the path of ACME's challenges, over HTTP. It is the default of ingress-nginx's
// no-tls-redirect-locations.
const challenges = "/.well-known/acme-challenge"

// redirectsToHTTPS reports whether requests over HTTP are redirected, as is the default of hosts with a certificate.
func (l *location) redirectsToHTTPS(h *host) bool {
	return h.tls && l.redirect == nil && (l.forceHTTPS || !l.noHTTPSRedirect) && !strings.HasPrefix(l.path, challenges)
}

// locationRules returns the rules of a path: one, or more with a canary.
func (s *site) locationRules(h *host, l *location, match appv1.RouteMatch) []appv1.RouteRule {
	rule := *l.rule.DeepCopy()
	rule.Matches = []appv1.RouteMatch{match}
	switch { // in the order of nginx
	case l.redirect != nil:
		return []appv1.RouteRule{{Matches: rule.Matches, Filters: []appv1.RuleFilter{redirectFilter(l.redirect)}}}
	case l.closed:
		return []appv1.RouteRule{{Matches: rule.Matches, Filters: []appv1.RuleFilter{directResponse(503)}}}
	}
	if l.clients != nil {
		rule.Filters = append(rule.Filters, appv1.RuleFilter{Type: appv1.RuleFilterClientAddress, ClientAddress: l.clients})
	}
	if l.basic != nil {
		rule.Filters = append(rule.Filters, appv1.RuleFilter{Type: appv1.RuleFilterBasicAuth, BasicAuth: l.basic})
	}
	if l.auth != nil {
		rule.Filters = append(rule.Filters, appv1.RuleFilter{Type: appv1.RuleFilterExternalAuth, ExternalAuth: l.auth})
	}
	if path := h.pathModifier(l, match); path != nil || l.upstreamHost != "" {
		rule.Filters = append(rule.Filters, appv1.RuleFilter{
			Type: appv1.RuleFilterURLRewrite, URLRewrite: &appv1.URLRewrite{Hostname: l.upstreamHost, Path: path},
		})
	}
	main := s.ref(l)
	if main != nil {
		rule.BackendRefs = []appv1.BackendRef{*main}
	}
	if l.canary != nil {
		return s.splitRule(h, l, rule, main)
	}
	return []appv1.RouteRule{rule}
}

// rootRule returns the rule for an app-root, which any Ingress of a host may have.
func rootRule(path appv1.URLPath) appv1.RouteRule {
	return appv1.RouteRule{
		Matches: []appv1.RouteMatch{{Path: appv1.PathMatch{Type: appv1.PathMatchExact, Value: "/"}}},
		Filters: []appv1.RuleFilter{redirectFilter(&appv1.RequestRedirect{
			StatusCode: new(int32(302)), Path: &appv1.PathModifier{Type: appv1.PathModifierReplaceFullPath, ReplaceFullPath: path},
		})},
	}
}

func httpsRedirect(path string, kind appv1.PathMatchType) appv1.RouteRule {
	return appv1.RouteRule{
		Matches: []appv1.RouteMatch{{Path: appv1.PathMatch{Type: kind, Value: path}}},
		Filters: []appv1.RuleFilter{redirectFilter(&appv1.RequestRedirect{Scheme: "https", StatusCode: new(int32(308))})},
	}
}

func redirectFilter(redirect *appv1.RequestRedirect) appv1.RuleFilter {
	return appv1.RuleFilter{Type: appv1.RuleFilterRequestRedirect, RequestRedirect: redirect}
}

func directResponse(status int32) appv1.RuleFilter {
	return appv1.RuleFilter{Type: appv1.RuleFilterDirectResponse, DirectResponse: &appv1.DirectResponse{StatusCode: new(status)}}
}
