package v1

// JWT lets a request through only with a valid token of one of some issuers: a signed JSON Web Token (RFC 7519), in the
// header "Authorization: Bearer" or in one of the places in from. Others get 401, and 403 if a required scope or claim
// is missing, with the header WWW-Authenticate.
//
// A token has to name its key in its header ("kid"), and has to have an end ("exp"). The key decides the algorithm of
// its signatures, not the token.
type JWT struct {
	// The issuers whose tokens are accepted. The "iss" of a token names its issuer, and only the keys and audiences of
	// that issuer count. Required scopes and claims are for the tokens of all issuers.
	// +required
	// +listType=map
	// +listMapKey=issuer
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Issuers []JWTIssuer `json:"issuers"`

	// The places where a request may have its token. A request with several tokens gets 401, whatever they are. The
	// backend gets the token. Empty: the header Authorization.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	From []CredentialSource `json:"from,omitempty"`

	// Headers for the backend with claims of a token. Headers of these names that clients send are removed.
	// +optional
	// +listType=map
	// +listMapKey=header
	// +kubebuilder:validation:MaxItems=16
	ClaimsToHeaders []JWTClaimHeader `json:"claimsToHeaders,omitempty"`

	// The scopes that a token has to have, all of them, in its "scope" or "scp". Others get 403.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	RequiredScopes []JWTScope `json:"requiredScopes,omitempty"`

	// The claims that a token has to have, all of them. Others get 403.
	// +optional
	// +listType=map
	// +listMapKey=claim
	// +kubebuilder:validation:MaxItems=8
	RequiredClaims []JWTRequiredClaim `json:"requiredClaims,omitempty"`

	// By how much the clocks of issuer and proxy may differ: up to 300s or 5m.
	// +optional
	// +kubebuilder:default="30s"
	ClockSkew JWTClockSkew `json:"clockSkew,omitempty"`
}

// JWTIssuer issues tokens.
type JWTIssuer struct {
	// The "iss" of its tokens.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Issuer string `json:"issuer"`

	// Whom a token may be for: one of these has to be its "aud", or in it.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Audiences []JWTAudience `json:"audiences"`

	// The keys that its tokens are signed with.
	// +required
	Keys JWTKeys `json:"keys"`
}

// JWTClockSkew is a number of seconds or minutes, like 30s or 1m.
//
// +kubebuilder:validation:MaxLength=4
// +kubebuilder:validation:Pattern=`^(([0-9]{1,2}|[12][0-9]{2}|300)s|[0-5]m)$`
type JWTClockSkew string

// JWTAudience is whom a token is for.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9!#$%&'()*+./:;=?@_~-]*$`
type JWTAudience string

// JWTScope is what a token allows to do.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'()*+./:;<=>?@_~-]+$`
type JWTScope string

// JWTRequiredClaim is what a claim has to be.
type JWTRequiredClaim struct {
	// The claim, as in claimsToHeaders.
	// +required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_:@-]|\\[.])+([.]([A-Za-z0-9_:@-]|\\[.])+)*$|^https?://([A-Za-z0-9:-]|\\[.])+(/([A-Za-z0-9_:@/~-]|\\[.])*([.]([A-Za-z0-9_:@-]|\\[.])+)*)?$`
	Claim string `json:"claim"`

	// It is one of these, or a list of texts with one of these. A number or boolean is compared as the token has it:
	// "true", "5".
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Values []JWTClaimValue `json:"values"`
}

// JWTClaimValue is a text, number or boolean of a token.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=256
// +kubebuilder:validation:Pattern=`^[!#-\[\]-~]([ !#-\[\]-~]*[!#-\[\]-~])?$`
type JWTClaimValue string

// JWTKeys are where the keys of an issuer are: one of the fields is set.
//
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=1
type JWTKeys struct {
	// The keys as a JSON Web Key Set (RFC 7517): RSA keys of 2048 to 8192 bits, and EC keys of the curves P-256, P-384
	// and P-521. Each has a "kid" of its own. An RSA key is for RS256, unless it has another "alg". Keys whose "use" is
	// "enc" are ignored. Requests for a rule with keys that cannot be used are answered with 500.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=65536
	Inline string `json:"inline,omitempty"`

	// The ConfigMap that has such a set under the key jwks, in the Gateway's namespace. The pods mount it. An edit of it
	// takes no new pods. The name of another one does. While its keys cannot be used, those before stay in use; without
	// any, requests are answered with 503.
	// +optional
	ConfigMapRef *ObjectReference `json:"configMapRef,omitempty"`

	// The URL where the issuer publishes such a set. Keys in it that cannot be used are ignored.
	// +optional
	Remote *RemoteJWTKeys `json:"remote,omitempty"`
}

// RemoteJWTKeys are keys that each proxy fetches. Until it has fetched them once, requests are answered with 503. Then
// it keeps those that it has until it can fetch others.
type RemoteJWTKeys struct {
	// The address, which the metadata of issuers have as jwks_uri. Addresses of the pod itself, of its link, for multicast
	// and of metadata services of clouds are refused. A redirect is an error.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^https://([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~!$&'()*+,;=:@%/?-]*)?$`
	URI string `json:"uri"`

	// The ConfigMaps with the certificates (PEM) that the server is verified by, under the key ca.crt, in the Gateway's
	// namespace.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	CACertificateRefs []ObjectReference `json:"caCertificateRefs"`

	// How often the keys are fetched: 1m to 99m, or 1h to 24h.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:MaxLength=3
	// +kubebuilder:validation:Pattern=`^([1-9][0-9]?m|([1-9]|1[0-9]|2[0-4])h)$`
	RefreshInterval string `json:"refreshInterval,omitempty"`
}

// JWTClaimHeader is a header that has the value of a claim. Without the claim, there is none.
type JWTClaimHeader struct {
	// The claim: a string, or a number, boolean or list as the token has it. With dots between names, it is within others:
	// "realm.user". A dot that is part of a name is written "\.": "https://example\.com/groups".
	// +required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_:@-]|\\[.])+([.]([A-Za-z0-9_:@-]|\\[.])+)*$|^https?://([A-Za-z0-9:-]|\\[.])+(/([A-Za-z0-9_:@/~-]|\\[.])*([.]([A-Za-z0-9_:@-]|\\[.])+)*)?$`
	Claim string `json:"claim"`

	// The name of the header, which begins with "X-".
	// +required
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[Xx]-([A-Za-z0-9-]*[A-Za-z0-9])$`
	Header string `json:"header"`
}
