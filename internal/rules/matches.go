package rules

import (
	"cmp"
	"slices"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

func (r *rule) addMatches(all []gatewayv1.HTTPRouteMatch) {
	if len(all) == 0 {
		r.Matches = AnyRequest
		return
	}
	matches := make([]model.Match, len(all))
	for i := range all {
		from, match, path := &all[i], &matches[i], ptr.Deref(all[i].Path, gatewayv1.HTTPPathMatch{})
		*match = model.Match{PathType: model.Prefix, Path: cmp.Or(ptr.Deref(path.Value, ""), "/"), Method: string(ptr.Deref(from.Method, ""))}
		switch cmp.Or(ptr.Deref(path.Type, ""), gatewayv1.PathMatchPathPrefix) {
		case gatewayv1.PathMatchExact:
			match.PathType = model.Exact
		case gatewayv1.PathMatchRegularExpression:
			match.PathType = model.Regex
		case gatewayv1.PathMatchPathPrefix:
		default:
			r.refuse("paths cannot be compared by type %s", *path.Type)
		}
		for _, header := range from.Headers {
			match.Headers = r.withCondition(match.Headers, (*string)(header.Type), lower(string(header.Name)), header.Value)
		}
		for _, param := range from.QueryParams {
			match.Query = r.withCondition(match.Query, (*string)(param.Type), string(param.Name), param.Value)
		}
	}
	r.Matches = matches
}

// withCondition adds a condition on a header or parameter. Of several for one name, the Gateway API lets the first
// count. Of our own kind, all do.
func (r *rule) withCondition(conditions []model.Condition, kind *string, name, value string) []model.Condition {
	isSame := func(c model.Condition) bool { return c.Name == name }
	if r.Kind != KindGateway && slices.ContainsFunc(conditions, isSame) {
		return conditions
	}
	isRegex := false
	switch cmp.Or(ptr.Deref(kind, ""), string(gatewayv1.HeaderMatchExact)) {
	case string(gatewayv1.HeaderMatchExact):
	case string(gatewayv1.HeaderMatchRegularExpression):
		isRegex = true
	default:
		r.refuse("values cannot be compared by type %s", *kind)
	}
	return append(conditions, model.Condition{Name: name, Value: value, Regex: isRegex})
}
