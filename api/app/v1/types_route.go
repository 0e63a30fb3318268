package v1

// Whoever applies a route owns all of it: an owner for each field, which the API server stores with the object, would
// take as much room as the routes themselves, and an object may have 1.5 MiB.
// +structType=atomic

// Route sends requests for its hostnames to Services, by rules.
type Route struct {
	// The route's name; it is in the access log. A DNS label.
	// +required
	Name Name `json:"name"`

	// The names of the listeners the route belongs to. Empty: every HTTP and HTTPS listener that does not redirect to
	// HTTPS.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Listeners []Name `json:"listeners,omitempty"`

	// The hostnames the route is for. Where a listener has a hostname too, what both allow counts. Empty: every hostname
	// of the listener.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Hostnames []Hostname `json:"hostnames,omitempty"`

	// The rules; a request that meets one of a rule's matches is handled by the rule.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Rules []RouteRule `json:"rules"`
}

// RouteRule matches requests, and sets their backends and what happens to them on the way.
//
// +kubebuilder:validation:XValidation:rule="!has(self.filters) || !has(self.backendRefs) || size(self.backendRefs) == 0 || !self.filters.exists_one(f, has(f.requestRedirect) || has(f.directResponse))",fieldPath=".backendRefs",message="a rule with a RequestRedirect or DirectResponse filter has no backendRefs: remove one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.filters) || !self.filters.exists_one(f, f.?requestRedirect.path.replacePrefixMatch.hasValue() || f.?urlRewrite.path.replacePrefixMatch.hasValue()) || has(self.matches) && size(self.matches) == 1 && has(self.matches[0].path) && self.matches[0].path.type == 'PathPrefix'",fieldPath=".filters",message="ReplacePrefixMatch needs exactly one match in the rule, with a path of type PathPrefix"
type RouteRule struct {
	// A request has to meet one of these. Empty: every request.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:default={{path:{type: "PathPrefix", value: "/"}}}
	Matches []RouteMatch `json:"matches,omitempty"`

	// The filters of matching requests and of their answers. The order in the list does not matter: CORS comes first,
	// then ClientAddress, RateLimit, BasicAuth, APIKey, JWT, OIDC, Authorization, ExternalAuth and WAF, then a redirect
	// or direct response, or else the changes of request and answer, and Cache. A type may be there once.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=13
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.requestRedirect)) || self.all(f, has(f.requestRedirect) || has(f.cors) || has(f.pathRegexRewrite))",message="RequestRedirect answers the request, so beside it only CORS and PathRegexRewrite make sense: remove the other filters"
	// +kubebuilder:validation:XValidation:rule="size(self) < 2 || !self.exists_one(f, has(f.directResponse)) || size(self) == 2 && self.exists_one(f, has(f.cors))",message="DirectResponse answers the request, so beside it only CORS makes sense: remove the other filters"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.basicAuth)) || !self.exists_one(f, has(f.jwt) && !has(f.jwt.from))",message="BasicAuth and JWT both want the header Authorization, so every request would get 401: remove one of them"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.basicAuth)) || !self.exists_one(f, has(f.apiKey))",message="BasicAuth and APIKey both say who the client is: remove one of them"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.cache)) || !self.exists(f, has(f.basicAuth) || has(f.apiKey) || has(f.jwt) || has(f.externalAuth))",message="Cache would answer all users alike: remove it, or BasicAuth, APIKey, JWT and ExternalAuth"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.oidc)) || !self.exists(f, has(f.basicAuth) || has(f.apiKey) || has(f.jwt) || has(f.cache))",message="OIDC says who the client is: remove it, or BasicAuth, APIKey, JWT and Cache"
	Filters []RuleFilter `json:"filters,omitempty"`

	// The Services that matching requests go to, each with its share by weight. Empty, or all weights zero: 500.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	BackendRefs []BackendRef `json:"backendRefs,omitempty"`

	// How long to wait for a backend. Empty: 60 seconds.
	// +optional
	Timeouts *RouteTimeouts `json:"timeouts,omitempty"`

	// When to try a request again. Empty: up to 3 times, if it could not be sent, or if the endpoint closed the
	// connection without an answer; the latter only where the method is idempotent, the request has at most 30,000 bytes
	// and there is no timeouts.request.
	// +optional
	Retry *RouteRetry `json:"retry,omitempty"`

	// Keep a client's requests on the same endpoint of the same Service, by a cookie.
	// +optional
	SessionPersistence *SessionPersistence `json:"sessionPersistence,omitempty"`

	// The largest request body to let through, in bytes; a larger one is answered with 413. Of a body that does not
	// say its length, the backend may get as much as this, but not its end. Empty: any size.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1099511627776
	MaxRequestBytes *int64 `json:"maxRequestBytes,omitempty"`

	// Filters above that only say what they would refuse: they decide, and the request goes on all the same. Their
	// decisions are in the access log and in metrics. maxRequestBytes stands for the limit of bodies. Headers by which a
	// filter tells the backend who the user is are removed from requests that it would have refused. Empty: all filters
	// refuse.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=9
	Shadow []ShadowFilter `json:"shadow,omitempty"`
}

