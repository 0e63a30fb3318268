package appv1

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/model"
)

// anyRequest are the matches of a rule without any.
var anyRequest = []model.Match{{PathType: model.Prefix, Path: "/"}}

// rule returns the model of a rule.
func (t *translator) rule(spec *appv1.RouteRule) model.Rule {
	rule := model.Rule{Matches: translateMatches(spec.Matches), Backends: make([]model.Target, len(spec.BackendRefs))}
	rule.MaxBody = spec.MaxRequestBytes
	for i := range spec.BackendRefs {
		ref := &spec.BackendRefs[i]
		rule.Backends[i] = model.Target{Backend: t.backend(ref.Name, ref.Port), Weight: or(ref.Weight, 1)}
		for _, filter := range ref.Filters {
			addHeaderFilters(&rule.Backends[i].Headers, filter.RequestHeaderModifier, filter.ResponseHeaderModifier)
		}
	}
	for i := range spec.Filters {
		addFilter(&rule.Action, &spec.Filters[i], t.origin.Namespace, spec.Matches)
	}
	if retry := spec.Retry; retry != nil {
		rule.Retry = &model.Retry{Attempts: or(retry.Attempts, 3)}
		for _, code := range retry.Codes {
			rule.Retry.Codes = append(rule.Retry.Codes, int32(code))
		}
		slices.Sort(rule.Retry.Codes)
	}
	if timeouts := spec.Timeouts; timeouts != nil {
		rule.Limit(limit(timeouts.Request), limit(timeouts.BackendRequest))
	}
	if session := spec.SessionPersistence; session != nil {
		rule.Affinity = &model.Affinity{
			Name: cmp.Or(session.SessionName, "gateway-session"), MaxLife: duration(session.AbsoluteTimeout),
		}
	}
	return rule
}

// connectionRules returns the one rule of a route for connections.
func (t *translator) connectionRules(specs []appv1.ConnectionRule) []model.Rule {
	rule := model.Rule{Matches: anyRequest}
	for _, spec := range specs {
		for _, ref := range spec.BackendRefs {
			rule.Backends = append(rule.Backends, model.Target{Backend: t.backend(ref.Name, ref.Port), Weight: or(ref.Weight, 1)})
		}
	}
	return []model.Rule{rule}
}

func translateMatches(specs []appv1.RouteMatch) []model.Match {
	if len(specs) == 0 {
		return anyRequest
	}
	matches := make([]model.Match, len(specs))
	for i := range specs {
		spec := &specs[i]
		match := model.Match{PathType: model.Prefix, Path: cmp.Or(spec.Path.Value, "/"), Method: string(spec.Method)}
		switch spec.Path.Type {
		case appv1.PathMatchRegularExpression:
			match.PathType = model.Regex
		case appv1.PathMatchExact:
			match.PathType = model.Exact
		}
		for _, header := range spec.Headers {
			match.Headers = append(match.Headers, condition(header.Type, string(header.Name), header.Value))
		}
		for _, param := range spec.QueryParams {
			match.Query = append(match.Query, condition(param.Type, param.Name, param.Value))
		}
		matches[i] = match
	}
	return matches
}

func condition(kind appv1.ValueMatchType, name, value string) model.Condition {
	return model.Condition{Name: name, Value: value, Regex: kind == appv1.ValueMatchRegularExpression}
}

// limit returns a limit, nil if none is given.
func limit(d appv1.Duration) *time.Duration {
	if d == "" {
		return nil
	}
	parsed := duration(d)
	return &parsed
}

// addFilter adds a filter to an action. The Services that it names are in the namespace.
func addFilter(action *model.Action, filter *appv1.RuleFilter, namespace string, matches []appv1.RouteMatch) {
	addHeaderFilters(&action.Headers, filter.RequestHeaderModifier, filter.ResponseHeaderModifier)
	if redirect := filter.RequestRedirect; redirect != nil {
		action.Redirect = &model.Redirect{
			Status: or(redirect.StatusCode, 302), Scheme: redirect.Scheme, Hostname: string(redirect.Hostname),
			Port: or(redirect.Port, 0), Path: pathChange(redirect.Path, matches),
		}
	}
	if rewrite := filter.URLRewrite; rewrite != nil {
		action.Rewrite = &model.Rewrite{Hostname: string(rewrite.Hostname), Path: pathChange(rewrite.Path, matches)}
	}
	if response := filter.DirectResponse; response != nil {
		action.Response = &model.Response{
			Status: or(response.StatusCode, 200), Body: response.Body,
			ContentType: cmp.Or(response.ContentType, "text/plain; charset=utf-8"),
		}
	}
	if filter.ClientAddress != nil {
		action.Clients = clients(filter.ClientAddress)
	}
	if filter.RateLimit != nil {
		action.RateLimits = rateLimits(filter.RateLimit)
	}
	if basic := filter.BasicAuth; basic != nil {
		action.BasicAuth = &model.BasicAuth{
			Secret: basic.SecretRef.Name, Realm: cmp.Or(basic.Realm, "Restricted"), UserHeader: strings.ToLower(string(basic.UserHeader)),
		}
	}
	if filter.JWT != nil {
		action.JWT = jwt(filter.JWT)
	}
	if filter.ExternalAuth != nil {
		action.ExternalAuth = externalAuth(filter.ExternalAuth, namespace)
	}
	if filter.RequestMirror != nil {
		addMirrors(action, filter.RequestMirror, namespace)
	}
	action.Cache = action.Cache || filter.Cache != nil
	if cors := filter.CORS; cors != nil {
		action.CORS = &model.CORS{
			Origins: texts(cors.AllowOrigins), Credentials: cors.AllowCredentials, Methods: texts(cors.AllowMethods),
			Headers: texts(cors.AllowHeaders), Expose: texts(cors.ExposeHeaders), MaxAge: or(cors.MaxAge, 5),
		}
	}
}

