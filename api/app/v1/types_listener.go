package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Listener is a port on which the proxies accept traffic.
//
// +kubebuilder:validation:XValidation:rule="(self.protocol in ['HTTPS', 'TLS']) == has(self.tls)",fieldPath=".tls",message="tls is required for protocols HTTPS and TLS, and not allowed for any other"
// +kubebuilder:validation:XValidation:rule="self.protocol != 'HTTPS' || !has(self.tls) || self.tls.mode == 'Terminate'",fieldPath=".tls.mode",message="TLS is passed through for protocol TLS only"
// +kubebuilder:validation:XValidation:rule="self.protocol == 'HTTPS' || !has(self.tls) || !has(self.tls.hsts)",fieldPath=".tls.hsts",message="hsts is only for protocol HTTPS"
// +kubebuilder:validation:XValidation:rule="!has(self.httpsRedirect) || self.protocol == 'HTTP'",fieldPath=".httpsRedirect",message="httpsRedirect is only for protocol HTTP"
// +kubebuilder:validation:XValidation:rule="!has(self.hostname) || self.protocol != 'TCP'",fieldPath=".hostname",message="a connection of a TCP listener has no hostname: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.filters) || self.protocol in ['HTTP', 'HTTPS']",fieldPath=".filters",message="filters are for protocols HTTP and HTTPS: remove them"
// +kubebuilder:validation:XValidation:rule="!has(self.maxRequestBytes) || self.protocol in ['HTTP', 'HTTPS']",fieldPath=".maxRequestBytes",message="maxRequestBytes is for protocols HTTP and HTTPS: remove it"
// +kubebuilder:validation:XValidation:rule="!has(self.shadow) || self.shadow.all(s, s == 'maxRequestBytes' ? has(self.maxRequestBytes) : has(self.filters) && self.filters.exists(f, f.type == s))",fieldPath=".shadow",message="it names a filter that is not there: add the filter here, or remove the name"
// +kubebuilder:validation:XValidation:rule="!has(self.mandatory) || self.mandatory.all(m, m.type == 'maxRequestBytes' ? has(self.maxRequestBytes) : has(self.filters) && self.filters.exists(f, f.type == m.type))",fieldPath=".mandatory",message="it names a filter that is not there: add the filter here, or remove the name"
type Listener struct {
	// The listener's name; routes refer to it. A DNS label.
	// +required
	Name Name `json:"name"`

	// The port to accept connections on. Ports 8404 and 8405 belong to the proxy pod itself.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self != 8404 && self != 8405",message="ports 8404 and 8405 are reserved for the metrics and health endpoints of the proxy pod: choose another port"
	Port int32 `json:"port"`

	// The protocol spoken on the port. HTTP: HTTP/1.1, and HTTP/2 by prior knowledge, in clear text. HTTPS: HTTP/1.1
	// and HTTP/2 over TLS. TCP: bytes. TLS: bytes over TLS, which the proxies terminate, or pass through unopened to
	// the Service that the server name stands for: see tls.mode.
	// +required
	Protocol Protocol `json:"protocol"`

	// Only requests for this hostname use the listener. "*.example.com" stands for every name below example.com, but not
	// example.com itself. Empty: every hostname. A request uses the listener of its port with the most specific hostname,
	// and the routes of that listener only. With TLS, it also sets which server names the listener's certificates are
	// for; a request over a connection made for another listener is answered with 421.
	// +optional
	Hostname Hostname `json:"hostname,omitempty"`

	// How to speak TLS. Required for protocols HTTPS and TLS.
	// +optional
	TLS *ListenerTLS `json:"tls,omitempty"`

	// Answer every request with a redirect to the same URL with HTTPS, at the port of an HTTPS listener that takes its
	// hostname: 443, if there is one. The listener then has no routes.
	// +optional
	HTTPSRedirect *HTTPSRedirect `json:"httpsRedirect,omitempty"`

	// Filters for all rules that the listener leads to, also those of HTTPRoutes and GRPCRoutes. A rule that has a
	// filter of the same type uses its own instead; one with BasicAuth, APIKey, JWT or OIDC uses none of the listener's:
	// see mandatory. Changes of headers add up: the rule's come last. All rules together count for a RateLimit of the
	// listener.
	// Requests that no rule matches are answered with 404 before these filters.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(f, f.type in ['RequestRedirect', 'URLRewrite', 'PathRegexRewrite', 'DirectResponse', 'RequestMirror', 'Cache', 'ResponseOverride', 'ResponseRewrite', 'BandwidthLimit'])",message="a listener has no filters of type RequestRedirect, URLRewrite, PathRegexRewrite, DirectResponse, RequestMirror, Cache, ResponseOverride, ResponseRewrite and BandwidthLimit: add them to rules"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.basicAuth)) || !self.exists_one(f, has(f.jwt) && !has(f.jwt.from))",message="BasicAuth and JWT both want the header Authorization, so every request would get 401: remove one of them"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.basicAuth)) || !self.exists_one(f, has(f.apiKey))",message="BasicAuth and APIKey both say who the client is: remove one of them"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.oidc)) || !self.exists(f, has(f.basicAuth) || has(f.apiKey) || has(f.jwt))",message="OIDC says who the client is: remove it, or BasicAuth, APIKey and JWT"
	Filters []RuleFilter `json:"filters,omitempty"`

	// The largest request body to let through, in bytes, as in a rule. It is for all rules that the listener leads to,
	// also those of HTTPRoutes and GRPCRoutes. A rule that has a limit uses its own instead. Empty: any size.
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

	// Filters above that rules do not replace, with exceptions. A rule with a ClientAddress, a RateLimit or a limit of
	// bodies of its own has to meet both. If it has another filter of its own in place of a mandatory one, its requests
	// are answered with 500. Mandatory changes of headers come last.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=12
	Mandatory []MandatoryFilter `json:"mandatory,omitempty"`

	// Every connection begins with a PROXY protocol header, of version 1 or 2, that says where it comes from. Only the
	// addresses in spec.trustedProxies may send one, and they have to. Every other connection is closed, also one from
	// within the cluster: give such clients a listener of their own, on another port.
	// +optional
	// +kubebuilder:validation:Enum=Any
	ProxyProtocol ProxyProtocolVersion `json:"proxyProtocol,omitempty"`

	// Which route objects of the Gateway API (HTTPRoute, GRPCRoute, TCPRoute, TLSRoute) may attach to the listener.
	// The routes in this object belong to it in any case.
	// +optional
	AllowedRoutes *AllowedRoutes `json:"allowedRoutes,omitempty"`
}

