package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=gateways,scope=Namespaced,singular=gateway,shortName=appgw,categories=app-gateway
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`,description="Whether every ready proxy runs the latest generation"
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.addresses[0].value`,description="The first address traffic can be sent to"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`,description="Proxies wanted"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Proxies that receive traffic"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 55",fieldPath=".metadata",message="metadata.name must have at most 55 characters: the objects made for the Gateway are named after it, with a suffix, and may have 63"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="metadata.name must be a DNS label (lower-case letters, digits and '-', starting with a letter): the Service made for the Gateway is named after it"

// Gateway sets which HTTP traffic enters a namespace, and where it goes. The operator keeps a data plane running for
// every Gateway: HAProxy pods behind a Service, configured from this object.
type Gateway struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name may have up to 55 characters and must be a DNS label.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The traffic to accept, the backends to send it to, and the settings of the proxies.
	// +required
	Spec GatewaySpec `json:"spec"`
	// The observed state. The operator writes it, and everyone else only reads it.
	// +optional
	Status GatewayStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// GatewayList is a list of Gateways.
type GatewayList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The Gateways.
	Items []Gateway `json:"items"`
}

// The sum of names bounds what the rule after it costs the API server, which refuses rules that cost too much: the
// names of the listeners are made once (a list of one list), not for each route.
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.map(r, has(r.listeners), size(r.listeners)).sum() <= 8192",fieldPath=".routes",message="the routes name listeners more than 8192 times in all: leave out routes[].listeners where a route belongs to every listener"
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.map(r, has(r.listeners), size(r.listeners)).sum() > 8192 || [self.listeners.map(l, l.name)].all(names, self.routes.all(r, !has(r.listeners) || r.listeners.all(n, n in names)))",fieldPath=".routes",message="every name in routes[].listeners must be the name of a listener in spec.listeners: correct the name or add the listener"
// +kubebuilder:validation:XValidation:rule="!has(self.tcpRoutes) || [self.listeners.map(l, l.name)].all(names, self.tcpRoutes.all(r, r.listeners.all(n, n in names)))",fieldPath=".tcpRoutes",message="every name in tcpRoutes[].listeners must be the name of a listener in spec.listeners: correct the name or add the listener"
// +kubebuilder:validation:XValidation:rule="!has(self.tlsRoutes) || [self.listeners.map(l, l.name)].all(names, self.tlsRoutes.all(r, !has(r.listeners) || r.listeners.all(n, n in names)))",fieldPath=".tlsRoutes",message="every name in tlsRoutes[].listeners must be the name of a listener in spec.listeners: correct the name or add the listener"
// +kubebuilder:validation:XValidation:rule="!self.listeners.exists(l, has(l.proxyProtocol)) || (has(self.trustedProxies) && size(self.trustedProxies) > 0)",fieldPath=".trustedProxies",message="a listener has proxyProtocol: name the addresses of the load balancers that send the PROXY header"
// +kubebuilder:validation:XValidation:rule="!has(self.service.ports) || self.service.ports.all(p, self.listeners.exists(l, l.port == p.port))",fieldPath=".service.ports",message="every port in service.ports must be the port of a listener in spec.listeners: correct the port or add the listener"
// +kubebuilder:validation:XValidation:rule="(has(self.pods) ? self.pods.kind : 'Deployment') == (has(oldSelf.pods) ? oldSelf.pods.kind : 'Deployment')",fieldPath=".pods.kind",message="the kind of the pods cannot change: make another Gateway"

// GatewaySpec is the desired state of a Gateway.
type GatewaySpec struct {
	// How many proxy pods to run. Zero is allowed: the Gateway then answers nothing. kubectl scale and a
	// HorizontalPodAutoscaler change this field. It has no effect if pods.kind is DaemonSet.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// The ports traffic enters by. Names are unique, and so is every pair of port and hostname. All listeners of a port
	// speak the same protocol, with one exception: listeners with tls.mode Passthrough may share a port with listeners of
	// protocol HTTPS, or of protocol TLS with tls.mode Terminate. A client without a server name gets to the latter.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.all(b, a.port != b.port || a.protocol == b.protocol || has(a.tls) && has(b.tls) && a.tls.mode != b.tls.mode))",message="two listeners of one port have different protocols: change the port of one of them"
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.all(b, a.port != b.port || has(a.proxyProtocol) == has(b.proxyProtocol)))",message="two listeners of one port differ in proxyProtocol: set it in both or in none"
	// +kubebuilder:validation:XValidation:rule="!self.exists(l, has(l.httpsRedirect)) || self.exists(l, l.protocol == 'HTTPS')",message="a listener redirects to HTTPS and there is no HTTPS listener: add one or remove httpsRedirect"
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.port == b.port && (has(a.hostname) ? a.hostname : '') == (has(b.hostname) ? b.hostname : '')))",message="two listeners have the same port and hostname: change the port or the hostname of one of them"
	Listeners []Listener `json:"listeners"`

	// Which namespaces may use which hostnames, in route objects of the Gateway API. The routes in this object may use
	// any. Empty: each may use every hostname, as far as listeners allow its routes.
	// +optional
	AllowedHostnames *AllowedHostnames `json:"allowedHostnames,omitempty"`

	// How much each namespace may have by route objects of the Gateway API. The routes in this object have no bounds of
	// this kind. Empty: the defaults of its fields.
	// +optional
	NamespaceBudget *NamespaceBudget `json:"namespaceBudget,omitempty"`

	// The routes of requests to Services. Names are unique.
	//
	// When several rules match a request, the most specific wins, whatever route it is in: an exact hostname before a
	// wildcard (the longer one first) before none; then an Exact path before a RegularExpression before a PathPrefix; then
	// the longer prefix; then a match with a method; then more headers; then more query parameters; then the order in this
	// object. A request that no rule matches is answered with 404.
	//
	// spec.clientLimits bounds the headers of a request. An answer may have 1,000 headers, and 31,000 bytes of them. A
	// larger one becomes 502.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=4096
	Routes []Route `json:"routes,omitempty"`

	// Which connections of TCP listeners, and of TLS listeners that terminate TLS, go to which Services. Names are unique.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	TCPRoutes []TCPRoute `json:"tcpRoutes,omitempty"`

	// Which connections of TLS listeners go to which Services, by the server name the client asks for. Names are
	// unique.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	TLSRoutes []TLSRoute `json:"tlsRoutes,omitempty"`

	// How to talk to the Services that routes name, where the defaults do not do. The condition Accepted names entries
	// that no route refers to, with the reason UnusedBackend. An entry of this kind that has tls may have a typo. So
	// nothing is sent to a Service port that has no entry and the same Service or the same port: requests are answered
	// with 500, and Accepted is False. TLS that is passed through goes on.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=port
	// +kubebuilder:validation:MaxItems=256
	Backends []Backend `json:"backends,omitempty"`

	// The Secret of type kubernetes.io/tls, in the Gateway's namespace, with the certificate and key that the proxies show
	// to backends. They show it wherever they speak TLS: by backends[].tls, or by a BackendTLSPolicy of the Gateway API.
	// While it cannot be used, nothing is sent there: requests get 500, and the condition ResolvedRefs names the Secret.
	// Empty: no certificate.
	// +optional
	BackendClientCertificateRef *ObjectReference `json:"backendClientCertificateRef,omitempty"`

	// The CIDR ranges of the proxies in front of this Gateway. They are trusted to name the client. Their headers
	// Forwarded and X-Forwarded-* are kept, and their own address is added. Headers like X-Real-IP are kept, too. These
	// headers of all other clients are removed. A listener with proxyProtocol takes connections of trusted proxies only.
	// Backends get Forwarded and X-Forwarded-For, -Host, -Port and -Proto in any case. X-Forwarded-Port is 443 or 80
	// where a trusted proxy says only that the scheme is another than that of its connection. With trusted proxies, idle
	// connections are kept for 620 s, which is longer than load balancers keep them. Without, they are kept for 60 s.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="every trusted proxy must be a CIDR range, like 10.0.0.0/8 or fd00::/8"
	TrustedProxies []CIDR `json:"trustedProxies,omitempty"`

	// How much of each proxy pod clients may take, so that none of them takes it from the others.
	// +optional
	// +kubebuilder:default={}
	ClientLimits ClientLimits `json:"clientLimits,omitempty"`

	// Which answers are compressed by gzip, for clients that accept it. Without it, none are.
	// +optional
	Compression *Compression `json:"compression,omitempty"`

	// Offer HTTP/3 on the ports of HTTPS listeners. Without it, they speak HTTP/1.1 and HTTP/2.
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

	// Take part in traces, and send spans of sampled requests to a collector. Without it, traceparent is passed on as any
	// other header.
	// +optional
	Tracing *Tracing `json:"tracing,omitempty"`

	// The pages that clients get in place of the text of errors that the proxies answer with by themselves.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=13
	// +kubebuilder:validation:XValidation:rule="[400, 401, 403, 404, 405, 408, 413, 421, 429, 500, 502, 503, 504].all(s, self.filter(p, s in p.statuses).size() <= 1)",message="two pages are for the same status: remove it from one of them"
	ErrorPages []ErrorPage `json:"errorPages,omitempty"`

	// How much the proxies store of answers, for rules with the filter Cache.
	// +optional
	Cache *ResponseCache `json:"cache,omitempty"`

	// How long connections that stay open (WebSockets, streams, downloads, idle ones) may go on when their HAProxy
	// process has to end: after a change that only a new process can take in, or when their pod stops. Then they are
	// closed; requests that come meanwhile are answered. Longer costs memory: until then there are two processes, and a
	// pod takes that much longer to stop.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="drainTimeout must be between 1s and 1h"
	DrainTimeout Duration `json:"drainTimeout,omitempty"`

	// The Service that makes the proxies reachable, whose name is the Gateway's with "-gateway". What cannot be said
	// here, such as sessionAffinity, can be set in the Service: the operator leaves it as it is.
	// +optional
	// +kubebuilder:default={}
	Service ServiceSpec `json:"service,omitempty"`

	// How the proxy pods run.
	// +optional
	Pods PodsSpec `json:"pods,omitempty"`

	// How the proxies watch the objects of the Gateway API.
	// +optional
	Watch WatchMode `json:"watch,omitempty"`
}
