package convert

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	appv1 "gateway/api/app/v1"
)

// The functions here convert annotations: see the table in annotations.go.

func setAppRoot(s *settings, value string) string {
	if !isURLPath(value) {
		return "it is no path"
	}
	s.appRoot = appv1.URLPath(value)
	return ""
}

func setAliases(s *settings, _ string) string {
	for _, name := range s.list("server-alias", "") {
		if name = strings.ToLower(name); !isHostname(name) {
			s.noteAnnotation("server-alias", name+" is no hostname")
			continue
		}
		s.aliases = append(s.aliases, appv1.Hostname(name))
	}
	return ""
}

// setRedirect takes a URL that may end with $request_uri, which stands for path and query.
func setRedirect(code int32) annotation {
	return func(s *settings, value string) string {
		status, name := code, either(code == 301, "permanent-redirect-code", "temporal-redirect-code")
		if other, ok := s.number(name); ok && slices.Contains(redirectCodes, int(other)) {
			status = other
		} else if ok {
			s.noteAnnotation(name, fmt.Sprintf("a redirect cannot have this status: it has %d", code))
		}
		base, keepPath := strings.CutSuffix(value, "$request_uri")
		target, err := url.Parse(base)
		switch {
		case err != nil || target.RawQuery != "" || target.Fragment != "" || target.User != nil || strings.Contains(base, "$"):
			return "only scheme, host, port and path of a redirect can be given: requests go to the backend"
		case target.Scheme != "" && target.Scheme != "http" && target.Scheme != "https", target.Hostname() != "" && !isPreciseHostname(target.Hostname()),
			target.Path != "" && !isURLPath(target.EscapedPath()), keepPath && target.Path != "":
			return "this URL cannot be given: requests go to the backend"
		}
		s.redirect = &appv1.RequestRedirect{Scheme: target.Scheme, Hostname: appv1.PreciseHostname(target.Hostname()), StatusCode: new(status)}
		if port, err := strconv.ParseUint(target.Port(), 10, 16); err == nil && port > 0 {
			s.redirect.Port = new(int32(port))
		}
		if keepPath {
			return ""
		}
		s.redirect.Path = &appv1.PathModifier{Type: appv1.PathModifierReplaceFullPath, ReplaceFullPath: appv1.URLPath(cmp.Or(target.EscapedPath(), "/"))}
		return "the request's query is appended, which nginx drops"
	}
}

func setUpstreamHost(s *settings, value string) string {
	if !isPreciseHostname(value) {
		return "it is no hostname: the backend gets the request's host"
	}
	s.upstreamHost = appv1.PreciseHostname(value)
	return ""
}

func setForwardedPrefix(s *settings, value string) string {
	switch {
	case s.values["rewrite-target"] == "":
		return "it has no effect without rewrite-target"
	case !isHeaderText(value) || strings.Contains(value, "$"):
		return "only a fixed text can be given"
	}
	s.addFilter(appv1.RuleFilter{
		Type:                  appv1.RuleFilterRequestHeaderModifier,
		RequestHeaderModifier: &appv1.HeaderFilter{Set: []appv1.Header{{Name: "X-Forwarded-Prefix", Value: value}}},
	})
	return ""
}

func (s *settings) addFilter(filter appv1.RuleFilter) {
	s.rule.Filters = append(s.rule.Filters, filter)
}

