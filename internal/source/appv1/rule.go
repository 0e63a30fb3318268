package appv1

import (
	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
	"gateway/internal/rules"
)

// door translates rules of our own kind to rules of HTTPRoutes.
type door struct {
	rules.Translator
	// at is the rule at the door, and extension is what it has that the Gateway API has no filter for. Both are used for
	// one rule after another, and so are their parts: the model has nothing of them.
	at        gatewayv1.HTTPRouteRule
	extension appv1.RouteFilter
	paths     []gatewayv1.HTTPPathMatch
	headers   []gatewayv1.HTTPHeaderMatch
	params    []gatewayv1.HTTPQueryParamMatch
	changes   []gatewayv1.HTTPHeaderFilter
	values    []gatewayv1.HTTPHeader
	modifiers []gatewayv1.HTTPPathModifier
	retry     gatewayv1.HTTPRouteRetry
	timeouts  gatewayv1.HTTPRouteTimeouts
}

// newDoor returns a door for Services of a namespace, whether they exist or not.
func newDoor(namespace string) *door {
	d := &door{}
	d.Translator = rules.Translator{
		Kind: rules.KindGateway,
		Backend: func(ref gatewayv1.BackendObjectReference, _ string) (model.Backend, rules.Problem) {
			return model.Backend{Namespace: namespace, Service: string(ref.Name), Port: ptr.Deref(ref.Port, 0)}, rules.Problem{}
		},
		Extension: func(gatewayv1.LocalObjectReference) (*appv1.RouteFilter, rules.Problem) {
			return &d.extension, rules.Problem{}
		},
	}
	return d
}

// connections translates the rules of a route for connections to one.
func (d *door) connections(all []appv1.ConnectionRule) (to model.Rule) {
	var from appv1.RouteRule
	for i := range all {
		for _, ref := range all[i].BackendRefs {
			from.BackendRefs = append(from.BackendRefs, appv1.BackendRef{Name: ref.Name, Port: ref.Port, Weight: ref.Weight})
		}
	}
	d.rule(&to, &from)
	return to
}

// rule translates a rule for requests to an empty one.
func (d *door) rule(rule *model.Rule, from *appv1.RouteRule) {
	d.paths, d.headers, d.params = d.paths[:0], d.headers[:0], d.params[:0]
	d.changes, d.values, d.modifiers = d.changes[:0], d.values[:0], d.modifiers[:0]
	to, matches := &d.at, d.at.Matches[:0]
	*to = gatewayv1.HTTPRouteRule{
		Matches: parts(&matches, from.Matches, d.match), Filters: d.filters(from.Filters, from.MaxRequestBytes, from.Shadow), BackendRefs: to.BackendRefs[:0],
	}
	for i := range from.BackendRefs {
		ref := &from.BackendRefs[i]
		same := gatewayv1.HTTPBackendRef{BackendRef: backendRef(ref.Name, &ref.Port, ref.Weight)}
		for _, filter := range ref.Filters {
			same.Filters = d.withFilter(same.Filters, &appv1.RuleFilter{
				RequestHeaderModifier: filter.RequestHeaderModifier, ResponseHeaderModifier: filter.ResponseHeaderModifier,
				URLRewrite: filter.URLRewrite,
			})
		}
		to.BackendRefs = append(to.BackendRefs, same)
	}
	if retry := from.Retry; retry != nil {
		d.retry = gatewayv1.HTTPRouteRetry{Attempts: new(int(ptr.Deref(retry.Attempts, 3))), Codes: d.retry.Codes[:0]}
		to.Retry = &d.retry
		for _, code := range retry.Codes {
			to.Retry.Codes = append(to.Retry.Codes, gatewayv1.HTTPRouteRetryStatusCode(code))
		}
	}
	if timeouts := from.Timeouts; timeouts != nil {
		d.timeouts.Request, d.timeouts.BackendRequest = (*gatewayv1.Duration)(&timeouts.Request), (*gatewayv1.Duration)(&timeouts.BackendRequest)
		to.Timeouts = &d.timeouts
	}
	if session := from.SessionPersistence; session != nil {
		to.SessionPersistence = &gatewayv1.SessionPersistence{
			Cookie:          &gatewayv1.CookieConfig{Name: (*gatewayv1.CookieName)(&session.SessionName)},
			AbsoluteTimeout: (*gatewayv1.Duration)(&session.AbsoluteTimeout),
		}
	}
	d.Translate(rule, to)
}

// filters returns filters and a limit of bodies as an HTTPRoute has them. One names the extension, if there is any.
func (d *door) filters(all []appv1.RuleFilter, maxRequestBytes *int64, shadow []appv1.ShadowFilter) []gatewayv1.HTTPRouteFilter {
	to, others := d.at.Filters[:0], d.extension.Spec.Filters[:0]
	for i := range all {
		before := len(to)
		if to = d.withFilter(to, &all[i]); len(to) == before {
			others = append(others, all[i])
		}
	}
	d.extension.Spec = appv1.RouteFilterSpec{Filters: others, MaxRequestBytes: maxRequestBytes, Shadow: shadow}
	if maxRequestBytes != nil || len(others) > 0 {
		to = append(to, gatewayv1.HTTPRouteFilter{ExtensionRef: &extensionRef})
	}
	return to
}

// extensionRef stands for the extension of any rule.
var extensionRef gatewayv1.LocalObjectReference

