package gatewayapi

import (
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

// authTimeout is how long an answer about a request may take: the Gateway API has no field for it.
const authTimeout = 5 * time.Second

// alwaysSent are what a Service that decides about requests gets anyway.
var alwaysSent = []string{"authorization", "content-length", "host", "method", "path"}

// addAuth has a Service decide about the requests of a rule. False: there is none, and the requests must not pass.
func (t *translator) addAuth(r *route, rule, index int, action *model.Action, filter *gatewayv1.HTTPExternalAuthFilter) bool {
	config := or(filter.HTTPAuthConfig, gatewayv1.HTTPAuthConfig{})
	maxBody := int64(or(filter.ForwardBody, gatewayv1.ForwardBodyConfig{}).MaxSize)
	switch {
	case action.ExternalAuth != nil:
		r.invalidate(rule, "the rule has another filter of type ExternalAuth")
	case filter.ExternalAuthProtocol != gatewayv1.HTTPRouteExternalAuthHTTPProtocol:
		r.invalidate(rule, "externalAuth.protocol %s is not supported: use HTTP", filter.ExternalAuthProtocol)
	case maxBody > model.MaxAuthBody:
		r.invalidate(rule, "externalAuth.forwardBody.maxSize %d is not supported: use up to %d", maxBody, model.MaxAuthBody)
	case config.Path != "" && !urlPaths.MatchString(config.Path):
		r.invalidate(rule, "externalAuth.http.path %q does not begin with /, or has other signs than those of a path", config.Path)
	}
	send := slices.DeleteFunc(r.authHeaders(rule, "allowedHeaders", config.AllowedRequestHeaders, alwaysSent), func(name string) bool {
		return slices.Contains(alwaysSent, name)
	})
	keep := r.authHeaders(rule, "allowedResponseHeaders", config.AllowedResponseHeaders, nil)
	backend, problem := t.backend(r, "HTTPRoute", filter.BackendRef)
	if problem.reason != "" {
		r.resolved.also(problem.reason, "rules[%d].filters[%d]: %s", rule, index, problem.message)
		return false
	}
	action.ExternalAuth = &model.ExternalAuth{
		Backend: backend, Path: strings.TrimRight(config.Path, "/"), Timeout: authTimeout,
		RequestHeaders: append([]string{"authorization"}, send...), ResponseHeaders: keep, Repeat: true, MaxBody: maxBody,
	}
	return true
}

// authHeaders returns the names of a list in lower case. Those that frame a message are refused, except for some.
func (r *route) authHeaders(rule int, field string, names, except []string) []string {
	var all []string
	for _, name := range names {
		if !slices.Contains(except, lower(name)) && (!headerNames.MatchString(name) || framing.MatchString(name)) {
			r.invalidate(rule, "externalAuth.http.%s: %q is no header that can be passed on", field, name)
		}
		all = append(all, lower(name))
	}
	return all
}
