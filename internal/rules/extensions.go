package rules

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// effect is on which requests a filter has an effect.
type effect int

const (
	// onForwarded: those that a backend gets.
	onForwarded effect = iota
	// onRedirects: also those that are answered with a redirect.
	onRedirects
	// onAll: also those that are answered in another way.
	onAll
)

// extension is a type of filter that the Gateway API lacks.
type extension struct {
	effect
	// add adds a filter to a rule. It reports whether the filter has the field that is named like the type.
	add func(*rule, *appv1.RuleFilter) bool
}

var extensions = map[appv1.RuleFilterType]extension{}

// register makes a type of filter known that the Gateway API lacks. field returns the field of its type.
func register[T any](kind appv1.RuleFilterType, on effect, field func(*appv1.RuleFilter) *T, add func(*rule, *T)) {
	extensions[kind] = extension{on, func(r *rule, filter *appv1.RuleFilter) bool {
		from := field(filter)
		if from != nil {
			add(r, from)
		}
		return from != nil
	}}
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
		if add := extensions[filter.Type].add; add == nil || !add(r, filter) {
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
	r.addShadow(&from.Spec)
	r.within = ""
}

// addShadow notes which filters of a RouteFilter let all requests through. It says nothing about the filters of another
// one.
func (r *rule) addShadow(from *appv1.RouteFilterSpec) {
	for _, name := range from.Shadow {
		isHere := name == appv1.ShadowMaxRequestBytes && from.MaxRequestBytes != nil ||
			slices.ContainsFunc(from.Filters, func(f appv1.RuleFilter) bool { return string(f.Type) == string(name) })
		if isHere && slices.Contains(r.Guards(), string(name)) {
			r.Shadow = append(r.Shadow, string(name))
		}
	}
}
