package ingress

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	appv1 "gateway/api/app/v1"
)

// configuration is what the controller's ConfigMap asks for, with nginx's defaults.
type configuration struct {
	// defaults are values of annotations that Ingresses may replace, and keys are the keys that they are from.
	defaults, keys map[string]string
	// noRedirect and noAuth begin the paths that are served over HTTP, and without authentication.
	noRedirect, noAuth []string
	// ignoreSnippets reports whether snippets of Ingresses do nothing. No annotation may have one of blockedWords.
	ignoreSnippets bool
	blockedWords   []string
	// allowedHeaders are the headers that Ingresses may add to answers.
	allowedHeaders []string
	// healthPath is where load balancers ask, "" if they do not.
	healthPath string
	// redirectCode is the status of redirects to HTTPS.
	redirectCode int
	// hsts is the value of Strict-Transport-Security, "" if there is none.
	hsts string
	// keepServer reports whether answers keep the header Server of backends.
	keepServer bool
	// fullForwardedFor reports whether X-Forwarded-For has all that trusted proxies say.
	fullForwardedFor bool
	// blocked are the ranges of addresses that have no access to anything.
	blocked []appv1.AddressRange
	config  appv1.GatewayConfigSpec
	// requestHeaders and responseHeaders are changed for all hosts.
	requestHeaders, responseHeaders appv1.HeaderFilter
}

