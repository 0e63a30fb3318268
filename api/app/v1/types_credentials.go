package v1

// CredentialSource is a part of requests that may be a key or token.
type CredentialSource struct {
	// Which part: a header, a parameter of the query, or a cookie.
	// +required
	Type CredentialSourceType `json:"type"`

	// Its name. Upper and lower case are the same for a header alone. In the header Authorization, "Bearer" comes before
	// the key or token.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9])?$`
	Name string `json:"name"`
}

// CredentialSourceType is where a key or token may be.
//
// +kubebuilder:validation:Enum=Header;QueryParam;Cookie
type CredentialSourceType string

const (
	// CredentialHeader is a header.
	CredentialHeader CredentialSourceType = "Header"
	// CredentialQueryParam is a parameter of the query.
	CredentialQueryParam CredentialSourceType = "QueryParam"
	// CredentialCookie is a cookie.
	CredentialCookie CredentialSourceType = "Cookie"
)