// externalAuth returns how a Service decides about requests.
func externalAuth(spec *appv1.ExternalAuth, namespace string) *model.ExternalAuth {
	body := or(spec.ForwardBody, appv1.ForwardBody{})
	return &model.ExternalAuth{
		Backend: model.Backend{Namespace: namespace, Service: spec.BackendRef.Name, Port: spec.BackendRef.Port}, Path: cmp.Or(spec.Path, "/"), Timeout: duration(cmp.Or(spec.Timeout, "5s")),
		RequestHeaders: lowered(spec.RequestHeaders), ResponseHeaders: lowered(spec.ResponseHeaders), MaxBody: int64(body.MaxSize),
	}
}

// AddExtension adds a RouteFilter to an action. It returns the part that cannot be carried out, "" if there is none.
// The Service of an ExternalAuth, and the Secret of a BasicAuth, are in the namespace of the RouteFilter. It does not
// check whether they exist.
func AddExtension(action *model.Action, extension *appv1.RouteFilter) string {
	for i := range extension.Spec.Filters {
		filter := &extension.Spec.Filters[i]
		address, limit, basic, token, auth, cache := filter.ClientAddress, filter.RateLimit, filter.BasicAuth, filter.JWT, filter.ExternalAuth, filter.Cache
		switch {
		case *filter != appv1.RuleFilter{Type: filter.Type, ClientAddress: address, RateLimit: limit, BasicAuth: basic, JWT: token, ExternalAuth: auth, Cache: cache},
			address == nil && limit == nil && basic == nil && token == nil && auth == nil && cache == nil:
			return fmt.Sprintf("spec.filters[%d] is neither ClientAddress, RateLimit, BasicAuth, JWT, ExternalAuth nor Cache", i)
		case address != nil && action.Clients != nil, limit != nil && len(action.RateLimits) > 0, basic != nil && action.BasicAuth != nil,
			token != nil && action.JWT != nil, auth != nil && action.ExternalAuth != nil, cache != nil && action.Cache:
			return fmt.Sprintf("the rule has another filter of type %s", filter.Type)
		case basic != nil && action.JWT != nil, token != nil && action.BasicAuth != nil:
			return "BasicAuth and JWT both want the header Authorization, so every request would get 401: remove one of them from the rule"
		}
		addFilter(action, filter, extension.Namespace, nil)
	}
	if most := extension.Spec.MaxRequestBytes; most != nil {
		if action.MaxBody != nil {
			return "the rule has another maxRequestBytes"
		}
		action.MaxBody = most
	} else if len(extension.Spec.Filters) == 0 {
		return "it has neither filters nor maxRequestBytes"
	}
	if action.Cache && action.KnowsUsers() {
		return "Cache would answer all users alike: remove it from the rule, or BasicAuth, JWT and ExternalAuth"
	}
	return ""
}

// clients returns the clients that have access. A range that cannot be parsed is invalid. A range of IPv4 addresses in
// IPv6 notation, such as ::ffff:10.0.0.0/104, is one of IPv4.
func clients(spec *appv1.ClientAddress) *model.Clients {
	ranges := func(from []appv1.AddressRange) []netip.Prefix {
		var all []netip.Prefix
		for _, text := range from {
			prefix, _ := netip.ParsePrefix(string(text))
			if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
				prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
			}
			all = append(all, prefix)
		}
		return all
	}
	return &model.Clients{Allow: ranges(spec.Allow), Deny: ranges(spec.Deny)}
}

