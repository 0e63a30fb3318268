package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a Gateway.
const (
	// ConditionAccepted reports whether the operator can carry out the spec.
	ConditionAccepted = "Accepted"
	// ConditionResolvedRefs reports whether everything the spec refers to exists.
	ConditionResolvedRefs = "ResolvedRefs"
	// ConditionProgrammed reports whether every ready proxy runs the generation in the condition's observedGeneration.
	ConditionProgrammed = "Programmed"
	// ConditionReady is Programmed by the name that tools look for: kstatus, Flux.
	ConditionReady = "Ready"
	// ConditionShadow names filters that refuse nothing because they are in shadow. It is there only if there are some,
	// and also on Gateways and routes of the Gateway API.
	ConditionShadow = "Shadow"
	// ConditionUnreachableRules names rules that get no requests, since others come first. It is there only if there are
	// some, and also on routes of the Gateway API.
	ConditionUnreachableRules = "UnreachableRules"
	// ConditionClusterWatch reports whether the proxies may watch all namespaces. It is there only if spec.watch is
	// Cluster.
	ConditionClusterWatch = "ClusterWatch"
)

// GatewayStatus is what was observed of a Gateway.
type GatewayStatus struct {
	// The latest generation the operator has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Accepted: the spec can be carried out. ResolvedRefs: all it names exists and can be used: Services and their
	// ports, certificates. Programmed: every proxy that receives traffic runs the generation in the condition's
	// observedGeneration. What each proxy runs is in its GatewayProxy. Ready is Programmed by the name that tools for
	// all kinds of objects look for. Shadow: some filters let through what they would refuse; it is there only then.
	// UnreachableRules: some rules get no requests, because others get all of them; it is there only then. ClusterWatch:
	// the proxies may watch all namespaces; it is there only if spec.watch is Cluster.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// The listeners of the spec, in its order.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Listeners []ListenerStatus `json:"listeners,omitempty"`

	// The routes of the spec that are not served in full, at most 64 of them. The condition Accepted has their number.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Routes []RouteStatus `json:"routes,omitempty"`

	// The addresses for clients: the load balancer's, or without one the cluster IPs of the Service. With
	// spec.pods.hostPorts and no load balancer, they are the first addresses of the nodes whose proxy receives traffic,
	// in order; if none does, they stay. There are none as long as the load balancer has none: Programmed then has the
	// reason AddressNotAssigned.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []GatewayAddress `json:"addresses,omitempty"`

	// Deprecated: GatewayAttachments have it. It is there as long as a pod of an earlier release reads it.
	// +optional
	Attachments *Attachments `json:"attachments,omitempty"`

	// How many proxy pods exist.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// How many proxy pods receive traffic.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// The label selector of the proxy pods, in the form kubectl -l takes; a HorizontalPodAutoscaler reads it.
	// +optional
	Selector string `json:"selector,omitempty"`
}

// Attachments say where the objects of the Gateway API are that belong to a Gateway. The agents watch them there. Which
// of them count, and what they mean, the agents find out for themselves.
type Attachments struct {
	// The namespaces of routes, of what they refer to, and of ListenerSets.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=1024
	Namespaces []AttachedNamespace `json:"namespaces,omitempty"`

	// The ConfigMaps in the Gateway's namespace that these objects name: with CA certificates, keys of tokens, or rules
	// of a WAF. The pods mount them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	ConfigMaps []ObjectReference `json:"configMaps,omitempty"`

	// The Secrets in the Gateway's namespace with users, API keys or keys of sessions that RouteFilters name. The pods
	// mount them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Users []ObjectReference `json:"users,omitempty"`

	// Whether a BackendTLSPolicy has subjectAltNames. The pods have the container "keys" then, which verifies them.
	// +optional
	VerifiesNames bool `json:"verifiesNames,omitempty"`

	// Whether a RouteFilter has a WAF. The pods have the container "waf" then, which looks at requests.
	// +optional
	WAF bool `json:"waf,omitempty"`

	// The Secrets of users that logins at providers need.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Logins []ObjectReference `json:"logins,omitempty"`
}

// AttachedNamespace is a namespace with objects that belong to a Gateway. In a namespace other than the Gateway's, the
// agents may read these, Services and EndpointSlices, by a RoleBinding that the operator makes.
type AttachedNamespace struct {
	// The name of the namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// The labels of the namespace, by which listeners select it.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// The resources that are watched there, such as httproutes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Resources []string `json:"resources,omitempty"`

	// The resourceVersion of the Gateway to which this was written. An agent reports the highest one that it follows.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Since string `json:"since,omitempty"`
}

// ListenerStatus is what was observed of a listener.
type ListenerStatus struct {
	// The name of the listener.
	// +required
	Name Name `json:"name"`

	// How many routes of the spec are attached to the listener.
	// +required
	AttachedRoutes int32 `json:"attachedRoutes"`

	// The conditions of the listener. ResolvedRefs is False if a certificate that it names cannot be used.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RouteStatus is what was observed of a route that is not served in full.
type RouteStatus struct {
	// The kind of the route: HTTPRoute is one of spec.routes, TCPRoute of spec.tcpRoutes, TLSRoute of spec.tlsRoutes.
	// +required
	// +kubebuilder:validation:Enum=HTTPRoute;TCPRoute;TLSRoute
	Kind string `json:"kind"`

	// The name of the route.
	// +required
	Name Name `json:"name"`

	// The conditions of the route. Accepted is False if a part of it has no effect, ResolvedRefs if a Service that it
	// names cannot be used. The rest of the route is served.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// AddressType is the kind of an address.
//
// +kubebuilder:validation:Enum=IPAddress;Hostname
type AddressType string

const (
	// AddressTypeIPAddress is an IPv4 or IPv6 address.
	AddressTypeIPAddress AddressType = "IPAddress"
	// AddressTypeHostname is a DNS name.
	AddressTypeHostname AddressType = "Hostname"
)

// GatewayAddress is an address traffic can be sent to.
type GatewayAddress struct {
	// The kind of the address.
	// +required
	Type AddressType `json:"type"`

	// The address.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Value string `json:"value"`
}
