package rules

import (
	"cmp"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterDirectResponse, func(f *appv1.RuleFilter) *appv1.DirectResponse { return f.DirectResponse }, (*rule).addDirectResponse)
}

func (r *rule) addDirectResponse(from *appv1.DirectResponse) {
	r.Response = &model.Response{
		Status: or(from.StatusCode, 200), Body: from.Body, ContentType: cmp.Or(from.ContentType, "text/plain; charset=utf-8"),
	}
}

// checkResponse refuses what would have no effect beside a DirectResponse.
func (r *rule) checkResponse() {
	switch {
	case r.Response == nil:
	case len(r.from.BackendRefs) > 0:
		r.refuse("DirectResponse answers the requests: remove the backendRefs")
	case r.Redirect != nil:
		r.refuse("DirectResponse and RequestRedirect both answer the requests: remove one of them")
	case r.Rewrite != nil || r.Cache || len(r.Mirrors)+len(r.Headers.Request)+len(r.Headers.Response)+len(r.HeaderVariables) > 0:
		r.refuse("DirectResponse answers the requests, so URLRewrite, RequestMirror, Cache and changes of headers have no effect: remove them")
	}
}
