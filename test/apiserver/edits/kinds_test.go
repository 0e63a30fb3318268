package edits

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
	"gateway/internal/routing/routingtest"
)

// wish is what there is to be, but for what is always there.
type wish struct {
	listeners []appv1.Listener
	routes    []appv1.Route
	// extras are Services that have a route of their own.
	extras []string
	// more reports whether there is a listener on a port of its own. The others are settings that take a reload.
	more                   bool
	trusted, drain, checks bool
	connections            int32
	algorithm              appv1.LoadBalancingAlgorithm
	exists                 map[string]bool
	endpoints              map[string]string
}

func (w *wish) clone() wish {
	c := *w
	spec := appv1.GatewaySpec{Listeners: w.listeners, Routes: w.routes}
	spec = *spec.DeepCopy()
	c.listeners, c.routes, c.extras = spec.Listeners, spec.Routes, slices.Clone(w.extras)
	c.exists, c.endpoints = maps.Clone(w.exists), maps.Clone(w.endpoints)
	return c
}

func (s *site) secure() appv1.Listener {
	return appv1.Listener{Name: "https", Port: s.https, Protocol: appv1.ProtocolHTTPS, TLS: &appv1.ListenerTLS{CertificateRefs: []appv1.ObjectReference{{Name: secret}}}}
}

// spec is the whole spec that is wished for.
func (s *site) spec() appv1.GatewaySpec {
	w := s.wish.clone()
	spec := appv1.GatewaySpec{Listeners: w.listeners, Routes: w.routes}
	fixed := routingtest.Universe([2]int32{s.fixed, s.fixed})
	spec.Listeners = append(spec.Listeners, appv1.Listener{Name: "fixed", Port: s.fixed, Protocol: appv1.ProtocolHTTP})
	if w.more {
		spec.Listeners = append(spec.Listeners, appv1.Listener{Name: "more", Port: s.more, Protocol: appv1.ProtocolHTTP})
	}
	for i, service := range append(slices.Clone(routingtest.Services), w.extras...) {
		fixed.Routes = append(fixed.Routes, appv1.Route{
			Name: appv1.Name("to-" + service), Hostnames: []appv1.Hostname{appv1.Hostname(service + ".fixed.test")},
			Rules: []appv1.RouteRule{{BackendRefs: []appv1.BackendRef{{Name: service, Port: 80}}}},
		})
		if i%2 == 0 {
			spec.Backends = append(spec.Backends, appv1.Backend{Name: service, Port: 80, BackendSettings: appv1.BackendSettings{LoadBalancing: &appv1.LoadBalancing{Algorithm: w.algorithm}}})
		}
	}
	for i := range fixed.Routes {
		route := &fixed.Routes[i]
		route.Listeners = []appv1.Name{"fixed"}
		for j := range route.Rules {
			rule := &route.Rules[j]
			rule.Filters = tags(fmt.Sprintf("%s-%d", route.Name, j))
			for k := range rule.Matches {
				rule.Matches[k].Path.Value = "/"
			}
		}
	}
	spec.Routes = append(spec.Routes, fixed.Routes...)
	if w.trusted {
		spec.TrustedProxies = []appv1.CIDR{"192.0.2.0/24"}
	}
	spec.DrainTimeout = map[bool]appv1.Duration{false: "30s", true: "31s"}[w.drain]
	spec.ClientLimits.MaxConnections = ptr.To(5000 + w.connections)
	if w.checks {
		spec.Backends[0].HealthCheck = &appv1.HealthCheck{Interval: "1s", Timeout: "900ms"}
	}
	return spec
}

// tags are filters by which a request and its answer tell what they have met.
func tags(tag string) []appv1.RuleFilter {
	header := &appv1.HeaderFilter{Set: []appv1.Header{{Name: tagHeader, Value: tag}}}
	return []appv1.RuleFilter{
		{Type: appv1.RuleFilterRequestHeaderModifier, RequestHeaderModifier: header},
		{Type: appv1.RuleFilterResponseHeaderModifier, ResponseHeaderModifier: header.DeepCopy()},
	}
}

