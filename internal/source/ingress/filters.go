package ingress

import (
	"cmp"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// The functions here convert annotations: see the table in annotations.go.

func setAppRoot(s *settings, value string) string {
	if !isURLPath(value) {
		return "it is no path"
	}
	s.appRoot = value
	return withQuery
}

func setAliases(s *settings, _ string) string {
	for _, name := range s.list("server-alias", "") {
		if name = strings.ToLower(name); !isHostname(name) {
			s.noteAnnotation("server-alias", name+" is no hostname")
			continue
		}
		s.aliases = append(s.aliases, name)
	}
	if most := maxListeners - 2; len(s.aliases) > most { // beside the host and its name with www.
		s.aliases = s.aliases[:most]
		return fmt.Sprintf("a host has up to %d aliases here", most)
	}
	return ""
}

// setRedirect answers with a redirect. The backend of an Ingress whose URL cannot be given stays closed, as nginx does
// not pass requests on to it.
func setRedirect(code int) setter {
	return func(s *settings, value string) string {
		status, name := code, either(code == 301, "permanent-redirect-code", "temporal-redirect-code")
		if other, ok := s.number(name); ok && slices.Contains(redirectCodes, int(other)) {
			status = int(other)
		} else if ok {
			s.noteAnnotation(name, fmt.Sprintf("a redirect cannot have this status: it has %d", code))
		}
		redirect, problem := redirectTo(value)
		if problem != "" {
			return s.close(s.annotation, problem)
		}
		s.redirect, redirect.StatusCode = redirect, &status
		return either(redirect.Path != nil, withQuery, "")
	}
}

const withQuery = "the request's query is appended, which nginx drops"

// ofRequest matches a URL with the host of the request, and maybe its scheme.
var ofRequest = regexp.MustCompile(`^(\$scheme:|https?:)?//\$(http_)?host(/|$)`)

// redirectTo returns a redirect to a URL, without a status, or why there is none. The URL may end with $request_uri,
// which stands for path and query.
func redirectTo(value string) (redirect *gatewayv1.HTTPRequestRedirectFilter, problem string) {
	base, keepPath := strings.CutSuffix(value, "$request_uri")
	base = ofRequest.ReplaceAllString(base, "$1//$3")
	target, err := url.Parse(strings.TrimPrefix(base, "$scheme:"))
	switch {
	case err != nil || target.RawQuery != "" || target.Fragment != "" || target.User != nil || strings.Contains(target.String(), "$"):
		return nil, "a redirect has only scheme, host, port and path"
	case target.Scheme != "" && target.Scheme != "http" && target.Scheme != "https", target.Hostname() != "" && !isPreciseHostname(target.Hostname()),
		target.Path != "" && !isURLPath(target.EscapedPath()), keepPath && target.Path != "":
		return nil, "a redirect cannot have this URL"
	}
	redirect = &gatewayv1.HTTPRequestRedirectFilter{}
	if target.Scheme != "" {
		redirect.Scheme = &target.Scheme
	}
	if target.Hostname() != "" {
		redirect.Hostname = new(gatewayv1.PreciseHostname(target.Hostname()))
	}
	if port, err := strconv.ParseUint(target.Port(), 10, 16); err == nil && port > 0 {
		redirect.Port = new(gatewayv1.PortNumber(port)) //nolint:gosec // it has 16 bits
	}
	if !keepPath {
		redirect.Path = fullPath(cmp.Or(target.EscapedPath(), "/"))
	}
	return redirect, ""
}

// setRewriteTarget takes a path. nginx redirects to a URL, unless another annotation says where to.
func setRewriteTarget(s *settings, value string) string {
	s.rewriteTarget = value
	isURL := strings.HasPrefix(value, "http://") || strings.HasPrefix(value, "https://") || strings.HasPrefix(value, "$scheme")
	if !isURL || s.values["permanent-redirect"] != "" || s.values["temporal-redirect"] != "" {
		return ""
	}
	redirect, problem := redirectTo(value)
	if problem != "" {
		return s.close(s.annotation, problem)
	}
	s.redirect, redirect.StatusCode = redirect, new(302)
	return ""
}

func fullPath(path string) *gatewayv1.HTTPPathModifier {
	return &gatewayv1.HTTPPathModifier{Type: gatewayv1.FullPathHTTPPathModifier, ReplaceFullPath: &path}
}

func setUpstreamHost(s *settings, value string) string {
	if !isPreciseHostname(value) {
		return "it is no hostname: the backend gets the request's host"
	}
	s.upstreamHost = value
	return ""
}

func setForwardedPrefix(s *settings, value string) string {
	switch {
	case s.values["rewrite-target"] == "":
		return "it has no effect without rewrite-target"
	case !isHeaderText(value) || strings.Contains(value, "$"):
		return "only a fixed text can be given"
	}
	headers := s.rule.headers(ofRequests)
	headers.Set = append(headers.Set, gatewayv1.HTTPHeader{Name: "X-Forwarded-Prefix", Value: value})
	return ""
}

func (s *settings) addFilter(filter gatewayv1.HTTPRouteFilter) {
	s.rule.Filters = append(s.rule.Filters, filter)
}

// setCustomHeaders adds the headers of a ConfigMap to answers.
func setCustomHeaders(s *settings, value string) string {
	if other, _, ok := strings.Cut(value, "/"); ok && s.Serving && other != s.ingress.Namespace {
		return "the ConfigMap is in another namespace"
	}
	headers, problem := s.headersOf(value, s.ingress.Namespace, "")
	if headers == nil {
		return problem
	}
	for _, header := range headers.Set {
		if s.Configuration != nil && !slices.Contains(s.allowedHeaders, string(header.Name)) {
			return s.close(s.annotation, fmt.Sprintf("global-allowed-response-headers does not have %s, so nginx answers 503", header.Name))
		}
	}
	all := s.rule.headers(ofAnswers)
	for _, header := range headers.Set { // they come after a snippet's
		all.Set = slices.DeleteFunc(all.Set, func(h gatewayv1.HTTPHeader) bool { return strings.EqualFold(string(h.Name), string(header.Name)) })
		all.Set = append(all.Set, header)
	}
	if len(all.Set) > maxHeaders {
		all.Set = all.Set[:maxHeaders]
		return fmt.Sprintf("a rule sets up to %d headers, with those of the snippet: others are left out", maxHeaders)
	}
	return problem
}

// headersOf returns the headers that a ConfigMap has, by NAMESPACE/NAME, nil if it is not known, and what cannot be
// set, such as values with a text that stands for something else.
func (t *translator) headersOf(name, namespace, variable string) (headers *gatewayv1.HTTPHeaderFilter, problem string) {
	if other, rest, ok := strings.Cut(name, "/"); ok {
		namespace, name = other, rest
	}
	configMap := t.ConfigMaps[types.NamespacedName{Namespace: namespace, Name: name}]
	if configMap == nil {
		if t.Serving {
			return nil, fmt.Sprintf("ConfigMap %s/%s is not read: those of namespace %s are", namespace, name, t.Namespace)
		}
		return nil, fmt.Sprintf("ConfigMap %s/%s is not known: give it, too", namespace, name)
	}
	headers = &gatewayv1.HTTPHeaderFilter{}
	var lost []string
	for _, header := range keysOf(configMap.Data) {
		value := configMap.Data[header]
		isVariable := variable != "" && strings.Contains(value, variable)
		if !isChangeableHeader(header) || !isHeaderText(value) || isVariable || len(headers.Set) == maxHeaders {
			lost = append(lost, header)
			continue
		}
		headers.Set = append(headers.Set, gatewayv1.HTTPHeader{Name: gatewayv1.HTTPHeaderName(header), Value: value})
	}
	const text = "ConfigMap %s/%s: up to %d headers can be set, to fixed texts, and not %s"
	return headers, either(len(lost) > 0, fmt.Sprintf(text, namespace, name, maxHeaders, strings.Join(lost, ", ")), "")
}

// maxHeaders is how many headers a filter may set.
const maxHeaders = 16

// setMirror sends copies of requests to a Service.
func setMirror(s *settings, value string) string {
	const onlyServices = "only a Service gets copies, from http://NAME.NAMESPACE.svc:PORT$request_uri"
	service, port, _, ok := serviceOf(strings.TrimSuffix(value, "$request_uri"))
	if !ok || !strings.HasSuffix(value, "$request_uri") {
		return onlyServices
	}
	if !s.mayRefer(service) {
		return fmt.Sprintf(noGrant, service.Namespace, s.ingress.Namespace, service.Name)
	}
	s.addFilter(gatewayv1.HTTPRouteFilter{
		Type: gatewayv1.HTTPRouteFilterRequestMirror, RequestMirror: &gatewayv1.HTTPRequestMirrorFilter{
			BackendRef: gatewayv1.BackendObjectReference{
				Name: gatewayv1.ObjectName(service.Name), Namespace: new(gatewayv1.Namespace(service.Namespace)), Port: &port,
			},
		},
	})
	return "bodies without Content-Length, or of more than 15 KiB, are not copied"
}

// setCORS has nginx's defaults for what is not said.
func setCORS(s *settings, value string) string {
	if !equalValues(value, "true") {
		return ""
	}
	cors := &gatewayv1.HTTPCORSFilter{AllowCredentials: new(s.bool("cors-allow-credentials", true)), MaxAge: 1728000}
	for _, origin := range s.list("cors-allow-origin", "*") {
		switch {
		case !isOrigin(origin):
			s.noteAnnotation("cors-allow-origin", origin+" is no origin")
			continue
		case strings.Contains(origin, "*."):
			s.noteAnnotation("cors-allow-origin", origin+" stands for names with more labels too")
		}
		cors.AllowOrigins = append(cors.AllowOrigins, gatewayv1.CORSOrigin(origin))
	}
	for _, method := range s.list("cors-allow-methods", "GET,PUT,POST,DELETE,PATCH,OPTIONS") {
		if method = strings.ToUpper(method); method != "*" && !slices.Contains(methods, method) {
			s.noteAnnotation("cors-allow-methods", method+" cannot be given")
			continue
		}
		cors.AllowMethods = append(cors.AllowMethods, gatewayv1.HTTPMethodWithWildcard(method))
	}
	cors.AllowHeaders = s.headers("cors-allow-headers", "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization")
	cors.ExposeHeaders = s.headers("cors-expose-headers", "")
	cors.AllowOrigins, cors.AllowMethods, cors.AllowHeaders = allIfAny(cors.AllowOrigins), allIfAny(cors.AllowMethods), allIfAny(cors.AllowHeaders)
	if slices.Contains(cors.AllowOrigins, "*") { // nginx answers with "*", so browsers show no page what they got with cookies
		cors.AllowCredentials = nil
	}
	if age, ok := s.number("cors-max-age"); ok {
		cors.MaxAge = max(1, age)
	}
	if len(cors.AllowOrigins) == 0 {
		return "no origin is left, so it is left out"
	}
	s.addFilter(gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterCORS, CORS: cors})
	return "CORS headers of backends are removed"
}

