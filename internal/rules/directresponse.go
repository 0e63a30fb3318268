package rules

import (
	"cmp"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterDirectResponse, onAll, func(f *appv1.RuleFilter) *appv1.DirectResponse { return f.DirectResponse }, (*rule).addDirectResponse)
}

func (r *rule) addDirectResponse(from *appv1.DirectResponse) {
	r.Response = &model.Response{
		Status: ptr.Deref(from.StatusCode, 200), Body: from.Body, ContentType: cmp.Or(from.ContentType, "text/plain; charset=utf-8"),
	}
	set := gatewayv1.HTTPHeaderFilter{}
	for _, header := range from.Headers {
		set.Set = append(set.Set, gatewayv1.HTTPHeader{Name: gatewayv1.HTTPHeaderName(header.Name), Value: header.Value})
	}
	r.changeHeaders(&r.Response.Headers, &set)
}

// checkAnswer refuses what would have no effect where the proxy answers. Of the filters of the Gateway API, it leaves
// those beside a RequestRedirect alone, as the Gateway API does.
func (r *rule) checkAnswer() {
	switch {
	case r.Response == nil && r.Redirect != nil:
		r.checkEffects("RequestRedirect", onRedirects)
	case r.Response == nil:
	case len(r.from.BackendRefs) > 0:
		r.refuse("DirectResponse answers the requests: remove the backendRefs")
	case r.Redirect != nil:
		r.refuse("DirectResponse and RequestRedirect both answer the requests: remove one of them")
	case r.Rewrite != nil || len(r.Mirrors)+len(r.Headers.Request)+len(r.Headers.Response) > 0:
		r.refuse("DirectResponse answers the requests, so URLRewrite, RequestMirror and changes of headers have no effect: remove them, and set headers by directResponse.headers")
	default:
		r.checkEffects("DirectResponse", onAll)
	}
}

// checkEffects refuses filters that have no effect on some requests, which another one answers.
func (r *rule) checkEffects(answers string, on effect) {
	for _, kind := range r.kinds {
		if extensions[kind].effect < on {
			r.refuse("%s answers the requests, so %s has no effect: remove it", answers, kind)
		}
	}
}