// Keys are the keys of the controller's ConfigMap.
var Keys = []Row{
	{
		"ssl-redirect force-ssl-redirect proxy-read-timeout proxy-send-timeout proxy-connect-timeout proxy-next-upstream proxy-next-upstream-tries " +
			"proxy-next-upstream-timeout load-balance whitelist-source-range denylist-source-range limit-rate proxy-cookie-path proxy-cookie-domain " +
			"proxy-redirect-from",
		Carried, asDefault, setDefault, "",
	},
	{
		"limit-rate-after proxy-buffer-size service-upstream relative-redirects custom-http-errors enable-modsecurity",
		Differs, asDefault, setDefault, "",
	},
	{"enable-opentelemetry opentelemetry-trust-incoming-span opentelemetry-operation-name", Lost, asDefault, setDefault, ""},
	{"modsecurity-snippet", Closed, asDefault, setDefault, ""},
	{"enable-owasp-modsecurity-crs", Harmless, "a WAF has these rules in any case", nil, ""},
	{"global-auth-url global-auth-response-headers", Carried, "as the annotations auth-url and auth-response-headers", setDefault, ""},
	{"global-auth-method global-auth-snippet", Closed, "as the annotations auth-method and auth-snippet", setDefault, ""},
	{"global-auth-signin global-auth-signin-redirect-param global-auth-request-redirect global-auth-always-set-cookie " +
		"global-auth-cache-key global-auth-cache-duration", Differs, "as the annotations", setDefault, ""},
	{"no-tls-redirect-locations", Carried, "these paths are served over HTTP", func(s *settings, value string) string {
		s.noRedirect = list(value)
		return ""
	}, ""},
	{noAuthLocations, Carried, "these paths have no auth-url, no auth-type and no global-auth-url", func(s *settings, value string) string {
		s.noAuth = list(value)
		return ""
	}, ""},
	{"default-ssl-certificate", Carried, certificateOfAll + " In nginx, it is a flag of the controller", setCertificate, ""},
	{"health-check-path", Carried, healthCheck + " In nginx, it is a flag of the controller", setHealthPath, ""},
	{"http-redirect-code", Carried, "the status of redirects to HTTPS", setRedirectCode, ""},
	{"hsts hsts-max-age hsts-include-subdomains hsts-preload", Carried, "ResponseHeaderModifier of all rules, over HTTPS", (*settings).setHSTS, ""},
	{"proxy-body-size", Carried, "maxRequestBytes of the GatewayConfig, 1 MiB by default", setDefaultBodySize, ""},
	{"add-headers", Carried, "ResponseHeaderModifier of the GatewayConfig", (*settings).setAllHeaders, ""},
	{"proxy-set-headers", Carried, "RequestHeaderModifier of the GatewayConfig", (*settings).setAllHeaders, ""},
	{"hide-headers", Carried, "ResponseHeaderModifier of the GatewayConfig", (*settings).setHidden, ""},
	{"block-cidrs", Carried, "ClientAddress of the GatewayConfig and of all rules", (*settings).setBlocked, ""},
	{"block-user-agents block-referers", Closed, "clients are not refused by headers", nil, ""},
	{
		"allow-backend-server-header server-tokens", Differs, "Server of backends is removed, unless both are true. The proxies have none",
		(*settings).setServer, "",
	},
	{"use-gzip gzip-types gzip-min-length", Carried, "compression of the GatewayConfig. Vary is on compressed answers alone", (*settings).setCompression, ""},
	{"use-forwarded-headers proxy-real-ip-cidr", Differs, "trustedProxies of the GatewayConfig. Backends get the request's Host, beside X-Forwarded-Host", (*settings).setTrusted, ""},
	{"compute-full-forwarded-for", Carried, "X-Forwarded-For has all addresses, in place of the client's alone", (*settings).setTrusted, ""},
	{"forwarded-for-header", Lost, "the client's address is in X-Forwarded-For", nil, "X-Forwarded-For"},
	{"enable-real-ip", Lost, realIP, func(s *settings, _ string) string {
		return either(s.bool("enable-real-ip", false) && !s.bool("use-forwarded-headers", false), realIP, "")
	}, ""},
	{
		"use-proxy-protocol", Lost, "a Gateway of the Gateway API takes no PROXY protocol: have the load balancer not send it, " +
			"and keep clients' addresses by externalTrafficPolicy Local in service of the GatewayConfig", nil, "false",
	},
	{"worker-shutdown-timeout", Carried, "drainTimeout of the GatewayConfig", (*settings).setDrain, ""},
	{"limit-req-status-code limit-conn-status-code", Differs, "clients get 429", nil, "429"},
	{"limit-conn-zone-variable", Differs, "limits count by the client's address", nil, "$binary_remote_addr"},
	{"large-client-header-buffers", Carried, "clientLimits of the GatewayConfig, up to 64 KiB and 1,000 headers", setHeaderBuffers, ""},
	{"client-header-timeout client-body-timeout", Differs, "headers have to arrive within 10 s", nil, ""},
	{"ssl-protocols", Differs, "TLS is of version 1.2 or 1.3", nil, "TLSv1.2 TLSv1.3"},
	{"ssl-ciphers ssl-ecdh-curve ssl-dh-param", Differs, "the proxies have a list of ciphers of their own", nil, ""},
	{"ssl-early-data", Differs, "requests come after the handshake of TLS", nil, "false"},
	{"use-http2", Differs, "HTTP/2 is always offered", nil, "true"},
	{"enable-brotli brotli-level brotli-min-length brotli-types gzip-level gzip-disable", Differs, "answers are compressed by gzip, or not", nil, "false"},
	{"enable-underscores-in-headers", Lost, `headers with "_" in their names are removed`, nil, "false"},
	{"ignore-invalid-headers", Lost, "headers with invalid names get 400", nil, "true"},
	{"proxy-add-original-uri-header", Lost, "backends get no X-Original-Uri", nil, "false"},
	{"retry-non-idempotent", Differs, "a request is tried again if the backend cannot have begun with it, or by status", nil, "false"},
	{"enable-ocsp", Lost, "no OCSP answers are stapled", nil, "false"},
	{"http-snippet server-snippet", Differs, "more_set_headers and more_clear_headers with fixed values. One with any other directive is closed", setGlobalSnippet, ""},
	{"location-snippet", Closed, noSnippets, nil, ""},
	{"allow-snippet-annotations", Carried, "snippets of Ingresses do nothing if it is false. Without the key, they count", func(s *settings, value string) string {
		s.ignoreSnippets = equalValues(value, "false")
		return ""
	}, ""},
	{"annotation-value-word-blocklist", Carried, "Ingresses with such a word in an annotation are left out", func(s *settings, value string) string {
		s.blockedWords = strings.Split(strings.TrimSpace(value), ",")
		return ""
	}, ""},
	{"annotations-risk-level", Differs, "Ingresses with annotations of a higher risk are served: nginx leaves them out", nil, "high|critical"},
	{"global-allowed-response-headers", Carried, "paths with other custom-headers answer 503", func(s *settings, value string) string {
		s.allowedHeaders = list(value)
		return ""
	}, ""},
	{"main-snippet stream-snippet", Lost, noSnippets, nil, ""},
	{"use-geoip use-geoip2 geoip2-autoreload-in-minutes", Lost, "there is no database of addresses", nil, "true|false|0"},
	{"bind-address", Lost, "proxies listen on all addresses of their pods", nil, ""},
	{
		"opentelemetry-config otlp-collector-host otlp-collector-port otel-max-queuesize otel-schedule-delay-millis otel-max-export-batch-size otel-service-name " +
			"otel-sampler otel-sampler-parent-based otel-sampler-ratio jaeger-collector-host jaeger-collector-port jaeger-endpoint jaeger-service-name " +
			"jaeger-propagation-format jaeger-sampler-type jaeger-sampler-param jaeger-sampler-host jaeger-sampler-port jaeger-trace-context-header-name " +
			"jaeger-debug-header jaeger-baggage-header jaeger-trace-baggage-header-prefix jaeger-tracer-baggage-header-prefix",
		Lost, noTraces, nil, "",
	},
	{
		"allow-cross-namespace-resources default-type strict-validate-path-type ssl-reject-handshake generate-request-id proxy-ssl-location-only " +
			"forwarded-for-proxy-protocol-header proxy-protocol-header-timeout disable-ipv6 disable-ipv6-dns debug-connections",
		Harmless, "answers are the same", nil, "",
	},
	{
		"access-log-params access-log-path http-access-log-path stream-access-log-path enable-access-log-for-default-backend error-log-path error-log-level " +
			"disable-access-log disable-http-access-log disable-stream-access-log log-format-escape-none log-format-escape-json log-format-upstream log-format-stream skip-access-log-urls enable-syslog syslog-host " +
			"syslog-port nginx-status-ipv4-whitelist nginx-status-ipv6-whitelist",
		Harmless, "the access log has its own form", nil, "",
	},
	{
		"client-header-buffer-size client-body-buffer-size proxy-buffers-number proxy-busy-buffers-size proxy-request-buffering proxy-buffering grpc-buffer-size-kb " +
			"http2-max-field-size http2-max-header-size http2-max-requests http2-max-concurrent-streams keep-alive keep-alive-requests upstream-keepalive-connections " +
			"upstream-keepalive-time upstream-keepalive-timeout upstream-keepalive-requests ssl-session-cache ssl-session-cache-size ssl-session-tickets " +
			"ssl-session-ticket-key ssl-session-timeout ssl-buffer-size proxy-stream-timeout proxy-stream-next-upstream proxy-stream-next-upstream-timeout " +
			"proxy-stream-next-upstream-tries proxy-stream-responses",
		Harmless, "HAProxy keeps connections and buffers in its own way", nil, "",
	},
	{
		"enable-multi-accept max-worker-connections max-worker-open-files map-hash-bucket-size server-name-hash-max-size server-name-hash-bucket-size " +
			"proxy-headers-hash-max-size proxy-headers-hash-bucket-size variables-hash-bucket-size variables-hash-max-size reuse-port enable-aio-write " +
			"worker-processes worker-cpu-affinity enable-serial-reloads lua-shared-dicts",
		Harmless, "it is about nginx's processes", nil, "",
	},
}

