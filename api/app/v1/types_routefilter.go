package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=routefilters,scope=Namespaced,singular=routefilter,categories=app-gateway

// RouteFilter is what the Gateway API has no filter for. A rule of an HTTPRoute or GRPCRoute in the same namespace
// names it in its filters, by type ExtensionRef. Requests of a rule that names one that does not exist are answered
// with 500. A Gateway of our own kind has these filters in its rules.
type RouteFilter struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The filters.
	// +required
	Spec RouteFilterSpec `json:"spec"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// RouteFilterList is a list of RouteFilters.
type RouteFilterList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The RouteFilters.
	Items []RouteFilter `json:"items"`
}

// RouteFilterSpec is what happens to requests.
//
// +kubebuilder:validation:XValidation:rule="has(self.filters) || has(self.maxRequestBytes)",message="it says nothing: add filters or maxRequestBytes"
// +kubebuilder:validation:XValidation:rule="!has(self.shadow) || self.shadow.all(s, s == 'maxRequestBytes' ? has(self.maxRequestBytes) : has(self.filters) && self.filters.exists(f, f.type == s))",fieldPath=".shadow",message="it names a filter that is not there: add the filter here, or remove the name"
type RouteFilterSpec struct {
	// The filters, as in a rule of our own kind Gateway, each type once. HTTPRoutes and GRPCRoutes have some types
	// themselves: RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect, URLRewrite, CORS and RequestMirror.
	// The order in the list does not matter: ClientAddress comes first, then RateLimit, BasicAuth, APIKey, JWT, OIDC,
	// Authorization, ExternalAuth and WAF, then a DirectResponse or Cache. Each rule that names the object counts for
	// itself. The Secret of a BasicAuth, APIKey or OIDC and the ConfigMaps of a JWT, OIDC or WAF are in the namespace of
	// the object, which has to be that of the Gateway. A rule with a DirectResponse has no backendRefs.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(f, f.type in ['RequestHeaderModifier', 'ResponseHeaderModifier', 'RequestRedirect', 'URLRewrite', 'CORS', 'RequestMirror'])",message="HTTPRoutes and GRPCRoutes have RequestHeaderModifier, ResponseHeaderModifier, RequestRedirect, URLRewrite, CORS and RequestMirror themselves: add them there"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.cache)) || !self.exists(f, has(f.basicAuth) || has(f.apiKey) || has(f.jwt) || has(f.externalAuth))",message="Cache would answer all users alike: remove it, or BasicAuth, APIKey, JWT and ExternalAuth"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.oidc)) || !self.exists(f, has(f.basicAuth) || has(f.apiKey) || has(f.jwt) || has(f.cache))",message="OIDC says who the client is: remove it, or BasicAuth, APIKey, JWT and Cache"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.directResponse)) || !self.exists_one(f, has(f.cache))",message="DirectResponse answers the requests, so Cache has no effect: remove one of them"
	Filters []RuleFilter `json:"filters,omitempty"`

	// The largest request body to let through, in bytes; a larger one is answered with 413. Of a body that does not
	// say its length, the backend may get as much as this, but not its end. Empty: any size.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1099511627776
	MaxRequestBytes *int64 `json:"maxRequestBytes,omitempty"`

	// Filters above that only say what they would refuse: they decide, and the request goes on all the same. Their
	// decisions are in the access log and in metrics. maxRequestBytes stands for the limit of bodies. Headers by which a
	// filter tells the backend who the user is are removed from requests that it would have refused. Empty: all filters
	// refuse.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=9
	Shadow []ShadowFilter `json:"shadow,omitempty"`
}
