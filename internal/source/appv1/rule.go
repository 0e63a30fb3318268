package appv1

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/rules"
)

// door is where rules of our own kind become those of HTTPRoutes.
type door struct {
	rules.Translator
	// at is the rule at the door, and extension is what it has that the Gateway API has no filter for. Both are used for
	// one rule after another: the model has nothing of them.
	at        gatewayv1.HTTPRouteRule
	extension appv1.RouteFilter
}

// newDoor returns a door for Services of a namespace, whether they exist or not.
func newDoor(namespace string) *door {
	d := &door{}
	d.Translator = rules.Translator{
		Kind: rules.KindGateway,
		Backend: func(ref gatewayv1.BackendObjectReference, _ string) (model.Backend, rules.Problem) {
			return model.Backend{Namespace: namespace, Service: string(ref.Name), Port: or(ref.Port, 0)}, rules.Problem{}
		},
		Extension: func(gatewayv1.LocalObjectReference) (*appv1.RouteFilter, rules.Problem) {
			return &d.extension, rules.Problem{}
		},
	}
	return d
}

// connections translates the rules of a route for connections to one.
func (d *door) connections(all []appv1.ConnectionRule) model.Rule {
	var refs []gatewayv1.BackendRef
	for i := range all {
		for j := range all[i].BackendRefs {
			ref := &all[i].BackendRefs[j]
			refs = append(refs, backendRef(ref.Name, &ref.Port, ref.Weight))
		}
	}
	return d.Connections(refs).Rule
}

// rule translates a rule for requests.
func (d *door) rule(from *appv1.RouteRule) model.Rule {
	to := &d.at
	*to = gatewayv1.HTTPRouteRule{
		Matches: httpMatches(to.Matches[:0], from.Matches), Filters: d.filters(from.Filters, from.MaxRequestBytes), BackendRefs: to.BackendRefs[:0],
	}
	for i := range from.BackendRefs {
		ref := &from.BackendRefs[i]
		same := gatewayv1.HTTPBackendRef{BackendRef: backendRef(ref.Name, &ref.Port, ref.Weight)}
		for _, filter := range ref.Filters {
			same.Filters = withHeaders(same.Filters, filter.RequestHeaderModifier, filter.ResponseHeaderModifier)
		}
		to.BackendRefs = append(to.BackendRefs, same)
	}
	if retry := from.Retry; retry != nil {
		to.Retry = &gatewayv1.HTTPRouteRetry{Attempts: new(int(or(retry.Attempts, 3)))}
		for _, code := range retry.Codes {
			to.Retry.Codes = append(to.Retry.Codes, gatewayv1.HTTPRouteRetryStatusCode(code))
		}
	}
	if timeouts := from.Timeouts; timeouts != nil {
		to.Timeouts = &gatewayv1.HTTPRouteTimeouts{
			Request: (*gatewayv1.Duration)(&timeouts.Request), BackendRequest: (*gatewayv1.Duration)(&timeouts.BackendRequest),
		}
	}
	if session := from.SessionPersistence; session != nil {
		to.SessionPersistence = &gatewayv1.SessionPersistence{
			SessionName: &session.SessionName, AbsoluteTimeout: (*gatewayv1.Duration)(&session.AbsoluteTimeout),
		}
	}
	return d.Translate(to).Rule
}

// filters returns filters and a limit of bodies as an HTTPRoute has them. One names the extension, if there is any.
func (d *door) filters(all []appv1.RuleFilter, maxRequestBytes *int64) []gatewayv1.HTTPRouteFilter {
	to, others := d.at.Filters[:0], d.extension.Spec.Filters[:0]
	for i := range all {
		before := len(to)
		if to = withFilter(to, &all[i]); len(to) == before {
			others = append(others, all[i])
		}
	}
	d.extension.Spec = appv1.RouteFilterSpec{Filters: others, MaxRequestBytes: maxRequestBytes}
	if maxRequestBytes != nil || len(others) > 0 {
		to = append(to, gatewayv1.HTTPRouteFilter{ExtensionRef: &extensionRef})
	}
	return to
}

// extensionRef stands for the extension of any rule.
var extensionRef gatewayv1.LocalObjectReference

