package appv1

import (
	"cmp"
	"fmt"
	"slices"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/rules"
)

// kind is a kind of routes.
type kind struct {
	name string
	// fits reports whether they may belong to a listener.
	fits func(listener *model.Listener) bool
	// wanted is what such a listener is of, in messages.
	wanted string
}

func (t *translator) translateRoutes() {
	requests := kind{name: HTTPRoute, wanted: "HTTP or HTTPS, without httpsRedirect", fits: func(l *model.Listener) bool {
		return (l.Protocol == model.ProtocolHTTP || l.Protocol == model.ProtocolHTTPS) && !slices.ContainsFunc(t.redirects, func(r redirecting) bool { return r.listener == l.Name })
	}}
	for i := range t.spec.Routes {
		spec := &t.spec.Routes[i]
		rules := make([]model.Rule, len(spec.Rules))
		for j := range spec.Rules {
			t.door.rule(&rules[j], &spec.Rules[j])
		}
		t.addRoute(requests, spec.Name, spec.Listeners, spec.Hostnames, rules)
	}
}

// translateConnections translates TCPRoutes and TLSRoutes.
func (t *translator) translateConnections() {
	for _, spec := range t.spec.TCPRoutes {
		t.addRoute(plain, spec.Name, spec.Listeners, nil, []model.Rule{t.door.connections(spec.Rules)})
	}
	for _, spec := range t.spec.TLSRoutes {
		t.addRoute(secure, spec.Name, spec.Listeners, spec.Hostnames, []model.Rule{t.door.connections(spec.Rules)})
	}
}

// The kinds of routes for connections: of bytes that the proxies see, and of TLS, by the server name, whoever opens it.
var (
	plain = kind{name: TCPRoute, wanted: "TCP, or TLS with tls.mode Terminate", fits: func(l *model.Listener) bool {
		return l.Protocol == model.ProtocolTCP || l.Protocol == model.ProtocolTLS && l.TLS != nil
	}}
	secure = kind{name: TLSRoute, wanted: model.ProtocolTLS, fits: func(l *model.Listener) bool { return l.Protocol == model.ProtocolTLS }}
)

// addRoute adds a route with its listeners, and the reasons why it does not belong to others that it names.
func (t *translator) addRoute(kind kind, name appv1.Name, listeners []appv1.Name, hostnames []appv1.Hostname, rules []model.Rule) {
	route := model.Route{Origin: t.origin, Kind: kind.name, Name: string(name), Hostnames: converted[string](hostnames), Rules: rules}
	if len(hostnames) == 0 {
		route.Hostnames = anyHost
	}
	for i := range rules {
		if refused := rules[i].Refused; refused != "" {
			field := fmt.Sprintf("rules[%d]", i)
			t.problem(model.ReasonUnsupportedValue, &route, "", field, "route %q: requests for %s are answered with 500: %s", route.Name, field, refused)
		}
	}
	if len(listeners) == 0 {
		t.attachToAll(kind, &route)
	} else {
		t.attachToNamed(kind, &route, listeners)
	}
	t.routes = append(t.routes, route)
}

// anyHost are the hostnames of a route without any.
var anyHost = []string{""}

func (t *translator) attachToAll(kind kind, route *model.Route) {
	for i := range t.to.Listeners {
		if listener := &t.to.Listeners[i]; kind.fits(listener) && overlaps(route, listener) {
			route.Listeners = append(route.Listeners, listener.Name)
		}
	}
	if len(route.Listeners) == 0 {
		t.noListener(kind, route)
	}
}

// noListener notes that no listener takes a route.
func (t *translator) noListener(kind kind, route *model.Route) {
	var fitting []string
	for i := range t.to.Listeners {
		if listener := &t.to.Listeners[i]; kind.fits(listener) {
			fitting = append(fitting, listener.Name+": "+cmp.Or(listener.Hostname, "*"))
		}
	}
	if len(fitting) == 0 {
		t.problem(model.ReasonNoMatchingListenerHostname, route, "", "",
			"route %q gets no requests: no listener is of protocol %s: add one", route.Name, kind.wanted)
		return
	}
	t.problem(model.ReasonNoMatchingListenerHostname, route, "", "hostnames",
		"route %q gets no requests: no listener is for %s (%s): change its hostnames, or the hostname of a listener",
		route.Name, model.Some(route.Hostnames, model.MaxNamed), model.Some(fitting, model.MaxNamed))
}

func (t *translator) attachToNamed(kind kind, route *model.Route, names []appv1.Name) {
	for _, name := range converted[string](names) {
		problem := func(format string, args ...any) {
			t.problem(model.ReasonNoMatchingListenerHostname, route, name, "", format, append([]any{route.Name, name}, args...)...)
		}
		i := slices.IndexFunc(t.to.Listeners, func(l model.Listener) bool { return l.Name == name })
		switch {
		case i < 0:
			problem("route %q names listener %q, which does not exist")
		case !kind.fits(&t.to.Listeners[i]):
			problem("route %q gets no requests from listener %q, which is not of protocol %s", kind.wanted)
		case !overlaps(route, &t.to.Listeners[i]):
			problem("route %q gets no requests from listener %q: none of its hostnames is within the listener's hostname %q",
				t.to.Listeners[i].Hostname)
		default:
			route.Listeners = append(route.Listeners, name)
		}
	}
}

func overlaps(route *model.Route, listener *model.Listener) bool {
	return slices.ContainsFunc(route.Hostnames, func(hostname string) bool {
		return model.HostnamesOverlap(hostname, listener.Hostname)
	})
}

// redirectToHTTPS adds routes to the listeners that redirect everything: one for each hostname of an HTTPS listener,
// and one for all others. Equal ones are added once.
func (t *translator) redirectToHTTPS() {
	if len(t.redirects) == 0 {
		return
	}
	hostnames := []string{""}
	for _, listener := range t.to.Listeners {
		if listener.Protocol == model.ProtocolHTTPS && !slices.Contains(hostnames, listener.Hostname) {
			hostnames = append(hostnames, listener.Hostname)
		}
	}
	isDefault := func(hostname string) bool { return t.httpsPort(hostname) == t.httpsPort("") }
	if !slices.ContainsFunc(hostnames, func(hostname string) bool { return !isDefault(hostname) }) {
		hostnames = anyHost
	}
	for _, hostname := range hostnames {
		for _, from := range t.redirects {
			action := &model.Action{Redirect: &model.Redirect{Status: from.status, Scheme: "https", Port: t.httpsPort(hostname)}}
			t.routes = append(t.routes, model.Route{
				Origin: t.origin, Listeners: []string{from.listener}, Hostnames: []string{hostname},
				Rules: []model.Rule{{Matches: rules.AnyRequest, Action: action}},
			})
		}
	}
}

// httpsPort returns the port of the first HTTPS listener that takes a hostname, or of the first one if none does. It
// prefers the default port.
func (t *translator) httpsPort(hostname string) int32 {
	var taking, others int32
	for _, listener := range t.to.Listeners {
		port := &others
		if model.HostnameMatches(listener.Hostname, hostname) {
			port = &taking
		}
		if listener.Protocol == model.ProtocolHTTPS && (*port == 0 || listener.Port == 443) {
			*port = listener.Port
		}
	}
	return cmp.Or(taking, others)
}
