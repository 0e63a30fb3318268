package gatewayapi

import (
	"fmt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/rules"
)

// kindFilter is the kind of what ExtensionRefs name.
const kindFilter = "RouteFilter"

// rulesOf returns what translates the rules of a route.
func (t *translator) rulesOf(r *route) *rules.Translator {
	return &rules.Translator{
		Kind: r.kind,
		Backend: func(ref gatewayv1.BackendObjectReference, requests string) (model.Backend, rules.Problem) {
			backend, problem := t.backend(r, requests, ref)
			return backend, rules.Problem{Reason: problem.reason(), Message: problem.message()}
		},
		Extension: func(ref gatewayv1.LocalObjectReference) (*appv1.RouteFilter, rules.Problem) {
			filter, problem := t.extension(r, ref)
			return filter, rules.Problem{Reason: problem.reason(), Message: problem.message()}
		},
	}
}

// FiltersOf returns the names of the RouteFilters that a route names.
func FiltersOf(route metav1.Object) []string {
	var names []string
	var all []gatewayv1.HTTPRouteRule
	switch route := route.(type) {
	case *gatewayv1.HTTPRoute:
		all = route.Spec.Rules
	case *gatewayv1.GRPCRoute:
		all = rules.FromGRPC(route.Spec.Rules)
	}
	for i := range all {
		for _, filter := range all[i].Filters {
			if ref := filter.ExtensionRef; ref != nil && isFilter(*ref) {
				names = append(names, string(ref.Name))
			}
		}
	}
	return names
}

// isFilter reports whether a reference is to a RouteFilter.
func isFilter(ref gatewayv1.LocalObjectReference) bool {
	return ref.Group == appv1.GroupName && ref.Kind == kindFilter
}

// addRules adds the rules of a route.
func (t *translator) addRules(r *route, all []gatewayv1.HTTPRouteRule) {
	if len(all) == 0 {
		all = []gatewayv1.HTTPRouteRule{{}}
	}
	translator := t.rulesOf(r)
	for i := range all {
		r.rules = append(r.rules, model.Rule{})
		last := len(r.rules) - 1
		for _, problem := range translator.Translate(&r.rules[last], &all[i]) {
			r.resolved.alsoIn(fmt.Sprintf("rules[%d].%s", last, problem.Field), problem.Reason, "%s", problem.Message)
		}
		for _, m := range r.rules[last].Mounts() {
			t.dependOn(kindReported, r.GetNamespace(), m.Of)
		}
	}
}

// addConnections adds the rule of a route for connections. The schema admits no other.
func (t *translator) addConnections(r *route, refs []gatewayv1.BackendRef) {
	if len(r.rules) > 0 {
		r.refused.no(gatewayv1.RouteReasonUnsupportedValue, "connections go by one rule")
	}
	rule := gatewayv1.HTTPRouteRule{}
	for _, ref := range refs {
		rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: ref})
	}
	t.addRules(r, []gatewayv1.HTTPRouteRule{rule})
}

// extension returns the RouteFilter that a route names, or the problems of the reference.
func (t *translator) extension(r *route, ref gatewayv1.LocalObjectReference) (*appv1.RouteFilter, verdict) {
	var problem verdict
	filter := t.filters[Object{kindFilter, r.GetNamespace(), string(ref.Name)}]
	t.dependOn(kindFilter, r.GetNamespace(), string(ref.Name))
	switch {
	case !isFilter(ref):
		problem.no(gatewayv1.RouteReasonInvalidKind, "only a %s of group %s can be an extension, and not a %s of group %s",
			kindFilter, appv1.GroupName, ref.Kind, ref.Group)
	case filter == nil:
		problem.no(gatewayv1.RouteReasonBackendNotFound, "there is no %s %s/%s: create it or change the reference", kindFilter, r.GetNamespace(), ref.Name)
	default:
		r.use(idOf(kindFilter, filter))
	}
	return filter, problem
}
