package v1

// APIKey lets requests through that have a key of a Secret. Others get 401. If the Secret does not exist, or has no key
// that can be used, all get 503. The backend does not get the key.
//
// The Secret has lines under the key api-keys: the name of a client, a colon, and the SHA-256 of a key in hexadecimal.
// Keys have to be random and long. A client may have several, on lines of their own. The pods mount the Secret. An edit
// of it takes no new pods. The name of another one does, and until then requests get 503.
type APIKey struct {
	// The Secret with the keys, in the Gateway's namespace.
	// +required
	SecretRef ObjectReference `json:"secretRef"`

	// The places where a request may have its key. A request with several keys gets 401, whatever they are.
	// +required
	// +listType=map
	// +listMapKey=type
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	From []CredentialSource `json:"from"`

	// The header in which the backend gets the name of the client. What clients send in it is removed.
	// +optional
	ClientHeader HeaderName `json:"clientHeader,omitempty"`
}
