package v1

// RuleFilter is something that happens to a request or to the answer to it. The field named like the type is set, and
// no other.
//
// +kubebuilder:validation:MaxProperties=2
type RuleFilter struct {
	// Which filter this is.
	// +required
	Type RuleFilterType `json:"type"`

	// Change headers of the request.
	// +optional
	RequestHeaderModifier *HeaderFilter `json:"requestHeaderModifier,omitempty"`

	// Change headers of the answer that a backend gave.
	// +optional
	ResponseHeaderModifier *HeaderFilter `json:"responseHeaderModifier,omitempty"`

	// Answer with a redirect.
	// +optional
	RequestRedirect *RequestRedirect `json:"requestRedirect,omitempty"`

	// Change hostname and path of the request.
	// +optional
	URLRewrite *URLRewrite `json:"urlRewrite,omitempty"`

	// Answer with a fixed text.
	// +optional
	DirectResponse *DirectResponse `json:"directResponse,omitempty"`

	// Let web pages of other origins use the route, by the CORS protocol of the Fetch standard. The proxy answers
	// preflight requests, which have the method OPTIONS, no cookies, and none of the headers that the page sets: the
	// matches of the rule, by method or header, must not leave them out. Errors that the proxy answers with before it
	// applies the rule (400, 404, 421) have no headers of the protocol, nor has the 500 of a rule without a Service; its
	// other errors, such as 413 and 503, have them.
	// +optional
	CORS *CORS `json:"cors,omitempty"`

	// Answer 403 to clients by their addresses.
	// +optional
	ClientAddress *ClientAddress `json:"clientAddress,omitempty"`

	// Answer 429 to requests beyond a rate, or beyond a number of concurrent requests.
	// +optional
	RateLimit *RateLimit `json:"rateLimit,omitempty"`

	// Ask for a user and a password.
	// +optional
	BasicAuth *BasicAuth `json:"basicAuth,omitempty"`

	// Answer 401 to requests without a valid API key.
	// +optional
	APIKey *APIKey `json:"apiKey,omitempty"`

	// Answer 401 to requests without a valid token.
	// +optional
	JWT *JWT `json:"jwt,omitempty"`

	// Let users through who have logged in at a provider.
	// +optional
	OIDC *OIDC `json:"oidc,omitempty"`

	// Answer 403 to requests that no rule of a list allows.
	// +optional
	Authorization *Authorization `json:"authorization,omitempty"`

	// Have a Service decide about each request.
	// +optional
	ExternalAuth *ExternalAuth `json:"externalAuth,omitempty"`

	// Refuse requests that look like attacks.
	// +optional
	WAF *WAF `json:"waf,omitempty"`

	// Send copies of requests to other Services, whose answers are dropped.
	// +optional
	RequestMirror *RequestMirror `json:"requestMirror,omitempty"`

	// Answer requests from what a proxy has stored of the answers of backends.
	// +optional
	Cache *Cache `json:"cache,omitempty"`

	// Tell the backend in headers what the proxy knows of the request.
	// +optional
	HeaderVariables *HeaderVariables `json:"headerVariables,omitempty"`

	// Replace what a regular expression matches in the path: of the request for a backend, or of the URL that a
	// RequestRedirect beside it leads to.
	// +optional
	PathRegexRewrite *PathRegexRewrite `json:"pathRegexRewrite,omitempty"`

	// Replace errors of backends.
	// +optional
	ResponseOverride *ResponseOverride `json:"responseOverride,omitempty"`

	// Replace what answers of a backend say about addresses: where redirects lead, and which requests get cookies.
	// +optional
	ResponseRewrite *ResponseRewrite `json:"responseRewrite,omitempty"`

	// Limit the speed of the bodies of requests and answers.
	// +optional
	BandwidthLimit *BandwidthLimit `json:"bandwidthLimit,omitempty"`
}

// RuleFilterType is a kind of filter.
//
// +kubebuilder:validation:Enum=RequestHeaderModifier;ResponseHeaderModifier;RequestRedirect;URLRewrite;DirectResponse;CORS;ClientAddress;RateLimit;BasicAuth;APIKey;JWT;OIDC;Authorization;ExternalAuth;WAF;RequestMirror;Cache;HeaderVariables;PathRegexRewrite;ResponseOverride;ResponseRewrite;BandwidthLimit
type RuleFilterType string

