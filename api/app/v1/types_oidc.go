package v1

// OIDC lets requests through of users who have logged in at a provider, by OpenID Connect. A browser that asks for a
// page is sent to the provider, and comes back to the page. All other requests without a session get 401.
//
// The proxy keeps a session in encrypted cookies, so all pods of all Gateways with the same Secret know it. The cookies
// are for HTTPS alone. The backend does not get them. If the provider cannot be reached, sessions go on until they end,
// and requests without a session get 503.
type OIDC struct {
	// The provider: its metadata are at ISSUER/.well-known/openid-configuration. Addresses of the pod itself, of its link,
	// for multicast and of metadata services of clouds are refused, there and wherever the metadata lead.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^https://([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~!$&'()*+,;=:@%/-]*)?$`
	Issuer string `json:"issuer"`

	// The ID by which the provider knows this client.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	ClientID string `json:"clientID"`

	// The Secret in the Gateway's namespace. The key client-secret has the client's secret at the provider, and the key
	// issuer the issuer that this secret is for. The key session-keys has keys for sessions: lines of 64 hexadecimal
	// digits. The first encrypts, and all decrypt. With another issuer, nobody can log in. The pods mount the Secret. An
	// edit of it takes no new pods. The name of another one does, and until then requests get 503.
	// +required
	SecretRef ObjectReference `json:"secretRef"`

	// The ConfigMaps with the certificates (PEM) that the provider is verified by, under the key ca.crt, in the Gateway's
	// namespace. Empty: those that Mozilla trusts.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	CACertificateRefs []ObjectReference `json:"caCertificateRefs,omitempty"`

	// The scopes to ask the provider for, beside openid, such as email, groups, or offline_access, with which most
	// providers let sessions be renewed.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Scopes []JWTScope `json:"scopes,omitempty"`

	// The path below which the proxy itself answers, on each host: the provider sends browsers back to PATH/callback, and
	// PATH/logout ends a session. Rules with this filter have to match both.
	// +optional
	// +kubebuilder:default="/oauth2"
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^(/[A-Za-z0-9_-]+)+$`
	Path string `json:"path,omitempty"`

	// The path to which a browser goes after it has logged out, unless the provider sends it elsewhere.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^/([A-Za-z0-9._~-]+/?)*$`
	LoggedOutPath string `json:"loggedOutPath,omitempty"`

	// Headers for the backend with claims of the ID token. Headers of these names that clients send are removed.
	// +optional
	// +listType=map
	// +listMapKey=header
	// +kubebuilder:validation:MaxItems=16
	ClaimsToHeaders []JWTClaimHeader `json:"claimsToHeaders,omitempty"`

	// The claims that the ID token has to have, all of them. Users without them get 403.
	// +optional
	// +listType=map
	// +listMapKey=claim
	// +kubebuilder:validation:MaxItems=8
	RequiredClaims []JWTRequiredClaim `json:"requiredClaims,omitempty"`

	// The token that the backend gets in the header "Authorization: Bearer". Empty: none, and the header stays as the
	// client sent it.
	// +optional
	ForwardToken OIDCToken `json:"forwardToken,omitempty"`
}

// OIDCToken is a token that the provider issues.
//
// +kubebuilder:validation:Enum=ID;Access
type OIDCToken string

const (
	// OIDCIDToken identifies the user.
	OIDCIDToken OIDCToken = "ID"
	// OIDCAccessToken gives access on behalf of the user.
	OIDCAccessToken OIDCToken = "Access"
)