// rateLimits returns how many requests are let through.
func rateLimits(spec *appv1.RateLimit) []model.RateLimit {
	periods := map[appv1.RateLimitUnit]time.Duration{
		appv1.RateLimitSecond: time.Second, appv1.RateLimitMinute: time.Minute, appv1.RateLimitHour: time.Hour,
	}
	var limits []model.RateLimit
	add := func(requests int32, period time.Duration, by *appv1.RateLimitKey) {
		limit := model.RateLimit{Requests: requests, Period: period}
		key := or(by, appv1.RateLimitKey{})
		switch limit.Name = key.Name; key.Type {
		case appv1.RateLimitHeader:
			limit.Key, limit.Name = model.ByHeader, strings.ToLower(key.Name)
		case appv1.RateLimitCookie:
			limit.Key = model.ByCookie
		case appv1.RateLimitPath:
			limit.Key = model.ByPath
		case appv1.RateLimitRule:
			limit.Key = model.ByRule
		case appv1.RateLimitClaim:
			limit.Key = model.ByClaim
		}
		limits = append(limits, limit)
	}
	if concurrent := spec.Concurrent; concurrent != nil {
		add(concurrent.Requests, 0, concurrent.Key)
	}
	for _, limit := range spec.Limits {
		add(limit.Requests, periods[limit.Unit], limit.Key)
	}
	slices.SortFunc(limits, func(a, b model.RateLimit) int { return cmp.Compare(a.Period, b.Period) })
	return limits
}

// lowered returns the names of headers in lower case.
func lowered(names []appv1.HeaderName) []string {
	all := texts(names)
	for i := range all {
		all[i] = strings.ToLower(all[i])
	}
	return all
}

// addMirrors adds Services that get copies of requests.
func addMirrors(action *model.Action, spec *appv1.RequestMirror, namespace string) {
	for _, ref := range spec.BackendRefs {
		action.Mirrors = append(action.Mirrors, model.Mirror{
			Backend:   model.Backend{Namespace: namespace, Service: ref.Name, Port: ref.Port},
			Numerator: or(ref.Percent, 100), Denominator: 100,
		})
	}
}

// pathChange returns another path. Its depth is that of the rule's only match, which is of type PathPrefix where a
// prefix is replaced.
func pathChange(path *appv1.PathModifier, matches []appv1.RouteMatch) *model.PathChange {
	switch {
	case path == nil:
		return nil
	case path.Type == appv1.PathModifierReplaceFullPath:
		return &model.PathChange{Full: string(path.ReplaceFullPath)}
	}
	change := &model.PathChange{Prefix: strings.TrimRight(string(path.ReplacePrefixMatch), "/")}
	if len(matches) == 1 {
		prefix, _ := url.PathUnescape(matches[0].Path.Value) // one that is malformed matches no request
		change.Depth = len(strings.FieldsFunc(prefix, func(r rune) bool { return r == '/' }))
	}
	return change
}

// addHeaderFilters adds the filters' changes to the existing ones.
func addHeaderFilters(changes *model.HeaderChanges, request, response *appv1.HeaderFilter) {
	changes.Request = withFilter(changes.Request, request)
	changes.Response = withFilter(changes.Response, response)
}

// withFilter returns changes followed by those of a filter, which removes, then sets, then adds.
func withFilter(changes []model.HeaderChange, filter *appv1.HeaderFilter) []model.HeaderChange {
	if filter == nil {
		return changes
	}
	change := func(name appv1.ModifiedHeaderName, isCleared bool, values ...string) {
		changes = model.Then(changes, model.HeaderChange{Name: strings.ToLower(string(name)), Clear: isCleared, Values: values})
	}
	for _, name := range filter.Remove {
		change(name, true)
	}
	for _, header := range filter.Set {
		change(header.Name, true, header.Value)
	}
	for _, header := range filter.Add {
		change(header.Name, false, header.Value)
	}
	return changes
}

func translatePolicy(spec *appv1.Backend) model.BackendPolicy {
	policy := BackendSettings(&spec.BackendSettings, spec.Name)
	if tls := spec.TLS; tls != nil {
		policy.TLS = &model.BackendTLS{CAs: namesOf(tls.CACertificateRefs), ServerName: string(tls.Hostname)}
	}
	return policy
}

// BackendSettings returns the policy for the settings of a Service's endpoints.
func BackendSettings(spec *appv1.BackendSettings, service string) model.BackendPolicy {
	policy := model.BackendPolicy{ProxyProtocol: string(spec.ProxyProtocol)}
	if balancing := spec.LoadBalancing; balancing != nil {
		policy.Algorithm, policy.Header = string(balancing.Algorithm), strings.ToLower(string(balancing.Header))
		policy.HashBalanceFactor = or(balancing.HashBalanceFactor, 0)
	}
	if check := spec.HealthCheck; check != nil {
		policy.Check = &model.HealthCheck{
			Path: string(check.Path), Hostname: cmp.Or(string(check.Hostname), service),
			Interval: cmp.Or(duration(check.Interval), 5*time.Second), Timeout: cmp.Or(duration(check.Timeout), 2*time.Second),
			Fall: or(check.UnhealthyThreshold, 3), Rise: or(check.HealthyThreshold, 2),
		}
	}
	if outliers := spec.OutlierDetection; outliers != nil && spec.HealthCheck != nil {
		policy.MaxErrors = or(outliers.ConsecutiveErrors, 5)
	}
	if connections := spec.Connections; connections != nil {
		policy.MaxConnections, policy.MaxQueue = connections.MaxPerEndpoint, or(connections.MaxQueue, 0)
		policy.QueueTimeout = cmp.Or(duration(connections.QueueTimeout), 10*time.Second)
	}
	return policy
}
