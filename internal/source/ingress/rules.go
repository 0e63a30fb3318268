package ingress

import (
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// placed are the rules of a location, in the namespace of their route.
type placed struct {
	namespace string
	rules     []rule
	// redirect is the rule for HTTP where the others are for HTTPS alone, nil if there is none.
	redirect *rule
}

// home is the namespace of the routes for a location. The proxies mount Secrets with users from their own namespace,
// and a RouteFilter names a Service of its namespace.
func (l *location) home() string {
	switch {
	case l.closed || l.redirect != nil:
	case l.basic != nil:
		return l.Namespace
	case l.auth != nil:
		return l.authNamespace
	}
	return l.ingress.Namespace
}

// rules returns the rules of a host in the order of nginx.
func (s *site) rules(h *host) []placed {
	var all []placed
	root := slices.IndexFunc(h.locations, func(l *location) bool { return l.appRoot != "" })
	if root >= 0 {
		l := h.locations[root]
		redirect := redirecting(pathMatch{exact, "/"}, &gatewayv1.HTTPRequestRedirectFilter{StatusCode: new(302), Path: fullPath(l.appRoot)})
		all = append(all, placed{l.ingress.Namespace, []rule{redirect.by(l.ingress)}, nil})
	}
	for _, l := range h.locations {
		if slices.ContainsFunc(l.noAuth, func(path string) bool { return strings.HasPrefix(l.path, path) }) {
			own := l.own()
			own.auth, own.basic = nil, nil
			own.guardsOf = slices.DeleteFunc(slices.Clone(own.guardsOf), func(name string) bool { return strings.HasPrefix(name, Prefix+"auth-") })
		}
		if l.basic != nil && l.auth != nil && l.authNamespace != l.Namespace {
			l.loseGuards(h, "the Service that is asked has to be in the namespace of the Gateway, as the Secret with users")
		}
	}
	matches := h.matches()
	all = append(all, s.slashRedirects(h)...)
	s.keepOrder(h, matches)
	for i, match := range matches {
		l := h.locations[i]
		if match.value == "" || root >= 0 && match == (pathMatch{exact, "/"}) {
			continue
		}
		one := placed{l.home(), s.locationRules(h, l, match), nil}
		if l.forceHTTPS && !h.isSecure && len(l.config.TrustedProxies) == 0 {
			l.noteAnnotation("force-ssl-redirect", h.String()+" has no certificate here: if TLS ends before the Gateway, redirect there")
		}
		if l.redirectsToHTTPS(h) {
			one.redirect = new(s.httpsRedirect(match).by(l.ingress))
		}
		for j := range one.rules {
			if one.rules[j] = one.rules[j].by(l.ingress); l.canary != nil {
				one.rules[j] = one.rules[j].by(l.canary.ingress)
			}
		}
		all = append(all, one)
	}
	if s.fallsThrough(h) {
		first := h.locations[0].ingress
		all = append(all, placed{first.Namespace, []rule{answer(pathMatch{prefix, "/"}, 404).by(first)}, nil})
	}
	return all
}

// slashRedirects returns the redirects of nginx from paths like /a to locations like /a/, of hosts without expressions.
// Over HTTP, they come before those to HTTPS.
func (s *site) slashRedirects(h *host) (all []placed) {
	for _, l := range h.locations {
		path := pathMatch{exact, strings.TrimSuffix(l.path, "/")}
		isThere := slices.ContainsFunc(h.locations, func(other *location) bool { return other.path == path.value })
		if l.closed || path.value == l.path || path.value == "" || isThere || !isMatch(path) || h.hasExpressions() {
			continue
		}
		redirect := redirecting(path, &gatewayv1.HTTPRequestRedirectFilter{StatusCode: new(301), Path: fullPath(l.path)})
		all = append(all, placed{l.ingress.Namespace, []rule{redirect.by(l.ingress)}, nil})
	}
	return all
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
	isHost := func(name string) bool { return s.byName[name] != nil }
	return h.name != "" && len(h.locations) > 0 && !h.hasRoot() && slices.ContainsFunc(model.WiderHostnames(h.name)[1:], isHost)
}

// challenges is the path of ACME's challenges, over HTTP. It is the default of ingress-nginx's
// no-tls-redirect-locations and no-auth-locations.
const challenges = "/.well-known/acme-challenge"

// redirectsToHTTPS reports whether requests over HTTP are redirected, as is the default of hosts with a certificate.
func (l *location) redirectsToHTTPS(h *host) bool {
	isForced := l.forceHTTPS && len(l.config.TrustedProxies) > 0 // a proxy ends TLS
	return (h.isSecure || isForced) && l.redirect == nil && (h.authority.isAsked() || l.forceHTTPS || !l.noHTTPSRedirect) &&
		!slices.ContainsFunc(l.noRedirect, func(path string) bool { return strings.HasPrefix(l.path, path) })
}

// locationRules returns the rules of a path: one, or more with a canary.
func (s *site) locationRules(h *host, l *location, match pathMatch) []rule {
	r := l.rule.deepCopy()
	r.Matches, r.owner = matching(match), l.ingress.Name
	switch { // in the order of nginx
	case l.redirect != nil:
		return []rule{redirecting(match, l.redirect)}
	case l.closed:
		return []rule{answer(match, 503)}
	}
	if h.authority.isAsked() {
		r.tellOfClients(!h.authority.optional && l.redirectsToHTTPS(h)) // over HTTP, nobody shows one
	}
	extend := func(filter appv1.RuleFilter) { r.extension.Filters = append(r.extension.Filters, filter) }
	if l.clients != nil { // they take the place of the GatewayConfig's
		clients := l.clients.DeepCopy()
		clients.Deny = append(clients.Deny, l.blocked...)
		extend(appv1.RuleFilter{Type: appv1.RuleFilterClientAddress, ClientAddress: clients})
	}
	if l.basic != nil {
		extend(appv1.RuleFilter{Type: appv1.RuleFilterBasicAuth, BasicAuth: l.basic})
	}
	if l.auth != nil {
		extend(appv1.RuleFilter{Type: appv1.RuleFilterExternalAuth, ExternalAuth: l.auth})
	}
	if len(l.override) > 0 && l.home() != l.ingress.Namespace { // its Service would be one of another namespace
		l.noteAnnotation("custom-http-errors", "the Service of default-backend cannot be asked beside a password or a Service elsewhere")
	} else if len(l.override) > 0 {
		extend(appv1.RuleFilter{Type: appv1.RuleFilterResponseOverride, ResponseOverride: &appv1.ResponseOverride{Responses: l.override}})
	}
	if l.answers != (appv1.ResponseRewrite{}) {
		extend(appv1.RuleFilter{Type: appv1.RuleFilterResponseRewrite, ResponseRewrite: l.answers.DeepCopy()})
	}
	if l.replacement != nil {
		extend(appv1.RuleFilter{Type: appv1.RuleFilterPathRegexRewrite, PathRegexRewrite: l.replacement})
	}
	if l.newPath != "" || l.upstreamHost != "" {
		rewrite := &gatewayv1.HTTPURLRewriteFilter{}
		if l.newPath != "" {
			rewrite.Path = fullPath(l.newPath)
		}
		if l.upstreamHost != "" {
			rewrite.Hostname = new(gatewayv1.PreciseHostname(l.upstreamHost))
		}
		r.Filters = append(r.Filters, gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterURLRewrite, URLRewrite: rewrite})
	}
	for i := range r.Filters {
		if mirror := r.Filters[i].RequestMirror; mirror != nil {
			mirror.BackendRef.Namespace = s.grant(l.home(), string(*mirror.BackendRef.Namespace), string(mirror.BackendRef.Name))
		}
	}
	main := s.ref(l, l.home())
	if main != nil {
		r.BackendRefs = []gatewayv1.HTTPBackendRef{*main}
	}
	if l.canary != nil {
		return s.splitRule(h, l, r, main)
	}
	return []rule{r}
}