// setCORS has nginx's defaults for what is not said.
func setCORS(s *settings, value string) string {
	if !equalValues(value, "true") {
		return ""
	}
	cors := &appv1.CORS{AllowCredentials: s.bool("cors-allow-credentials", true), MaxAge: new(int32(1728000))}
	for _, origin := range s.list("cors-allow-origin", "*") {
		switch {
		case !isOrigin(origin):
			s.noteAnnotation("cors-allow-origin", origin+" is no origin")
			continue
		case strings.Contains(origin, "*."):
			s.noteAnnotation("cors-allow-origin", origin+" stands for names with more labels too")
		case origin == "*":
			cors.AllowCredentials = false // browsers refuse them with it
		}
		cors.AllowOrigins = append(cors.AllowOrigins, appv1.CORSOrigin(origin))
	}
	for _, method := range s.list("cors-allow-methods", "GET,PUT,POST,DELETE,PATCH,OPTIONS") {
		if method = strings.ToUpper(method); method != "*" && !slices.Contains(methods, method) {
			s.noteAnnotation("cors-allow-methods", method+" cannot be given")
			continue
		}
		cors.AllowMethods = append(cors.AllowMethods, appv1.CORSMethod(method))
	}
	cors.AllowHeaders = s.headers("cors-allow-headers", "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization")
	cors.ExposeHeaders = s.headers("cors-expose-headers", "")
	if age, ok := s.number("cors-max-age"); ok {
		cors.MaxAge = new(max(1, age))
	}
	if len(cors.AllowOrigins) == 0 {
		return "no origin is left, so it is left out"
	}
	s.addFilter(appv1.RuleFilter{Type: appv1.RuleFilterCORS, CORS: cors})
	return ""
}

// maxItems is how many items most lists of our API may have, but one.
const maxItems = 63

// list returns the different items of an annotation's value.
func (s *settings) list(name, otherwise string) []string {
	value, ok := s.values[name]
	if !ok {
		value = otherwise
	}
	items := list(value)
	slices.Sort(items)
	items = slices.Compact(items)
	if len(items) > maxItems {
		s.noteAnnotation(name, fmt.Sprintf("there may be %d items: %s and what follows is left out", maxItems, items[maxItems]))
		items = items[:maxItems]
	}
	return items
}

func (s *settings) headers(name, otherwise string) []appv1.CORSHeaderName {
	var all []appv1.CORSHeaderName
	for _, header := range s.list(name, otherwise) {
		if header != "*" && !isHeaderName(header) {
			s.noteAnnotation(name, header+" is no name of a header")
			continue
		}
		all = append(all, appv1.CORSHeaderName(header))
	}
	return all
}

// maxBody is the largest value of maxRequestBytes.
const maxBody = 1 << 40

