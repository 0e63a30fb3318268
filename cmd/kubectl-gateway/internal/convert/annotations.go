package convert

import "regexp"

// prefix is that of ingress-nginx's annotations.
const prefix = "nginx.ingress.kubernetes.io/"

// annotation adds an annotation's value to settings. It returns a note about what is lost, "" if nothing is.
type annotation func(s *settings, value string) string

// annotations are those of ingress-nginx, of all versions: by name, or by a beginning that ends with "-".
var annotations = map[string]annotation{
	// Paths and redirects.
	"rewrite-target":          func(s *settings, value string) string { s.rewriteTarget = value; return "" }, // see paths.go
	"use-regex":               setBool(func(s *settings, value bool) { s.useRegex = value }),
	"app-root":                setAppRoot,
	"permanent-redirect":      setRedirect(301),
	"permanent-redirect-code": part("permanent-redirect"),
	"temporal-redirect":       setRedirect(302),
	"temporal-redirect-code":  part("temporal-redirect"),
	"from-to-www-redirect":    setBool(func(s *settings, value bool) { s.wwwRedirect = value }),
	"ssl-redirect":            setBool(func(s *settings, value bool) { s.noHTTPSRedirect = !value }),
	"force-ssl-redirect":      setBool(func(s *settings, value bool) { s.forceHTTPS = value }),
	"preserve-trailing-slash": listed("redirects keep it always", "true"),
	"relative-redirects":      listed("redirects are absolute", "false"),
	"use-port-in-redirects":   listed("redirects to HTTPS name no port", "false"),

	// Hosts and headers.
	"server-alias":            setAliases,
	"upstream-vhost":          setUpstreamHost,
	"x-forwarded-prefix":      setForwardedPrefix,
	"custom-headers":          listed("headers are not read from ConfigMaps: use the filter ResponseHeaderModifier"),
	"connection-proxy-header": listed("HAProxy sets Connection itself"),
	"proxy-cookie-":           listed("cookies of answers are not rewritten: let the backend set them as browsers need them", "off"),
	"proxy-redirect-":         listed("Location in answers is not rewritten: let the backend go by X-Forwarded-Host, -Port and -Proto", "off", "default"),

	// CORS.
	"enable-cors":            setCORS,
	"cors-allow-origin":      part("enable-cors"),
	"cors-allow-methods":     part("enable-cors"),
	"cors-allow-headers":     part("enable-cors"),
	"cors-allow-credentials": part("enable-cors"),
	"cors-expose-headers":    part("enable-cors"),
	"cors-max-age":           part("enable-cors"),

	// Limits, timeouts and retries.
	"proxy-body-size":             setBodySize,
	"proxy-read-timeout":          setReadTimeout,
	"proxy-send-timeout":          setSendTimeout,
	"proxy-connect-timeout":       listed("connecting may take 2 s, and is tried three times more"),
	"proxy-next-upstream":         setRetry,
	"proxy-next-upstream-tries":   setTries,
	"proxy-next-upstream-timeout": listed("the time of all attempts together is not bounded: use timeouts.request", "0"),
	"limit-rate":                  listed("the speed of answers is not limited", "0"),
	"limit-rate-after":            listed("the speed of answers is not limited", "0"),
	"limit-connections":           setConcurrent, // see limits.go
	"limit-rps":                   setLimits,
	"limit-rpm":                   setLimits,
	"limit-burst-multiplier":      setBurst,
	"limit-whitelist":             setExempt,
	"limit-allowlist":             setExempt,

	// Backends.
	"backend-protocol":               setBackendProtocol,
	"load-balance":                   setLoadBalance,
	"upstream-hash-by":               setHashBy,
	"upstream-hash-by-subset":        listed("the same key always gets the same endpoint", "false"),
	"upstream-hash-by-subset-size":   listed("the same key always gets the same endpoint"),
	"service-upstream":               listed("requests go to the Service's endpoints themselves", "false"),
	"default-backend":                listed("there is no other Service for when one has no endpoint: that is answered with 503"),
	"custom-http-errors":             listed("the backend's own errors are passed on; for those of the proxies, see spec.errorPages"),
	"disable-proxy-intercept-errors": listed("the backend's own errors are passed on", "true"),
	"proxy-http-version":             listed("backends are spoken to in HTTP/1.1, or in HTTP/2 if their port has appProtocol: kubernetes.io/h2c", "1.1"),
	"proxy-ssl-":                     listed("see the note about backend-protocol: backends with TLS are always verified, by spec.backends[].tls"),
	"fastcgi-":                       listed("FastCGI is not spoken: put an HTTP server before the backend"),

	// Sessions.
	"affinity":                         setAffinity,
	"affinity-mode":                    listed("a session stays with its endpoint as long as that exists", "persistent"),
	"affinity-canary-behavior":         listed("a session stays with the Service that it began with", "sticky"),
	"session-cookie-name":              part("affinity"),
	"session-cookie-max-age":           part("affinity"),
	"session-cookie-expires":           listed("the cookie's age is from session-cookie-max-age alone"),
	"session-cookie-path":              listed("the cookie is for all paths of the host", "/"),
	"session-cookie-domain":            listed("the cookie is for the request's host alone"),
	"session-cookie-secure":            listed("the cookie is sent over HTTP too", "false"),
	"session-cookie-change-on-failure": listed("an endpoint that cannot be reached is replaced, and so is the cookie", "true"),
	"session-cookie-":                  listed("the cookie has no SameSite, which browsers take for Lax"),

	// Canaries.
	"canary":                   setCanary,
	"canary-weight":            part("canary"),
	"canary-weight-total":      part("canary"),
	"canary-by-header":         part("canary"),
	"canary-by-header-value":   part("canary-by-header"),
	"canary-by-header-pattern": part("canary-by-header"),
	"canary-by-cookie":         part("canary"),

	// Who may come in. Whoever loses this must not be open to all.
	"whitelist-source-range": setAllowed, // see ranges.go
	"allowlist-source-range": setAllowed,
	"denylist-source-range":  setDenied,
	"satisfy":                listed("not supported: every other check applies", "all"),
	"auth-url":               setAuth, // see auth.go
	"auth-response-headers":  part("auth-url"),
	"auth-method":            closing("the Service is asked by GET", "GET"),
	"auth-signin":            ofAuth(authSignIn),
	"auth-signin-":           part("auth-signin"),
	"auth-request-redirect":  ofAuth("the Service gets no X-Auth-Request-Redirect: it has X-Forwarded-Uri"),
	"auth-always-set-cookie": ofAuth(authCookies, "false"),
	"auth-cache-":            ofAuth(authCache),
	"auth-keepalive":         ofAuth(authReuse),
	"auth-keepalive-":        ofAuth(authReuse),
	"auth-type":              setPasswords,
	"auth-secret":            part("auth-type"),
	"auth-secret-type":       part("auth-type"),
	"auth-realm":             part("auth-type"),
	"auth-":                  closing(authPolicy),
	"auth-tls-":              closing(noCertificates), // auth-tls-secret is of the host: see guards.go
	"enable-global-auth":     listed("the controller's ConfigMap, which may have global authentication, is not read"),
	"enable-modsecurity":     closing(noFirewall, "false"),
	"enable-owasp-":          closing(noFirewall, "false"),
	"modsecurity-":           closing(noFirewall),
	"configuration-snippet":  closing(noSnippets),
	"server-snippet":         closing(noSnippets), // as auth-tls-secret

	// What HAProxy has another way, or not at all.
	"ssl-passthrough":           listed("TLS ends at the Gateway: make a listener of protocol TLS for the host, with mode Passthrough, and a tlsRoute", "false"),
	"ssl-ciphers":               listed("see tls.cipherProfile of the listener"),
	"ssl-prefer-server-ciphers": listed("clients choose among the suites of tls.cipherProfile", "false"),
	"stream-snippet":            listed(noSnippets),
	"mirror-":                   listed("no copies are sent: add the filter RequestMirror to the rule"),
	"client-body-buffer-size":   listed(noBuffers),
	"proxy-buffering":           listed(noBuffers, "off"),
	"proxy-request-buffering":   listed(noBuffers, "off"),
	"proxy-buffer-size":         listed(noBuffers),
	"proxy-buffers-number":      listed(noBuffers),
	"proxy-busy-buffers-size":   listed(noBuffers),
	"proxy-max-temp-file-size":  listed(noBuffers, "0"),
	"http2-push-preload":        listed("browsers do not support it any more", "false"),
	"enable-access-log":         listed("all requests are logged", "true"),
	"enable-rewrite-log":        listed("there is no such log; kubectl gateway explain shows the rewritten path", "false"),
	"enable-opentelemetry":      listed(noTraces, "false"),
	"opentelemetry-":            listed(noTraces),
}