// put appends a part of a rule to others, and returns where it is.
func put[T any](all *[]T, part T) *T {
	*all = append(*all, part)
	return &(*all)[len(*all)-1]
}

// parts appends parts of a rule to others, each made of another, and returns them.
func parts[To, From any](others *[]To, all []From, part func(*From) To) []To {
	before := len(*others)
	for i := range all {
		*others = append(*others, part(&all[i]))
	}
	return (*others)[before:]
}

func (d *door) match(from *appv1.RouteMatch) gatewayv1.HTTPRouteMatch {
	return gatewayv1.HTTPRouteMatch{
		Path:   put(&d.paths, gatewayv1.HTTPPathMatch{Type: (*gatewayv1.PathMatchType)(&from.Path.Type), Value: &from.Path.Value}),
		Method: (*gatewayv1.HTTPMethod)(&from.Method),
		Headers: parts(&d.headers, from.Headers, func(h *appv1.HeaderMatch) gatewayv1.HTTPHeaderMatch {
			return gatewayv1.HTTPHeaderMatch{Type: (*gatewayv1.HeaderMatchType)(&h.Type), Name: gatewayv1.HTTPHeaderName(h.Name), Value: h.Value}
		}),
		QueryParams: parts(&d.params, from.QueryParams, func(p *appv1.QueryParamMatch) gatewayv1.HTTPQueryParamMatch {
			return gatewayv1.HTTPQueryParamMatch{Type: (*gatewayv1.QueryParamMatchType)(&p.Type), Name: gatewayv1.HTTPHeaderName(p.Name), Value: p.Value}
		}),
	}
}

// withFilter appends what the Gateway API has for a filter, if it has anything.
func (d *door) withFilter(all []gatewayv1.HTTPRouteFilter, from *appv1.RuleFilter) []gatewayv1.HTTPRouteFilter {
	var to gatewayv1.HTTPRouteFilter
	switch {
	case from.RequestRedirect != nil:
		redirect := from.RequestRedirect
		to.RequestRedirect = &gatewayv1.HTTPRequestRedirectFilter{
			Scheme: &redirect.Scheme, Hostname: (*gatewayv1.PreciseHostname)(&redirect.Hostname), Path: d.pathModifier(redirect.Path),
			Port: redirect.Port, StatusCode: new(int(ptr.Deref(redirect.StatusCode, 302))),
		}
	case from.URLRewrite != nil:
		to.URLRewrite = &gatewayv1.HTTPURLRewriteFilter{
			Hostname: (*gatewayv1.PreciseHostname)(&from.URLRewrite.Hostname), Path: d.pathModifier(from.URLRewrite.Path),
		}
	case from.CORS != nil:
		cors := from.CORS
		to.CORS = &gatewayv1.HTTPCORSFilter{
			AllowOrigins: converted[gatewayv1.CORSOrigin](cors.AllowOrigins), AllowCredentials: &cors.AllowCredentials,
			AllowMethods: converted[gatewayv1.HTTPMethodWithWildcard](cors.AllowMethods), AllowHeaders: converted[gatewayv1.HTTPHeaderName](cors.AllowHeaders),
			ExposeHeaders: converted[gatewayv1.HTTPHeaderName](cors.ExposeHeaders), MaxAge: ptr.Deref(cors.MaxAge, 0),
		}
	case from.RequestMirror != nil:
		for i := range from.RequestMirror.BackendRefs {
			ref := &from.RequestMirror.BackendRefs[i]
			all = append(all, gatewayv1.HTTPRouteFilter{RequestMirror: &gatewayv1.HTTPRequestMirrorFilter{
				BackendRef: backendRef(ref.Name, &ref.Port, nil).BackendObjectReference, Percent: ref.Percent,
			}})
		}
		return all
	case from.RequestHeaderModifier != nil:
		to.RequestHeaderModifier = d.headerFilter(from.RequestHeaderModifier)
	case from.ResponseHeaderModifier != nil:
		to.ResponseHeaderModifier = d.headerFilter(from.ResponseHeaderModifier)
	default:
		return all
	}
	return append(all, to)
}

func (d *door) headerFilter(from *appv1.HeaderFilter) *gatewayv1.HTTPHeaderFilter {
	headers := func(all []appv1.Header) []gatewayv1.HTTPHeader {
		return parts(&d.values, all, func(h *appv1.Header) gatewayv1.HTTPHeader {
			return gatewayv1.HTTPHeader{Name: gatewayv1.HTTPHeaderName(h.Name), Value: h.Value}
		})
	}
	return put(&d.changes, gatewayv1.HTTPHeaderFilter{Set: headers(from.Set), Add: headers(from.Add), Remove: converted[string](from.Remove)})
}

func (d *door) pathModifier(from *appv1.PathModifier) *gatewayv1.HTTPPathModifier {
	if from == nil {
		return nil
	}
	return put(&d.modifiers, gatewayv1.HTTPPathModifier{
		Type:            gatewayv1.HTTPPathModifierType(from.Type),
		ReplaceFullPath: (*string)(&from.ReplaceFullPath), ReplacePrefixMatch: (*string)(&from.ReplacePrefixMatch),
	})
}

func backendRef(service string, port, weight *int32) gatewayv1.BackendRef {
	return gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(service), Port: port}, Weight: weight,
	}
}
