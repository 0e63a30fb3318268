package v1

// ReasonBudgetExceeded is the reason why a route, or a listener of a ListenerSet, is not Accepted: its namespace has as
// much of the Gateway as it may.
const ReasonBudgetExceeded = "BudgetExceeded"

// NamespaceBudget bounds what the routes and ListenerSets of a namespace have of a Gateway, and what their requests
// take at a time. The oldest objects come first. One beyond is not accepted, and does not count. The namespace of the
// Gateway has no bounds.
//
// +kubebuilder:validation:MinProperties=1
type NamespaceBudget struct {
	// How many routes there may be. Empty: 5000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Routes *int32 `json:"routes,omitempty"`

	// How many rules all routes may have. Empty: 20000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Rules *int32 `json:"rules,omitempty"`

	// How many regular expressions the matches of all rules may have, for paths, headers and parameters. Empty: 2000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Expressions *int32 `json:"expressions,omitempty"`

	// How many names of headers and parameters the matches of all rules may have. One that is new to the Gateway takes a
	// reload. Empty: 128.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	HeaderNames *int32 `json:"headerNames,omitempty"`

	// How many limits all filters of type RateLimit may have, each of which counts requests. Empty: 5000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	RateLimits *int32 `json:"rateLimits,omitempty"`

	// How many listeners the ListenerSets may have. Empty: 2000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Listeners *int32 `json:"listeners,omitempty"`

	// How many certificates the listeners of ListenerSets may name. Empty: 2000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Certificates *int32 `json:"certificates,omitempty"`

	// How many questions of filters ExternalAuth, OIDC, BasicAuth and ResponseOverride may be open at a time in each
	// pod. Requests beyond get 503, or keep the answer that ResponseOverride would replace. Empty: 512.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	ConcurrentQuestions *int32 `json:"concurrentQuestions,omitempty"`

	// How many requests with bodies of more than 8 KiB, which a WAF reads, may be under way at a time in each pod.
	// Requests beyond get 503. Empty: 128.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	ConcurrentWAFBodies *int32 `json:"concurrentWAFBodies,omitempty"`

	// How many requests with bodies of unknown length, which maxRequestBytes counts, may be under way at a time in each
	// pod. Requests beyond get 503. Empty: 512.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	ConcurrentBodies *int32 `json:"concurrentBodies,omitempty"`

	// How many copies of RequestMirrors may be under way at a time in each pod. Requests beyond are not copied.
	// Empty: 128.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	ConcurrentCopies *int32 `json:"concurrentCopies,omitempty"`
}
