package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	source "gateway/internal/source/appv1"
)

// mounted is what pods mount for a filter: a Secret with users or keys, or ConfigMaps with keys, CA certificates or
// rules.
type mounted struct {
	filter, kind string
	names        []string
	// of is what problems are told by.
	of string
}

// mountedFor returns what pods mount for an action.
func mountedFor(action *model.Action) []mounted {
	var all []mounted
	if basic := action.BasicAuth; basic != nil {
		all = append(all, mounted{"BasicAuth", "Secret", []string{basic.Secret}, basic.Secret})
	}
	if key := action.APIKey; key != nil {
		all = append(all, mounted{"APIKey", "Secret", []string{key.Secret}, key.Secret})
	}
	if oidc := action.OIDC; oidc != nil {
		all = append(all, mounted{"OIDC", "Secret", []string{oidc.Login.Secret}, oidc.Login.Secret})
		if len(oidc.Login.Authorities) > 0 {
			all = append(all, mounted{"OIDC", "ConfigMap", oidc.Login.Authorities, oidc.Login.Authorities[0]})
		}
	}
	if jwt := action.JWT; jwt != nil {
		for i := range jwt.Issuers {
			switch from := jwt.Issuers[i].KeysFrom; {
			case from.URL != "":
				all = append(all, mounted{"JWT", "ConfigMap", strings.Split(from.Authorities, ","), from.URL})
			case from.ConfigMap != "":
				all = append(all, mounted{"JWT", "ConfigMap", []string{from.ConfigMap}, from.ConfigMap})
			}
		}
	}
	if action.WAF != nil && action.WAF.Settings.Rules != "" {
		name := action.WAF.Settings.Rules
		all = append(all, mounted{"WAF", "ConfigMap", []string{name}, name})
	}
	return all
}

// claims are the kinds of claims for what is mounted.
func (m mounted) claims() []string {
	switch {
	case m.kind == "ConfigMap":
		return []string{claimConfigMap}
	case m.filter == "OIDC":
		return []string{claimUsers, claimLogins}
	}
	return []string{claimUsers}
}

// mountedProblem says what the pods of a data plane report of what they mount.
func (t *translator) mountedProblem(m mounted, p *plane) verdict {
	reason := appv1.ProblemInvalidKeysRef
	switch {
	case m.kind == "Secret":
		reason = appv1.ProblemInvalidUsersRef
	case m.filter == "WAF":
		reason = appv1.ProblemInvalidRulesRef
	}
	return t.reported(p, Subject{Reason: reason, Namespace: p.parent.Namespace, Name: m.of}, reason)
}

// rulesAt returns the rules of a route for a data plane, and what is wrong with the references of the route there. Its
// pods mount the Secrets with users or API keys, and the ConfigMaps with keys. They can mount those of their own
// namespace only: requests of a rule that needs another one are answered with 500.
func (t *translator) rulesAt(p *member, r *route) (rules []model.Rule, resolved verdict) {
	rules, resolved = r.rules, r.resolved
	for i := range r.rules {
		firewall := r.rules[i].WAF
		if firewall != nil {
			p.claim(claim{kind: claimWAF})
		}
		for _, m := range mountedFor(&r.rules[i].Action) {
			if r.GetNamespace() != p.parent.Namespace {
				resolved.also(gatewayv1.RouteReasonRefNotPermitted,
					"rules[%d]: %s needs a Gateway in the namespace of its %s, %s: the pods of Gateway %s/%s cannot mount %[3]s %[7]s",
					i, m.filter, m.kind, r.GetNamespace(), p.parent.Namespace, p.parent.Name, m.names[0])
				rules = slices.Clone(rules)
				rules[i].Action, rules[i].Backends = model.Action{}, nil
				break
			}
			for _, name := range m.names {
				for _, kind := range m.claims() {
					p.claim(claim{kind: kind, name: name})
				}
			}
			resolved.alsoReported(t.mountedProblem(m, p.plane), fmt.Sprintf("rules[%d]", i))
		}
		if firewall != nil {
			for _, problem := range firewall.Settings.Problems() {
				resolved.also(appv1.ProblemInvalidRulesRef, "rules[%d]: %s", i, problem)
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
	if t.FiltersUnknown {
		p.to.Listeners = slices.DeleteFunc(p.to.Listeners, func(l model.Listener) bool { return isForRequests(l.Protocol) })
	}
	var problem verdict // the filters of all listeners are the same
	var all []mounted
	for i := range p.to.Listeners {
		l := &p.to.Listeners[i]
		if !isForRequests(l.Protocol) {
			continue
		}
		if l.Filters = source.ListenerFilters(l.Name, p.parent.Namespace, p.filters); l.Filters == nil {
			return
		}
		all, problem = mountedFor(l.Filters), verdict{}
		if invalid := l.Filters.Invalid(); invalid != "" {
			problem.no(model.ReasonUnsupportedValue, "%s", invalid)
		}
		if l.Filters.WAF != nil {
			for _, wrong := range l.Filters.WAF.Settings.Problems() {
				problem.also(appv1.ProblemInvalidRulesRef, "%s", wrong)
			}
		}
		if auth := l.Filters.ExternalAuth; auth != nil {
			p.use(auth.Backend, false, 1)
			p.fix(Object{kindService, auth.Backend.Namespace, auth.Backend.Service})
			t.checkPort(&problem, "HTTPRoute", auth.Backend)
		}
	}
	for _, m := range all {
		p.resolved.alsoReported(t.mountedProblem(m, p), kindConfig+": filters")
	}
	p.resolved.alsoReported(problem, kindConfig+": filters")
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
