package gatewayapi

import (
	"net/url"
	"slices"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

// addFilter adds what a filter of a rule says to its action.
func (r *route) addFilter(rule int, action *model.Action, filter *gatewayv1.HTTPRouteFilter, matches []gatewayv1.HTTPRouteMatch) {
	switch filter.Type {
	case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
		action.Headers.Request = r.withFilter(rule, action.Headers.Request, filter.RequestHeaderModifier)
	case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
		action.Headers.Response = r.withFilter(rule, action.Headers.Response, filter.ResponseHeaderModifier)
	case gatewayv1.HTTPRouteFilterRequestRedirect:
		from := or(filter.RequestRedirect, gatewayv1.HTTPRequestRedirectFilter{})
		action.Redirect = &model.Redirect{
			Status: int32(or(from.StatusCode, 302)), Scheme: or(from.Scheme, ""), //nolint:gosec // a status
			Hostname: string(or(from.Hostname, "")), Port: or(from.Port, 0), Path: r.pathChange(rule, from.Path, matches),
		}
		if !slices.Contains([]int32{301, 302, 303, 307, 308}, action.Redirect.Status) {
			r.invalidate(rule, "a redirect cannot have the status %d", action.Redirect.Status)
		}
	case gatewayv1.HTTPRouteFilterURLRewrite:
		from := or(filter.URLRewrite, gatewayv1.HTTPURLRewriteFilter{})
		action.Rewrite = &model.Rewrite{Hostname: string(or(from.Hostname, "")), Path: r.pathChange(rule, from.Path, matches)}
	case gatewayv1.HTTPRouteFilterCORS:
		action.CORS = r.cors(rule, or(filter.CORS, gatewayv1.HTTPCORSFilter{}))
	default:
		r.invalidate(rule, "filters of type %s are not supported", filter.Type)
	}
}

// addMirror adds a backend that gets copies of requests. One that cannot be resolved is left out, as the Gateway API
// wants it: the requests are served all the same.
func (t *translator) addMirror(r *route, rule, index int, action *model.Action, filter *gatewayv1.HTTPRequestMirrorFilter) {
	if r.kind == "GRPCRoute" {
		r.invalidate(rule, "calls of gRPC are not copied: they do not say how long they are")
		return
	}
	backend, problem := t.backend(r, "HTTPRoute", filter.BackendRef)
	if problem.reason != "" {
		r.resolved.also(problem.reason, "rules[%d].filters[%d]: %s", rule, index, problem.message)
		return
	}
	mirror := model.Mirror{Backend: backend, Numerator: or(filter.Percent, 100), Denominator: 100}
	if filter.Fraction != nil {
		mirror.Numerator, mirror.Denominator = filter.Fraction.Numerator, or(filter.Fraction.Denominator, 100)
	}
	action.Mirrors = append(action.Mirrors, mirror)
}

// targetHeaders returns what the filters of a backendRef do to headers. Other filters there are not supported.
func (r *route) targetHeaders(rule int, filters []gatewayv1.HTTPRouteFilter) model.HeaderChanges {
	var changes model.HeaderChanges
	for i := range filters {
		switch filter := &filters[i]; filter.Type {
		case gatewayv1.HTTPRouteFilterRequestHeaderModifier:
			changes.Request = r.withFilter(rule, changes.Request, filter.RequestHeaderModifier)
		case gatewayv1.HTTPRouteFilterResponseHeaderModifier:
			changes.Response = r.withFilter(rule, changes.Response, filter.ResponseHeaderModifier)
		default:
			r.invalidate(rule, "filters of type %s are not supported in a backendRef", filter.Type)
		}
	}
	return changes
}

// withFilter returns changes followed by those of a filter, which removes, then sets, then adds.
func (r *route) withFilter(rule int, changes []model.HeaderChange, filter *gatewayv1.HTTPHeaderFilter) []model.HeaderChange {
	if filter == nil {
		return changes
	}
	change := func(name string, isCleared bool, values ...string) {
		if !headerNames.MatchString(name) || framing.MatchString(name) {
			r.invalidate(rule, "the header %q cannot be changed", name)
		}
		for _, value := range values {
			if !headerTexts.MatchString(value) {
				r.invalidate(rule, "the header %s cannot have the value %q", name, value)
			}
		}
		changes = model.Then(changes, model.HeaderChange{Name: lower(name), Clear: isCleared, Values: values})
	}
	for _, name := range filter.Remove {
		change(name, true)
	}
	for _, header := range filter.Set {
		change(string(header.Name), true, header.Value)
	}
	for _, header := range filter.Add {
		change(string(header.Name), false, header.Value)
	}
	return changes
}

// pathChange returns another path. Its depth is that of the rule's only match, which is of type PathPrefix where a
// prefix is replaced.
func (r *route) pathChange(rule int, path *gatewayv1.HTTPPathModifier, matches []gatewayv1.HTTPRouteMatch) *model.PathChange {
	if path == nil {
		return nil
	}
	value := or(path.ReplaceFullPath, "") + or(path.ReplacePrefixMatch, "")
	if value != "" && !urlPaths.MatchString(value) {
		r.invalidate(rule, "a path cannot be replaced by %q", value)
	}
	if path.Type == gatewayv1.FullPathHTTPPathModifier {
		if value == "" {
			value = "/"
		}
		return &model.PathChange{Full: value}
	}
	change := &model.PathChange{Prefix: strings.TrimRight(value, "/")}
	switch {
	case len(matches) > 1:
		r.invalidate(rule, "replacePrefixMatch needs a rule with one match")
	case len(matches) == 1 && matches[0].Path != nil:
		if or(matches[0].Path.Type, gatewayv1.PathMatchPathPrefix) != gatewayv1.PathMatchPathPrefix {
			r.invalidate(rule, "replacePrefixMatch needs a match of type PathPrefix")
		}
		prefix, _ := url.PathUnescape(or(matches[0].Path.Value, "/")) // one that is malformed matches no request
		change.Depth = len(strings.FieldsFunc(prefix, func(r rune) bool { return r == '/' }))
	}
	return change
}

func (r *route) cors(rule int, from gatewayv1.HTTPCORSFilter) *model.CORS {
	cors := &model.CORS{Credentials: or(from.AllowCredentials, false), MaxAge: from.MaxAge}
	if cors.MaxAge == 0 {
		cors.MaxAge = 5
	}
	for _, origin := range from.AllowOrigins {
		if !corsOrigins.MatchString(lower(string(origin))) {
			r.invalidate(rule, "CORS: the origin %q cannot be compared", origin)
		}
		cors.Origins = append(cors.Origins, lower(string(origin)))
	}
	for _, method := range from.AllowMethods {
		cors.Methods = append(cors.Methods, string(method))
	}
	names := func(from []gatewayv1.HTTPHeaderName) []string {
		var all []string
		for _, name := range from {
			if name != "*" && !headerNames.MatchString(string(name)) {
				r.invalidate(rule, "CORS: %q cannot be the name of a header", name)
			}
			all = append(all, string(name))
		}
		return all
	}
	cors.Headers, cors.Expose = names(from.AllowHeaders), names(from.ExposeHeaders)
	return cors
}
