package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=gatewayconfigs,scope=Namespaced,singular=gatewayconfig,shortName=gwcfg,categories=app-gateway
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`,description="Proxies wanted"
// +kubebuilder:printcolumn:name="Service",type=string,JSONPath=`.spec.service.type`,description="The type of the Service"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// GatewayConfig has the settings of data planes of Gateways of the Gateway API, which have no fields for them. A
// GatewayClass names one in spec.parametersRef, for all its Gateways. A Gateway names one in
// spec.infrastructure.parametersRef, for itself: each field that it sets replaces the field of the class.
type GatewayConfig struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// How to run the data planes.
	// +required
	Spec GatewayConfigSpec `json:"spec"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// GatewayConfigList is a list of GatewayConfigs.
type GatewayConfigList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The GatewayConfigs.
	Items []GatewayConfig `json:"items"`
}

// GatewayConfigSpec has the settings of data planes. Each field is as in the spec of our own kind Gateway.
//
// +kubebuilder:validation:XValidation:rule="(has(self.pods) ? self.pods.kind : 'Deployment') == (has(oldSelf.pods) ? oldSelf.pods.kind : 'Deployment')",fieldPath=".pods.kind",message="the kind of the pods cannot change: make another GatewayConfig, and another Gateway that names it"
// +kubebuilder:validation:XValidation:rule="!has(self.shadow) || self.shadow.all(s, s == 'maxRequestBytes' ? has(self.maxRequestBytes) : has(self.filters) && self.filters.exists(f, f.type == s))",fieldPath=".shadow",message="it names a filter that is not there: add the filter here, or remove the name"
// +kubebuilder:validation:XValidation:rule="!has(self.mandatory) || self.mandatory.all(m, m.type == 'maxRequestBytes' ? has(self.maxRequestBytes) : has(self.filters) && self.filters.exists(f, f.type == m.type))",fieldPath=".mandatory",message="it names a filter that is not there: add the filter here, or remove the name"
// +kubebuilder:validation:XValidation:rule="!has(self.proxyProtocol) || (has(self.trustedProxies) && size(self.trustedProxies) > 0)",fieldPath=".trustedProxies",message="proxyProtocol is set: name the addresses of the load balancers that send the PROXY header"
type GatewayConfigSpec struct {
	// How many proxy pods to run. Without it there are two at first, and kubectl scale or a HorizontalPodAutoscaler may
	// change their number in the Gateway of the kind app.example.com that the operator makes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// The CIDR ranges of the proxies in front of the Gateways, which are trusted to say who the client is.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="every trusted proxy must be a CIDR range, like 10.0.0.0/8 or fd00::/8"
	TrustedProxies []CIDR `json:"trustedProxies,omitempty"`

	// Every connection to a listener begins with a PROXY protocol header, of version 1 or 2, that says where it comes
	// from. Only the addresses in trustedProxies may send one, and they have to. Every other connection is closed, also
	// one from within the cluster.
	// +optional
	// +kubebuilder:validation:Enum=Any
	ProxyProtocol ProxyProtocolVersion `json:"proxyProtocol,omitempty"`

	// Which namespaces may use which hostnames. Empty: each may use every hostname, as far as listeners allow its routes.
	// +optional
	AllowedHostnames *AllowedHostnames `json:"allowedHostnames,omitempty"`

	// How much of a Gateway each namespace may have. Empty: the defaults of its fields.
	// +optional
	NamespaceBudget *NamespaceBudget `json:"namespaceBudget,omitempty"`

	// How all listeners that terminate TLS speak it.
	// +optional
	TLS *TLSSettings `json:"tls,omitempty"`

	// How much of each proxy pod clients may take.
	// +optional
	ClientLimits *ClientLimits `json:"clientLimits,omitempty"`

	// Which answers are compressed by gzip, for clients that accept it.
	// +optional
	Compression *Compression `json:"compression,omitempty"`

	// Offer HTTP/3 on the ports of HTTPS listeners.
	// +optional
	Http3 *HTTP3 `json:"http3,omitempty"`

	// Keys of the access log beside its usual ones.
	// +optional
	AccessLog *AccessLog `json:"accessLog,omitempty"`

	// Measure the requests of each route or rule: the agents' metrics get histograms of their times and sizes, by the
	// class of the status. ByRoute: for each route. ByRule: for each rule of a route, which costs Prometheus more. Empty:
	// no histograms.
	// +optional
	RequestMetrics RequestMetrics `json:"requestMetrics,omitempty"`

	// Take part in traces, and send spans of sampled requests to a collector.
	// +optional
	Tracing *Tracing `json:"tracing,omitempty"`

	// The pages that clients get in place of the text of errors that the proxies answer with by themselves.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=13
	// +kubebuilder:validation:XValidation:rule="[400, 401, 403, 404, 405, 408, 413, 421, 429, 500, 502, 503, 504].all(s, self.filter(p, s in p.statuses).size() <= 1)",message="two pages are for the same status: remove it from one of them"
	ErrorPages []ErrorPage `json:"errorPages,omitempty"`

	// The filters of all HTTP and HTTPS listeners. The Secrets, ConfigMaps and Services that they name are in the
	// namespace of the Gateway.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(f, f.type in ['RequestRedirect', 'URLRewrite', 'PathRegexRewrite', 'DirectResponse', 'RequestMirror', 'Cache', 'ResponseOverride', 'ResponseRewrite', 'BandwidthLimit'])",message="a listener has no filters of type RequestRedirect, URLRewrite, PathRegexRewrite, DirectResponse, RequestMirror, Cache, ResponseOverride, ResponseRewrite and BandwidthLimit: add them to rules"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.basicAuth)) || !self.exists_one(f, has(f.jwt) && !has(f.jwt.from))",message="BasicAuth and JWT both want the header Authorization, so every request would get 401: remove one of them"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.basicAuth)) || !self.exists_one(f, has(f.apiKey))",message="BasicAuth and APIKey both say who the client is: remove one of them"
	// +kubebuilder:validation:XValidation:rule="!self.exists_one(f, has(f.oidc)) || !self.exists(f, has(f.basicAuth) || has(f.apiKey) || has(f.jwt))",message="OIDC says who the client is: remove it, or BasicAuth, APIKey and JWT"
	Filters []RuleFilter `json:"filters,omitempty"`

	// The largest request body that all HTTP and HTTPS listeners let through, in bytes. A rule that has a limit uses its
	// own instead. Empty: any size.
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

	// Filters above that rules do not replace, with exceptions. A rule with a ClientAddress, a RateLimit or a limit of
	// bodies of its own has to meet both. If it has another filter of its own in place of a mandatory one, its requests
	// are answered with 500. Mandatory changes of headers come last.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=12
	Mandatory []MandatoryFilter `json:"mandatory,omitempty"`

	// How much the proxies store of answers, for rules with the filter Cache.
	// +optional
	Cache *ResponseCache `json:"cache,omitempty"`

	// How long connections that stay open may go on when their HAProxy process has to end.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="drainTimeout must be between 1s and 1h"
	DrainTimeout Duration `json:"drainTimeout,omitempty"`

	// The Service that makes the proxies reachable.
	// +optional
	Service *ServiceSpec `json:"service,omitempty"`

	// How the proxy pods run.
	// +optional
	Pods *PodsSpec `json:"pods,omitempty"`

	// How the proxies watch the objects of the Gateway API.
	// +optional
	Watch WatchMode `json:"watch,omitempty"`
}

// TLSSettings is how listeners speak TLS. Each field is as in the TLS of a listener of our own kind Gateway.
type TLSSettings struct {
	// The lowest version of TLS that clients may use.
	// +optional
	// +kubebuilder:default=TLSv1.2
	MinVersion TLSVersion `json:"minVersion,omitempty"`

	// Which cipher suites clients may use, as in Mozilla's recommendations. Intermediate: forward secrecy and
	// authenticated encryption. Modern: only the suites of TLS 1.3.
	// +optional
	// +kubebuilder:default=Intermediate
	CipherProfile CipherProfile `json:"cipherProfile,omitempty"`

	// Tell browsers to use HTTPS only, from now on (RFC 6797, Strict-Transport-Security). It is for listeners of protocol
	// HTTPS.
	// +optional
	HSTS *HSTS `json:"hsts,omitempty"`
}
