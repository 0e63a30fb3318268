package rules

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// extensions add a filter to a rule, by its type. They report whether it has the field that is named like the type.
var extensions = map[appv1.RuleFilterType]func(*rule, *appv1.RuleFilter) bool{}

// register makes a type of filter known that the Gateway API lacks. field returns the field of its type.
func register[T any](kind appv1.RuleFilterType, field func(*appv1.RuleFilter) *T, add func(*rule, *T)) {
	extensions[kind] = func(r *rule, filter *appv1.RuleFilter) bool {
		from := field(filter)
		if from != nil {
			add(r, from)
		}
		return from != nil
	}
}

// once refuses a second filter of a type.
func (r *rule) once(kind appv1.RuleFilterType) {
	if slices.Contains(r.kinds, kind) {
		r.refuse("the rule has another filter of type %s", kind)
	}
	r.kinds = append(r.kinds, kind)
}

// addExtension adds what a RouteFilter has.
func (r *rule) addExtension(ref gatewayv1.LocalObjectReference) {
	from, problem := r.Extension(ref)
	if !r.isResolved(problem) {
		r.lacks = true
		return
	}
	if r.Kind != KindGateway {
		r.within = "RouteFilter " + from.Name + ": "
	}
	for i := range from.Spec.Filters {
		filter := &from.Spec.Filters[i]
		r.once(filter.Type)
		if add := extensions[filter.Type]; add == nil || !add(r, filter) {
			r.refuse("spec.filters[%d] of type %s is not supported in a RouteFilter, or lacks its field", i, filter.Type)
		}
	}
	most := from.Spec.MaxRequestBytes
	switch {
	case most != nil && r.MaxBody != nil:
		r.refuse("the rule has another maxRequestBytes")
	case most != nil:
		r.MaxBody = most
	case len(from.Spec.Filters) == 0:
		r.refuse("it has neither filters nor maxRequestBytes")
	}
	r.within = ""
}
