package ingress

import (
	"maps"
	"slices"
	"strings"
)

// Prefix begins ingress-nginx's annotations.
const Prefix = "nginx.ingress.kubernetes.io/"

// Class is what becomes of an annotation, or of a key of the controller's ConfigMap.
type Class string

// The classes.
const (
	// Carried does here what it does with nginx.
	Carried Class = "carried"
	// Differs does something like it. Notes tell the difference.
	Differs Class = "differs"
	// Closed may keep clients out, and cannot be carried over: paths answer 503.
	Closed Class = "closed"
	// Harmless changes no answer.
	Harmless Class = "ignored"
	// Lost is left out. A note names it.
	Lost Class = "left out"
)

// setter adds an annotation's value to settings. It returns a note about what is lost, "" if nothing is.
type setter func(s *settings, value string) string

// Row is what becomes of annotations, or of keys.
type Row struct {
	// Names are separated by spaces. Annotations have no prefix here.
	Names string
	Class Class
	// Text is what they become, or why not.
	Text string
	// set carries them over; nil: they are left out, unless the value is one of except, which asks for nothing.
	set    setter
	except string
}

// lose handles an annotation that is not carried over.
func (r *Row) lose(s *settings, value string) string {
	isNothing := slices.ContainsFunc(strings.Split(r.except, "|"), func(other string) bool { return equalValues(value, other) })
	switch {
	case r.Class == Harmless, r.except != "" && isNothing:
		return ""
	case r.Class == Closed:
		return s.close(s.annotation, r.Text)
	}
	return r.Text
}

// Annotations are the annotations of ingress-nginx, of all versions, in the order of the documentation here.
var Annotations = slices.Concat(routing, limiting, serving, guarding)

var annotations = map[string]*Row{}

func init() {
	for i := range Annotations {
		for name := range strings.FieldsSeq(Annotations[i].Names) {
			annotations[name] = &Annotations[i]
		}
	}
}

// routing are paths, redirects, hosts and headers.
var routing = []Row{
	{"rewrite-target", Carried, "PathRegexRewrite, URLRewrite of the whole path, or RequestRedirect to a URL. One with variables or a query is closed", setRewriteTarget, ""},
	{"use-regex", Carried, "regular expressions, in the order of nginx", setBool(func(s *settings, value bool) { s.useRegex = value }), ""},
	{"app-root", Differs, "RequestRedirect of the path /, with the query", setAppRoot, ""},
	{"permanent-redirect", Differs, redirects, setRedirect(301), ""},
	{"temporal-redirect", Differs, redirects, setRedirect(302), ""},
	{"permanent-redirect-code", Carried, "the status of the redirect", part("permanent-redirect"), ""},
	{"temporal-redirect-code", Carried, "the status of the redirect", part("temporal-redirect"), ""},
	{"from-to-www-redirect", Carried, "RequestRedirect of the other name", setBool(func(s *settings, value bool) { s.wwwRedirect = value }), ""},
	{"ssl-redirect", Carried, "RequestRedirect at the listener for HTTP", setBool(func(s *settings, value bool) { s.noHTTPSRedirect = !value }), ""},
	{"force-ssl-redirect", Differs, "as ssl-redirect. It needs a certificate, or use-forwarded-headers", setBool(func(s *settings, value bool) { s.forceHTTPS = value }), ""},
	{"preserve-trailing-slash", Harmless, "redirects keep it always", nil, ""},
	{"relative-redirects", Differs, "redirects are absolute, to the host of the request", nil, "false"},
	{"use-port-in-redirects", Differs, "redirects name no port, as listeners have the ports 80 and 443", nil, "false"},
	{"server-alias", Carried, "hostnames, and listeners for HTTPS", setAliases, ""},
	{"upstream-vhost", Differs, "URLRewrite, of a name without a port or variables", setUpstreamHost, ""},
	{"x-forwarded-prefix", Carried, "RequestHeaderModifier", setForwardedPrefix, ""},
	{"custom-headers", Carried, "ResponseHeaderModifier, with what the ConfigMap has", setCustomHeaders, ""},
	{"connection-proxy-header", Harmless, "HAProxy sets Connection itself", nil, ""},
	{"proxy-cookie-domain", Carried, "ResponseRewrite, for a pair of domains", setCookieDomain, ""},
	{"proxy-cookie-path", Carried, "ResponseRewrite, for a pair of paths", setCookiePath, ""},
	{"proxy-redirect-from", Differs, "ResponseRewrite. A new Location without a host stays so", setLocation, ""},
	{"proxy-redirect-to", Differs, "as proxy-redirect-from", part("proxy-redirect-from"), ""},
	{"enable-cors", Carried, "CORS, with nginx's defaults: any origin, without credentials. What only preflights need is in answers to them alone", setCORS, ""},
	{
		"cors-allow-origin cors-allow-methods cors-allow-headers cors-allow-credentials cors-expose-headers cors-max-age",
		Carried, "CORS", part("enable-cors"), "",
	},
	{"mirror-target", Differs, "RequestMirror, for a Service of the cluster", setMirror, ""},
	{"mirror-request-body mirror-host", Differs, withCopies, beside("mirror-target", withCopies), ""},
	{"canary", Carried, "rules with a header match, then weights", setCanary, ""},
	{"canary-weight canary-weight-total canary-by-header canary-by-cookie", Carried, "as canary", part("canary"), ""},
	{"canary-by-header-value canary-by-header-pattern", Carried, "as canary", part("canary-by-header"), ""},
	{"ssl-passthrough", Differs, "a TLSRoute for the host. A host where requests are checked or refused is closed", setBool(func(s *settings, value bool) { s.passthrough = value }), ""},
}

