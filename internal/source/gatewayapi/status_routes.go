package gatewayapi

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// routeStatus returns the status of a route at each parent of ours.
func (t *translator) routeStatus(r *route) []gatewayv1.RouteParentStatus {
	var dropped, shadow []string
	for i := range r.rules {
		if names := r.rules[i].Shadow; len(names) > 0 {
			shadow = append(shadow, fmt.Sprintf("rules[%d]: %s", i, strings.Join(names, ", ")))
		}
		if refused := r.rules[i].Refused; refused != "" {
			dropped = append(dropped, fmt.Sprintf("rules[%d]: %s", i, refused))
		}
	}
	unreachable := map[*plane][]string{}
	for _, a := range r.attachments {
		for _, problem := range t.compiling(a.parent.plane.parent, r.id) {
			switch rules := unreachable[a.parent.plane]; {
			case problem.Reason == model.ReasonUnreachableRules && !slices.Contains(rules, problem.Message):
				unreachable[a.parent.plane] = append(rules, problem.Message)
			case problem.Reason != model.ReasonUnreachableRules && !slices.Contains(dropped, problem.Message):
				dropped = append(dropped, problem.Message)
			}
		}
	}
	generation := r.GetGeneration()
	var parents []gatewayv1.RouteParentStatus
	for _, a := range r.attachments {
		accepted := a.accepted
		if r.isUnsupported() {
			accepted.no(gatewayv1.RouteReasonUnsupportedValue, "requests are answered with 500: %s", strings.Join(dropped, "; "))
		}
		resolved := a.resolved
		if a.accepted.reason() == "" {
			t.unreadable(a.parent.plane, r, &resolved)
		}
		conditions := []metav1.Condition{
			condition(gatewayv1.RouteConditionAccepted, generation, accepted),
			condition(gatewayv1.RouteConditionResolvedRefs, generation, resolved),
		}
		if len(dropped) > 0 && accepted.reason() == "" {
			conditions = append(conditions, metav1.Condition{
				Type: string(gatewayv1.RouteConditionPartiallyInvalid), Status: metav1.ConditionTrue,
				Reason: string(gatewayv1.RouteReasonUnsupportedValue), ObservedGeneration: generation,
				Message: "Dropped Rule, whose requests are answered with an error: " + strings.Join(dropped, "; "),
			})
		}
		if len(shadow) > 0 {
			conditions = append(conditions, inShadow(generation, strings.Join(shadow, "; ")))
		}
		if rules := unreachable[a.parent.plane]; len(rules) > 0 {
			c := condition(appv1.ConditionUnreachableRules, generation, verdict{})
			c.Message = unreachableText(rules)
			conditions = append(conditions, c)
		}
		if a.accepted.reason() == "" {
			pending := t.pending(a.parent.plane, t.needsAt(a, r))
			conditions = append(conditions, condition(gatewayv1.GatewayConditionProgrammed, generation, pending))
		}
		parents = append(parents, gatewayv1.RouteParentStatus{ParentRef: a.ref, ControllerName: ControllerName, Conditions: conditions})
	}
	return parents
}

// maxUnreachable is how many rules a message names.
const maxUnreachable = 8

func unreachableText(rules []string) string {
	if more := len(rules) - maxUnreachable; more > 0 {
		return fmt.Sprintf("%s; and %d more", strings.Join(rules[:maxUnreachable], "; "), more)
	}
	return strings.Join(rules, "; ")
}

// conditionsAt returns the conditions that a route has at a parent.
func (r *route) conditionsAt(ref gatewayv1.ParentReference) []metav1.Condition {
	for _, parent := range r.parents() {
		if parent.ControllerName == ControllerName && equality.Semantic.DeepEqual(parent.ParentRef, ref) {
			return parent.Conditions
		}
	}
	return nil
}

// isUnsupported reports whether no rule of a route can be carried out.
func (r *route) isUnsupported() bool {
	return len(r.rules) > 0 && !slices.ContainsFunc(r.rules, func(rule model.Rule) bool { return rule.Refused == "" })
}

// tlsPolicyStatus returns the status of a BackendTLSPolicy, for each Gateway that sends traffic to a port of its
// Services.
func (t *translator) tlsPolicyStatus(policy *gatewayv1.BackendTLSPolicy, uses []use) []gatewayv1.PolicyAncestorStatus {
	var all []gatewayv1.PolicyAncestorStatus
	for _, use := range uses {
		accepted, resolved := t.policyProblems(policy, func(namespace, name string) verdict {
			return t.contentProblem(use.plane, gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef, namespace, name)
		})
		all = append(all, ancestorAt(use.plane.parent,
			condition(gatewayv1.PolicyConditionAccepted, policy.Generation, use.accepted(accepted)),
			condition(gatewayv1.BackendTLSPolicyConditionResolvedRefs, policy.Generation, resolved),
		))
	}
	return all
}

// ancestorAt returns the status of a policy of the Gateway API at a Gateway.
func ancestorAt(parent Parent, conditions ...metav1.Condition) gatewayv1.PolicyAncestorStatus {
	group, kind, namespace := gatewayv1.Group(parent.Group), gatewayv1.Kind(parent.Kind), gatewayv1.Namespace(parent.Namespace)
	return gatewayv1.PolicyAncestorStatus{
		AncestorRef:    gatewayv1.ParentReference{Group: &group, Kind: &kind, Namespace: &namespace, Name: gatewayv1.ObjectName(parent.Name)},
		ControllerName: ControllerName, Conditions: conditions,
	}
}

// accepted returns why a policy is not in effect at a data plane. otherwise is its problem anywhere.
func (u use) accepted(otherwise verdict) verdict {
	if u.conflict != "" {
		return newVerdict(string(gatewayv1.PolicyReasonConflicted), u.conflict)
	}
	return otherwise
}

// backendPolicyStatus returns the status of a BackendPolicy, for each Gateway that sends traffic to a port of its
// Services.
func (t *translator) backendPolicyStatus(policy *appv1.BackendPolicy, uses []use) []appv1.BackendPolicyAncestor {
	var all []appv1.BackendPolicyAncestor
	for _, use := range uses {
		parent := use.plane.parent
		ancestor := appv1.BackendPolicyAncestor{
			AncestorRef:    appv1.PolicyAncestorReference{Group: parent.Group, Kind: parent.Kind, Namespace: parent.Namespace, Name: parent.Name},
			ControllerName: string(ControllerName),
		}
		accepted := use.accepted(verdict{})
		programmed := accepted
		if accepted.reason() == "" {
			programmed = t.pending(use.plane, needs(kindBackendPolicy, policy, conditionsAt(policy, ancestor.AncestorRef)))
		}
		ancestor.Conditions = []metav1.Condition{
			condition(gatewayv1.PolicyConditionAccepted, policy.Generation, accepted),
			condition(gatewayv1.GatewayConditionProgrammed, policy.Generation, programmed),
		}
		all = append(all, ancestor)
	}
	return all
}

// conditionsAt returns the conditions that the status of a policy has for a Gateway.
func conditionsAt(policy *appv1.BackendPolicy, at appv1.PolicyAncestorReference) []metav1.Condition {
	for _, ancestor := range policy.Status.Ancestors {
		if ancestor.ControllerName == string(ControllerName) && ancestor.AncestorRef == at {
			return ancestor.Conditions
		}
	}
	return nil
}
