package convert

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	source "gateway/internal/source/appv1"
)

// filters returns a rule with filters, and perhaps a limit of bodies. False means that one is left out which requests must
// not pass by, as the Gateway API demands it; otherwise says what becomes of them.
func (c *gatewayConverter) filters(at place, route *apiRoute, sources []gatewayv1.HTTPRouteFilter, otherwise string) (rule appv1.RouteRule, pass bool) {
	pass = true
	for i := range sources {
		at, source := at.at("filters[%d]", i), &sources[i]
		if source.RequestMirror != nil {
			rule.Filters = c.withMirror(at, route, rule.Filters, source.RequestMirror)
			continue
		}
		if source.ExtensionRef != nil {
			pass = c.addExtension(at, route, &rule, source.ExtensionRef, otherwise) && pass
			continue
		}
		filter, ok := ourFilter(at, source)
		switch {
		case !ok:
			at.note("%s is not carried over: %s", source.Type, otherwise)
			pass = false
		case filter != nil:
			rule.Filters = append(rule.Filters, *filter)
		}
	}
	if pass {
		rule.Filters, pass = besideRedirect(at, rule.Filters, otherwise)
	}
	if !pass {
		return appv1.RouteRule{}, false
	}
	return rule, true
}

// besideRedirect leaves out what cannot be beside a redirect. False means that requests must not go on without it.
func besideRedirect(at place, filters []appv1.RuleFilter, otherwise string) ([]appv1.RuleFilter, bool) {
	if !slices.ContainsFunc(filters, func(filter appv1.RuleFilter) bool { return filter.RequestRedirect != nil }) {
		return filters, true
	}
	pass := true
	filters = slices.DeleteFunc(filters, func(filter appv1.RuleFilter) bool {
		beside := filter.RequestRedirect == nil && filter.CORS == nil
		switch {
		case isExtension(filter):
			at.note("%s is not carried over: only CORS can be beside RequestRedirect; %s", filter.Type, otherwise)
			pass = false
		case beside:
			at.note("%s is left out: only CORS can be beside RequestRedirect", filter.Type)
		}
		return beside
	})
	if !pass {
		return nil, false
	}
	return filters, true
}

// addExtension adds to a rule what a RouteFilter says. False means that there is none, or that not all of it can be
// carried over.
func (c *gatewayConverter) addExtension(
	at place, route *apiRoute, rule *appv1.RouteRule, ref *gatewayv1.LocalObjectReference, otherwise string,
) bool {
	extension := c.routeFilters[types.NamespacedName{Namespace: route.GetNamespace(), Name: string(ref.Name)}]
	switch {
	case ref.Group != appv1.GroupName || ref.Kind != "RouteFilter":
		at.note("ExtensionRef is not carried over: %s", otherwise)
		return false
	case extension == nil:
		at.note("RouteFilter %s is not in the input: %s", ref.Name, otherwise)
		return false
	}
	all := extension.DeepCopy()
	for _, filter := range rule.Filters {
		if isExtension(filter) || filter.Cache != nil {
			all.Spec.Filters = append(all.Spec.Filters, filter)
		}
	}
	if problem := source.AddExtension(&model.Action{MaxBody: rule.MaxRequestBytes}, all); problem != "" {
		at.note("RouteFilter %s is not carried over: %s; %s", ref.Name, problem, otherwise)
		return false
	}
	for _, filter := range extension.Spec.Filters {
		if auth := filter.ExternalAuth; auth != nil {
			to := gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(auth.BackendRef.Name), Port: &auth.BackendRef.Port}
			if _, ok := c.servicePort(at, route, gatewayv1.BackendRef{BackendObjectReference: to}); !ok {
				at.note("RouteFilter %s is not carried over: %s", ref.Name, otherwise)
				return false
			}
		}
	}
	rule.Filters = append(rule.Filters, extension.Spec.Filters...)
	rule.MaxRequestBytes = cmp.Or(rule.MaxRequestBytes, extension.Spec.MaxRequestBytes)
	return true
}

// isExtension says whether a filter is one of those that RouteFilters have. Requests must not pass by it.
func isExtension(filter appv1.RuleFilter) bool {
	return filter.ClientAddress != nil || filter.RateLimit != nil || filter.BasicAuth != nil || filter.JWT != nil || filter.ExternalAuth != nil
}

