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
