package gatewayapi

import (
	"cmp"

	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/model"
)

// addProblems notes in each data plane the parts of objects that have no effect there.
func (t *translator) addProblems() {
	for _, plane := range t.planes {
		for _, wrong := range []verdict{plane.refused, plane.resolved} {
			plane.problem(wrong, model.Problem{Origin: plane.to.Origins[0]}, "Gateway "+plane.parent.Namespace+"/"+plane.parent.Name)
		}
		for _, l := range plane.listeners {
			for _, wrong := range []verdict{l.conflict, l.accepted, l.resolved} {
				plane.problem(wrong, model.Problem{Origin: l.owner, Listener: l.name}, "listener "+l.name)
			}
		}
		for _, set := range plane.sets {
			if !set.allowed {
				wrong := verdict{reason: "NotAllowed", message: "the Gateway's allowedListeners do not include it"}
				plane.problem(wrong, model.Problem{Origin: origin(kindListenerSet, set.set)}, "ListenerSet "+set.Namespace+"/"+set.Name)
			}
		}
	}
	for _, policy := range t.BackendPolicies {
		name := types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name}
		for _, use := range t.settings.uses[name] {
			about := model.Problem{Origin: origin(kindBackendPolicy, policy)}
			use.plane.problem(use.accepted(verdict{}), about, kindBackendPolicy+" "+name.String())
		}
	}
	for _, r := range t.routes {
		seen := map[*plane]bool{}
		for _, a := range r.attachments {
			about, what := model.Problem{Origin: origin(r.kind, r), RouteKind: r.kind, Route: r.name}, r.kind+" "+r.name
			a.parent.plane.problem(a.accepted, about, what)
			if seen[a.parent.plane] || a.accepted.reason != "" {
				continue
			}
			seen[a.parent.plane] = true
			a.parent.plane.problem(a.resolved, about, what)
			for i := range r.rules {
				if refused := r.rules[i].Refused; refused != "" {
					var wrong verdict
					wrong.no(model.ReasonUnsupportedValue, "requests for rules[%d] are answered with 500: %s", i, refused)
					a.parent.plane.problem(wrong, about, what)
				}
			}
		}
	}
}

func (p *plane) problem(wrong verdict, about model.Problem, what string) {
	if wrong.reason != "" {
		about.Reason, about.Message = model.Reason(wrong.reason), what+": "+cmp.Or(wrong.text(), wrong.reason)
		p.to.Problems = append(p.to.Problems, about)
	}
}
