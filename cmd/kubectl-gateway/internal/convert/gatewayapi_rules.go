package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// rules returns the rules for requests of a route. If it is closed, they answer 503.
func (c *gatewayConverter) rules(route *apiRoute, closed bool) []appv1.RouteRule {
	if route.hasConnections() {
		return nil
	}
	closed = closed || c.closed || c.isClosed(route.kind, route.GetNamespace(), route.GetName())
	if len(route.rules) == 0 && !closed {
		return []appv1.RouteRule{{}}
	}
	if len(route.rules) == 0 {
		return []appv1.RouteRule{{Filters: []appv1.RuleFilter{directResponse(503)}}}
	}
	var rules []appv1.RouteRule
	for i := range route.rules {
		at, source := route.at("rules[%d]", i), &route.rules[i]
		matches := ourMatches(at, source.Matches)
		if len(source.Matches) > 0 && len(matches) == 0 {
			continue
		}
		if closed || c.closesRule(source.BackendRefs) {
			rules = append(rules, appv1.RouteRule{Matches: matches, Filters: []appv1.RuleFilter{directResponse(503)}})
			continue
		}
		rule, pass := c.filters(at, route, source.Filters, "requests are answered with 500")
		rule.Matches = matches
		if pass {
			notePreflight(at, &rule)
			rule.BackendRefs = c.backendRefs(at, route, source.BackendRefs)
		}
		rule.Retry = ourRetry(at, source.Retry)
		rule.Timeouts = ourTimeouts(at, source.Timeouts, rule.Retry)
		rule.SessionPersistence = ourSessions(at, source.SessionPersistence)
		rules = append(rules, rule)
	}
	return rules
}

// closesRule says whether one of the backends is closed. A share of the requests would tell nobody.
func (c *gatewayConverter) closesRule(refs []gatewayv1.HTTPBackendRef) bool {
	return slices.ContainsFunc(refs, func(ref gatewayv1.HTTPBackendRef) bool { return c.closesBackend(&ref.BackendRef) })
}

// closesBackend says whether a Service is closed, or the policy for its port.
func (c *gatewayConverter) closesBackend(ref *gatewayv1.BackendRef) bool {
	if c.isClosed("Service", c.source.Namespace, string(ref.Name)) {
		return true
	}
	policy := c.policyFor(string(ref.Name), or(ref.Port, 0))
	return policy != nil && c.isClosed("BackendTLSPolicy", policy.Namespace, policy.Name)
}

// ourMatches leaves out the matches that there cannot be.
func ourMatches(at place, sources []gatewayv1.HTTPRouteMatch) []appv1.RouteMatch {
	var matches []appv1.RouteMatch
	for i := range sources {
		match, problem := ourMatch(&sources[i])
		if problem != "" {
			at.at("matches[%d]", i).note("it is left out, so no request meets it: %s", problem)
			continue
		}
		if usesExpressions(&match) {
			at.whole().note("regular expressions have to match the whole path or value here, in the syntax RE2")
		}
		matches = append(matches, match)
	}
	return matches
}

// ourMatch returns a match, or why there cannot be one.
func ourMatch(source *gatewayv1.HTTPRouteMatch) (match appv1.RouteMatch, problem string) {
	if path := source.Path; path != nil {
		match.Path = appv1.PathMatch{Type: appv1.PathMatchType(or(path.Type, "")), Value: or(path.Value, "")}
		if match.Path.Value != "" && !isMatch(match.Path) {
			return match, fmt.Sprintf("path %q cannot be matched", match.Path.Value)
		}
	}
	for _, header := range source.Headers {
		if !isMatchableHeader(string(header.Name)) || !isHeaderText(header.Value) {
			return match, fmt.Sprintf("header %s: %q cannot be matched", header.Name, header.Value)
		}
		match.Headers = append(match.Headers, appv1.HeaderMatch{
			Type: appv1.ValueMatchType(or(header.Type, "")), Name: appv1.HeaderName(header.Name), Value: header.Value,
		})
	}
	for _, param := range source.QueryParams {
		ours := appv1.QueryParamMatch{Type: appv1.ValueMatchType(or(param.Type, "")), Name: string(param.Name), Value: param.Value}
		if ours.Type != appv1.ValueMatchRegularExpression {
			ours.Value = encodeText(param.Value)
		}
		if len(ours.Name) > 128 || !queryNames.MatchString(ours.Name) || len(ours.Value) > 1024 || !queryTexts.MatchString(ours.Value) {
			return match, fmt.Sprintf("query parameter %s=%q cannot be matched", param.Name, param.Value)
		}
		match.QueryParams = append(match.QueryParams, ours)
	}
	match.Method = appv1.HTTPMethod(or(source.Method, ""))
	if match.Method != "" && !slices.Contains(methods, string(match.Method)) {
		return match, fmt.Sprintf("method %s cannot be matched", match.Method)
	}
	return match, ""
}

