package rules

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

// addFilter adds a filter of the Gateway API.
func (r *rule) addFilter(from *gatewayv1.HTTPRouteFilter) {
	switch {
	case from.RequestHeaderModifier != nil:
		r.changeHeaders(&r.Headers.Request, from.RequestHeaderModifier)
	case from.ResponseHeaderModifier != nil:
		r.changeHeaders(&r.Headers.Response, from.ResponseHeaderModifier)
	case from.RequestRedirect != nil:
		r.addRedirect(from.RequestRedirect)
	case from.URLRewrite != nil:
		r.Rewrite = r.rewrite(from.URLRewrite)
	case from.CORS != nil:
		r.addCORS(from.CORS)
	case from.RequestMirror != nil:
		r.addMirror(from.RequestMirror)
	case from.ExternalAuth != nil:
		r.addHTTPAuth(from.ExternalAuth)
	case from.ExtensionRef != nil:
		r.addExtension(*from.ExtensionRef)
	default:
		r.refuse("filters of type %s are not supported", from.Type)
	}
}

// addTargetFilters adds the filters of a backendRef. Those that change headers, the host or the path are supported.
func (r *rule) addTargetFilters(to *model.Target, filters []gatewayv1.HTTPRouteFilter) {
	for i := range filters {
		switch from := &filters[i]; {
		case from.RequestHeaderModifier != nil:
			r.changeHeaders(&to.Headers.Request, from.RequestHeaderModifier)
		case from.ResponseHeaderModifier != nil:
			r.changeHeaders(&to.Headers.Response, from.ResponseHeaderModifier)
		case from.URLRewrite != nil:
			to.Rewrite = r.rewrite(from.URLRewrite)
		default:
			r.refuse("filters of type %s are not supported in a backendRef", from.Type)
		}
	}
}

// changeHeaders adds the changes of a filter, which removes, then sets, then adds. Of names in one list that differ in
// case, the first counts, as the Gateway API has it (HTTPHeader.name).
func (r *rule) changeHeaders(to *[]model.HeaderChange, from *gatewayv1.HTTPHeaderFilter) {
	change := func(name string, isCleared bool, values ...string) {
		if !mayChange(name) {
			r.refuse("the header %q cannot be changed", name)
		}
		for _, value := range values {
			if !isHeaderText(value) {
				r.refuse("the header %s cannot have the value %q", name, value)
			}
		}
		*to = model.Then(*to, model.HeaderChange{Name: lower(name), Clear: isCleared, Values: values})
	}
	for _, name := range from.Remove {
		change(name, true)
	}
	each := func(headers []gatewayv1.HTTPHeader, isCleared bool) {
		for i, header := range headers {
			isSame := func(other gatewayv1.HTTPHeader) bool {
				return strings.EqualFold(string(other.Name), string(header.Name))
			}
			if !slices.ContainsFunc(headers[:i], isSame) {
				change(string(header.Name), isCleared, header.Value)
			}
		}
	}
	each(from.Set, true)
	each(from.Add, false)
}

func (r *rule) addRedirect(from *gatewayv1.HTTPRequestRedirectFilter) {
	r.Redirect = &model.Redirect{
		Status: int32(ptr.Deref(from.StatusCode, 302)), Scheme: ptr.Deref(from.Scheme, ""), //nolint:gosec // a status
		Hostname: string(ptr.Deref(from.Hostname, "")), Port: ptr.Deref(from.Port, 0), Path: r.pathChange(from.Path),
	}
	if !slices.Contains([]int32{301, 302, 303, 307, 308}, r.Redirect.Status) {
		r.refuse("a redirect cannot have the status %d", r.Redirect.Status)
	}
}

func (r *rule) rewrite(from *gatewayv1.HTTPURLRewriteFilter) *model.Rewrite {
	return &model.Rewrite{Hostname: string(ptr.Deref(from.Hostname, "")), Path: r.pathChange(from.Path)}
}

// pathChange returns another path. A prefix is replaced only where the rule has one match, by a prefix.
func (r *rule) pathChange(from *gatewayv1.HTTPPathModifier) *model.PathChange {
	if from == nil {
		return nil
	}
	value := ptr.Deref(from.ReplaceFullPath, "") + ptr.Deref(from.ReplacePrefixMatch, "")
	if value != "" && !urlPaths.MatchString(value) {
		r.refuse("a path cannot be replaced by %q", value)
	}
	if from.Type == gatewayv1.FullPathHTTPPathModifier {
		return &model.PathChange{Full: cmp.Or(value, "/")}
	}
	switch matches := r.from.Matches; {
	case len(matches) > 1:
		r.refuse("replacePrefixMatch needs a rule with one match")
	case r.Matches[0].PathType != model.Prefix:
		r.refuse("replacePrefixMatch needs a match of type PathPrefix")
	}
	return &model.PathChange{Prefix: strings.TrimRight(value, "/")}
}

func (r *rule) addCORS(from *gatewayv1.HTTPCORSFilter) {
	r.CORS = &model.CORS{
		Origins: lowered(from.AllowOrigins), Credentials: ptr.Deref(from.AllowCredentials, false), Methods: texts(from.AllowMethods),
		Headers: r.corsHeaders(from.AllowHeaders), Expose: r.corsHeaders(from.ExposeHeaders), MaxAge: cmp.Or(from.MaxAge, 5),
	}
	for i, origin := range r.CORS.Origins {
		if !corsOrigins.MatchString(origin) {
			r.refuse("CORS: the origin %q cannot be compared", from.AllowOrigins[i])
		}
	}
}

func (r *rule) corsHeaders(names []gatewayv1.HTTPHeaderName) []string {
	for _, name := range names {
		if name != "*" && !isHeaderName(string(name)) {
			r.refuse("CORS: %q cannot be the name of a header", name)
		}
	}
	return texts(names)
}

// addMirror adds a backend that gets copies of requests. One that cannot be resolved is left out, as the Gateway API
// wants it: the requests are served all the same.
func (r *rule) addMirror(from *gatewayv1.HTTPRequestMirrorFilter) {
	if r.Kind == KindGRPCRoute {
		r.refuse("calls of gRPC are not copied: they do not say how long they are")
		return
	}
	backend, ok := r.resolve(from.BackendRef)
	if !ok {
		return
	}
	mirror := model.Mirror{Backend: backend, Numerator: ptr.Deref(from.Percent, 100), Denominator: 100}
	if from.Fraction != nil {
		mirror.Numerator, mirror.Denominator = from.Fraction.Numerator, ptr.Deref(from.Fraction.Denominator, 100)
	}
	r.Mirrors = append(r.Mirrors, mirror)
}
