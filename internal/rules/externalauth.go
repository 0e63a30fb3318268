package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

func init() {
	register(appv1.RuleFilterExternalAuth, onAll, func(f *appv1.RuleFilter) *appv1.ExternalAuth { return f.ExternalAuth }, (*rule).addExternalAuth)
}

func (r *rule) addExternalAuth(from *appv1.ExternalAuth) {
	r.setAuth(gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(from.BackendRef.Name), Port: &from.BackendRef.Port}, model.ExternalAuth{
		Path: cmp.Or(from.Path, "/"), Timeout: duration(cmp.Or(from.Timeout, "5s")), MaxBody: int64(ptr.Deref(from.ForwardBody, appv1.ForwardBody{}).MaxSize),
		RequestHeaders: lowered(from.RequestHeaders), ResponseHeaders: lowered(from.ResponseHeaders),
		Cache: authCache(from.Cache),
	})
}

func inSeconds(n int32) time.Duration { return time.Duration(n) * time.Second }

func authCache(from *appv1.ExternalAuthCache) *model.AuthCache {
	if from == nil {
		return nil
	}
	key := ptr.Deref(from.Key, appv1.ExternalAuthCacheKey{})
	cache := &model.AuthCache{MaxAge: inSeconds(cmp.Or(from.MaxAgeSeconds, 300)), Headers: lowered(key.Headers), Cookies: texts(key.Cookies)}
	for _, some := range from.Durations {
		for _, status := range some.Statuses {
			cache.Durations = append(cache.Durations, model.AuthCacheDuration{Status: status, Keep: inSeconds(some.Seconds)})
		}
	}
	return cache
}

// setAuth has a Service decide about the requests. If there is none, no request may pass.
func (r *rule) setAuth(ref gatewayv1.BackendObjectReference, auth model.ExternalAuth) {
	var ok bool
	if auth.Backend, ok = r.resolve(ref); !ok {
		r.lacks = true
		return
	}
	r.ExternalAuth = &auth
}

// authTimeout is how long an answer about a request may take: the Gateway API has no field for it.
const authTimeout = 5 * time.Second

// alwaysSent are what a Service that decides about requests gets anyway.
var alwaysSent = []string{"authorization", "content-length", "host", "method", "path"}

// addHTTPAuth adds the filter of the Gateway API.
func (r *rule) addHTTPAuth(from *gatewayv1.HTTPExternalAuthFilter) {
	config := ptr.Deref(from.HTTPAuthConfig, gatewayv1.HTTPAuthConfig{})
	maxBody := int64(ptr.Deref(from.ForwardBody, gatewayv1.ForwardBodyConfig{}).MaxSize)
	r.once(appv1.RuleFilterExternalAuth)
	switch {
	case from.ExternalAuthProtocol != gatewayv1.HTTPRouteExternalAuthHTTPProtocol:
		r.refuse("externalAuth.protocol %s is not supported: use HTTP", from.ExternalAuthProtocol)
	case maxBody > model.MaxAuthBody:
		r.refuse("externalAuth.forwardBody.maxSize %d is not supported: use up to %d", maxBody, model.MaxAuthBody)
	case config.Path != "" && !urlPaths.MatchString(config.Path):
		r.refuse("externalAuth.http.path %q does not begin with /, or has characters that a path cannot have", config.Path)
	}
	send := slices.DeleteFunc(r.authHeaders("allowedHeaders", config.AllowedRequestHeaders, alwaysSent), func(name string) bool {
		return slices.Contains(alwaysSent, name)
	})
	r.setAuth(from.BackendRef, model.ExternalAuth{
		Path: strings.TrimRight(config.Path, "/"), Timeout: authTimeout, Repeat: true, MaxBody: maxBody,
		RequestHeaders:  append([]string{"authorization"}, send...),
		ResponseHeaders: r.authHeaders("allowedResponseHeaders", config.AllowedResponseHeaders, nil),
	})
}

// authHeaders returns the names of a list in lower case. Those that frame a message are refused, except for some.
func (r *rule) authHeaders(field string, names, except []string) []string {
	for _, name := range names {
		if !slices.Contains(except, lower(name)) && !mayChange(name) {
			r.refuse("externalAuth.http.%s: %q is no header that can be passed on", field, name)
		}
	}
	return lowered(names)
}