// RouteMatch is a set of conditions on a request, all of which have to be met.
type RouteMatch struct {
	// The condition on the path. Empty: every path.
	// +optional
	// +kubebuilder:default={type: "PathPrefix", value: "/"}
	Path PathMatch `json:"path,omitempty"`

	// The conditions on the request's headers.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Headers []HeaderMatch `json:"headers,omitempty"`

	// The conditions on the parameters of the query.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	QueryParams []QueryParamMatch `json:"queryParams,omitempty"`

	// The method. Empty: every method.
	// +optional
	Method HTTPMethod `json:"method,omitempty"`
}

// PathMatch is a condition on a request's path, without the query string. Case matters. Paths are compared after
// percent-encoded characters were decoded and empty segments dropped, so /%61pi and //api are /api; the backend gets
// the path as the client sent it. Requests with "." and ".." segments or with backslashes, encoded or not, are answered
// with 400. So are those whose path has characters to decode and more than 10,900 bytes, or 3,200 if it has characters
// that should be encoded.
type PathMatch struct {
	// Exact: the path is the value. PathPrefix: the path is the value or below it, by whole segments: /api matches /api,
	// /api/ and /api/users, but not /apis; a trailing slash in the value makes no difference. RegularExpression: the
	// whole path matches the value, in RE2 syntax without Unicode. Groups can be repeated 32 times at most. An expression
	// is refused if some path of 1,024 bytes could take too much work, as with many parts like [a-z]* beside each other.
	// Expressions that take little work are compared with paths of up to 8,192 bytes. A request with a longer path than
	// the expressions of its host allow is answered with 400. A space is a space in the expression. Control characters,
	// the percent sign and everything that is not ASCII are encoded there: %C3%A4, %09, %25.
	// +optional
	// +kubebuilder:default=PathPrefix
	Type PathMatchType `json:"type,omitempty"`

	// The path, starting with a slash. Not allowed: empty, "." and ".." segments, an encoded slash (%2F) or backslash
	// (%5C), a query, a fragment, and characters that a path must have percent-encoded. Or a regular expression, of
	// printable ASCII characters.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[ -~]+$`
	Value string `json:"value,omitempty"`
}

// PathMatchType is how a path is compared.
//
// +kubebuilder:validation:Enum=Exact;PathPrefix;RegularExpression
type PathMatchType string

const (
	// PathMatchExact matches the path that equals the value.
	PathMatchExact PathMatchType = "Exact"
	// PathMatchPathPrefix matches the value and every path below it, by whole segments.
	PathMatchPathPrefix PathMatchType = "PathPrefix"
	// PathMatchRegularExpression matches the paths that the regular expression matches as a whole.
	PathMatchRegularExpression PathMatchType = "RegularExpression"
)