func setBodySize(s *settings, value string) string {
	number := strings.TrimRight(strings.ToLower(value), "bkmgt")
	n, err := strconv.ParseInt(number, 10, 32)
	unit, known := map[string]int64{"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[strings.ToLower(value[len(number):])]
	switch {
	case err != nil || n < 0 || !known:
		return "it is no size"
	case n == 0: // any size
		return ""
	}
	s.rule.MaxRequestBytes = new(min(maxBody, n*unit))
	return ""
}

// setReadTimeout limits each attempt, as nginx does.
func setReadTimeout(s *settings, _ string) string {
	n, ok := s.number("proxy-read-timeout")
	if ok {
		s.rule.Timeouts = &appv1.RouteTimeouts{BackendRequest: seconds(int(n))}
	}
	return ""
}

func setSendTimeout(s *settings, value string) string {
	if value == cmp.Or(s.values["proxy-read-timeout"], "60") {
		return ""
	}
	return "sending to the backend and waiting for it has one limit, that of proxy-read-timeout"
}

// setRetry converts the answers and failures after which nginx tries another endpoint.
func setRetry(s *settings, value string) string {
	retry := s.retry()
	if strings.TrimSpace(value) == "off" {
		retry.Attempts = new(int32(0))
		return ""
	}
	var lost []string
	for _, condition := range strings.Fields(value) {
		code, err := strconv.Atoi(strings.TrimPrefix(condition, "http_"))
		switch {
		case err == nil && slices.Contains(retryCodes, code):
			retry.Codes = append(retry.Codes, appv1.RetryCode(code)) //nolint:gosec // a status
		case condition != "error":
			lost = append(lost, condition)
		}
	}
	slices.Sort(retry.Codes)
	retry.Codes = slices.Compact(retry.Codes)
	if len(lost) > 0 {
		return "requests are not tried again after " + strings.Join(lost, ", ")
	}
	return ""
}

func setTries(s *settings, _ string) string {
	tries, ok := s.number("proxy-next-upstream-tries")
	switch retry := s.retry(); {
	case !ok || retry.Attempts != nil:
		return "" // off
	case tries == 0:
		retry.Attempts = new(int32(10))
		return "a request is tried again 10 times at most"
	default:
		retry.Attempts = new(min(10, tries-1))
		return either(tries > 11, "a request is tried again 10 times at most", "")
	}
}

func (s *settings) retry() *appv1.RouteRetry {
	if s.rule.Retry == nil {
		s.rule.Retry = &appv1.RouteRetry{}
	}
	return s.rule.Retry
}

// defaultSession is the schema's default. It is written out: without it, nothing might be left of a sessionPersistence.
const defaultSession = "gateway-session"

func setAffinity(s *settings, value string) string {
	if value != "cookie" {
		return "only cookie is known"
	}
	session := &appv1.SessionPersistence{SessionName: cmp.Or(s.values["session-cookie-name"], "INGRESSCOOKIE")}
	if !isCookieName(session.SessionName) {
		s.noteAnnotation("session-cookie-name", "a cookie cannot be named so here: it is named gateway-session")
		session.SessionName = defaultSession
	} else if s.values["session-cookie-name"] != "" {
		s.noteAnnotation("session-cookie-name", "each port of a Service has a cookie of its own, whose name begins so")
	}
	if age, ok := s.number("session-cookie-max-age"); ok && age > 0 {
		session.AbsoluteTimeout = seconds(int(age))
		s.noteAnnotation("session-cookie-max-age", "the cookie ends with the browser's session, if that is before")
	}
	s.rule.SessionPersistence = session
	byDefault := len(s.ingress.Spec.TLS) > 0 && s.values["session-cookie-secure"] == ""
	return either(byDefault, "a cookie that was set over HTTPS is sent over HTTP too: nginx makes it Secure", "")
}

func setBackendProtocol(s *settings, value string) string {
	switch protocol := strings.ToUpper(value); protocol {
	case "HTTP":
		return ""
	case "HTTPS", "GRPCS":
		// readers of the note have to make the ConfigMap: until then, the proxies trust nobody.
		s.backend.TLS = &appv1.BackendTLS{}
		text := "backends are verified, unlike by nginx: make the ConfigMap that spec.backends[].tls names, with the CA's certificate as ca.crt, and correct the hostname there"
		if protocol == "GRPCS" {
			text += "; their port needs appProtocol: kubernetes.io/h2c"
		}
		return text
	case "GRPC":
		return "give the port of the Service appProtocol: kubernetes.io/h2c"
	default:
		return "backends are spoken to in HTTP"
	}
}

func setLoadBalance(s *settings, value string) string {
	if value != "round_robin" {
		return "of two endpoints drawn by chance, the less busy one gets a request"
	}
	s.backend.LoadBalancing = &appv1.LoadBalancing{Algorithm: appv1.LoadBalancingRoundRobin}
	return ""
}

func setHashBy(s *settings, value string) string {
	balancing := &appv1.LoadBalancing{}
	header, isHeader := strings.CutPrefix(value, "$http_")
	header = strings.ReplaceAll(header, "_", "-")
	switch {
	case value == "$remote_addr", value == "$binary_remote_addr":
		balancing.Algorithm = appv1.LoadBalancingSourceIP
	case value == "$request_uri", value == "$uri":
		balancing.Algorithm = appv1.LoadBalancingURI
	case isHeader && isMatchableHeader(header):
		balancing.Algorithm, balancing.Header = appv1.LoadBalancingHeader, appv1.HeaderName(header)
	default:
		return "endpoints can be chosen by the client's address ($remote_addr), the path ($uri) or a header ($http_NAME) alone"
	}
	s.backend.LoadBalancing = balancing
	return either(value == "$request_uri", "the query does not count", "")
}

// either returns one of two values, by a condition.
func either(condition bool, yes, no string) string {
	if condition {
		return yes
	}
	return no
}
