package gatewayapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

// routeStatus returns what is said of a route, which has these problems, at each parent of ours.
func (t *translator) routeStatus(r *route, problems []model.Problem) []gatewayv1.RouteParentStatus {
	var dropped []string
	for _, rule := range r.invalid {
		dropped = append(dropped, fmt.Sprintf("rules[%d]: %s", rule.index, rule.message))
	}
	for _, problem := range problems {
		if !slices.Contains(dropped, problem.Message) {
			dropped = append(dropped, problem.Message)
		}
	}
	generation := r.GetGeneration()
	var parents []gatewayv1.RouteParentStatus
	for _, a := range r.attachments {
		accepted := a.accepted
		if r.isUnsupported() {
			accepted.no(gatewayv1.RouteReasonUnsupportedValue, "requests are answered with 500: %s", strings.Join(dropped, "; "))
		}
		conditions := []metav1.Condition{
			condition(gatewayv1.RouteConditionAccepted, generation, accepted),
			condition(gatewayv1.RouteConditionResolvedRefs, generation, a.resolved),
		}
		if len(dropped) > 0 && accepted.reason == "" {
			conditions = append(conditions, metav1.Condition{
				Type: string(gatewayv1.RouteConditionPartiallyInvalid), Status: metav1.ConditionTrue,
				Reason: string(gatewayv1.RouteReasonUnsupportedValue), ObservedGeneration: generation,
				Message: "Dropped Rule, whose requests are answered with an error: " + strings.Join(dropped, "; "),
			})
		}
		if a.accepted.reason == "" {
			pending := t.pending(a.parent.plane, r.kind, r.Object, r.conditionsAt(a.ref))
			if pending.reason == "" {
				pending = t.pendingFilters(a.parent.plane, r)
			}
			conditions = append(conditions, condition(gatewayv1.GatewayConditionProgrammed, generation, pending))
		}
		parents = append(parents, gatewayv1.RouteParentStatus{ParentRef: a.ref, ControllerName: ControllerName, Conditions: conditions})
	}
	return parents
}

// conditionsAt returns the conditions that a route has at a parent.
func (r *route) conditionsAt(ref gatewayv1.ParentReference) []metav1.Condition {
	for _, parent := range r.parents {
		if parent.ControllerName == ControllerName && equality.Semantic.DeepEqual(parent.ParentRef, ref) {
			return parent.Conditions
		}
	}
	return nil
}

// isUnsupported says whether no rule of a route can be carried out.
func (r *route) isUnsupported() bool { return len(r.rules) > 0 && len(r.invalid) >= len(r.rules) }

// policyStatus returns what is said of policies, for each Gateway that sends requests to a Service port they are for.
func (t *translator) policyStatus() map[types.NamespacedName][]gatewayv1.PolicyAncestorStatus {
	all := map[types.NamespacedName][]gatewayv1.PolicyAncestorStatus{}
	for _, policy := range t.Policies {
		for _, plane := range t.planes {
			used, wins := t.usesPolicy(plane, policy)
			if !used {
				continue
			}
			accepted, resolved := policyProblems(policy, func(configMap string) verdict {
				return t.contentProblem(plane, gatewayv1.BackendTLSPolicyReasonInvalidCACertificateRef, policy.Namespace, configMap)
			})
			if !wins {
				accepted = verdict{reason: string(gatewayv1.PolicyReasonConflicted), message: "an older policy is for the same Service port"}
			}
			group, kind := gatewayv1.Group(plane.parent.Group), gatewayv1.Kind(plane.parent.Kind)
			namespace := gatewayv1.Namespace(plane.parent.Namespace)
			name := types.NamespacedName{Namespace: policy.Namespace, Name: policy.Name}
			all[name] = append(all[name], gatewayv1.PolicyAncestorStatus{
				AncestorRef:    gatewayv1.ParentReference{Group: &group, Kind: &kind, Namespace: &namespace, Name: gatewayv1.ObjectName(plane.parent.Name)},
				ControllerName: ControllerName,
				Conditions: []metav1.Condition{
					condition(gatewayv1.PolicyConditionAccepted, policy.Generation, accepted),
					condition(gatewayv1.BackendTLSPolicyConditionResolvedRefs, policy.Generation, resolved),
				},
			})
		}
	}
	return all
}

// usesPolicy says whether a data plane sends requests to a Service port that a policy is for, and whether it is the
// policy that counts for one of them.
func (t *translator) usesPolicy(plane *plane, policy *gatewayv1.BackendTLSPolicy) (used, wins bool) {
	backends := slices.SortedFunc(slices.Values(plane.used), model.CompareBackends)
	for _, backend := range backends {
		if backend.Namespace != policy.Namespace {
			continue
		}
		for i := range policy.Spec.TargetRefs {
			ref := &policy.Spec.TargetRefs[i]
			if !isService(ref) || string(ref.Name) != backend.Service || ref.SectionName != nil && !t.hasPort(backend, string(*ref.SectionName)) {
				continue
			}
			used = true
			wins = cmp.Or(wins, t.policyFor(backend) == policy)
		}
	}
	return used, wins
}
