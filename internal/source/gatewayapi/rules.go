package gatewayapi

import (
	"cmp"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"gateway/internal/model"
)

// anyRequest are the matches of a rule without any.
var anyRequest = []model.Match{{PathType: model.Prefix, Path: "/"}}

// addRules adds the rules of a route for requests. Requests of a rule that cannot be carried out are answered with 500.
func (t *translator) addRules(r *route, rules []gatewayv1.HTTPRouteRule) {
	if len(rules) == 0 {
		rules = []gatewayv1.HTTPRouteRule{{}}
	}
	for i := range rules {
		from := &rules[i]
		rule := model.Rule{Matches: r.matches(i, from.Matches)}
		resolved := true
		for j := range from.Filters {
			switch filter := &from.Filters[j]; {
			case filter.RequestMirror != nil:
				t.addMirror(r, i, j, &rule.Action, filter.RequestMirror)
			case filter.ExtensionRef != nil:
				resolved = t.addExtension(r, i, j, &rule.Action, filter.ExtensionRef) && resolved
			case filter.ExternalAuth != nil:
				resolved = t.addAuth(r, i, j, &rule.Action, filter.ExternalAuth) && resolved
			default:
				r.addFilter(i, &rule.Action, filter, from.Matches)
			}
		}
		r.addRetry(i, &rule.Action, from.Retry)
		if from.Timeouts != nil {
			rule.Limit(timeout(from.Timeouts.Request), timeout(from.Timeouts.BackendRequest))
		}
		r.addSessions(i, &rule.Action, from.SessionPersistence)
		for j := range from.BackendRefs {
			target := t.target(r, i, j, from.BackendRefs[j].BackendRef)
			target.Headers = r.targetHeaders(i, from.BackendRefs[j].Filters)
			rule.Backends = append(rule.Backends, target)
		}
		if !resolved || r.isInvalid(i) {
			rule.Action, rule.Backends = model.Action{}, nil
		}
		r.rules = append(r.rules, rule)
	}
}

// addConnections adds the rule of a route for connections.
func (t *translator) addConnections(r *route, index int, refs []gatewayv1.BackendRef) {
	if index > 0 {
		r.invalidate(index, "connections go by the first rule")
		return
	}
	rule := model.Rule{Matches: anyRequest}
	for i, ref := range refs {
		rule.Backends = append(rule.Backends, t.target(r, index, i, ref))
	}
	r.rules = []model.Rule{rule}
}

// matches returns those of a rule.
func (r *route) matches(rule int, specs []gatewayv1.HTTPRouteMatch) []model.Match {
	if len(specs) == 0 {
		return anyRequest
	}
	matches := make([]model.Match, len(specs))
	for i := range specs {
		spec := &specs[i]
		path := or(spec.Path, gatewayv1.HTTPPathMatch{})
		match := model.Match{PathType: model.Prefix, Path: cmp.Or(or(path.Value, ""), "/"), Method: string(or(spec.Method, ""))}
		switch or(path.Type, gatewayv1.PathMatchPathPrefix) {
		case gatewayv1.PathMatchExact:
			match.PathType = model.Exact
		case gatewayv1.PathMatchRegularExpression:
			match.PathType = model.Regex
		case gatewayv1.PathMatchPathPrefix:
		default:
			r.invalidate(rule, "paths cannot be compared by type %s", *path.Type)
		}
		for _, header := range spec.Headers {
			kind := string(or(header.Type, gatewayv1.HeaderMatchExact))
			match.Headers = r.withCondition(rule, match.Headers, kind, lower(string(header.Name)), header.Value)
		}
		for _, param := range spec.QueryParams {
			kind := string(or(param.Type, gatewayv1.QueryParamMatchExact))
			match.Query = r.withCondition(rule, match.Query, kind, string(param.Name), param.Value)
		}
		matches[i] = match
	}
	return matches
}

// withCondition adds a condition. Of several for one name, the first counts.
func (r *route) withCondition(rule int, conditions []model.Condition, kind, name, value string) []model.Condition {
	if slices.ContainsFunc(conditions, func(c model.Condition) bool { return c.Name == name }) {
		return conditions
	}
	isRegex := kind == string(gatewayv1.HeaderMatchRegularExpression)
	if !isRegex && kind != string(gatewayv1.HeaderMatchExact) {
		r.invalidate(rule, "values cannot be compared by type %s", kind)
	}
	return append(conditions, model.Condition{Name: name, Value: value, Regex: isRegex})
}

// retryCodes are the statuses that HAProxy can try a request again after.
var retryCodes = []gatewayv1.HTTPRouteRetryStatusCode{401, 403, 404, 408, 425, 429, 500, 501, 502, 503, 504}

func (r *route) addRetry(rule int, action *model.Action, spec *gatewayv1.HTTPRouteRetry) {
	if spec == nil {
		return
	}
	action.Retry = &model.Retry{Attempts: int32(min(or(spec.Attempts, 3), 100))} //nolint:gosec // up to 100
	for _, code := range spec.Codes {
		if !slices.Contains(retryCodes, code) {
			r.invalidate(rule, "HAProxy cannot try a request again after an answer with status %d", code)
		}
		action.Retry.Codes = append(action.Retry.Codes, int32(code)) //nolint:gosec // a status
	}
	slices.Sort(action.Retry.Codes)
	action.Retry.Codes = slices.Compact(action.Retry.Codes)
	if duration(spec.Backoff) > 0 {
		r.invalidate(rule, "HAProxy tries a request again at once: retry.backoff is not supported")
	}
}

func (r *route) addSessions(rule int, action *model.Action, spec *gatewayv1.SessionPersistence) {
	if spec == nil {
		return
	}
	name := or(spec.SessionName, "gateway-session")
	switch {
	case or(spec.Type, gatewayv1.CookieBasedSessionPersistence) != gatewayv1.CookieBasedSessionPersistence:
		r.invalidate(rule, "sessions are kept by cookies: sessionPersistence.type %s is not supported", *spec.Type)
	case spec.CookieConfig != nil && or(spec.CookieConfig.LifetimeType, gatewayv1.SessionCookieLifetimeType) != gatewayv1.SessionCookieLifetimeType:
		r.invalidate(rule, "cookies end with the browser's session: lifetimeType %s is not supported", *spec.CookieConfig.LifetimeType)
	case !cookieNames.MatchString(name):
		r.invalidate(rule, "sessionName %q cannot be a cookie's", name)
	}
	action.Affinity = &model.Affinity{Name: name, MaxLife: duration(spec.AbsoluteTimeout)}
}