const (
	// RuleFilterRequestHeaderModifier changes headers of the request.
	RuleFilterRequestHeaderModifier RuleFilterType = "RequestHeaderModifier"
	// RuleFilterResponseHeaderModifier changes headers of the answer.
	RuleFilterResponseHeaderModifier RuleFilterType = "ResponseHeaderModifier"
	// RuleFilterRequestRedirect answers with a redirect.
	RuleFilterRequestRedirect RuleFilterType = "RequestRedirect"
	// RuleFilterURLRewrite changes hostname and path of the request.
	RuleFilterURLRewrite RuleFilterType = "URLRewrite"
	// RuleFilterDirectResponse answers with a fixed text.
	RuleFilterDirectResponse RuleFilterType = "DirectResponse"
	// RuleFilterCORS lets web pages of other origins use the route.
	RuleFilterCORS RuleFilterType = "CORS"
	// RuleFilterClientAddress answers 403 to clients by their addresses.
	RuleFilterClientAddress RuleFilterType = "ClientAddress"
	// RuleFilterRateLimit answers 429 to requests beyond a rate, or beyond a number of concurrent requests.
	RuleFilterRateLimit RuleFilterType = "RateLimit"
	// RuleFilterBasicAuth asks for a user and a password.
	RuleFilterBasicAuth RuleFilterType = "BasicAuth"
	// RuleFilterAPIKey answers 401 to requests without a valid API key.
	RuleFilterAPIKey RuleFilterType = "APIKey"
	// RuleFilterJWT answers 401 to requests without a valid token.
	RuleFilterJWT RuleFilterType = "JWT"
	// RuleFilterOIDC lets users through who have logged in at a provider.
	RuleFilterOIDC RuleFilterType = "OIDC"
	// RuleFilterAuthorization answers 403 to requests that no rule of a list allows.
	RuleFilterAuthorization RuleFilterType = "Authorization"
	// RuleFilterExternalAuth has a Service decide about each request.
	RuleFilterExternalAuth RuleFilterType = "ExternalAuth"
	// RuleFilterWAF refuses requests that look like attacks.
	RuleFilterWAF RuleFilterType = "WAF"
	// RuleFilterRequestMirror sends copies of requests to other Services.
	RuleFilterRequestMirror RuleFilterType = "RequestMirror"
	// RuleFilterCache answers from stored answers of backends.
	RuleFilterCache RuleFilterType = "Cache"
	// RuleFilterHeaderVariables tells the backend in headers what the proxy knows of the request.
	RuleFilterHeaderVariables RuleFilterType = "HeaderVariables"
	// RuleFilterPathRegexRewrite replaces what a regular expression matches in the path.
	RuleFilterPathRegexRewrite RuleFilterType = "PathRegexRewrite"
	// RuleFilterResponseOverride replaces errors of backends.
	RuleFilterResponseOverride RuleFilterType = "ResponseOverride"
	// RuleFilterResponseRewrite replaces what answers of backends say about addresses.
	RuleFilterResponseRewrite RuleFilterType = "ResponseRewrite"
	// RuleFilterBandwidthLimit limits the speed of bodies.
	RuleFilterBandwidthLimit RuleFilterType = "BandwidthLimit"
)

// ShadowFilter is what can refuse a request: a type of filter, or maxRequestBytes.
//
// +kubebuilder:validation:Enum=ClientAddress;RateLimit;BasicAuth;APIKey;JWT;Authorization;ExternalAuth;WAF;maxRequestBytes
type ShadowFilter string

// ShadowMaxRequestBytes stands for the limit of bodies. All other values are types of filters.
const ShadowMaxRequestBytes ShadowFilter = "maxRequestBytes"

// BackendRefFilter is something that happens to the requests for one Service. The field named like the type is set, and
// no other.
//
// +kubebuilder:validation:MaxProperties=2
type BackendRefFilter struct {
	// Which filter this is.
	// +required
	Type BackendRefFilterType `json:"type"`

	// Change headers of the request.
	// +optional
	RequestHeaderModifier *HeaderFilter `json:"requestHeaderModifier,omitempty"`

	// Change headers of the answer that a backend gave.
	// +optional
	ResponseHeaderModifier *HeaderFilter `json:"responseHeaderModifier,omitempty"`

	// Change where the request seems to go. This comes before the rule's.
	// +optional
	URLRewrite *URLRewrite `json:"urlRewrite,omitempty"`
}

// BackendRefFilterType is a kind of filter for the requests for one Service.
//
// +kubebuilder:validation:Enum=RequestHeaderModifier;ResponseHeaderModifier;URLRewrite
type BackendRefFilterType string

const (
	// BackendRefFilterRequestHeaderModifier changes headers of the request.
	BackendRefFilterRequestHeaderModifier BackendRefFilterType = "RequestHeaderModifier"
	// BackendRefFilterResponseHeaderModifier changes headers of the answer.
	BackendRefFilterResponseHeaderModifier BackendRefFilterType = "ResponseHeaderModifier"
	// BackendRefFilterURLRewrite changes where the request seems to go.
	BackendRefFilterURLRewrite BackendRefFilterType = "URLRewrite"
)