// httpMatches appends matches to others.
func httpMatches(matches []gatewayv1.HTTPRouteMatch, all []appv1.RouteMatch) []gatewayv1.HTTPRouteMatch {
	for i := range all {
		from := &all[i]
		to := gatewayv1.HTTPRouteMatch{
			Path:   &gatewayv1.HTTPPathMatch{Type: (*gatewayv1.PathMatchType)(&from.Path.Type), Value: &from.Path.Value},
			Method: (*gatewayv1.HTTPMethod)(&from.Method),
		}
		for j := range from.Headers {
			header := &from.Headers[j]
			to.Headers = append(to.Headers, gatewayv1.HTTPHeaderMatch{
				Type: (*gatewayv1.HeaderMatchType)(&header.Type), Name: gatewayv1.HTTPHeaderName(header.Name), Value: header.Value,
			})
		}
		for j := range from.QueryParams {
			param := &from.QueryParams[j]
			to.QueryParams = append(to.QueryParams, gatewayv1.HTTPQueryParamMatch{
				Type: (*gatewayv1.QueryParamMatchType)(&param.Type), Name: gatewayv1.HTTPHeaderName(param.Name), Value: param.Value,
			})
		}
		matches = append(matches, to)
	}
	return matches
}

// withFilter appends what the Gateway API has for a filter, if it has anything.
func withFilter(all []gatewayv1.HTTPRouteFilter, from *appv1.RuleFilter) []gatewayv1.HTTPRouteFilter {
	var to gatewayv1.HTTPRouteFilter
	switch {
	case from.RequestRedirect != nil:
		redirect := from.RequestRedirect
		to.RequestRedirect = &gatewayv1.HTTPRequestRedirectFilter{
			Scheme: &redirect.Scheme, Hostname: (*gatewayv1.PreciseHostname)(&redirect.Hostname), Path: pathModifier(redirect.Path),
			Port: redirect.Port, StatusCode: new(int(or(redirect.StatusCode, 302))),
		}
	case from.URLRewrite != nil:
		to.URLRewrite = &gatewayv1.HTTPURLRewriteFilter{
			Hostname: (*gatewayv1.PreciseHostname)(&from.URLRewrite.Hostname), Path: pathModifier(from.URLRewrite.Path),
		}
	case from.CORS != nil:
		cors := from.CORS
		to.CORS = &gatewayv1.HTTPCORSFilter{
			AllowOrigins: converted[gatewayv1.CORSOrigin](cors.AllowOrigins), AllowCredentials: &cors.AllowCredentials,
			AllowMethods: converted[gatewayv1.HTTPMethodWithWildcard](cors.AllowMethods), AllowHeaders: converted[gatewayv1.HTTPHeaderName](cors.AllowHeaders),
			ExposeHeaders: converted[gatewayv1.HTTPHeaderName](cors.ExposeHeaders), MaxAge: or(cors.MaxAge, 0),
		}
	case from.RequestMirror != nil:
		for i := range from.RequestMirror.BackendRefs {
			ref := &from.RequestMirror.BackendRefs[i]
			all = append(all, gatewayv1.HTTPRouteFilter{RequestMirror: &gatewayv1.HTTPRequestMirrorFilter{
				BackendRef: backendRef(ref.Name, &ref.Port, nil).BackendObjectReference, Percent: ref.Percent,
			}})
		}
		return all
	default:
		return withHeaders(all, from.RequestHeaderModifier, from.ResponseHeaderModifier)
	}
	return append(all, to)
}

func withHeaders(all []gatewayv1.HTTPRouteFilter, request, response *appv1.HeaderFilter) []gatewayv1.HTTPRouteFilter {
	if request != nil {
		all = append(all, gatewayv1.HTTPRouteFilter{RequestHeaderModifier: headerFilter(request)})
	}
	if response != nil {
		all = append(all, gatewayv1.HTTPRouteFilter{ResponseHeaderModifier: headerFilter(response)})
	}
	return all
}

func headerFilter(from *appv1.HeaderFilter) *gatewayv1.HTTPHeaderFilter {
	headers := func(all []appv1.Header) []gatewayv1.HTTPHeader {
		var to []gatewayv1.HTTPHeader
		for _, header := range all {
			to = append(to, gatewayv1.HTTPHeader{Name: gatewayv1.HTTPHeaderName(header.Name), Value: header.Value})
		}
		return to
	}
	return &gatewayv1.HTTPHeaderFilter{Set: headers(from.Set), Add: headers(from.Add), Remove: converted[string](from.Remove)}
}

func pathModifier(from *appv1.PathModifier) *gatewayv1.HTTPPathModifier {
	if from == nil {
		return nil
	}
	return &gatewayv1.HTTPPathModifier{
		Type:            gatewayv1.HTTPPathModifierType(from.Type),
		ReplaceFullPath: (*string)(&from.ReplaceFullPath), ReplacePrefixMatch: (*string)(&from.ReplacePrefixMatch),
	}
}

func backendRef(service string, port, weight *int32) gatewayv1.BackendRef {
	return gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(service), Port: port}, Weight: weight,
	}
}