// limiting are limits, timeouts and retries.
var limiting = []Row{
	{"proxy-body-size", Carried, "maxRequestBytes", setBodySize, ""},
	{"proxy-read-timeout", Carried, "timeouts.backendRequest", setReadTimeout, ""},
	{"proxy-send-timeout", Differs, "proxy-read-timeout is the limit of sending and waiting", setSendTimeout, ""},
	{"proxy-connect-timeout", Differs, "connecting may take 2 s, and is tried three times more", nil, ""},
	{"proxy-next-upstream", Differs, "retry, for the conditions that there are", setRetry, ""},
	{"proxy-next-upstream-tries", Carried, "retry.attempts, up to 10", setTries, ""},
	{"proxy-next-upstream-timeout", Lost, "the time of all attempts together is not bounded: use timeouts.request", nil, "0"},
	{"limit-rate", Carried, "BandwidthLimit", setRate, ""},
	{"limit-rate-after", Differs, "BandwidthLimit, for longer answers from their first byte on", setRateAfter, ""},
	{"limit-rps limit-rpm", Differs, "RateLimit: the burst and one in a second (a minute), 60 times the limit in a minute (an hour)", setLimits, ""},
	{"limit-connections", Differs, "RateLimit of concurrent requests", setConcurrent, ""},
	{"limit-burst-multiplier", Carried, "RateLimit", setBurst, ""},
	{"limit-whitelist limit-allowlist", Differs, "these clients are limited, too", setExempt, ""},
	{"proxy-buffer-size", Differs, noLargeHeaders, setHeaderSize, ""},
	{
		"client-body-buffer-size proxy-buffering proxy-request-buffering proxy-buffers-number proxy-busy-buffers-size proxy-max-temp-file-size",
		Harmless, "requests and answers are passed on as they come", nil, "",
	},
}