// HeaderFilter changes headers: those to remove are removed, then those to set replace what has their name, then those
// to add are added. Names match whatever their case.
//
// +kubebuilder:validation:MinProperties=1
type HeaderFilter struct {
	// Headers that replace all of their name. The headers that frame a message and its connection cannot be changed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Set []Header `json:"set,omitempty"`

	// Headers to add to existing headers of the same name. The headers that frame a message and its connection cannot be
	// changed.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Add []Header `json:"add,omitempty"`

	// Names of headers to remove. The headers that frame a message and its connection cannot be changed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Remove []ModifiedHeaderName `json:"remove,omitempty"`
}

// HeaderVariables sets headers of the request to what the proxy knows of it.
type HeaderVariables struct {
	// Headers that replace all of their name. Without a value, as of a TLSVersion without TLS, the backend gets none.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Set []HeaderVariable `json:"set"`
}

// HeaderVariable is a header with what the proxy knows of a request.
type HeaderVariable struct {
	// The name of the header. The headers that frame a message and its connection cannot be set.
	// +required
	Name ModifiedHeaderName `json:"name"`

	// The value of the header. BackendService: the name of the Service that gets the request. Route: the name of the
	// route, as in the access log. ClientAddress: the address of the client, as trusted proxies name it. TLSVersion and
	// TLSServerName: the version, as TLSv1.3, and the server name of the client's TLS connection. RequestID: the ID of
	// the request, as in the access log.
	// +required
	Variable HeaderVariableName `json:"variable"`
}

// HeaderVariableName is something that the proxy knows of a request.
//
// +kubebuilder:validation:Enum=BackendService;Route;ClientAddress;TLSVersion;TLSServerName;RequestID
type HeaderVariableName string

const (
	// HeaderVariableBackendService is the name of the Service that gets the request.
	HeaderVariableBackendService HeaderVariableName = "BackendService"
	// HeaderVariableRoute is the name of the route.
	HeaderVariableRoute HeaderVariableName = "Route"
	// HeaderVariableClientAddress is the address of the client.
	HeaderVariableClientAddress HeaderVariableName = "ClientAddress"
	// HeaderVariableTLSVersion is the version of the client's TLS connection.
	HeaderVariableTLSVersion HeaderVariableName = "TLSVersion"
	// HeaderVariableTLSServerName is the server name that the client named.
	HeaderVariableTLSServerName HeaderVariableName = "TLSServerName"
	// HeaderVariableRequestID is the ID of the request.
	HeaderVariableRequestID HeaderVariableName = "RequestID"
)

// PathRegexRewrite replaces what a regular expression matches at the beginning of the path. What follows stays, and so
// does the query. A path that does not match stays as it is.
//
// The path is compared as in matches of type PathPrefix: percent-encoded characters are decoded, except those that a
// path cannot have as they are, and empty segments are dropped. A request with a longer path than the expression can
// take is answered with 400: the longest one has 8,192 bytes, or 1,024 where the expression takes much work. So is one
// whose new path has a "." or ".." segment or an incomplete percent-encoding. A new path begins with a slash, which it
// gets if it has none.
type PathRegexRewrite struct {
	// The regular expression, in RE2 syntax without Unicode. It begins with ^. Groups can be repeated 32 times at most. An
	// expression is refused if some path of 1,024 bytes could take too much work, as with many parts like [a-z]* beside
	// each other.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[ -~]+$`
	Pattern string `json:"pattern"`

	// The text that replaces the match of the pattern, as in a URL's path. \1 to \9 stand for the matches of the
	// pattern's groups, and \0 for the whole match. A group may not be within a repetition. Write %24 for a dollar sign.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^([-A-Za-z0-9._~!&'()*+,;=:@/]|%[0-9A-Fa-f]{2}|\\[0-9])+$`
	Substitution string `json:"substitution"`
}

// Header is a header with a value.
type Header struct {
	// The name of the header. Not Host, Content-Length, Transfer-Encoding, Connection, Keep-Alive, Proxy-Connection, TE,
	// Trailer, Upgrade, HTTP2-Settings or Expect, which frame a message and its connection, nor with _ or . for the -.
	// +required
	Name ModifiedHeaderName `json:"name"`

	// The value, as it is: of printable ASCII characters, without white space at its ends.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	Value string `json:"value"`
}

// ModifiedHeaderName is the name of a header that may be changed: any but those that frame a message and its
// connection. Where a request header has "_" or "." in its name, what the client sends with "-" for it is removed, too.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`
type ModifiedHeaderName string