// by returns the rule with one more Ingress that it is for.
func (r rule) by(ingress *networkingv1.Ingress) rule {
	r.of = append(slices.Clip(r.of), ingress)
	return r
}

func matching(path pathMatch) []gatewayv1.HTTPRouteMatch {
	return []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: &path.kind, Value: &path.value}}}
}

// overHTTPS returns rules for the requests over HTTP that came over HTTPS to a trusted proxy. No other client can send
// the header.
func overHTTPS(rules []rule) (all []rule) {
	exact := gatewayv1.HeaderMatchExact
	for i := range rules {
		one := rules[i].deepCopy()
		for j := range one.Matches {
			one.Matches[j].Headers = append(one.Matches[j].Headers, gatewayv1.HTTPHeaderMatch{Name: "X-Forwarded-Proto", Value: "https", Type: &exact})
		}
		all = append(all, one)
	}
	return all
}

func (s *site) httpsRedirect(path pathMatch) rule {
	return redirecting(path, &gatewayv1.HTTPRequestRedirectFilter{Scheme: new("https"), StatusCode: &s.redirectCode})
}

func redirecting(path pathMatch, redirect *gatewayv1.HTTPRequestRedirectFilter) (r rule) {
	r.Matches = matching(path)
	r.Filters = []gatewayv1.HTTPRouteFilter{{Type: gatewayv1.HTTPRouteFilterRequestRedirect, RequestRedirect: redirect}}
	return r
}

// answer returns a rule that answers with a status.
func answer(path pathMatch, status int32) (r rule) {
	r.Matches = matching(path)
	r.extension.Filters = []appv1.RuleFilter{{Type: appv1.RuleFilterDirectResponse, DirectResponse: &appv1.DirectResponse{StatusCode: &status}}}
	return r
}
