package gatewayapi

import (
	"fmt"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	source "gateway/internal/source/appv1"
)

// claimsOf are the kinds of claims for what is mounted.
func claimsOf(m *model.Mount) []string {
	switch {
	case m.Secret == "":
		return []string{claimConfigMap}
	case m.Filter == "OIDC":
		return []string{claimUsers, claimLogins}
	}
	return []string{claimUsers}
}

// mountedProblem says what the pods of a data plane report of what they mount.
func (t *translator) mountedProblem(m *model.Mount, p *plane) verdict {
	reason := appv1.ProblemInvalidKeysRef
	switch {
	case m.Secret != "":
		reason = appv1.ProblemInvalidUsersRef
	case m.Filter == "WAF":
		reason = appv1.ProblemInvalidRulesRef
	}
	return t.reported(p, Subject{Reason: reason, Namespace: p.parent.Namespace, Name: m.Of}, reason)
}

// rulesAt returns the rules of a route for a data plane, and the problems of the route's references there. Its pods
// mount the Secrets with users or API keys, and the ConfigMaps with keys, of their own namespace only. Requests of a
// rule that needs another one are answered with 500.
func (t *translator) rulesAt(p *member, r *route) (rules []model.Rule, resolved verdict) {
	rules, resolved = r.rules, r.resolved
	for i := range r.rules {
		firewall, field := r.rules[i].WAF, fmt.Sprintf("rules[%d]", i)
		if firewall != nil {
			p.claim(claim{kind: claimWAF, namespace: r.GetNamespace()})
		}
		for _, m := range r.rules[i].Mounts() {
			if r.GetNamespace() != p.parent.Namespace {
				resolved.alsoIn(field, gatewayv1.RouteReasonRefNotPermitted,
					"%s needs a Gateway in the namespace of its %s, %s: the pods of Gateway %s/%s cannot mount %[2]s %[6]s",
					m.Filter, m.Kind(), r.GetNamespace(), p.parent.Namespace, p.parent.Name, m.Names()[0])
				rules = slices.Clone(rules)
				rules[i].Action, rules[i].Backends = &model.Action{}, nil
				break
			}
			for _, name := range m.Names() {
				for _, kind := range claimsOf(&m) {
					p.claim(claim{kind, r.GetNamespace(), name})
				}
			}
			resolved.alsoReported(t.mountedProblem(&m, p.plane), field)
		}
		if firewall != nil {
			for _, problem := range firewall.Settings.Problems() {
				resolved.alsoIn(field, appv1.ProblemInvalidRulesRef, "%s", problem)
			}
		}
	}
	return rules, resolved
}

// addListenerFilters adds filters to the listeners of a data plane, and notes what they name that cannot be used. Pods
// mount what our own Gateway names.
func (t *translator) addListenerFilters(p *plane) {
	if p.gateway == nil {
		return
	}
	defer p.list()
	var problem verdict // the filters of all listeners are the same
	var all []model.Mount
	for _, of := range p.listeners {
		l := of.made
		if l == nil || !isForRequests(l.Protocol) {
			continue
		}
		if t.FiltersUnknown {
			of.made = nil
			continue
		}
		filters := p.addFilters(of)
		if of.preRouting != nil {
			p.ask(of.preRouting.Backend)
		}
		if filters == nil {
			continue
		}
		all, problem = filters.Mounts(), verdict{}
		if invalid := filters.Invalid(); invalid != "" {
			problem.no(model.ReasonUnsupportedValue, "%s", invalid)
		}
		if filters.WAF != nil {
			for _, wrong := range filters.WAF.Settings.Problems() {
				problem.also(appv1.ProblemInvalidRulesRef, "%s", wrong)
			}
		}
		if auth := filters.ExternalAuth; auth != nil {
			p.ask(auth.Backend)
			p.fix(Object{kindService, auth.Backend.Namespace, auth.Backend.Service})
			t.checkPort(&problem, "HTTPRoute", auth.Backend)
		}
	}
	for _, m := range all {
		p.resolved.alsoReported(t.mountedProblem(&m, p), kindConfig+": filters")
	}
	p.resolved.alsoReported(problem, kindConfig+": filters")
}

// addFilters adds filters to a listener that is served, if it takes requests. It returns what all listeners have.
func (p *plane) addFilters(l *listener) *model.Action {
	if !isForRequests(l.made.Protocol) {
		return nil
	}
	filters := source.ListenerFilters(l.name, p.parent.Namespace, p.filters)
	l.made.Filters = filters
	l.addPreRouting()
	return filters
}

// ask notes that a Service port is asked about requests of any route.
func (p *plane) ask(backend model.Backend) {
	p.use(backend, false, 1)
	p.asked = append(p.asked, backend)
}

// fix notes that a data plane depends on an object without routes.
func (p *plane) fix(object Object) {
	if p.fixed == nil {
		p.fixed = map[Object]bool{}
	}
	p.fixed[object] = true
}

// isForRequests reports whether listeners of a protocol take requests.
func isForRequests(protocol string) bool {
	return protocol == model.ProtocolHTTP || protocol == model.ProtocolHTTPS
}
