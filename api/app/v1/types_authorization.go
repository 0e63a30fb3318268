package v1

// Authorization lets requests through by an ordered list of rules. The first rule that a request meets decides. A
// request that a rule denies gets 403, and so does one that meets no rule: what is not allowed is denied.
//
// It comes after BasicAuth, APIKey and JWT, so it knows who the client is.
type Authorization struct {
	// The rules, in the order in which they are tried.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Rules []AuthorizationRule `json:"rules"`
}

// AuthorizationRule allows or denies the requests that meet each of its fields. Without any, it allows or denies all
// requests.
//
// A value that is unknown, or cannot be read, meets no rule that allows, and each rule that denies. Examples are a
// claim that is an object or a list of other things than texts, and a client or claim that a filter in shadow did not
// find.
type AuthorizationRule struct {
	// Allow: let the requests through. Deny: answer 403.
	// +required
	Action AuthorizationAction `json:"action"`

	// The method is one of these.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=7
	Methods []HTTPMethod `json:"methods,omitempty"`

	// The path is one of these or below it, by whole segments, as with matches of type PathPrefix. It is the path as the
	// client sent it, before any rewrite. A rule that denies /admin denies it with parameters, too, as in /admin;v=1.
	// There are no wildcards: write a star of a path as %2A.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Paths []AuthorizationPath `json:"paths,omitempty"`

	// The address of the client, as for the filter ClientAddress, is in one of these ranges.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Addresses []AddressRange `json:"addresses,omitempty"`

	// The name of the client is one of these. The filter APIKey or BasicAuth has to be there, too. Otherwise, requests
	// are answered with 500.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Clients []ClientName `json:"clients,omitempty"`

	// The token or session has each of these claims. The filter JWT or OIDC has to be there, too. Otherwise, requests are
	// answered with 500.
	// +optional
	// +listType=map
	// +listMapKey=claim
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Claims []JWTRequiredClaim `json:"claims,omitempty"`
}

// AuthorizationAction is what happens to requests.
//
// +kubebuilder:validation:Enum=Allow;Deny
type AuthorizationAction string

const (
	// AuthorizationAllow lets requests through.
	AuthorizationAllow AuthorizationAction = "Allow"
	// AuthorizationDeny answers 403.
	AuthorizationDeny AuthorizationAction = "Deny"
)

// AuthorizationPath is a path, as in a match of type PathPrefix.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
type AuthorizationPath string

// ClientName is the name of a client of an API key, or of a user.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
type ClientName string
