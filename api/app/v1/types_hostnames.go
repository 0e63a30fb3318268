package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReasonHostnameNotAllowed is the reason why a route, or a listener of a ListenerSet, is not Accepted: the owner of the
// Gateway does not let its namespace use a hostname.
const ReasonHostnameNotAllowed = "HostnameNotAllowed"

// AllowedHostnames sets which namespaces may use which hostnames, in routes and in the listeners of ListenerSets. A
// route with a hostname that its namespace may not use is not accepted, with none of its hostnames. A route without a
// hostname uses the listener's. A wildcard uses every name below it. Without a hostname on either side, it is every
// hostname. Hosts that requests are redirected to do not count, and neither do TCP listeners.
//
// +kubebuilder:validation:MinProperties=1
type AllowedHostnames struct {
	// The hostnames that namespaces may use. A namespace may use no others. Empty: each may use every hostname.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Rules []HostnameRule `json:"rules,omitempty"`

	// FirstComeFirstServed: a hostname belongs to the namespace of the oldest route or ListenerSet that uses it, or a
	// part of it. So a wildcard keeps the names below it, and one of these keeps others from the wildcard. Routes in the
	// namespace of their listener's owner are always accepted, and keep others from exact hostnames alone. Empty:
	// namespaces may share a hostname, as the Gateway API has it.
	// +optional
	// +kubebuilder:validation:Enum=FirstComeFirstServed
	Ownership HostnameOwnership `json:"ownership,omitempty"`
}

// HostnameOwnership decides which namespace owns a hostname that several use.
type HostnameOwnership string

// HostnameOwnershipFirst gives a hostname to the namespace that used it first.
const HostnameOwnershipFirst HostnameOwnership = "FirstComeFirstServed"

// HostnameRule lets namespaces use hostnames.
type HostnameRule struct {
	// The hostnames. A wildcard includes every name below it, and wildcards of these. "*" is every hostname.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Hostnames []HostnamePattern `json:"hostnames"`

	// The namespaces that may use them. Empty: all.
	// +optional
	Namespaces *HostnameNamespaces `json:"namespaces,omitempty"`
}

// HostnameNamespaces selects namespaces.
//
// +kubebuilder:validation:XValidation:rule="has(self.names) != has(self.selector)",message="namespaces has either names or a selector"
type HostnameNamespaces struct {
	// Their names.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	Names []Name `json:"names,omitempty"`

	// The labels that they have.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// HostnamePattern is a Hostname, in which {namespace} stands for the name of a namespace, and {label:KEY} for the value
// of its label. A namespace without the label has no such hostname. "*" is every hostname.
//
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^(\*|(\*\.)?([a-z0-9-]|\{namespace\}|\{label:[-A-Za-z0-9_./]+\})+(\.([a-z0-9-]|\{namespace\}|\{label:[-A-Za-z0-9_./]+\})+)*)$`
type HostnamePattern string