// serving are about how Services are spoken to, and about other things than requests.
var serving = []Row{
	{"backend-protocol", Differs, "BackendTLSPolicy for HTTPS: make its ConfigMap. HTTP/2 needs an appProtocol of the Service's port", setBackendProtocol, ""},
	{"load-balance", Differs, "BackendPolicy for round_robin, else the less busy of two endpoints", setLoadBalance, ""},
	{"upstream-hash-by", Differs, "BackendPolicy by address, path or header", setHashBy, ""},
	{"upstream-hash-by-subset upstream-hash-by-subset-size", Differs, "the same key always gets the same endpoint", nil, "false"},
	{"service-upstream", Differs, "requests go to the Service's endpoints themselves", nil, "false"},
	{"default-backend", Differs, "the Service of custom-http-errors. Without an endpoint, clients get 503", func(*settings, string) string { return withoutEndpoints }, ""},
	{"custom-http-errors", Differs, "ResponseOverride, with the answers of default-backend, which gets no query", setErrors, ""},
	{"disable-proxy-intercept-errors", Carried, "no ResponseOverride", part("custom-http-errors"), ""},
	{"proxy-http-version", Harmless, "HTTP/1.1, or HTTP/2 by the appProtocol of the Service's port", nil, ""},
	{"proxy-ssl-name", Carried, "BackendTLSPolicy", part("backend-protocol"), ""},
	{
		"proxy-ssl-secret proxy-ssl-ciphers proxy-ssl-protocols proxy-ssl-server-name proxy-ssl-verify proxy-ssl-verify-depth",
		Differs, "backends with TLS are always verified, by a BackendTLSPolicy", nil, "",
	},
	{"fastcgi-index fastcgi-params-configmap", Lost, "FastCGI is not spoken: put an HTTP server before the backend", nil, ""},
	{"affinity", Differs, "sessionPersistence", setAffinity, ""},
	{"affinity-mode", Differs, "a session stays with its endpoint as long as that exists", nil, "persistent"},
	{"affinity-canary-behavior", Differs, "a session stays with the Service that it began with", nil, "sticky"},
	{"session-cookie-name session-cookie-max-age", Differs, "sessionPersistence", part("affinity"), ""},
	{"session-cookie-expires", Differs, "the cookie's age is from session-cookie-max-age alone", nil, ""},
	{"session-cookie-path", Differs, "the cookie is for all paths of the host", nil, "/"},
	{"session-cookie-domain", Differs, "the cookie is for the request's host alone", nil, ""},
	{"session-cookie-secure", Differs, "the cookie is sent over HTTP too", nil, "false"},
	{"session-cookie-change-on-failure", Differs, "an endpoint that cannot be reached is replaced, and so is the cookie", nil, "true"},
	{"session-cookie-samesite session-cookie-conditional-samesite-none", Differs, "the cookie has no SameSite, which browsers take for Lax", nil, "lax|false"},
	{"ssl-ciphers", Differs, "the proxies have a list of ciphers of their own", nil, ""},
	{"ssl-prefer-server-ciphers", Harmless, "clients choose among the proxies' ciphers", nil, ""},
	{"http2-push-preload", Harmless, "browsers do not support it any more", nil, ""},
	{"enable-access-log", Harmless, "all requests are logged", nil, ""},
	{"enable-rewrite-log", Harmless, "kubectl gateway explain shows the rewritten path", nil, ""},
	{"enable-opentelemetry opentelemetry-trust-incoming-span opentelemetry-operation-name", Lost, noTraces, nil, "false"},
	{"stream-snippet", Lost, noSnippets, nil, ""},
	{
		"add-base-url auth-send-body base-url-scheme enable-influxdb enable-opentracing global-rate-limit global-rate-limit-ignored-cidrs " +
			"global-rate-limit-key global-rate-limit-window grpc-backend influxdb-host influxdb-measurement influxdb-port influxdb-server-name " +
			"lua-resty-waf lua-resty-waf-allow-unknown-content-types lua-resty-waf-debug lua-resty-waf-extra-rules lua-resty-waf-ignore-rulesets " +
			"lua-resty-waf-process-multipart-body lua-resty-waf-score-threshold mirror-uri opentelemetry-trust-incoming-spans " +
			"opentracing-trust-incoming-span rewrite-log secure-backends secure-verify-ca-secret session-cookie-hash upstream-fail-timeout upstream-max-fails",
		Lost, "ingress-nginx does not read it any more", nil, "",
	},
}