// tag gives each random rule that was not there before filters that tell it from all others, and other features.
func (s *site) tag(before []appv1.Route) {
	for i := range s.wish.routes {
		route := &s.wish.routes[i]
		if slices.ContainsFunc(before, func(b appv1.Route) bool { return reflect.DeepEqual(b, *route) }) {
			continue
		}
		for j := range route.Hostnames {
			route.Hostnames[j] = appv1.Hostname(strings.ReplaceAll(string(route.Hostnames[j]), "_", "-"))
		}
		slices.Sort(route.Hostnames)
		route.Hostnames = slices.Compact(route.Hostnames)
		for j := range route.Rules {
			s.feature(&route.Rules[j])
		}
	}
	for i := range s.wish.listeners {
		listener := &s.wish.listeners[i]
		listener.Hostname = appv1.Hostname(strings.ReplaceAll(string(listener.Hostname), "_", "-"))
		if listener.Name == "https" {
			listener.Hostname = ""
		}
	}
}

// feature gives a rule filters and limits.
func (s *site) feature(rule *appv1.RouteRule) {
	s.versions++
	tag := fmt.Sprintf("v%d", s.versions)
	rule.Timeouts, rule.MaxRequestBytes = nil, nil
	if len(rule.BackendRefs) == 0 && s.g.IntN(2) == 0 || s.g.IntN(10) == 0 {
		rule.BackendRefs, rule.SessionPersistence = nil, nil
		rule.Filters = []appv1.RuleFilter{{Type: appv1.RuleFilterRequestRedirect, RequestRedirect: &appv1.RequestRedirect{
			Hostname: appv1.PreciseHostname(tag + ".test"), StatusCode: ptr.To[int32](302),
		}}}
		return
	}
	rule.Filters = tags(tag)
	switch s.g.IntN(6) {
	case 0:
		rule.Filters = append(rule.Filters, appv1.RuleFilter{Type: appv1.RuleFilterURLRewrite, URLRewrite: &appv1.URLRewrite{Hostname: "rewritten"}})
	case 1:
		rule.Filters = append(rule.Filters, appv1.RuleFilter{Type: appv1.RuleFilterCORS, CORS: &appv1.CORS{AllowOrigins: []appv1.CORSOrigin{appv1.CORSOrigin("https://" + tag + ".test")}}})
	case 2:
		rule.Timeouts = &appv1.RouteTimeouts{Request: "50s"}
	case 3:
		rule.MaxRequestBytes = ptr.To(int64(s.versions))
	}
}

// kind is a kind of edits. weight is how often it is chosen, reloads reports whether it takes a reload.
type kind struct {
	name    string
	weight  int
	reloads bool
	edit    func()
}

func (s *site) kinds() []kind {
	return []kind{
		{"a route, rule, backend, weight or hostname", 16, false, s.editRoutes},
		{"filters", 4, false, func() { s.editRule(s.feature) }},
		{"several at once", 2, false, s.burst},
		{"an endpoint", 6, false, s.toggleEndpoint},
		{"an endpoint moves", 2, false, s.moveEndpoint},
		{"a Service", 1, false, s.toggleService},
		{"a Service that was not in use", 2, false, s.toggleExtra},
		{"a certificate", 1, false, s.renew},
		{"an algorithm", 1, true, func() {
			s.wish.algorithm = []appv1.LoadBalancingAlgorithm{"RoundRobin", "LeastConnections", "Random"}[s.g.IntN(3)]
			s.write()
		}},
		{"a listener port", 1, true, func() { s.wish.more = !s.wish.more; s.write() }},
		{"a limit of bodies for all rules of a listener", 1, true, func() {
			s.wish.listeners[s.g.IntN(len(s.wish.listeners))].MaxRequestBytes = []*int64{nil, ptr.To[int64](0), ptr.To[int64](100)}[s.g.IntN(3)]
			s.write()
		}},
		{"trusted proxies", 1, true, func() { s.wish.trusted = !s.wish.trusted; s.write() }},
		{"drainTimeout", 1, true, func() { s.wish.drain = !s.wish.drain; s.write() }},
		{"client limits", 1, true, func() { s.wish.connections = s.g.Int32N(10); s.write() }},
		{"health checks", 1, true, func() { s.wish.checks = !s.wish.checks; s.write() }},
		{"a fixed answer", 1, true, func() {
			s.editRule(func(rule *appv1.RouteRule) {
				s.versions++
				*rule = appv1.RouteRule{Matches: rule.Matches, Filters: []appv1.RuleFilter{{
					Type: appv1.RuleFilterDirectResponse, DirectResponse: &appv1.DirectResponse{StatusCode: ptr.To[int32](418), Body: fmt.Sprint("v", s.versions)},
				}}}
			})
		}},
		{"a header that no rule named before", 1, true, func() {
			s.editRule(func(rule *appv1.RouteRule) {
				s.versions++
				rule.Matches = append(rule.Matches, appv1.RouteMatch{
					Path: appv1.PathMatch{Value: "/"}, Headers: []appv1.HeaderMatch{{Name: appv1.HeaderName(fmt.Sprint("x-", s.versions)), Value: "a"}},
				})
			})
		}},
		{"retries", 1, true, func() {
			s.editRule(func(rule *appv1.RouteRule) { rule.Retry = &appv1.RouteRetry{Attempts: ptr.To(s.g.Int32N(4))} })
		}},
	}
}

