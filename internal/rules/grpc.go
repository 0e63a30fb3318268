package rules

import (
	"regexp"
	"strings"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/regex"
)

// FromGRPC returns the rules of a GRPCRoute as an HTTPRoute's: a method is a path, /SERVICE/METHOD.
func FromGRPC(sources []gatewayv1.GRPCRouteRule) []gatewayv1.HTTPRouteRule {
	var rules []gatewayv1.HTTPRouteRule
	for i := range sources {
		source := &sources[i]
		rule := gatewayv1.HTTPRouteRule{SessionPersistence: source.SessionPersistence, Filters: grpcFilters(source.Filters)}
		for _, match := range source.Matches {
			http := gatewayv1.HTTPRouteMatch{Path: grpcPath(match.Method)}
			for _, header := range match.Headers {
				http.Headers = append(http.Headers, gatewayv1.HTTPHeaderMatch{
					Type: (*gatewayv1.HeaderMatchType)(header.Type), Name: gatewayv1.HTTPHeaderName(header.Name), Value: header.Value,
				})
			}
			rule.Matches = append(rule.Matches, http)
		}
		for _, ref := range source.BackendRefs {
			rule.BackendRefs = append(rule.BackendRefs, gatewayv1.HTTPBackendRef{BackendRef: ref.BackendRef, Filters: grpcFilters(ref.Filters)})
		}
		rules = append(rules, rule)
	}
	return rules
}

func grpcFilters(sources []gatewayv1.GRPCRouteFilter) []gatewayv1.HTTPRouteFilter {
	var filters []gatewayv1.HTTPRouteFilter
	for _, source := range sources {
		filters = append(filters, gatewayv1.HTTPRouteFilter{
			Type: gatewayv1.HTTPRouteFilterType(source.Type), RequestHeaderModifier: source.RequestHeaderModifier,
			ResponseHeaderModifier: source.ResponseHeaderModifier, RequestMirror: source.RequestMirror, ExtensionRef: source.ExtensionRef,
		})
	}
	return filters
}

// grpcPath returns the condition on the path for one on the method. One by an expression, or by a method without its
// service, comes before those by a service alone.
func grpcPath(source *gatewayv1.GRPCMethodMatch) *gatewayv1.HTTPPathMatch {
	if source == nil {
		return nil
	}
	service, method := ptr.Deref(source.Service, ""), ptr.Deref(source.Method, "")
	path := func(kind gatewayv1.PathMatchType, value string) *gatewayv1.HTTPPathMatch {
		return &gatewayv1.HTTPPathMatch{Type: &kind, Value: &value}
	}
	const anything = "[^/]+"
	switch {
	case ptr.Deref(source.Type, gatewayv1.GRPCMethodMatchExact) == gatewayv1.GRPCMethodMatchRegularExpression:
		expression := ""
		for _, part := range []string{service, method} {
			if part == "" {
				expression += "/" + anything
				continue
			}
			parsed, err := regex.Parse(part)
			if err != nil {
				return path(gatewayv1.PathMatchRegularExpression, part) // which is refused
			}
			if strings.Contains(part, `\Q`) {
				part = parsed.String() // The text may go on behind its end.
			}
			expression += "/(" + part + ")"
		}
		return path(gatewayv1.PathMatchRegularExpression, expression)
	case service == "" && method == "":
		return nil
	case service == "":
		return path(gatewayv1.PathMatchRegularExpression, "/"+anything+"/"+regexp.QuoteMeta(method))
	case method == "":
		return path(gatewayv1.PathMatchPathPrefix, "/"+service)
	default:
		return path(gatewayv1.PathMatchExact, "/"+service+"/"+method)
	}
}
