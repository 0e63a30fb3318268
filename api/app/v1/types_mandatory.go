package v1

// MandatoryFilter is a filter of listeners that rules do not replace.
type MandatoryFilter struct {
	// The type of the filter, or maxRequestBytes for the limit of bodies.
	// +required
	Type MandatoryFilterType `json:"type"`

	// The rules that the filter is not for.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Exceptions []FilterException `json:"exceptions,omitempty"`
}

// MandatoryFilterType is a type of filter that can be mandatory, or maxRequestBytes.
//
// +kubebuilder:validation:Enum=ClientAddress;RateLimit;BasicAuth;APIKey;JWT;OIDC;Authorization;ExternalAuth;WAF;maxRequestBytes;RequestHeaderModifier;ResponseHeaderModifier
type MandatoryFilterType string

// MandatoryMaxRequestBytes stands for the limit of bodies. All other values are types of filters.
const MandatoryMaxRequestBytes MandatoryFilterType = "maxRequestBytes"

// FilterException selects matches of rules. All of the requests that a match is for have to be within it: a match of
// the path /api is not within an exception for /api/upload, nor is one of a regular expression within any path.
//
// +kubebuilder:validation:MinProperties=1
type FilterException struct {
	// The namespaces of the routes. Empty: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Namespaces []Name `json:"namespaces,omitempty"`

	// Hostnames that include all of the route's. Empty: every hostname.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Hostnames []Hostname `json:"hostnames,omitempty"`

	// Paths, with everything below each. Empty: every path.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Paths []URLPath `json:"paths,omitempty"`
}
