package v1

// DirectResponse is an answer that needs no backend.
//
// +kubebuilder:validation:XValidation:rule=`!has(self.body) || self.body == "" || self.statusCode != 204 && self.statusCode != 304`,fieldPath=".body",message="an answer with the status 204 or 304 has no body: remove it"
type DirectResponse struct {
	// The status of the answer.
	// +optional
	// +kubebuilder:default=200
	// +kubebuilder:validation:Minimum=200
	// +kubebuilder:validation:Maximum=599
	StatusCode *int32 `json:"statusCode,omitempty"`

	// The body. Empty: none.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[^\x00]*$`
	Body string `json:"body,omitempty"`

	// The type of the body.
	// +optional
	// +kubebuilder:default="text/plain; charset=utf-8"
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#&^_.+-]+/[A-Za-z0-9!#&^_.+-]+( *; *[A-Za-z0-9!#&^_.+-]+=[A-Za-z0-9!#&^_.+-]+)*$`
	ContentType string `json:"contentType,omitempty"`

	// Other headers of the answer, as Retry-After. Content-Type and the headers that frame a message and its connection
	// cannot be set.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Headers []Header `json:"headers,omitempty"`
}

// ResponseOverride replaces errors of backends, by their status. Errors that the proxies answer with by themselves
// stay: spec.errorPages is for those.
type ResponseOverride struct {
	// The errors to replace. Of two for the same status, the first counts.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Responses []OverriddenResponse `json:"responses"`
}

// OverriddenResponse is what clients get in place of errors of backends: either a body or the answer of a Service.
type OverriddenResponse struct {
	// The statuses of the errors.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Statuses []BackendErrorStatus `json:"statuses"`

	// The status that clients get. Empty: the status of the error.
	// +optional
	// +kubebuilder:validation:Minimum=400
	// +kubebuilder:validation:Maximum=599
	StatusCode *int32 `json:"statusCode,omitempty"`

	// The type of the body.
	// +optional
	// +kubebuilder:default="text/html; charset=utf-8"
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#&^_.+-]+/[A-Za-z0-9!#&^_.+-]+( *; *[A-Za-z0-9!#&^_.+-]+=[A-Za-z0-9!#&^_.+-]+)*$`
	ContentType string `json:"contentType,omitempty"`

	// The body.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[^\x00]*$`
	Body string `json:"body,omitempty"`

	// The Service whose answer clients get. It is asked with GET and the path "/". Headers tell about the request:
	// X-Code has the status of the error, X-Format the header Accept, X-Original-URI the path with the query, and
	// X-Request-ID its ID. The answer counts whatever its status is, with its headers. It has 10 seconds, and at most
	// 15360 bytes; without it, clients get the error of the backend.
	// +optional
	BackendRef *ResponseOverrideBackendRef `json:"backendRef,omitempty"`
}

// BackendErrorStatus is the status of an error of a backend.
//
// +kubebuilder:validation:Minimum=400
// +kubebuilder:validation:Maximum=599
type BackendErrorStatus int32

// ResponseOverrideBackendRef is a port of a Service that answers in place of another one.
type ResponseOverrideBackendRef struct {
	// The name of the Service, in the namespace of the Gateway or RouteFilter. A Service of type ExternalName, or one
	// that selects proxies of a Gateway, replaces no errors.
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

// ResponseRewrite replaces what answers of backends say about addresses. Answers of the proxies stay as they are.
//
// +kubebuilder:validation:MinProperties=1
type ResponseRewrite struct {
	// The beginning of the URLs in the headers Location and Refresh.
	// +optional
	Location *LocationRewrite `json:"location,omitempty"`

	// The domain of cookies: the attribute Domain of each header Set-Cookie.
	// +optional
	CookieDomain *CookieDomainRewrite `json:"cookieDomain,omitempty"`

	// The beginning of the path of cookies: the attribute Path of each header Set-Cookie.
	// +optional
	CookiePath *CookiePathRewrite `json:"cookiePath,omitempty"`
}

// LocationRewrite is another beginning of URLs.
type LocationRewrite struct {
	// How a URL has to begin, as http://shop.internal:8080/ or /app/. Other URLs stay.
	// +required
	From URLBeginning `json:"from"`

	// The text that replaces this beginning.
	// +required
	To URLBeginning `json:"to"`
}

// URLBeginning is the beginning of a URL.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^[!-~]+$`
type URLBeginning string

// CookieDomainRewrite is another domain of cookies.
type CookieDomainRewrite struct {
	// The domain that is replaced, with or without a dot before it. Others stay.
	// +required
	From PreciseHostname `json:"from"`

	// The new domain.
	// +required
	To PreciseHostname `json:"to"`
}

// CookiePathRewrite is another beginning of the paths of cookies.
type CookiePathRewrite struct {
	// How a path has to begin. Others stay. With /app, /shop makes /shop/cart of /app/cart, and /shoples of /apples.
	// +required
	From CookiePath `json:"from"`

	// The text that replaces this beginning.
	// +required
	To CookiePath `json:"to"`
}

// CookiePath is a path of cookies.
//
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^/[!-:<-~]*$`
type CookiePath string
