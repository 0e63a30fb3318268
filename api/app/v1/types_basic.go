package v1

// BasicAuth lets requests through that have a user and password (RFC 7617) of a Secret. Others get 401. If the Secret
// does not exist, or no user in it can log in, all get 503. The backend does not get the header Authorization.
//
// The Secret has lines under the key auth as htpasswd writes them, with hashes of bcrypt ($2y$) or SHA-512 ($6$). The
// pods mount it. An edit of it takes no new pods. The name of another one does, and until then requests get 503.
type BasicAuth struct {
	// The Secret with the users, in the Gateway's namespace.
	// +required
	SecretRef ObjectReference `json:"secretRef"`

	// The text that browsers show when they ask for the password.
	// +optional
	// +kubebuilder:default="Restricted"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[ !#-\[\]-~]*$`
	Realm string `json:"realm,omitempty"`

	// The header in which the backend gets the name of the user, who is the client. What clients send in it is removed.
	// +optional
	ClientHeader HeaderName `json:"clientHeader,omitempty"`
}
