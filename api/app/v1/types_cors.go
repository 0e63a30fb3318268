package v1

// CORS says which web pages of other origins may use a route, and how.
type CORS struct {
	// The origins: scheme, host and port as browsers write them (https://example.com, http://localhost:3000), with "*."
	// for every name below (https://*.example.com), or "*" for every origin.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	AllowOrigins []CORSOrigin `json:"allowOrigins"`

	// Whether requests may carry cookies and the like. Not with the origin "*": a page of any origin could act for the
	// user.
	// +optional
	AllowCredentials bool `json:"allowCredentials,omitempty"`

	// The methods, beside GET, HEAD and POST, which are always allowed. "*": all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=9
	AllowMethods []CORSMethod `json:"allowMethods,omitempty"`

	// The request headers, beside those that are always allowed. "*": all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	AllowHeaders []CORSHeaderName `json:"allowHeaders,omitempty"`

	// The headers of the answer that pages may read, beside those that are always allowed. "*": all, for requests without
	// credentials.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	ExposeHeaders []CORSHeaderName `json:"exposeHeaders,omitempty"`

	// For how many seconds a browser may remember the answer to a preflight request.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	MaxAge *int32 `json:"maxAge,omitempty"`
}

// CORSOrigin is an origin, or a pattern of origins.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^(\*|https?://(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?)$`
type CORSOrigin string

// CORSMethod is a method, or "*" for every one.
//
// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;DELETE;OPTIONS;PATCH;"*"
type CORSMethod string

// CORSHeaderName is the name of a header, or "*" for every one.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern=`^(\*|[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?)$`
type CORSHeaderName string