// ourFilter returns a filter, or none if nothing is left of it. False means that requests must not go on.
func ourFilter(at place, source *gatewayv1.HTTPRouteFilter) (*appv1.RuleFilter, bool) {
	filter, ok := appv1.RuleFilter{Type: appv1.RuleFilterType(source.Type)}, true
	switch source.Type {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		filter.RequestHeaderModifier = ourHeaders(at, or(source.RequestHeaderModifier, gatewayv1.HTTPHeaderFilter{}))
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		filter.ResponseHeaderModifier = ourHeaders(at, or(source.ResponseHeaderModifier, gatewayv1.HTTPHeaderFilter{}))
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		filter.RequestRedirect, ok = ourRedirect(at, or(source.RequestRedirect, gatewayv1.HTTPRequestRedirectFilter{}))
	case gatewayv1.HTTPRouteFilterURLRewrite:
		filter.URLRewrite, ok = ourRewrite(at, or(source.URLRewrite, gatewayv1.HTTPURLRewriteFilter{}))
	case gatewayv1.HTTPRouteFilterCORS:
		filter.CORS = ourCORS(at, or(source.CORS, gatewayv1.HTTPCORSFilter{}))
	case gatewayv1.HTTPRouteFilterExternalAuth:
		at.note("the Service is asked by the method and path of each request, which ExternalAuth cannot do here: " +
			"if it decides by X-Forwarded-Method and X-Forwarded-Uri, add an ExternalAuth to the rule yourself")
		return nil, false
	default:
		return nil, false
	}
	if filter == (appv1.RuleFilter{Type: filter.Type}) {
		return nil, ok
	}
	return &filter, ok
}

// backendFilters returns the filters of a backendRef. False means that no request must go there.
func (c *gatewayConverter) backendFilters(at place, route *apiRoute, sources []gatewayv1.HTTPRouteFilter) ([]appv1.BackendRefFilter, bool) {
	const otherwise = "the Service is left out, and its share goes to the others"
	var filters []appv1.BackendRefFilter
	all, ok := c.filters(at, route, sources, otherwise)
	if all.MaxRequestBytes != nil {
		at.note("maxRequestBytes is not carried over for one Service: %s", otherwise)
		return nil, false
	}
	for _, filter := range all.Filters {
		if filter.RequestMirror != nil {
			at.note("RequestMirror is not carried over for one Service: requests are not copied")
			continue
		}
		if filter.RequestHeaderModifier == nil && filter.ResponseHeaderModifier == nil {
			at.note("%s is not carried over for one Service: %s", filter.Type, otherwise)
			return nil, false
		}
		filters = append(filters, appv1.BackendRefFilter{
			Type:                  appv1.BackendRefFilterType(filter.Type),
			RequestHeaderModifier: filter.RequestHeaderModifier, ResponseHeaderModifier: filter.ResponseHeaderModifier,
		})
	}
	return filters, ok
}

// withMirror returns filters that send copies to one Service more: ours is one filter for all of them.
func (c *gatewayConverter) withMirror(
	at place, route *apiRoute, filters []appv1.RuleFilter, source *gatewayv1.HTTPRequestMirrorFilter,
) []appv1.RuleFilter {
	if route.kind == "GRPCRoute" {
		at.note("RequestMirror is not carried over: calls of gRPC cannot be copied")
		return filters
	}
	port, ok := c.servicePort(at, route, gatewayv1.BackendRef{BackendObjectReference: source.BackendRef})
	if !ok {
		return filters
	}
	ref := appv1.MirrorBackendRef{Name: string(source.BackendRef.Name), Port: port, Percent: source.Percent}
	if fraction := source.Fraction; fraction != nil {
		percent := float64(fraction.Numerator) * 100 / float64(max(1, or(fraction.Denominator, 100)))
		ref.Percent = ptr(int32(math.Ceil(percent)))
		if math.Ceil(percent) != percent {
			at.note("fraction becomes a percentage, %d", *ref.Percent)
		}
	}
	i := slices.IndexFunc(filters, func(filter appv1.RuleFilter) bool { return filter.RequestMirror != nil })
	if i < 0 {
		return append(filters, appv1.RuleFilter{
			Type: appv1.RuleFilterRequestMirror, RequestMirror: &appv1.RequestMirror{BackendRefs: []appv1.MirrorBackendRef{ref}},
		})
	}
	refs := filters[i].RequestMirror.BackendRefs
	if len(refs) == 8 || slices.ContainsFunc(refs, func(other appv1.MirrorBackendRef) bool { return other.Name == ref.Name && other.Port == port }) {
		at.note("RequestMirror is left out: a rule has up to eight, each for another Service port")
		return filters
	}
	filters[i].RequestMirror.BackendRefs = append(refs, ref)
	return filters
}

func ourHeaders(at place, source gatewayv1.HTTPHeaderFilter) *appv1.HeaderFilter {
	headers := func(what string, sources []gatewayv1.HTTPHeader) []appv1.Header {
		var all []appv1.Header
		for _, header := range sources {
			if !isChangeableHeader(string(header.Name)) || !isHeaderText(header.Value) {
				at.note("%s %s: %q is left out: the header cannot be changed so", what, header.Name, header.Value)
				continue
			}
			all = append(all, appv1.Header{Name: appv1.ModifiedHeaderName(header.Name), Value: header.Value})
		}
		return all
	}
	filter := &appv1.HeaderFilter{Set: headers("set", source.Set), Add: headers("add", source.Add)}
	for _, name := range source.Remove {
		if !isChangeableHeader(name) {
			at.note("remove %s is left out: the header cannot be changed", name)
			continue
		}
		filter.Remove = append(filter.Remove, appv1.ModifiedHeaderName(name))
	}
	if filter.Set == nil && filter.Add == nil && filter.Remove == nil {
		return nil
	}
	return filter
}