const (
	asDefault       = "as the annotation"
	noAuthLocations = "no-auth-locations"
	realIP          = "set use-forwarded-headers and proxy-real-ip-cidr, or trustedProxies of the GatewayConfig: until then, ranges and limits take the load balancer for the client"
)

// configure reads the controller's ConfigMap. What is lost and may keep clients out closes everything.
func (t *translator) configure() {
	t.configuration = configuration{
		defaults: map[string]string{}, keys: map[string]string{}, noRedirect: []string{challenges}, noAuth: []string{challenges}, redirectCode: 308,
		config: appv1.GatewayConfigSpec{
			MaxRequestBytes: new(int64(1 << 20)),
			ClientLimits:    &appv1.ClientLimits{MaxHeaders: new(int32(1000)), MaxHeaderBytes: new(int32(32 << 10))},
		},
	}
	s := &settings{translator: t, values: map[string]string{}, defaults: map[string]bool{}}
	defer func() { s.setHSTS(""); s.setServer("") }()
	if t.Configuration == nil {
		return
	}
	rows := map[string]*Row{}
	for i := range Keys {
		for name := range strings.FieldsSeq(Keys[i].Names) {
			rows[name] = &Keys[i]
		}
	}
	s.values = t.Configuration.Data
	for _, key := range keysOf(t.Configuration.Data) {
		value, row := t.Configuration.Data[key], rows[key]
		s.annotation, s.defaults[key] = key, true
		switch {
		case value == "" && key != noAuthLocations:
		case row == nil:
			s.noteAnnotation(key, "it is not known, and not carried over")
		case row.set != nil:
			s.noteAnnotation(key, row.set(s, value))
		default:
			s.noteAnnotation(key, row.lose(s, value))
		}
	}
	if s.closed {
		t.closed[Target{}] = true
	}
}

