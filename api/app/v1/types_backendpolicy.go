package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=backendpolicies,scope=Namespaced,singular=backendpolicy,categories=app-gateway
// +kubebuilder:metadata:labels="gateway.networking.k8s.io/policy=Direct"
// +kubebuilder:printcolumn:name="Accepted",type=string,JSONPath=`.status.ancestors[*].conditions[?(@.type=="Accepted")].status`,description="Whether the policy is in effect, for each Gateway"
// +kubebuilder:printcolumn:name="Programmed",type=string,JSONPath=`.status.ancestors[*].conditions[?(@.type=="Programmed")].status`,description="Whether every proxy runs it, for each Gateway"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// BackendPolicy configures how proxies talk to the endpoints of Services, for HTTPRoutes, GRPCRoutes, TLSRoutes and
// TCPRoutes. It is a direct policy by the conventions of the Gateway API (GEP-713). TLS is configured by a
// BackendTLSPolicy. A Gateway of our own kind has the same settings in spec.backends, which its own routes use, and
// which come before a BackendPolicy.
type BackendPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The Services, and how to talk to their endpoints.
	// +required
	Spec BackendPolicySpec `json:"spec"`

	// The state of the policy at Gateways.
	// +optional
	Status BackendPolicyStatus `json:"status,omitempty"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// BackendPolicyList is a list of BackendPolicies.
type BackendPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The BackendPolicies.
	Items []BackendPolicy `json:"items"`
}

// BackendPolicySpec names Services and configures how proxies talk to their endpoints.
//
// +kubebuilder:validation:MinProperties=2
type BackendPolicySpec struct {
	// The Services, in the namespace of the policy. If several policies are for a Service port, one that names the port
	// comes before one for all ports, and an older one before a newer one.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.name == b.name && a.kind == b.kind && (has(a.sectionName) ? a.sectionName : '') == (has(b.sectionName) ? b.sectionName : '')))",message="two targetRefs are for the same Service port: remove one of them"
	TargetRefs []BackendPolicyTarget `json:"targetRefs"`

	BackendSettings `json:",inline"`
}

// BackendPolicyTarget names a Service or ServiceImport, or one port of it.
//
// +kubebuilder:validation:XValidation:rule="(self.kind == 'ServiceImport') == (self.group == 'multicluster.x-k8s.io')",message="a ServiceImport is of the group multicluster.x-k8s.io, and a Service of the empty one"
type BackendPolicyTarget struct {
	// The API group: the empty one, or multicluster.x-k8s.io.
	// +optional
	// +kubebuilder:validation:Enum="";multicluster.x-k8s.io
	// +kubebuilder:default=""
	Group string `json:"group,omitempty"`

	// The kind: Service, or ServiceImport.
	// +optional
	// +kubebuilder:validation:Enum=Service;ServiceImport
	// +kubebuilder:default=Service
	Kind string `json:"kind,omitempty"`

	// The name of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// The name of a port of the Service. Empty: all of its ports.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	SectionName string `json:"sectionName,omitempty"`
}

// BackendPolicyStatus is what Gateways make of a BackendPolicy. It has the form of the PolicyStatus of the Gateway API.
type BackendPolicyStatus struct {
	// The Gateways that send traffic to the Services of the policy.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Ancestors []BackendPolicyAncestor `json:"ancestors,omitempty"`
}

// BackendPolicyAncestor is what one Gateway makes of a BackendPolicy.
type BackendPolicyAncestor struct {
	// The Gateway.
	// +required
	AncestorRef PolicyAncestorReference `json:"ancestorRef"`

	// The controller that wrote this entry.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ControllerName string `json:"controllerName"`

	// Accepted reports whether the policy is in effect, with the reasons of the Gateway API: Accepted or Conflicted.
	// Programmed reports whether every proxy of the Gateway runs it.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PolicyAncestorReference names a Gateway, by the group gateway.networking.k8s.io or app.example.com.
type PolicyAncestorReference struct {
	// The API group of the Gateway.
	// +required
	Group string `json:"group"`

	// The kind, which is Gateway.
	// +required
	Kind string `json:"kind"`

	// The namespace of the Gateway.
	// +required
	Namespace string `json:"namespace"`

	// The name of the Gateway.
	// +required
	Name string `json:"name"`
}
