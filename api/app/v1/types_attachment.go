package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition types of a GatewayAttachment.
const (
	// ConditionBound reports whether the pods of the Gateway may read the namespace.
	ConditionBound = "Bound"
	// ConditionMounted names what the pods do not mount, because they mount so much for the namespace. It is there only
	// then.
	ConditionMounted = "Mounted"
)

// MaxMounted is the number of ConfigMaps, and of Secrets, that pods mount for one namespace, and the number of Secrets
// with certificates that they mount for a Gateway of the Gateway API.
const MaxMounted = 256

// +genclient
// +genclient:noStatus
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=gatewayattachments,scope=Namespaced,singular=gatewayattachment,shortName=gwa,categories=app-gateway
// +kubebuilder:printcolumn:name="Gateway",type=string,JSONPath=`.spec.gatewayName`,description="The Gateway"
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.spec.namespace`,description="The namespace with objects of the Gateway"
// +kubebuilder:printcolumn:name="Bound",type=string,JSONPath=`.status.conditions[?(@.type=="Bound")].status`,description="Whether the pods may read the namespace"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.status=="False")].message`,priority=1,description="Why not, or what the pods do not mount"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// GatewayAttachment names a namespace with objects of the Gateway API that belong to a Gateway of our own. It is in the
// namespace of that Gateway, is named GATEWAY.NAMESPACE, and is deleted with the Gateway. The operator writes it, with
// its status in one piece, and nobody else does. The agents watch the namespace if it is Bound. Which of the objects
// count, and what they mean, the agents find out for themselves.
type GatewayAttachment struct { //nolint:kubeapilinter // the operator writes spec and status in one piece
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The resources that the pods of the Gateway watch in the namespace, and the objects that they mount for it.
	// +required
	Spec GatewayAttachmentSpec `json:"spec"`

	// Whether they may.
	// +optional
	Status GatewayAttachmentStatus `json:"status,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// GatewayAttachmentList is a list of GatewayAttachments.
type GatewayAttachmentList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The GatewayAttachments.
	Items []GatewayAttachment `json:"items"`
}

// GatewayAttachmentSpec is what the objects of a namespace need of the pods of a Gateway.
type GatewayAttachmentSpec struct {
	// The name of the Gateway, of our own kind, in the namespace of the GatewayAttachment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	GatewayName string `json:"gatewayName"`

	// The namespace with routes, with objects that they refer to, or with ListenerSets. If it is not the Gateway's, the
	// agents may read these resources, Services and EndpointSlices there by a RoleBinding that the operator makes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// The resources that the agents watch there, such as httproutes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	Resources []string `json:"resources,omitempty"`

	// The labels of the namespace by which listeners select it.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// The ConfigMaps in the Gateway's namespace that the objects name: with CA certificates, keys of tokens, or rules of
	// a WAF. The pods mount them.
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

	// The Secrets of users that logins at providers need.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Logins []ObjectReference `json:"logins,omitempty"`

	// Whether a BackendTLSPolicy has subjectAltNames. The pods have the container "keys" then, which verifies them.
	// +optional
	VerifiesNames bool `json:"verifiesNames,omitempty"`

	// Whether a RouteFilter has a WAF. The pods have the container "waf" then, which looks at requests.
	// +optional
	WAF bool `json:"waf,omitempty"`
}

// GatewayAttachmentStatus reports whether the pods of a Gateway can do what a namespace needs.
type GatewayAttachmentStatus struct {
	// Bound: the pods may read the namespace. Mounted: what they do not mount; it is there only then.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