// edit makes an edit of a random kind, waits until it is live, and returns the name of the kind.
func (s *site) edit(all bool) string {
	s.t.Helper()
	var choice []kind
	for _, k := range s.kinds() {
		if all || !k.reloads {
			choice = append(choice, slices.Repeat([]kind{k}, k.weight)...)
		}
	}
	chosen := choice[s.g.IntN(len(choice))]
	if s.t.Failed() {
		s.t.FailNow()
	}
	chosen.edit()
	return chosen.name
}

// editRoutes makes an edit of routingtest.
func (s *site) editRoutes() { s.write(s.changeRoutes()) }

func (s *site) changeRoutes() wish {
	before := s.wish.clone()
	spec := s.g.Edit(appv1.GatewaySpec{Listeners: s.wish.listeners, Routes: s.wish.routes})
	if len(spec.Routes) > 30 {
		spec.Routes = spec.Routes[:20]
	}
	s.wish.listeners, s.wish.routes = spec.Listeners, spec.Routes
	s.tag(before.routes)
	return before
}

// editRule changes a random rule.
func (s *site) editRule(change func(*appv1.RouteRule)) {
	before := s.wish.clone()
	route := &s.wish.routes[s.g.IntN(len(s.wish.routes))]
	change(&route.Rules[s.g.IntN(len(route.Rules))])
	s.write(before)
}

// burst makes some edits of routes and waits for the last one only.
func (s *site) burst() {
	for range 3 {
		s.put(s.changeRoutes())
	}
	s.write()
}

// write puts what is wished for into the Gateway and waits until it is live.
func (s *site) write(before ...wish) {
	s.t.Helper()
	wanted := s.put(before...)
	s.await(fmt.Sprint("generation ", wanted, " is live"), func(got map[string]float64) bool { return got[generation] == float64(wanted) })
	s.live.Store(s.last)
}

// put writes the Gateway. What the API server refuses is not wished for any more.
func (s *site) put(before ...wish) int64 {
	s.t.Helper()
	was, next := s.last, s.newState()
	s.expectFuture(next)
	encoded := must.Get(json.Marshal(map[string]any{"spec": map[string]any{
		"listeners": next.spec.Listeners, "routes": next.spec.Routes, "backends": next.spec.Backends, "trustedProxies": next.spec.TrustedProxies,
		"drainTimeout": next.spec.DrainTimeout, "clientLimits": next.spec.ClientLimits,
	}}))(s.t)
	client := server.App.AppV1().Gateways(namespace)
	gateway, err := client.Patch(s.t.Context(), name, types.MergePatchType, encoded, metav1.PatchOptions{})
	if apierrors.IsInvalid(err) && len(before) > 0 {
		s.refused++
		s.wish, s.last = before[0], was
		was.next.Store(nil)
		gateway, err = client.Get(s.t.Context(), name, metav1.GetOptions{})
	}
	must.Do(s.t, err)
	return gateway.Generation
}

// expectFuture lets requests be answered by a state that is about to be written, too.
func (s *site) expectFuture(next *state) {
	s.last.next.Store(next)
	s.last = next
}