// URLPath is a path as in a URL, starting with a slash.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^/([-A-Za-z0-9._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*$`
type URLPath string

// HeaderMatch is a condition on a request header.
type HeaderMatch struct {
	// Exact: the header has the value. RegularExpression: the whole value matches the expression, in RE2 syntax without
	// Unicode. How long a value may be is as with paths.
	// +optional
	// +kubebuilder:default=Exact
	Type ValueMatchType `json:"type,omitempty"`

	// The name of the header; case does not matter. X-Forwarded-*, Forwarded and Upgrade are compared as the backend
	// gets them. Headers that the proxies remove never match, such as Client-Cert, Proxy and X-Original-URL.
	// +required
	Name HeaderName `json:"name"`

	// The value; case matters. A header that comes several times counts as one whose values are joined by commas (RFC
	// 9110, section 5.2).
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	Value string `json:"value"`
}

// QueryParamMatch is a condition on a parameter of the query. A request whose query has more than 3,200 bytes is
// answered with 400 if such a condition would have to be tested on it.
type QueryParamMatch struct {
	// Exact: the parameter has the value. RegularExpression: the whole value matches the expression, in RE2 syntax without
	// Unicode. How long a value may be is as with paths.
	// +optional
	// +kubebuilder:default=Exact
	Type ValueMatchType `json:"type,omitempty"`

	// The name of the parameter; case matters. Of one that comes several times, the first counts.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9\[\]$*.:@_~-]+$`
	Name string `json:"name"`

	// The value; case matters. It is compared with the decoded one; characters that are not ASCII, white space, control
	// characters and the percent sign stand for themselves percent-encoded (%C3%A4, %20, %25) there.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Value string `json:"value"`
}

// ValueMatchType is how the value of a header or parameter is compared.
//
// +kubebuilder:validation:Enum=Exact;RegularExpression
type ValueMatchType string

const (
	// ValueMatchExact matches the value that is equal.
	ValueMatchExact ValueMatchType = "Exact"
	// ValueMatchRegularExpression matches the values that the regular expression matches as a whole.
	ValueMatchRegularExpression ValueMatchType = "RegularExpression"
)

// HeaderName is the name of a request header. The proxies remove those that have another character than letters, digits
// and "-".
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?$`
type HeaderName string

// HTTPMethod is a request method. TRACE and CONNECT are answered with 405.
//
// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;DELETE;OPTIONS;PATCH
type HTTPMethod string

// BackendRef is a port of a Service in the Gateway's namespace, with its share of the requests.
type BackendRef struct {
	// The name of the Service, in the Gateway's namespace. A Service of type ExternalName, or one that selects
	// proxies of a Gateway, is refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// The port of the Service. Requests go straight to the Service's endpoints. Without an appProtocol, or with http, tcp,
	// ws or kubernetes.io/ws, endpoints get HTTP/1.1. With kubernetes.io/h2c, h2c, http2 or grpc, they get HTTP/2. With
	// spec.backends[].tls, https, wss and kubernetes.io/wss work, too. With any other, requests are answered with 500.
	// Case does not matter.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// The share of the rule's requests: the weight divided by the sum of the weights. Zero: none.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`

	// Filters of the requests for this Service alone, after the rule's filters: RequestHeaderModifier,
	// ResponseHeaderModifier and URLRewrite.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=3
	Filters []BackendRefFilter `json:"filters,omitempty"`
}

// RouteTimeouts bounds how long to wait for a backend, from when the request was sent to it. HAProxy bounds the time
// until the answer begins, and after that each pause in it, but not how long an answer takes that keeps flowing. What
// comes before is not counted: waiting in a queue (spec.backends[].connections), and 2 seconds for each attempt to
// connect.
//
// +kubebuilder:validation:XValidation:rule="!has(self.request) || !has(self.backendRequest) || duration(self.request) == duration('0s') || duration(self.backendRequest) <= duration(self.request)",message="timeouts.backendRequest must not be longer than timeouts.request"
type RouteTimeouts struct {
	// How long all attempts together may take until the answer begins.
	// +optional
	Request Duration `json:"request,omitempty"`

	// How long one attempt may take until the answer begins. Without it, all attempts that retry allows share the time
	// of request: of 10s, each of four gets 2500ms.
	// +optional
	BackendRequest Duration `json:"backendRequest,omitempty"`
}