// HTTPSRedirect is a redirect to HTTPS.
type HTTPSRedirect struct {
	// The status of the answer. With 307 and 308, clients repeat the request as it was; with the others, a POST may
	// become a GET.
	// +optional
	// +kubebuilder:default=301
	// +kubebuilder:validation:Enum=301;302;303;307;308
	StatusCode *int32 `json:"statusCode,omitempty"`
}

// AllowedRoutes sets which route objects may attach to a listener.
type AllowedRoutes struct {
	// The namespaces that they may be in.
	// +optional
	// +kubebuilder:default={from: Same}
	Namespaces RouteNamespaces `json:"namespaces,omitempty"`

	// The kinds that they may be of. Empty: all that the listener's protocol can serve.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Kinds []RouteKind `json:"kinds,omitempty"`
}

// RouteNamespaces are namespaces of route objects.
//
// +kubebuilder:validation:XValidation:rule="(self.from == 'Selector') == has(self.selector)",fieldPath=".selector",message="selector is required for Selector, and not allowed for any other"
type RouteNamespaces struct {
	// Same: the Gateway's namespace. All: every namespace. Selector: those whose labels the selector selects.
	// +optional
	// +kubebuilder:default=Same
	// +kubebuilder:validation:Enum=Same;All;Selector
	From FromNamespaces `json:"from,omitempty"`

	// The labels that a namespace must have.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// FromNamespaces selects namespaces.
type FromNamespaces string

const (
	// NamespacesFromSame is the Gateway's namespace.
	NamespacesFromSame FromNamespaces = "Same"
	// NamespacesFromAll is every namespace.
	NamespacesFromAll FromNamespaces = "All"
	// NamespacesFromSelector is those that a selector selects.
	NamespacesFromSelector FromNamespaces = "Selector"
)

// RouteKind is a kind of route objects.
type RouteKind struct {
	// The API group of the kind.
	// +optional
	// +kubebuilder:default=gateway.networking.k8s.io
	// +kubebuilder:validation:Enum=gateway.networking.k8s.io
	Group string `json:"group,omitempty"`

	// The kind.
	// +required
	// +kubebuilder:validation:Enum=HTTPRoute;GRPCRoute;TCPRoute;TLSRoute
	Kind string `json:"kind"`
}

// Protocol is what a listener speaks.
//
// +kubebuilder:validation:Enum=HTTP;HTTPS;TCP;TLS
type Protocol string

const (
	// ProtocolHTTP is HTTP in clear text.
	ProtocolHTTP Protocol = "HTTP"
	// ProtocolHTTPS is HTTP over TLS, which the proxies terminate.
	ProtocolHTTPS Protocol = "HTTPS"
	// ProtocolTCP is any protocol over TCP.
	ProtocolTCP Protocol = "TCP"
	// ProtocolTLS is any protocol over TLS, which the proxies terminate or pass through.
	ProtocolTLS Protocol = "TLS"
)

// ListenerTLS is how a listener speaks TLS.
//
// +kubebuilder:validation:XValidation:rule="(self.mode == 'Terminate') == has(self.certificateRefs)",fieldPath=".certificateRefs",message="certificateRefs is required for mode Terminate, and not allowed for Passthrough"
// +kubebuilder:validation:XValidation:rule="self.mode == 'Terminate' || self.minVersion == 'TLSv1.2' && self.cipherProfile == 'Intermediate' && !has(self.clientValidation)",message="with mode Passthrough, the Service decides on minVersion, cipherProfile and clientValidation: remove them"
type ListenerTLS struct {
	// Terminate: the proxies have the certificates and terminate TLS; routes get the content. Passthrough: TLS passes
	// unchanged to the Service that the server name selects; only for protocol TLS, with spec.tlsRoutes.
	// +optional
	// +kubebuilder:default=Terminate
	// +kubebuilder:validation:Enum=Terminate;Passthrough
	Mode TLSMode `json:"mode,omitempty"`

	// The Secrets of type kubernetes.io/tls with the certificates and keys, in the Gateway's namespace. A client gets the
	// one that fits the server name it asks for, and its kind of key (RSA or ECDSA). A certificate that is missing,
	// invalid, expired, or for none of the listener's names is left out, and named in the condition ResolvedRefs. If a
	// Secret is changed and its certificate is now unreadable, expired or not valid yet, or its key is missing or does
	// not match, pods keep using its earlier content; it is named, too. Required for mode Terminate.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	CertificateRefs []ObjectReference `json:"certificateRefs,omitempty"`

	// The lowest version of TLS that clients may use.
	// +optional
	// +kubebuilder:default=TLSv1.2
	MinVersion TLSVersion `json:"minVersion,omitempty"`

	// Which cipher suites clients may use, as in Mozilla's recommendations. Intermediate: forward secrecy and
	// authenticated encryption. Modern: only the suites of TLS 1.3.
	// +optional
	// +kubebuilder:default=Intermediate
	CipherProfile CipherProfile `json:"cipherProfile,omitempty"`

	// Whether clients have to show a certificate. Empty: they are not asked for one.
	// +optional
	ClientValidation *ClientValidation `json:"clientValidation,omitempty"`

	// Tell browsers to use HTTPS only, from now on (RFC 6797, Strict-Transport-Security).
	// +optional
	HSTS *HSTS `json:"hsts,omitempty"`
}

// TLSMode selects who terminates TLS.
type TLSMode string

const (
	// TLSModeTerminate has the proxies open TLS.
	TLSModeTerminate TLSMode = "Terminate"
	// TLSModePassthrough has Services open TLS.
	TLSModePassthrough TLSMode = "Passthrough"
)

// ObjectReference names an object in the Gateway's namespace.
type ObjectReference struct {
	// The name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// TLSVersion is a version of TLS.
//
// +kubebuilder:validation:Enum=TLSv1.2;TLSv1.3
type TLSVersion string

const (
	// TLSVersion12 is TLS 1.2.
	TLSVersion12 TLSVersion = "TLSv1.2"
	// TLSVersion13 is TLS 1.3.
	TLSVersion13 TLSVersion = "TLSv1.3"
)

// CipherProfile is a set of cipher suites.
//
// +kubebuilder:validation:Enum=Intermediate;Modern
type CipherProfile string

const (
	// CipherProfileIntermediate is every suite with forward secrecy and authenticated encryption.
	CipherProfileIntermediate CipherProfile = "Intermediate"
	// CipherProfileModern is the suites of TLS 1.3.
	CipherProfileModern CipherProfile = "Modern"
)

// ClientValidation sets which certificates clients have to show.
//
// The backend gets a verified certificate in the header Client-Cert (RFC 9440), its subject in X-SSL-Client-Subject,
// and the hexadecimal SHA-256 of it in X-SSL-Client-Fingerprint. Headers of these names, and Client-Cert-Chain, of
// clients are removed.
type ClientValidation struct {
	// The ConfigMaps with the certificates (PEM, under the key ca.crt) of those who sign clients' certificates.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	CACertificateRefs []ObjectReference `json:"caCertificateRefs"`

	// Required: a client without a valid certificate is refused. Optional: a client may have none, but not an invalid one.
	// +optional
	// +kubebuilder:default=Required
	Mode ClientValidationMode `json:"mode,omitempty"`
}

// ClientValidationMode sets what happens to clients without a certificate.
//
// +kubebuilder:validation:Enum=Required;Optional
type ClientValidationMode string

const (
	// ClientValidationRequired refuses clients without a certificate.
	ClientValidationRequired ClientValidationMode = "Required"
	// ClientValidationOptional accepts clients without a certificate.
	ClientValidationOptional ClientValidationMode = "Optional"
)

// HSTS is the header Strict-Transport-Security.
type HSTS struct {
	// For how long browsers remember, in seconds.
	// +optional
	// +kubebuilder:default=31536000
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=315360000
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`

	// Whether it holds for all names below the hostname too.
	// +optional
	IncludeSubDomains bool `json:"includeSubDomains,omitempty"`

	// Whether browsers may ship with it.
	// +optional
	Preload bool `json:"preload,omitempty"`
}

// CIDR is a range of IP addresses.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=49
type CIDR string

// Name is the name of a listener or route: a DNS label.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type Name string

// Hostname is a DNS name in lower case, without a port or trailing dot, whose first label may be "*".
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type Hostname string

// PreciseHostname is a Hostname without a wildcard.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type PreciseHostname string

// Duration is a length of time as in the Gateway API (GEP-2257): numbers with h, m, s or ms, like 1m30s. Zero is no
// limit where a limit is meant.
//
// +kubebuilder:validation:MaxLength=24
// +kubebuilder:validation:Pattern=`^([0-9]{1,5}(h|m|s|ms)){1,4}$`
type Duration string
