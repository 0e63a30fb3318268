package v1

// ReasonBudgetExceeded is the reason why a route, or a listener of a ListenerSet, is not Accepted: its namespace has as
// much of the Gateway as it may.
const ReasonBudgetExceeded = "BudgetExceeded"

// NamespaceBudget bounds what the routes and ListenerSets of a namespace have of a Gateway. The oldest come first. What
// is beyond is not accepted, and does not count. The namespace of the Gateway has no bounds.
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

	// How many names of headers the conditions of all rules may have. One that is new to the Gateway takes a reload.
	// Empty: 64.
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
}