// RouteRetry is when to try a request again, on another endpoint if there is one. Requests whose method is not
// idempotent (POST, PATCH) are only tried again when they could not be sent. There is no pause before another attempt
// on another endpoint, and one second before one on the same, if it could not be reached.
type RouteRetry struct {
	// Answers that are tried again, if the request had at most 30,000 bytes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=11
	Codes []RetryCode `json:"codes,omitempty"`

	// How often to try again. With timeouts.request, at most as often as all attempts, of timeouts.backendRequest each,
	// fit into it.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Attempts *int32 `json:"attempts,omitempty"`
}

// RetryCode is the status of an answer that HAProxy can try again.
//
// +kubebuilder:validation:Enum=401;403;404;408;425;500;501;502;503;504
type RetryCode int32

// SessionPersistence keeps a client's requests on the same endpoint by a cookie, as long as the endpoint exists. Where
// a rule has several backendRefs, the weights are for new clients: the others stay with the Service that they were sent
// to, even if its weight is zero or it has no endpoint by now, until it is no backendRef any more.
type SessionPersistence struct {
	// The beginning of the cookies' names. Each Service port has a cookie of its own, as gateway-session-1a2b3c4d. Rules
	// of a host that have the same sessionName share their sessions with a Service: one with several backendRefs sends a
	// client where another rule has.
	// +optional
	// +kubebuilder:default=gateway-session
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_-]+$`
	SessionName string `json:"sessionName,omitempty"`

	// How the session is kept.
	// +optional
	// +kubebuilder:default=Cookie
	// +kubebuilder:validation:Enum=Cookie
	Type string `json:"type,omitempty"`

	// How long a session with an endpoint may last. Empty: any time, as long as the browser is open.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="absoluteTimeout must be at least 1s"
	AbsoluteTimeout Duration `json:"absoluteTimeout,omitempty"`
}

// TCPRoute sends the connections of TCP listeners, and the content of connections of TLS listeners with mode Terminate,
// to Services.
type TCPRoute struct {
	// The route's name; it is in the access log. A DNS label.
	// +required
	Name Name `json:"name"`

	// The names of the listeners the route belongs to: of protocol TCP, or TLS with tls.mode Terminate. A listener
	// takes one route: the first.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Listeners []Name `json:"listeners"`

	// The Services that connections go to.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1
	Rules []ConnectionRule `json:"rules"`
}

// TLSRoute sends the connections of TLS listeners to Services, by the server name that the client asks for.
type TLSRoute struct {
	// The route's name; it is in the access log. A DNS label.
	// +required
	Name Name `json:"name"`

	// The names of the listeners the route belongs to: of protocol TLS. Empty: every one of them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Listeners []Name `json:"listeners,omitempty"`

	// The server names the route is for. Empty: every server name of the listener.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Hostnames []Hostname `json:"hostnames,omitempty"`

	// The Services that connections go to.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1
	Rules []ConnectionRule `json:"rules"`
}

// ConnectionRule sets the Services that connections go to.
type ConnectionRule struct {
	// The Services, each getting its share of the connections by weight. The share of a Service that has no endpoint,
	// or does not exist, is closed.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	BackendRefs []ConnectionBackendRef `json:"backendRefs"`
}

// ConnectionBackendRef is a port of a Service in the Gateway's namespace, with its share of the connections.
type ConnectionBackendRef struct {
	// The name of the Service, in the Gateway's namespace. A Service of type ExternalName, or one that selects
	// proxies of a Gateway, is refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// The port of the Service. Connections go straight to the Service's endpoints.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// The share of the connections: the weight divided by the sum of the weights. Zero: none.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
}