// change makes a change of Services or endpoints and waits until HAProxy has taken it.
func (s *site) change(make func()) {
	s.t.Helper()
	metrics := must.Get(s.metrics())(s.t)
	before := total(metrics)
	s.expectFuture(s.newState())
	make()
	s.await("HAProxy takes a change of endpoints", func(got map[string]float64) bool { return total(got) > before })
	s.live.Store(s.last)
}

// total returns how many changes HAProxy took.
func total(metrics map[string]float64) float64 {
	sum := 0.0
	for _, value := range loads(metrics) {
		sum += value
	}
	return sum
}

func (s *site) toggleEndpoint() {
	service := s.anyService(func(service string) bool { return s.wish.exists[service] })
	if service == "" {
		return
	}
	s.setEndpoint(service, s.g.IntN(perService), nil)
}

// setEndpoint toggles an endpoint of a Service, or gives it another server.
func (s *site) setEndpoint(service string, i int, to *string) {
	name := slot(service, i)
	switch _, there := s.wish.endpoints[name]; {
	case to != nil:
		s.wish.endpoints[name] = *to
		s.change(func() { s.updateSlice(service, i, *to) })
	case there:
		delete(s.wish.endpoints, name)
		s.change(func() { s.deleteSlice(service, i) })
	default:
		s.wish.endpoints[name] = name
		s.change(func() { s.createSlice(service, i, name) })
	}
}

// moveEndpoint gives an endpoint another server.
func (s *site) moveEndpoint() {
	service := s.anyService(func(service string) bool { return s.wish.exists[service] && s.wish.endpoints[slot(service, 0)] != "" })
	if service == "" {
		return
	}
	to := "moved-" + service
	if s.wish.endpoints[slot(service, 0)] == to {
		to = slot(service, 0)
	}
	s.setEndpoint(service, 0, &to)
}

// anyService returns one of those with servers for which something holds, "" if there is none.
func (s *site) anyService(holds func(string) bool) string {
	services := []string{"one", "two", "three", "four"}
	s.g.Shuffle(len(services), func(i, j int) { services[i], services[j] = services[j], services[i] })
	for _, service := range services {
		if holds(service) {
			return service
		}
	}
	return ""
}

// toggleService deletes a Service or creates it again.
func (s *site) toggleService() {
	service := s.anyService(func(string) bool { return true })
	s.wish.exists[service] = !s.wish.exists[service]
	s.change(func() {
		if s.wish.exists[service] {
			s.createService(service)
		} else {
			s.deleteService(service)
		}
	})
}

// toggleExtra adds a route to a new Service, then that Service with an endpoint, or removes the oldest of several.
func (s *site) toggleExtra() {
	if len(s.wish.extras) < 3 {
		s.extras++
		service := fmt.Sprint("extra", s.extras)
		s.wish.extras = append(s.wish.extras, service)
		s.write()
		s.wish.exists[service] = true
		s.change(func() { s.createService(service) })
		s.wish.endpoints[slot(service, 0)] = "extra"
		s.change(func() { s.createSlice(service, 0, "extra") })
		return
	}
	s.removeExtra()
}

// removeExtra removes the oldest extra Service, then its route.
func (s *site) removeExtra() {
	service := s.wish.extras[0]
	delete(s.wish.endpoints, slot(service, 0))
	s.change(func() { s.deleteSlice(service, 0) })
	delete(s.wish.exists, service)
	s.change(func() { s.deleteService(service) })
	s.wish.extras = s.wish.extras[1:]
	s.write()
}

// reset makes everything as it was at the beginning.
func (s *site) reset() {
	s.t.Helper()
	for len(s.wish.extras) > 0 {
		s.removeExtra()
	}
	for _, service := range []string{"one", "two", "three", "four"} {
		if !s.wish.exists[service] {
			s.wish.exists[service] = true
			s.change(func() { s.createService(service) })
		}
		for i := range perService {
			name := slot(service, i)
			if now := s.wish.endpoints[name]; now == "" {
				s.setEndpoint(service, i, nil)
			} else if now != name {
				s.setEndpoint(service, i, &name)
			}
		}
	}
	s.wish = s.base.clone()
	s.write()
}
