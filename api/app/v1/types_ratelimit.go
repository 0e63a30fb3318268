package v1

// RateLimit bounds how many requests of a rule are let through. Others get 429.
//
// +kubebuilder:validation:XValidation:rule="has(self.limits) || has(self.concurrent)",message="a RateLimit has limits, concurrent or both"
type RateLimit struct {
	// The limits, each for a unit of time of its own. A request has to be within all of them. One that gets 429 counts
	// for none of them, except that one beyond a limit by a Claim or Client has counted for the limits before it. All
	// proxy pods of the Gateway count together.
	//
	// +optional
	// +listType=map
	// +listMapKey=unit
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Limits []RequestLimit `json:"limits,omitempty"`

	// How many concurrent requests there may be. Each proxy pod counts for itself. A request counts until its answer
	// has been sent, a WebSocket until it is closed. One that gets 429 for this does not count for the limits, except
	// that with a Claim or Client it has counted for the limits before it.
	// +optional
	Concurrent *ConcurrentLimit `json:"concurrent,omitempty"`
}

// ConcurrentLimit bounds the number of concurrent requests.
type ConcurrentLimit struct {
	// How many there may be for each key.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Requests int32 `json:"requests"`

	// The value that requests are counted by. Empty: the address of the client.
	// +optional
	Key *RateLimitKey `json:"key,omitempty"`
}

// RequestLimit bounds how many requests are let through in a second, a minute or an hour.
type RequestLimit struct {
	// How many requests are let through for each key. All may come at once.
	//
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	Requests int32 `json:"requests"`

	// Within which time. It slides: at each moment, the time before it counts.
	//
	// +required
	Unit RateLimitUnit `json:"unit"`

	// The value that requests are counted by. Empty: the address of the client.
	// +optional
	Key *RateLimitKey `json:"key,omitempty"`
}

// RateLimitUnit is the time that a limit is for.
//
// +kubebuilder:validation:Enum=Second;Minute;Hour
type RateLimitUnit string

const (
	// RateLimitSecond is a limit for each second.
	RateLimitSecond RateLimitUnit = "Second"
	// RateLimitMinute is a limit for each minute.
	RateLimitMinute RateLimitUnit = "Minute"
	// RateLimitHour is a limit for each hour.
	RateLimitHour RateLimitUnit = "Hour"
)

// RateLimitKey is what requests are counted by: requests with the same value count together.
type RateLimitKey struct {
	// The kind of value. ClientAddress is the address of the client, as for the filter ClientAddress; of IPv6, the first
	// 64 bits. Header and Cookie are the header or cookie of the name; requests without it, or with several, count
	// together. Path is the path of the request. Rule counts all requests of the rule together. Claim is a claim of the
	// token or session, by the rule's filter JWT or OIDC. Requests without the claim count together, and requests of
	// different issuers apart. Client is the name of the client, by the rule's filter APIKey or BasicAuth. Limits by a
	// Claim or Client come after these filters. A rule without the filter is answered with 500.
	//
	// +required
	Type RateLimitKeyType `json:"type"`

	// The name of the header, in which upper and lower case are the same, or of the cookie. Or the claim: a string,
	// number, boolean or list, with dots between names if it is within others, as in "realm.user". A dot that is part of a
	// name is written "\.", as in "https://example\.com/user".
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_:@-]|\\[.])+([.]([A-Za-z0-9_:@-]|\\[.])+)*$|^https?://([A-Za-z0-9:-]|\\[.])+(/([A-Za-z0-9_:@/~-]|\\[.])*([.]([A-Za-z0-9_:@-]|\\[.])+)*)?$`
	Name string `json:"name,omitempty"`
}

// RateLimitKeyType is where the value is that requests are counted by.
//
// +kubebuilder:validation:Enum=ClientAddress;Header;Cookie;Path;Rule;Claim;Client
type RateLimitKeyType string

const (
	// RateLimitClientAddress counts by the address of the client.
	RateLimitClientAddress RateLimitKeyType = "ClientAddress"
	// RateLimitHeader counts by a header.
	RateLimitHeader RateLimitKeyType = "Header"
	// RateLimitCookie counts by a cookie.
	RateLimitCookie RateLimitKeyType = "Cookie"
	// RateLimitPath counts by the path.
	RateLimitPath RateLimitKeyType = "Path"
	// RateLimitRule counts all requests of the rule together.
	RateLimitRule RateLimitKeyType = "Rule"
	// RateLimitClaim counts by a claim of the token.
	RateLimitClaim RateLimitKeyType = "Claim"
	// RateLimitClient counts by the name of the client.
	RateLimitClient RateLimitKeyType = "Client"
)

// BandwidthLimit limits the speed of bodies, of each request by itself.
//
// +kubebuilder:validation:MinProperties=1
type BandwidthLimit struct {
	// The speed of the bodies of requests. Empty: any.
	// +optional
	Request *RequestBandwidth `json:"request,omitempty"`

	// The speed of the bodies of answers. Empty: any.
	// +optional
	Response *ResponseBandwidth `json:"response,omitempty"`
}

// RequestBandwidth is the speed of the body of a request.
type RequestBandwidth struct {
	// How many bytes the backend gets in a second.
	// +required
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=1073741824
	BytesPerSecond int64 `json:"bytesPerSecond"`
}

// ResponseBandwidth is the speed of the body of an answer.
type ResponseBandwidth struct {
	// How many bytes the client gets in a second.
	// +required
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=1073741824
	BytesPerSecond int64 `json:"bytesPerSecond"`

	// Answers with a smaller Content-Length have any speed. Empty: none has.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1099511627776
	MinBytes *int64 `json:"minBytes,omitempty"`
}