func setDefault(s *settings, value string) string {
	name := strings.TrimPrefix(s.annotation, "global-")
	s.configuration.defaults[name], s.keys[name] = value, s.annotation
	return ""
}

const certificateOfAll = "NAMESPACE/NAME of the Secret for all hosts without one, for convert's flag or the key default-ssl-certificate."

// setCertificate takes the value of a flag of nginx's controller.
func setCertificate(s *settings, value string) string {
	namespace, name, _ := strings.Cut(value, "/")
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		return "it is no NAMESPACE/NAME"
	}
	s.Certificate = types.NamespacedName{Namespace: namespace, Name: name}
	return ""
}

func setRedirectCode(s *settings, _ string) string {
	code, ok := s.number("http-redirect-code")
	if !ok || !slices.Contains(redirectCodes, int(code)) {
		return "a redirect cannot have this status: it has 308"
	}
	s.redirectCode = int(code)
	return ""
}

// setHSTS reads all keys about it.
func (s *settings) setHSTS(string) string {
	s.hsts = ""
	if age := cmp.Or(s.values["hsts-max-age"], "31536000"); s.bool("hsts", true) && isNumber(age) {
		s.hsts = "max-age=" + age + either(s.bool("hsts-include-subdomains", true), "; includeSubDomains", "") +
			either(s.bool("hsts-preload", false), "; preload", "")
	}
	return ""
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

func setDefaultBodySize(s *settings, value string) string {
	n, ok := size(value)
	if !ok {
		return "it is no size"
	}
	if s.config.MaxRequestBytes = &n; n == 0 {
		s.config.MaxRequestBytes = nil
	}
	return ""
}

// setAllHeaders reads the headers of a ConfigMap.
func (s *settings) setAllHeaders(value string) string {
	headers, problem := s.headersOf(value, s.Configuration.Namespace, "$")
	if headers == nil {
		return problem
	}
	to := &s.responseHeaders.Set
	if s.annotation == "proxy-set-headers" {
		to = &s.requestHeaders.Set
	}
	for _, header := range headers.Set {
		*to = append(*to, appv1.Header{Name: appv1.ModifiedHeaderName(header.Name), Value: header.Value})
	}
	return problem
}

func (s *settings) setHidden(value string) string {
	for _, name := range list(value) {
		if !isChangeableHeader(name) || len(s.responseHeaders.Remove) == maxHeaders-1 { // there is Server, too
			return fmt.Sprintf("%s cannot be removed", name)
		}
		s.responseHeaders.Remove = append(s.responseHeaders.Remove, appv1.ModifiedHeaderName(name))
	}
	return ""
}

func (s *settings) setBlocked(value string) string {
	ranges, problem := readRanges(value)
	if problem != "" {
		return s.close(s.annotation, problem)
	}
	s.blocked = ranges
	s.noteOnce(addressNotes)
	return ""
}

// setServer reads both keys about the header Server. nginx removes it by default.
func (s *settings) setServer(string) string {
	own := s.bool("server-tokens", false)
	s.keepServer = own && s.bool("allow-backend-server-header", false)
	return either(own && !s.keepServer, "no answer has the header Server: nginx names itself", "")
}

// setHeaderBuffers takes as many bytes as nginx has buffers for.
func setHeaderBuffers(s *settings, value string) string {
	number, text := pair(value)
	count, err := strconv.ParseUint(number, 10, 16)
	bytes, ok := size(cmp.Or(text, "-"))
	if err != nil || !ok {
		return "it is no number and size"
	}
	bytes *= int64(count)                                                                     //nolint:gosec // it has 16 bits
	s.config.ClientLimits.MaxHeaderBytes = new(int32(min(maxHeaderBytes, max(4<<10, bytes)))) //nolint:gosec // it is maxHeaderBytes at most
	return either(bytes > maxHeaderBytes, "headers of requests have up to 64 KiB", "")
}

// maxHeaderBytes is the largest value of clientLimits.maxHeaderBytes.
const maxHeaderBytes = 64 << 10

// gzipTypes are compressed by nginx by default, beside HTML, which always is.
const gzipTypes = "application/atom+xml application/javascript application/x-javascript application/json application/rss+xml " +
	"application/vnd.ms-fontobject application/x-font-ttf application/x-web-app-manifest+json application/xhtml+xml application/xml font/opentype " +
	"image/svg+xml image/x-icon text/css text/javascript text/plain text/x-component"

// setCompression reads all keys about it.
func (s *settings) setCompression(string) (text string) {
	if !s.bool("use-gzip", false) {
		return ""
	}
	compression := &appv1.Compression{MinBytes: new(int32(256))}
	if least, ok := s.number("gzip-min-length"); ok {
		compression.MinBytes = new(min(least, 1<<20))
	}
	for _, kind := range strings.Fields("text/html " + cmp.Or(s.values["gzip-types"], gzipTypes)) {
		switch one := appv1.MediaType(kind); {
		case slices.Contains(compression.ContentTypes, one):
		case len(compression.ContentTypes) == 32 || !mediaTypes.MatchString(kind):
			text = kind + " cannot be given: name up to 32 media types"
		default:
			compression.ContentTypes = append(compression.ContentTypes, one)
		}
	}
	s.config.Compression = compression
	return text
}

// setTrusted reads all keys about it. nginx believes all addresses by default.
func (s *settings) setTrusted(string) string {
	if !s.bool("use-forwarded-headers", false) {
		return ""
	}
	s.config.TrustedProxies, s.fullForwardedFor = nil, s.bool("compute-full-forwarded-for", false)
	for _, text := range list(cmp.Or(s.values["proxy-real-ip-cidr"], "0.0.0.0/0")) {
		parsed, err := netip.ParsePrefix(text)
		if err != nil || len(s.config.TrustedProxies) == 64 {
			return text + " cannot be given"
		}
		s.config.TrustedProxies = append(s.config.TrustedProxies, appv1.CIDR(parsed.Masked().String()))
	}
	return ""
}

func (s *settings) setDrain(value string) string {
	n, err := strconv.Atoi(strings.TrimSuffix(value, "s"))
	if err != nil {
		return "it is no number of seconds"
	}
	s.config.DrainTimeout = appv1.Duration(*seconds(min(3600, max(1, n))))
	return ""
}

// variables returns what nginx tells backends of requests: who the client is, unless the ConfigMap says otherwise.
// Where proxies are trusted, they name others in X-Forwarded-For, too.
func (c *configuration) variables() (all []appv1.HeaderVariable) {
	names := []appv1.ModifiedHeaderName{"X-Real-IP"}
	if len(c.config.TrustedProxies) > 0 && !c.fullForwardedFor {
		names = append(names, "X-Forwarded-For")
	}
	for _, name := range names {
		if !slices.ContainsFunc(c.requestHeaders.Set, func(h appv1.Header) bool { return strings.EqualFold(string(h.Name), string(name)) }) {
			all = append(all, appv1.HeaderVariable{Name: name, Variable: appv1.HeaderVariableClientAddress})
		}
	}
	return all
}

// ofProxy are headers that nginx replaces, and that backends may believe. No filter can set them to what nginx does.
// Forwarded is one that nginx does not know, so that it may say something else than a header of the ConfigMap.
var ofProxy = []appv1.ModifiedHeaderName{"X-Original-Forwarded-For", "X-Original-Forwarded-Host", "X-Forwarded-Scheme", "X-Scheme", "Forwarded"}

const hsts = "Strict-Transport-Security"

// withHSTS returns rules for HTTPS: backends' answers have the header, unless somebody else has something to say of it.
func (s *site) withHSTS(rules []rule) []rule {
	isHSTS := func(name string) bool { return strings.EqualFold(name, hsts) }
	if s.hsts == "" || slices.ContainsFunc(s.responseHeaders.Set, func(h appv1.Header) bool { return isHSTS(string(h.Name)) }) {
		return rules
	}
	var all []rule
	for i := range rules {
		one := rules[i].deepCopy()
		if all = append(all, one); len(one.BackendRefs) == 0 {
			continue
		}
		headers := all[i].headers(ofAnswers)
		isNamed := slices.ContainsFunc(headers.Remove, isHSTS) ||
			slices.ContainsFunc(slices.Concat(headers.Set, headers.Add), func(h gatewayv1.HTTPHeader) bool { return isHSTS(string(h.Name)) })
		switch {
		case isNamed:
		case len(headers.Set) == maxHeaders:
			s.note(Subject{"Ingress", one.of[0].Namespace, one.of[0].Name}, "a rule sets up to %d headers: answers have no %s", maxHeaders, hsts)
		default:
			headers.Set = append(headers.Set, gatewayv1.HTTPHeader{Name: hsts, Value: s.hsts})
		}
	}
	return all
}

// gatewayConfig returns what the Gateway API has no fields for.
func (s *site) gatewayConfig() *appv1.GatewayConfig {
	c := &s.configuration
	config := &appv1.GatewayConfig{Spec: *c.config.DeepCopy()}
	response := *c.responseHeaders.DeepCopy()
	if !c.keepServer && !slices.ContainsFunc(response.Remove, func(name appv1.ModifiedHeaderName) bool { return strings.EqualFold(string(name), "Server") }) {
		response.Remove = append(response.Remove, "Server")
	}
	filters := &config.Spec.Filters
	if len(c.blocked) > 0 {
		*filters = append(*filters, appv1.RuleFilter{Type: appv1.RuleFilterClientAddress, ClientAddress: &appv1.ClientAddress{Deny: c.blocked}})
	}
	request := *c.requestHeaders.DeepCopy()
	request.Remove = ofProxy
	*filters = append(*filters, appv1.RuleFilter{Type: appv1.RuleFilterRequestHeaderModifier, RequestHeaderModifier: &request})
	if variables := c.variables(); len(variables) > 0 {
		*filters = append(*filters, appv1.RuleFilter{Type: appv1.RuleFilterHeaderVariables, HeaderVariables: &appv1.HeaderVariables{Set: variables}})
	}
	if len(response.Set)+len(response.Remove) > 0 {
		*filters = append(*filters, appv1.RuleFilter{Type: appv1.RuleFilterResponseHeaderModifier, ResponseHeaderModifier: &response})
	}
	return config
}
