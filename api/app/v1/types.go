package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=gateways,scope=Namespaced,singular=gateway
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.conditions[?(@.type=="Programmed")].status`,description="Whether every ready proxy runs the latest generation"
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.addresses[0].value`,description="The first address traffic can be sent to"
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`,description="Proxies wanted"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Proxies that receive traffic"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 55",fieldPath=".metadata",message="metadata.name must have at most 55 characters: the objects made for the Gateway are named after it, with a suffix, and may have 63"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",fieldPath=".metadata",message="metadata.name must be a DNS label (lower-case letters, digits and '-', starting with a letter): the Service made for the Gateway is named after it"

// Gateway says which HTTP traffic enters a namespace and where it goes. For every Gateway the operator keeps a data
// plane running: HAProxy pods behind a Service, configured from this object.
type Gateway struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name may have up to 55 characters and must be a DNS label.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// What traffic to accept, where to send it, and how to run the proxies.
	Spec GatewaySpec `json:"spec"`
	// What was observed: written by the operator and the proxies, read by everyone else.
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

// The sum of names bounds what the rule after it costs the API server, which refuses rules that cost too much: the names
// of the listeners are made once (a list of one list), not for each route.
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.map(r, has(r.listeners) ? size(r.listeners) : 0).sum() <= 8192",fieldPath=".routes",message="the routes name listeners more than 8192 times in all: leave out routes[].listeners where a route belongs to every listener"
// +kubebuilder:validation:XValidation:rule="!has(self.routes) || self.routes.map(r, has(r.listeners) ? size(r.listeners) : 0).sum() > 8192 || [self.listeners.map(l, l.name)].all(names, self.routes.all(r, !has(r.listeners) || r.listeners.all(n, n in names)))",fieldPath=".routes",message="every name in routes[].listeners must be the name of a listener in spec.listeners: correct the name or add the listener"

// GatewaySpec is the desired state of a Gateway.
type GatewaySpec struct {
	// How many proxy pods to run. Zero is allowed: the Gateway then answers nothing. kubectl scale and a
	// HorizontalPodAutoscaler change this field.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Replicas *int32 `json:"replicas,omitempty"`

	// The ports traffic enters by. Names are unique, and so is every pair of port and hostname.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.port == b.port && (has(a.hostname) ? a.hostname : '') == (has(b.hostname) ? b.hostname : '')))",message="two listeners have the same port and hostname: change the port or the hostname of one of them"
	Listeners []Listener `json:"listeners"`

	// Which requests go to which Services. Names are unique.
	//
	// When several rules match a request, the most specific wins, whatever route it is in: an exact hostname before a
	// wildcard (the longer one first) before none; then an Exact path before a PathPrefix; then the longer prefix;
	// then the order in this object. A request that no rule matches is answered with 404.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=4096
	Routes []Route `json:"routes,omitempty"`

	// The Service that makes the proxies reachable.
	// +optional
	// +kubebuilder:default={}
	Service ServiceSpec `json:"service,omitempty"`

	// How the proxy pods run.
	// +optional
	Pods PodsSpec `json:"pods,omitempty"`
}

// Listener is a port on which the proxies accept traffic.
type Listener struct {
	// The listener's name; routes refer to it. A DNS label.
	// +required
	Name Name `json:"name"`

	// The port to accept connections on. Ports 8404 and 8405 belong to the proxy pod itself.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:validation:XValidation:rule="self != 8404 && self != 8405",message="ports 8404 and 8405 are reserved for the metrics and health endpoints of the proxy pod: choose another port"
	Port int32 `json:"port"`

	// The protocol spoken on the port.
	// +required
	Protocol Protocol `json:"protocol"`

	// Only requests for this hostname use the listener. "*.example.com" stands for every name below example.com, but not
	// example.com itself. Empty: every hostname. A request uses the listener of its port with the most specific
	// hostname, and the routes of that listener only.
	// +optional
	Hostname Hostname `json:"hostname,omitempty"`
}

// Protocol is what a listener speaks.
//
// +kubebuilder:validation:Enum=HTTP
type Protocol string

const (
	// ProtocolHTTP is HTTP/1.1 in clear text.
	ProtocolHTTP Protocol = "HTTP"
)

// Name is the name of a listener or route: a DNS label.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
type Name string

// Hostname is a DNS name in lower case, without a port or trailing dot, whose first label may be "*".
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
type Hostname string

// Whoever applies a route owns all of it: an owner for each field, which the API server stores with the object, would
// take as much room as the routes themselves, and an object may have 1.5 MiB.
// +structType=atomic

// Route sends requests for its hostnames to Services, by rules.
type Route struct {
	// The route's name; it is in the access log. A DNS label.
	// +required
	Name Name `json:"name"`

	// The names of the listeners the route belongs to. Empty: every listener.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Listeners []Name `json:"listeners,omitempty"`

	// The hostnames the route is for. Where a listener has a hostname too, what both allow counts. Empty: every hostname
	// of the listener.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	Hostnames []Hostname `json:"hostnames,omitempty"`

	// The rules; a request that meets one of a rule's matches goes to the rule's backends.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Rules []RouteRule `json:"rules"`
}

// RouteRule says which requests go to which backends.
type RouteRule struct {
	// A request has to meet one of these. Empty: every request.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:default={{path:{type: "PathPrefix", value: "/"}}}
	Matches []RouteMatch `json:"matches,omitempty"`

	// Where matching requests go, each Service getting its share by weight. Empty, or all weights zero: 500.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	BackendRefs []BackendRef `json:"backendRefs,omitempty"`
}

// RouteMatch is a set of conditions on a request, all of which have to be met.
type RouteMatch struct {
	// The condition on the path. Empty: every path.
	// +optional
	// +kubebuilder:default={type: "PathPrefix", value: "/"}
	Path PathMatch `json:"path,omitempty"`
}

// PathMatch is a condition on a request's path, without the query string. Paths are compared byte by byte, as the client
// sent them: nothing is decoded, and case matters.
type PathMatch struct {
	// Exact: the path is the value. PathPrefix: the path is the value or below it, by whole segments: /api matches /api,
	// /api/ and /api/users, but not /apis; a trailing slash in the value makes no difference.
	// +optional
	// +kubebuilder:default=PathPrefix
	Type PathMatchType `json:"type,omitempty"`

	// The path, starting with a slash. Not allowed: empty, "." and ".." segments, an encoded slash (%2F), a query, a
	// fragment, and characters that a path must have percent-encoded.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/((\.{0,2}([-A-Za-z0-9_~!$&'()*+,;=:@]|%([013-9A-Fa-f][0-9A-Fa-f]|2[0-9A-Ea-e]))|\.{3})([-A-Za-z0-9._~!$&'()*+,;=:@]|%([013-9A-Fa-f][0-9A-Fa-f]|2[0-9A-Ea-e]))*/)*((\.{0,2}([-A-Za-z0-9_~!$&'()*+,;=:@]|%([013-9A-Fa-f][0-9A-Fa-f]|2[0-9A-Ea-e]))|\.{3})([-A-Za-z0-9._~!$&'()*+,;=:@]|%([013-9A-Fa-f][0-9A-Fa-f]|2[0-9A-Ea-e]))*)?$`
	Value string `json:"value,omitempty"`
}

// PathMatchType is how a path is compared.
//
// +kubebuilder:validation:Enum=Exact;PathPrefix
type PathMatchType string

const (
	// PathMatchExact matches the path that equals the value.
	PathMatchExact PathMatchType = "Exact"
	// PathMatchPathPrefix matches the value and every path below it, by whole segments.
	PathMatchPathPrefix PathMatchType = "PathPrefix"
)

// BackendRef is a port of a Service in the Gateway's namespace, with its share of the requests.
type BackendRef struct {
	// The name of the Service, in the Gateway's namespace. A Service of type ExternalName is refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// The port of the Service. Requests go straight to the Service's endpoints.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// The share of the rule's requests: the weight divided by the sum of the weights. Zero: none.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	Weight *int32 `json:"weight,omitempty"`
}
