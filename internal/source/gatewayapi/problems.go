package gatewayapi

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/proxypod"
)

// noteOwnProblems notes the parts of the Gateway and its listeners that have no effect.
func (p *plane) noteOwnProblems() {
	add := func(wrong verdict, about model.Problem, what string) {
		if wrong.reason() != "" {
			p.ownProblems = append(p.ownProblems, newProblem(wrong, about, what))
		}
	}
	for _, wrong := range []verdict{p.refused, p.resolved} {
		add(wrong, model.Problem{Origin: p.to.Origins[0]}, "Gateway "+p.parent.Namespace+"/"+p.parent.Name)
	}
	for _, l := range p.listeners {
		for _, wrong := range []*verdict{&l.conflict, &l.accepted, &l.resolved} {
			if wrong.reason() != "" { // of thousands, few have a text
				add(*wrong, model.Problem{Origin: l.owner, Listener: l.name}, "listener "+l.title())
			}
		}
	}
	for _, one := range p.telemetry {
		about := model.Problem{Origin: origin(kindTelemetry, one.policy)}
		for _, wrong := range []verdict{one.accepted, one.resolved} {
			add(wrong, about, kindTelemetry+" "+one.policy.Namespace+"/"+one.policy.Name)
		}
	}
	for _, set := range p.sets {
		if !set.allowed {
			wrong := newVerdict("NotAllowed", "the Gateway's allowedListeners do not include it")
			add(wrong, model.Problem{Origin: origin(kindListenerSet, set.set)}, "ListenerSet "+set.Namespace+"/"+set.Name)
		}
	}
	if p.gateway == nil {
		p.ownProblems = append(p.to.Problems, p.ownProblems...)
	}
}

// noteProblems notes in its data planes the parts of a route that have no effect there.
func (t *translator) noteProblems(r *route) {
	seen := map[*plane]bool{}
	for _, a := range r.attachments {
		p, about, what := a.parent.plane, model.Problem{Origin: origin(r.kind, r), RouteKind: r.kind, Route: r.name}, r.kind+" "+r.name
		add := func(wrong verdict) {
			if wrong.reason() == "" {
				return
			}
			if p.problems == nil {
				p.problems = map[string][]model.Problem{}
			}
			p.problems[r.key] = append(p.problems[r.key], newProblem(wrong, about, what))
		}
		add(a.accepted)
		if seen[p] || a.accepted.reason() != "" {
			continue
		}
		seen[p] = true
		add(a.resolved)
		for i := range r.rules {
			if refused := r.rules[i].Refused; refused != "" {
				var wrong verdict
				wrong.no(model.ReasonUnsupportedValue, "requests for rules[%d] are answered with 500: %s", i, refused)
				wrong.of.field = fmt.Sprintf("rules[%d]", i)
				add(wrong)
			}
		}
	}
}

// Reported returns what the statuses of routes at a Gateway say of references beside what the translation finds: the
// operator knows what the proxies report.
func (r *Result) Reported(own *appv1.Gateway) []model.Problem {
	at := OwnParent(own.Namespace, own.Name)
	if parent := proxypod.Parent(own); parent != "" {
		at = GatewayParent(own.Namespace, parent)
	}
	var all []model.Problem
	for _, route := range slices.SortedFunc(maps.Values(r.t.routes), (*route).compare) {
		seen := map[string]bool{}
		for _, a := range route.attachments {
			c := meta.FindStatusCondition(route.conditionsAt(a.ref), string(gatewayv1.RouteConditionResolvedRefs))
			if a.parent.plane.parent != at || c == nil || c.Status != metav1.ConditionFalse || c.ObservedGeneration != route.GetGeneration() {
				continue
			}
			message := c.Message // it begins with what is found here, too
			if found := a.resolved.text(); found != "" {
				message = strings.TrimPrefix(strings.TrimPrefix(message, found), "; ")
			}
			if message != "" && !seen[message] {
				seen[message] = true
				about := model.Problem{Origin: origin(route.kind, route), RouteKind: route.kind, Route: route.name}
				all = append(all, newProblem(newVerdict(c.Reason, message), about, route.kind+" "+route.name))
			}
		}
	}
	return all
}

// updateProblems lists all problems of the data planes.
func (t *translator) updateProblems() {
	if t.otherUses {
		t.updatePolicyProblems()
	}
	for _, p := range t.planes {
		p.to.Problems = slices.Concat(p.ownProblems, p.policyProblems)
		for _, key := range slices.Sorted(maps.Keys(p.problems)) {
			p.to.Problems = append(p.to.Problems, p.problems[key]...)
		}
	}
}

// updatePolicyProblems lists the policies that have no effect, as others come first. Why a BackendTLSPolicy is wrong is
// said of its Services, whose requests are refused.
func (t *translator) updatePolicyProblems() {
	t.otherUses = false
	for _, p := range t.planes {
		p.policyProblems = nil
	}
	note := func(policy metav1.Object) {
		id := policyID(policy)
		for _, use := range t.usesOf(id) {
			if wrong := use.accepted(verdict{}); wrong.reason() != "" {
				problem := newProblem(wrong, model.Problem{Origin: origin(id.Kind, policy)}, id.Kind+" "+id.Namespace+"/"+id.Name)
				use.plane.policyProblems = append(use.plane.policyProblems, problem)
			}
		}
	}
	for _, policy := range t.BackendPolicies {
		note(policy)
	}
	for _, policy := range t.Policies {
		note(policy)
	}
}

func newProblem(wrong verdict, about model.Problem, what string) model.Problem {
	about.Reason, about.Field, about.Message = model.Reason(wrong.reason()), wrong.field(), what+": "+cmp.Or(wrong.text(), wrong.reason())
	return about
}