// guarding are about who may come in. Whoever loses one must not be open to all.
var guarding = []Row{
	{"whitelist-source-range allowlist-source-range", Carried, "ClientAddress", setRanges, ""},
	{"denylist-source-range", Carried, "ClientAddress", setRanges, ""},
	{"satisfy", Differs, "every check applies", nil, "all"},
	{"auth-url", Differs, "ExternalAuth, for a Service of the cluster, or of a path of the host ($host). Others are closed", setAuth, ""},
	{"auth-response-headers", Carried, "ExternalAuth", part("auth-url"), ""},
	{"auth-method", Differs, "GET. Others are closed", setAuthMethod, ""},
	{"auth-signin auth-signin-redirect-param", Differs, authSignIn, beside("auth-url", authSignIn), ""},
	{"auth-request-redirect", Differs, authRedirect, beside("auth-url", authRedirect), ""},
	{"auth-always-set-cookie", Differs, authCookies, beside("auth-url", authCookies), "false"},
	{"auth-cache-key", Differs, "`cache` of ExternalAuth, by variables that tell clients apart. With others, the Service is asked about each request", setAuthCache, ""},
	{"auth-cache-duration", Differs, "as auth-cache-key, up to 1h, for 2xx to 4xx", part("auth-cache-key"), ""},
	{"auth-keepalive auth-keepalive-share-vars auth-keepalive-requests auth-keepalive-timeout", Harmless, "connections to the Service are kept and shared", nil, ""},
	{"auth-type", Differs, "BasicAuth, whose realm is Restricted by default. Digests are closed", setPasswords, ""},
	{"auth-secret auth-secret-type auth-realm", Carried, "BasicAuth", part("auth-type"), ""},
	{"auth-snippet", Closed, authPolicy, nil, ""},
	{"auth-proxy-set-headers", Closed, "the Service gets headers of the client alone: have it do without these", nil, ""},
	{authTLS, Differs, "spec.tls.frontend of a Gateway for these hosts. A host without tls is closed", setClients, ""},
	{"auth-tls-verify-client", Differs, "on and optional. Others are closed", part(authTLS), ""},
	{"auth-tls-verify-depth", Differs, "any depth is allowed", part(authTLS), ""},
	{"auth-tls-pass-certificate-to-upstream", Differs, "the backend gets Client-Cert in any case", part(authTLS), ""},
	{"auth-tls-error-page", Differs, "clients without a certificate get no answer", part(authTLS), ""},
	{"auth-tls-match-cn", Closed, clientsName, setClientsName, ""},
	{"enable-global-auth", Carried, "the key global-auth-url of the ConfigMap", setBool(func(*settings, bool) {}), ""},
	{"enable-modsecurity", Differs, withRules, setFirewall, ""},
	{"enable-owasp-core-rules modsecurity-transaction-id", Harmless, "a WAF has these rules, and the access log an ID", nil, ""},
	{"modsecurity-snippet", Closed, ownRules, setFirewallRules, ""},
	{"configuration-snippet", Differs, "headers with fixed values are added, set and removed. One with any other directive is closed", setSnippet, ""},
	{serverSnippet, Differs, "more_set_headers and more_clear_headers with fixed values. One with any other directive is closed", setServerSnippet, ""},
}

const (
	redirects  = "RequestRedirect. One with variables is closed, but for $host, $scheme and $request_uri"
	withCopies = "copies have the host of the request, and its body of up to 15 KiB"
	noSnippets = "there are no snippets: say with fields what it does, if there are any for it"
	noTraces   = "there are no traces unless you add tracing to the GatewayConfig; trace headers of clients are passed on"
)

// keysOf returns the sorted keys of a map.
func keysOf[V any](all map[string]V) []string { return slices.Sorted(maps.Keys(all)) }
