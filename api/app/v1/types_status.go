package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a Gateway.
const (
	// ConditionAccepted says whether the operator can carry out the spec.
	ConditionAccepted = "Accepted"
	// ConditionResolvedRefs says whether everything the spec refers to exists.
	ConditionResolvedRefs = "ResolvedRefs"
	// ConditionProgrammed says whether every ready proxy runs the generation in the condition's observedGeneration.
	ConditionProgrammed = "Programmed"
)

// GatewayStatus is what was observed of a Gateway.
type GatewayStatus struct {
	// The latest generation the operator has seen.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Accepted: the spec can be carried out. ResolvedRefs: all it names exists and can be used: Services and their ports,
	// certificates. Programmed: every proxy that receives traffic runs the generation in the condition's observedGeneration,
	// which for up to a second after an edit is the one before.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// Where traffic can be sent: the addresses of the load balancer, or without one the cluster IPs of the Service. There are none
	// as long as the load balancer has none: Programmed then has the reason AddressNotAssigned.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []GatewayAddress `json:"addresses,omitempty"`

	// How many proxy pods exist.
	// +optional
	Replicas int32 `json:"replicas,omitempty"`

	// How many proxy pods receive traffic.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas,omitempty"`

	// The label selector of the proxy pods, in the form kubectl -l takes; a HorizontalPodAutoscaler reads it.
	// +optional
	Selector string `json:"selector,omitempty"`

	// What each proxy pod runs, as it reports itself.
	// +optional
	// +listType=map
	// +listMapKey=pod
	// +kubebuilder:validation:MaxItems=1000
	Proxies []ProxyStatus `json:"proxies,omitempty"`
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

// ProxyStatus is what one proxy pod runs.
type ProxyStatus struct {
	// The name of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`

	// The generation of the Gateway that HAProxy in this pod answers by.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Why a later generation could not be loaded. Empty when all is well.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`

	// What of the Gateway this pod leaves out, or has in an older state, though it runs the generation: certificates that
	// cannot be used.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Problems []ProxyProblem `json:"problems,omitempty"`
}

// ProxyProblem is a part of a Gateway that a proxy leaves out.
type ProxyProblem struct {
	// The name of the listener concerned; empty if it is a backend.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Listener string `json:"listener,omitempty"`

	// The kind of the object that cannot be used.
	// +required
	// +kubebuilder:validation:Enum=Secret;ConfigMap
	Kind string `json:"kind"`

	// The name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Why it cannot be used.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message"`
}