func ourRedirect(at place, source gatewayv1.HTTPRequestRedirectFilter) (*appv1.RequestRedirect, bool) {
	path, ok := ourPath(at, source.Path)
	return &appv1.RequestRedirect{
		Scheme: or(source.Scheme, ""), Hostname: appv1.PreciseHostname(or(source.Hostname, "")), Path: path, Port: source.Port,
		StatusCode: ptr(int32(or(source.StatusCode, 302))), //nolint:gosec // one of a few
	}, ok
}

func ourRewrite(at place, source gatewayv1.HTTPURLRewriteFilter) (*appv1.URLRewrite, bool) {
	if source == (gatewayv1.HTTPURLRewriteFilter{}) {
		return nil, true
	}
	path, ok := ourPath(at, source.Path)
	return &appv1.URLRewrite{Hostname: appv1.PreciseHostname(or(source.Hostname, "")), Path: path}, ok
}

func ourPath(at place, source *gatewayv1.HTTPPathModifier) (*appv1.PathModifier, bool) {
	if source == nil {
		return nil, true
	}
	path := &appv1.PathModifier{Type: appv1.PathModifierType(source.Type)}
	value := cmp.Or(or(source.ReplaceFullPath, ""), or(source.ReplacePrefixMatch, ""), "/")
	if path.Type == appv1.PathModifierReplaceFullPath {
		path.ReplaceFullPath = appv1.URLPath(value)
	} else {
		path.ReplacePrefixMatch = appv1.URLPath(value)
	}
	if !isURLPath(value) {
		at.note("path %q cannot be set", value)
	}
	return path, isURLPath(value)
}

// ourCORS returns the filter, or none if no origin is left, which is what browsers do without.
func ourCORS(at place, source gatewayv1.HTTPCORSFilter) *appv1.CORS {
	cors := &appv1.CORS{AllowCredentials: or(source.AllowCredentials, false)}
	for _, origin := range source.AllowOrigins {
		lower := strings.ToLower(string(origin))
		switch {
		case !isOrigin(lower):
			at.note("allowOrigins: %s is left out: name hosts, with *. for those below one", origin)
		case !slices.Contains(cors.AllowOrigins, appv1.CORSOrigin(lower)):
			cors.AllowOrigins = append(cors.AllowOrigins, appv1.CORSOrigin(lower))
		}
	}
	if len(cors.AllowOrigins) == 0 {
		at.note("CORS is left out: it allows no origin")
		return nil
	}
	if cors.AllowCredentials && slices.Contains(cors.AllowOrigins, "*") {
		at.note("allowCredentials is left out, as every origin is allowed: name the origins to have both")
		cors.AllowCredentials = false
	}
	for _, method := range source.AllowMethods {
		switch {
		case method == "*" && cors.AllowCredentials:
			// Browsers take "*" for the name of a method here.
			for _, each := range methods {
				cors.AllowMethods = append(cors.AllowMethods, appv1.CORSMethod(each))
			}
		case method == "*" || slices.Contains(methods, string(method)):
			cors.AllowMethods = append(cors.AllowMethods, appv1.CORSMethod(method))
		default:
			at.note("allowMethods: %s is left out", method)
		}
	}
	cors.AllowHeaders = ourCORSHeaders(at.at("allowHeaders"), source.AllowHeaders, cors.AllowCredentials)
	cors.ExposeHeaders = ourCORSHeaders(at.at("exposeHeaders"), source.ExposeHeaders, false)
	if source.MaxAge > 0 {
		cors.MaxAge = &source.MaxAge
	}
	return cors
}

func ourCORSHeaders(at place, sources []gatewayv1.HTTPHeaderName, credentials bool) []appv1.CORSHeaderName {
	var all []appv1.CORSHeaderName
	for _, name := range sources {
		switch {
		case name == "*" && credentials:
			at.note("* is left out: name the headers, as it does not hold for requests with credentials")
		case name != "*" && !isHeaderName(string(name)):
			at.note("%s is left out: it cannot be a header's name", name)
		case !slices.Contains(all, appv1.CORSHeaderName(name)):
			all = append(all, appv1.CORSHeaderName(name))
		}
	}
	return all
}

// notePreflight lists rules with CORS whose matches leave out preflight requests.
func notePreflight(at place, rule *appv1.RouteRule) {
	isCORS := func(filter appv1.RuleFilter) bool { return filter.CORS != nil }
	other := func(match appv1.RouteMatch) bool { return match.Method != "" && match.Method != http.MethodOptions }
	if slices.ContainsFunc(rule.Filters, isCORS) && slices.ContainsFunc(rule.Matches, other) {
		at.note("CORS: preflight requests have the method OPTIONS, which a match leaves out: add one for it")
	}
}