// allIfAny returns "*" alone, if it is among others.
func allIfAny[T ~string](all []T) []T {
	if slices.Contains(all, "*") {
		return []T{"*"}
	}
	return all
}

// maxItems is how many items most lists of our API may have, but one.
const maxItems = 63

// list returns the different items of an annotation's value.
func (s *settings) list(name, otherwise string) []string {
	items := list(s.values[name])
	if len(items) == 0 {
		items = list(otherwise)
	}
	slices.Sort(items)
	items = slices.Compact(items)
	if len(items) > maxItems {
		s.noteAnnotation(name, fmt.Sprintf("there may be %d items: %s and what follows is left out", maxItems, items[maxItems]))
		items = items[:maxItems]
	}
	return items
}

func (s *settings) headers(name, otherwise string) []gatewayv1.HTTPHeaderName {
	var all []gatewayv1.HTTPHeaderName
	for _, header := range s.list(name, otherwise) {
		if header != "*" && !isHeaderName(header) {
			s.noteAnnotation(name, header+" is no name of a header")
			continue
		}
		all = append(all, gatewayv1.HTTPHeaderName(header))
	}
	return all
}

// maxBody is the largest value of maxRequestBytes.
const maxBody = 1 << 40

// size returns the bytes of a size as nginx writes them.
func size(value string) (int64, bool) {
	number := strings.TrimRight(strings.ToLower(value), "bkmgt")
	n, err := strconv.ParseInt(number, 10, 32)
	unit, known := map[string]int64{"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}[strings.ToLower(value[len(number):])]
	return min(maxBody, n*unit), err == nil && n >= 0 && known
}

func setBodySize(s *settings, value string) string {
	n, ok := size(value)
	if !ok {
		return "it is no size"
	}
	s.rule.extension.MaxRequestBytes = new(cmp.Or(n, maxBody)) // 0 is any size
	return ""
}

// headerRoom is how many bytes the headers of an answer may have.
const headerRoom = 60 << 10

const noLargeHeaders = "headers of answers have up to 60 KiB"

func setHeaderSize(_ *settings, value string) string {
	n, ok := size(value)
	return either(ok && n > headerRoom, noLargeHeaders, "")
}

// setReadTimeout limits each attempt, as nginx does.
func setReadTimeout(s *settings, _ string) string {
	if n, ok := s.number("proxy-read-timeout"); ok {
		s.rule.Timeouts = &gatewayv1.HTTPRouteTimeouts{BackendRequest: seconds(int(n))}
	}
	return ""
}

func setSendTimeout(s *settings, value string) string {
	if value == cmp.Or(s.values["proxy-read-timeout"], "60") {
		return ""
	}
	return "sending to the backend and waiting for it share one limit, proxy-read-timeout"
}

// experimental is what the field of HTTPRoutes needs.
const experimental = "sessionPersistence of HTTPRoutes needs the CRDs of the Gateway API's experimental channel"

// setRetry converts the answers and failures after which nginx tries another endpoint.
func setRetry(s *settings, value string) string {
	if strings.TrimSpace(value) == "off" {
		s.retry().Attempts = new(0)
		return ""
	}
	var codes []gatewayv1.HTTPRouteRetryStatusCode
	var lost []string
	for _, condition := range strings.Fields(value) {
		code, err := strconv.Atoi(strings.TrimPrefix(condition, "http_"))
		switch {
		case err == nil && slices.Contains(retryCodes, code):
			codes = append(codes, gatewayv1.HTTPRouteRetryStatusCode(code))
		case condition != "error":
			lost = append(lost, condition)
		}
	}
	slices.Sort(codes)
	s.retry().Codes = slices.Compact(codes)
	return either(len(lost) > 0, "requests are not tried again after "+strings.Join(lost, ", "), "")
}

func setTries(s *settings, _ string) string {
	tries, ok := s.number("proxy-next-upstream-tries")
	switch {
	case !ok || strings.TrimSpace(s.values["proxy-next-upstream"]) == "off":
		return ""
	case tries == 0:
		s.retry().Attempts = new(10)
	default:
		s.retry().Attempts = new(min(10, int(tries)-1))
	}
	return either(tries > 11 || tries == 0, "a request is tried again 10 times at most", "")
}

// retry returns the retry of the rule. By default, nginx tries three times in all.
func (s *settings) retry() *gatewayv1.HTTPRouteRetry {
	if s.rule.Retry == nil {
		s.rule.Retry = &gatewayv1.HTTPRouteRetry{Attempts: new(2)}
	}
	return s.rule.Retry
}

func setAffinity(s *settings, value string) string {
	if value != "cookie" {
		return "only cookie is known"
	}
	name := cmp.Or(s.values["session-cookie-name"], "INGRESSCOOKIE")
	if !isCookieName(name) {
		s.noteAnnotation("session-cookie-name", "a cookie cannot be named so here: it is named gateway-session")
		name = "gateway-session"
	} else if s.values["session-cookie-name"] != "" {
		s.noteAnnotation("session-cookie-name", "each port of a Service has a cookie of its own, whose name begins so")
	}
	s.noteOnce(experimental)
	s.rule.SessionPersistence = &gatewayv1.SessionPersistence{
		Cookie: &gatewayv1.CookieConfig{Name: (*gatewayv1.CookieName)(&name)},
	}
	if age, ok := s.number("session-cookie-max-age"); ok && age > 0 {
		s.rule.SessionPersistence.AbsoluteTimeout = seconds(int(age))
		s.noteAnnotation("session-cookie-max-age", "the cookie ends with the browser's session, if that is before")
	}
	isBelow := func(rule networkingv1.IngressRule) bool {
		return rule.HTTP != nil && slices.ContainsFunc(rule.HTTP.Paths, func(p networkingv1.HTTPIngressPath) bool { return cmp.Or(p.Path, "/") != "/" })
	}
	if s.values["session-cookie-path"] == "" && slices.ContainsFunc(s.ingress.Spec.Rules, isBelow) {
		s.noteAnnotation("affinity", "the cookie is for all paths of the host: nginx makes one for each path")
	}
	isSecure := len(s.ingress.Spec.TLS) > 0 && !equalValues(s.values["session-cookie-secure"], "true")
	return either(isSecure, "a cookie that was set over HTTPS is sent over HTTP too: nginx makes it Secure", "")
}

func setBackendProtocol(s *settings, value string) string {
	switch protocol := strings.ToUpper(value); protocol {
	case "HTTP":
		return ""
	case "HTTPS", "GRPCS":
		// readers of the note have to make the ConfigMap: until then, the proxies trust nobody.
		s.tls = true
		const verified = "backends are verified, unlike by nginx\n" +
			"make the ConfigMap of the BackendTLSPolicy, with the CA's certificate as ca.crt\ncorrect the hostname in the BackendTLSPolicy"
		s.http2 = protocol == "GRPCS"
		return verified
	case "GRPC":
		s.http2 = true
		return ""
	default:
		return "backends are spoken to in HTTP"
	}
}

func setLoadBalance(s *settings, value string) string {
	if value != "round_robin" {
		return "of two endpoints drawn by chance, the less busy one gets a request"
	}
	s.balancing = &appv1.LoadBalancing{Algorithm: appv1.LoadBalancingRoundRobin}
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
		return "endpoints are chosen by the client's address ($remote_addr), the path ($uri) or a header ($http_NAME) alone"
	}
	s.balancing = balancing
	return either(value == "$request_uri", "the query does not count", "")
}