// encodeText writes a value as that of a query parameter is compared: what is not printable ASCII, white space and the percent sign
// are percent-encoded there.
func encodeText(value string) string {
	var b strings.Builder
	for _, c := range []byte(value) {
		if c <= ' ' || c >= 0x7f || c == '%' {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func usesExpressions(match *appv1.RouteMatch) bool {
	return match.Path.Type == appv1.PathMatchRegularExpression ||
		slices.ContainsFunc(match.Headers, func(h appv1.HeaderMatch) bool { return h.Type == appv1.ValueMatchRegularExpression }) ||
		slices.ContainsFunc(match.QueryParams, func(q appv1.QueryParamMatch) bool { return q.Type == appv1.ValueMatchRegularExpression })
}

// backendRefs returns where requests go.
func (c *gatewayConverter) backendRefs(at place, route *apiRoute, sources []gatewayv1.HTTPBackendRef) []appv1.BackendRef {
	var refs []appv1.BackendRef
	for i := range sources {
		at, source := at.at("backendRefs[%d]", i), &sources[i]
		port, ok := c.servicePort(at, route, source.BackendRef)
		if !ok {
			continue
		}
		filters, ok := c.backendFilters(at, route, source.Filters)
		if !ok {
			continue
		}
		c.noteProtocol(at, route, string(source.Name), port)
		refs = append(refs, appv1.BackendRef{Name: string(source.Name), Port: port, Weight: source.Weight, Filters: filters})
	}
	if len(sources) > 0 && len(refs) == 0 {
		at.note("no backendRef is left: requests are answered with 500")
	}
	return refs
}

// connections returns where the connections of a route go.
func (c *gatewayConverter) connections(route *apiRoute) []appv1.ConnectionRule {
	var refs []appv1.ConnectionBackendRef
	if c.closed || c.isClosed(route.kind, route.GetNamespace(), route.GetName()) {
		return nil
	}
	for i, source := range route.backends {
		if c.closesBackend(&source) {
			continue
		}
		if port, ok := c.servicePort(route.at("rules[0]").at("backendRefs[%d]", i), route, source); ok {
			refs = append(refs, appv1.ConnectionBackendRef{Name: string(source.Name), Port: port, Weight: source.Weight})
		}
	}
	if len(refs) == 0 {
		return nil
	}
	return []appv1.ConnectionRule{{BackendRefs: refs}}
}

// servicePort returns the port of a Service, if that can be a backend of the Gateway.
func (c *gatewayConverter) servicePort(at place, route *apiRoute, ref gatewayv1.BackendRef) (int32, bool) {
	namespace := string(or(ref.Namespace, gatewayv1.Namespace(route.GetNamespace())))
	kind, problem := string(or(ref.Kind, "Service")), ""
	service := c.services[types.NamespacedName{Namespace: namespace, Name: string(ref.Name)}]
	switch {
	case kind != "Service" || or(ref.Group, "") != "":
		problem = "only Services can be backends"
	case namespace != c.source.Namespace:
		problem = fmt.Sprintf("backends are in the Gateway's namespace, %s: make a Gateway in theirs", c.source.Namespace)
	case namespace != route.GetNamespace() && !c.isGranted(route, namespace, string(ref.Name)):
		problem = fmt.Sprintf("no ReferenceGrant in the input lets a %s of namespace %s refer to it", route.kind, route.GetNamespace())
	case !isServiceName(string(ref.Name)):
		problem = "this is no name of a Service"
	case ref.Port == nil:
		problem = "it has no port"
	case service != nil && service.Spec.Type == corev1.ServiceTypeExternalName:
		problem = "a Service of type ExternalName cannot be a backend"
	}
	if problem != "" {
		at.note("%s %s/%s is left out, and its share goes to the others: %s", kind, namespace, ref.Name, problem)
		return 0, false
	}
	return *ref.Port, true
}

// noteProtocol lists what the Service has to say for the proxies to speak to its port as the route wants it.
func (c *gatewayConverter) noteProtocol(at place, route *apiRoute, name string, number int32) {
	service, tls := types.NamespacedName{Namespace: c.source.Namespace, Name: name}, c.policyFor(name, number) != nil
	if problem := c.protocolProblem(service, number, tls); problem != "" {
		at.note("%s", problem)
	} else if route.kind == "GRPCRoute" && !tls && !strings.EqualFold(c.appProtocol(service, number), "kubernetes.io/h2c") {
		at.note("port %d of Service %s needs appProtocol: kubernetes.io/h2c", number, name)
	}
}

func ourRetry(at place, source *gatewayv1.HTTPRouteRetry) *appv1.RouteRetry {
	if source == nil {
		return nil
	}
	retry := &appv1.RouteRetry{}
	for _, code := range source.Codes {
		switch {
		case !slices.Contains(retryCodes, int(code)):
			at.note("retry.codes: %d is left out: HAProxy does not try again after it", code)
		case !slices.Contains(retry.Codes, appv1.RetryCode(code)):
			retry.Codes = append(retry.Codes, appv1.RetryCode(code))
		}
	}
	if attempts := source.Attempts; attempts != nil {
		retry.Attempts = ptr(int32(min(max(*attempts, 0), 10))) //nolint:gosec // 0 to 10
		if *attempts > 10 {
			at.note("retry.attempts: %d becomes 10, the most there can be", *attempts)
		}
	}
	if source.Backoff != nil {
		at.note("retry.backoff is not carried over: another endpoint is tried at once, the same one after a second")
	}
	return retry
}

func ourTimeouts(at place, source *gatewayv1.HTTPRouteTimeouts, retry *appv1.RouteRetry) *appv1.RouteTimeouts {
	if source == nil {
		return nil
	}
	timeouts := appv1.RouteTimeouts{
		Request: appv1.Duration(or(source.Request, "")), BackendRequest: appv1.Duration(or(source.BackendRequest, "")),
	}
	if retry != nil && timeouts.Request != "" && timeouts.BackendRequest == "" {
		timeouts.BackendRequest = share(timeouts.Request, or(retry.Attempts, 3)+1)
		if timeouts.BackendRequest != timeouts.Request {
			at.note("timeouts.backendRequest becomes %s: all attempts have to fit into timeouts.request, %s", timeouts.BackendRequest, timeouts.Request)
		}
	}
	if timeouts == (appv1.RouteTimeouts{}) {
		return nil
	}
	noteAttempts(at, timeouts, retry)
	return &timeouts
}

// noteAttempts lists how attempts and their time go together here.
func noteAttempts(at place, timeouts appv1.RouteTimeouts, retry *appv1.RouteRetry) {
	request, _ := time.ParseDuration(string(timeouts.Request))
	attempt, _ := time.ParseDuration(string(timeouts.BackendRequest))
	attempt = cmp.Or(attempt, request)
	if retry == nil || attempt == 0 || or(retry.Attempts, 3) == 0 {
		return
	}
	at.note("retry: an attempt that takes %s is answered with 504, and not tried again", attempt)
	wanted := int64(or(retry.Attempts, 3))
	if fit := max(int64(request/attempt), 1) - 1; request > 0 && fit < wanted {
		at.note("retry.attempts: %d becomes %d: no more fit into timeouts.request, %s, if each attempt takes %s", wanted, fit, request, attempt)
	}
}

// share returns the time for each of some attempts that have a given time together. Zero is no limit.
func share(all appv1.Duration, attempts int32) appv1.Duration {
	whole, _ := time.ParseDuration(string(all))
	switch each := whole / time.Duration(attempts); {
	case whole == 0:
		return all
	case each >= 10*time.Second:
		return seconds(int(each.Seconds()))
	default:
		return appv1.Duration(fmt.Sprintf("%dms", max(each.Milliseconds(), 1)))
	}
}

func ourSessions(at place, source *gatewayv1.SessionPersistence) *appv1.SessionPersistence {
	if source == nil {
		return nil
	}
	at = at.at("sessionPersistence")
	if kind := or(source.Type, gatewayv1.CookieBasedSessionPersistence); kind != gatewayv1.CookieBasedSessionPersistence {
		at.note("type %s is not carried over: sessions are kept by a cookie, or by spec.backends[].loadBalancing", kind)
		return nil
	}
	sessions := &appv1.SessionPersistence{
		SessionName: or(source.SessionName, defaultSession), AbsoluteTimeout: appv1.Duration(or(source.AbsoluteTimeout, "")),
	}
	if !isCookieName(sessions.SessionName) {
		at.note("sessionName %q cannot be a cookie's: the default is used", sessions.SessionName)
		sessions.SessionName = defaultSession
	}
	switch lifetime, _ := time.ParseDuration(string(sessions.AbsoluteTimeout)); {
	case lifetime == 0:
		sessions.AbsoluteTimeout = ""
	case lifetime < time.Second:
		at.note("absoluteTimeout %s becomes 1s, the least there can be", sessions.AbsoluteTimeout)
		sessions.AbsoluteTimeout = "1s"
	}
	if or(or(source.CookieConfig, gatewayv1.CookieConfig{}).LifetimeType, gatewayv1.SessionCookieLifetimeType) != gatewayv1.SessionCookieLifetimeType {
		at.note("cookieConfig.lifetimeType Permanent is not carried over: the cookie ends with the browser's session")
	}
	return sessions
}