const (
	noBuffers      = "requests and answers are passed on as they come, through buffers of 32 KiB"
	noCertificates = "one Ingress does not decide on client certificates: " + ownListener
	noFirewall     = "there is no web application firewall"
	noSnippets     = "there are no snippets: what it does has to be said with fields, if there are any for it"
	noTraces       = "there are no traces; trace headers of clients are passed on"
	ownListener    = "give the host a listener of its own with tls.clientValidation"
)

// otherAnnotations are those of other programs, by name or by a beginning that ends with "/" or ".". "" is for those
// that are not about requests.
var otherAnnotations = map[string]string{
	"kubectl.kubernetes.io/":      "",
	"kubernetes.io/ingress.class": "",
	allowHTTP:                     "",
	"meta.helm.sh/":               "",
	"argocd.argoproj.io/":         "",
	"cert-manager.io/":            certManager,
	"acme.cert-manager.io/":       certManager,
	"kubernetes.io/tls-acme":      certManager,
	"external-dns.":               "external-dns takes the hostnames of Ingresses: name them in spec.service.annotations, as external-dns.alpha.kubernetes.io/hostname",
}

// allowHTTP is GKE's, with the value "false" for an Ingress without HTTP.
const (
	allowHTTP = "kubernetes.io/ingress.allow-http"
	onlyHTTPS = "HTTP is served too: name the listener https in the routes of its hosts"
)

// aboutAccess are words in names of annotations that may restrict access, whatever program reads them.
var aboutAccess = regexp.MustCompile(`(?i)access|acl|allow|auth|block|bot|captcha|cert|cidr|client|cors|deny|filter|firewall|forbid|geo|group|guard|internal|` +
	`\bips?\b|jwt|limit|login|middleware|oidc|password|permission|plugin|polic|private|protect|public|range|rate|restrict|role|rule|saml|satisfy|` +
	`secret|secur|snippet|source|ssl|sso|tls|token|trust|user|verif|vpn|waf|white`)

const certManager = "cert-manager makes the certificate for the Ingress, and deletes it with the Ingress: make a Certificate for the Secret before that"