// RequestRedirect redirects the client to another URL. Parts that are not set stay as in the request, and the query
// always stays. Scheme and port of the request come from X-Forwarded-Proto and -Port, if a trusted proxy
// (spec.trustedProxies) sent them.
type RequestRedirect struct {
	// The scheme.
	// +optional
	// +kubebuilder:validation:Enum=http;https
	Scheme string `json:"scheme,omitempty"`

	// The hostname.
	// +optional
	Hostname PreciseHostname `json:"hostname,omitempty"`

	// The path.
	// +optional
	Path *PathModifier `json:"path,omitempty"`

	// The port. Empty: the well-known one of the scheme if a scheme is given, else the port of the request: the
	// listener's, unless a trusted proxy names another.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// The status of the answer.
	// +optional
	// +kubebuilder:default=302
	// +kubebuilder:validation:Enum=301;302;303;307;308
	StatusCode *int32 `json:"statusCode,omitempty"`
}

// URLRewrite changes where a request seems to go. Matches, the access log and X-Forwarded-Host have the original.
//
// +kubebuilder:validation:MinProperties=1
type URLRewrite struct {
	// The hostname, in place of the request's Host.
	// +optional
	Hostname PreciseHostname `json:"hostname,omitempty"`

	// The path.
	// +optional
	Path *PathModifier `json:"path,omitempty"`
}

// PathModifier is another path. The field named like the type is set, and no other.
//
// +kubebuilder:validation:MaxProperties=2
type PathModifier struct {
	// ReplaceFullPath: another path as a whole. ReplacePrefixMatch: another path in place of what the rule's prefix
	// matched.
	// +required
	Type PathModifierType `json:"type"`

	// The path.
	// +optional
	ReplaceFullPath URLPath `json:"replaceFullPath,omitempty"`

	// The path in place of the prefix. With the prefix /api, /v2 makes /v2/users of /api/users, and / makes it /users.
	// What follows the prefix stays as it is, unless the client wrote the prefix itself with percent-encodings or empty
	// segments.
	// +optional
	ReplacePrefixMatch URLPath `json:"replacePrefixMatch,omitempty"`
}

// PathModifierType is a way to change a path.
//
// +kubebuilder:validation:Enum=ReplaceFullPath;ReplacePrefixMatch
type PathModifierType string

const (
	// PathModifierReplaceFullPath replaces the path as a whole.
	PathModifierReplaceFullPath PathModifierType = "ReplaceFullPath"
	// PathModifierReplacePrefixMatch replaces what the rule's prefix matched.
	PathModifierReplacePrefixMatch PathModifierType = "ReplacePrefixMatch"
)

// RequestMirror sends copies of requests to other Services: as the rule's backend gets them, after the rule's other
// filters. No request waits for its copies, and their answers are thrown away.
//
// Not copied are requests whose body has no Content-Length or more than 15 KiB, and those that ask for an upgrade.
// Where a body is copied, all of it has to arrive within 10 seconds. Each proxy has up to 256 copies on their way at a
// time, and half of that to one Service; what would be more is not copied. One takes up to 10 seconds.
type RequestMirror struct {
	// The Services that get copies.
	// +required
	// +listType=map
	// +listMapKey=name
	// +listMapKey=port
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	BackendRefs []MirrorBackendRef `json:"backendRefs"`
}

// Cache stores answers of backends, and answers requests from there: GET and HEAD without a body and without
// Authorization. An answer is stored if it has the status 200, no Set-Cookie, and a Cache-Control with s-maxage, or
// with public and max-age. Its Vary may name Accept-Encoding, Origin and Referer. spec.cache bounds the store.
//
// Requests pass the other filters of the rule first. Each rule in each proxy pod has stored answers of its own.
type Cache struct{}

// MirrorBackendRef is a port of a Service in the Gateway's namespace that gets copies of requests.
type MirrorBackendRef struct {
	// The name of the Service, in the Gateway's namespace. A Service of type ExternalName, or one that selects
	// proxies of a Gateway, gets no copies.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// The port of the Service. What is so of the backends of rules is so of it, too: its appProtocol, and its entry in
	// spec.backends.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// How many of a hundred requests are copied.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`
}

// ClientAddress sets which clients may use a route. Others get 403. The client is the address that connects. If that is
// a trusted proxy (spec.trustedProxies), the client is the last address in X-Forwarded-For, of the last five, that is
// not a trusted proxy. Anything but an address there gets 403.
//
// +kubebuilder:validation:MinProperties=1
type ClientAddress struct {
	// The ranges that have access. Empty: all that are not denied.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	Allow []AddressRange `json:"allow,omitempty"`

	// The ranges that have no access, also where they are a part of a range that has.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4096
	Deny []AddressRange `json:"deny,omitempty"`
}

// AddressRange is a range of IP addresses, like 10.0.0.0/8 or fd00::/8. Requests for a rule with one that cannot be
// read are answered with
// 500.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=49
// +kubebuilder:validation:Pattern=`^([0-9]{1,3}(\.[0-9]{1,3}){3}/([0-9]|[12][0-9]|3[0-2])|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*/([0-9]|[1-9][0-9]|1[01][0-9]|12[0-8]))$`
type AddressRange string
