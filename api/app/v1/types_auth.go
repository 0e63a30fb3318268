package v1

// ExternalAuth has a Service decide about each request. The Service gets a GET request without a body, or with
// forwardBody a POST request with the client's. The headers X-Forwarded-Method, -Uri, -Host, -Proto, -Port and -For
// describe the request of the client.
//
// An answer of 2xx lets the request through. The client gets its cookies with the answer to the request. An answer of
// 3xx or 4xx goes to the client, with its headers and a body of up to 8 KiB. With any other answer, or none in time,
// the client gets 503. Each proxy asks a Service about up to 256 requests at a time, and all Services about 1,024.
// While there are more, clients get 503.
type ExternalAuth struct {
	// The port of the Service that decides.
	// +required
	BackendRef ExternalAuthBackendRef `json:"backendRef"`

	// The path at which the Service is asked.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*$`
	Path string `json:"path,omitempty"`

	// The headers of the client's request that the Service gets, besides X-Forwarded-*.
	// +optional
	// +listType=set
	// +kubebuilder:default={Authorization, Cookie}
	// +kubebuilder:validation:MaxItems=16
	RequestHeaders []HeaderName `json:"requestHeaders,omitempty"`

	// The headers of the Service's answer that the backend gets. Headers of these names that clients send are removed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	ResponseHeaders []HeaderName `json:"responseHeaders,omitempty"`

	// Sends the body of requests to the Service, with POST. By default, it gets none.
	// +optional
	ForwardBody *ForwardBody `json:"forwardBody,omitempty"`

	// How long the answer may take. Zero is no limit.
	// +optional
	// +kubebuilder:default="5s"
	Timeout Duration `json:"timeout,omitempty"`

	// Keeps answers of the Service, and uses them for requests about which it would be asked the same. By default, the
	// Service is asked about each request.
	// +optional
	Cache *ExternalAuthCache `json:"cache,omitempty"`
}

// ExternalAuthCache keeps answers of 2xx, 3xx and 4xx for as long as their Cache-Control says, by max-age or s-maxage.
// Answers with no-store, no-cache, private, Set-Cookie or "Vary: *" are not kept. No answer is kept longer than a JSON
// Web Token is valid that the Service was sent.
//
// A kept answer is for requests of the same rule that send the Service the same: host, method, path and query, the
// client's address, requestHeaders and the body. Each thread of each proxy keeps its own. A client whose access is
// revoked gets in as long as an answer is kept.
type ExternalAuthCache struct {
	// The most seconds that an answer is kept, even if its Cache-Control allows more.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	MaxAgeSeconds int32 `json:"maxAgeSeconds,omitempty"`

	// The part of what the Service is sent that its answer depends on. By default, it is everything.
	// +optional
	Key *ExternalAuthCacheKey `json:"key,omitempty"`

	// How long an answer is kept that has neither Cache-Control nor Expires, by its status. By default, it is not kept.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Durations []ExternalAuthCacheDuration `json:"durations,omitempty"`
}

// ExternalAuthCacheKey names what an answer depends on, beside the host, the body and Authorization. Requests that are
// equal in these parts get the same answer. The Service is always asked about a request that has neither Authorization
// nor any of the cookies and headers other than X-Forwarded-*.
//
// Warning: if the Service looks at anything else, one client gets the decision for another.
//
// +kubebuilder:validation:MinProperties=1
type ExternalAuthCacheKey struct {
	// The headers, of those that the Service gets. X-Forwarded-Uri has the path and query of the request,
	// X-Forwarded-Method its method, and X-Forwarded-For the client's address.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Headers []HeaderName `json:"headers,omitempty"`

	// The cookies, if the Service gets the header Cookie.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Cookies []ExternalAuthCookie `json:"cookies,omitempty"`
}

// ExternalAuthCookie is the name of a cookie.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_.-]+$`
type ExternalAuthCookie string

// ExternalAuthCacheDuration is how long answers with some statuses are kept.
type ExternalAuthCacheDuration struct {
	// The statuses.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:Minimum=200
	// +kubebuilder:validation:items:Maximum=499
	Statuses []int32 `json:"statuses"`

	// How many seconds. Of two for one status, the first counts. It is never longer than maxAgeSeconds.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	Seconds int32 `json:"seconds"`
}

// ForwardBody sends the body of requests to the Service that decides. The proxy waits up to 10 s for it.
type ForwardBody struct {
	// How many bytes the body may have. A request with a longer one gets 413.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=8192
	MaxSize int32 `json:"maxSize"`
}

// ExternalAuthBackendRef is a port of a Service in the Gateway's namespace that decides about requests.
type ExternalAuthBackendRef struct {
	// The name of the Service, in the Gateway's namespace. A Service of type ExternalName, or one that selects
	// proxies of a Gateway, lets no request through.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// The port of the Service. Its appProtocol and its entry in spec.backends apply, as for backends of rules.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}
