package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// +genclient
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=gatewayproxies,scope=Namespaced,singular=gatewayproxy,shortName=gwp,categories=app-gateway
// +kubebuilder:printcolumn:name="Gateway",type=string,JSONPath=`.status.gateway.name`,description="The Gateway that the pod serves"
// +kubebuilder:printcolumn:name="Generation",type=integer,JSONPath=`.status.observedGeneration`,description="The generation of the Gateway that HAProxy answers by"
// +kubebuilder:printcolumn:name="Problem",type=string,JSONPath=`.status.problems[0].reason`,description="Why the pod does not do all that the Gateway says; the first of several"
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.problems[0].message`,priority=1,description="What the problem is"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// GatewayProxy is what one proxy pod of a Gateway runs, as its agent reports it. It is named after the pod, is labelled
// app.example.com/gateway with the Gateway's name, and goes with the pod. Nobody but the agents writes it: the operator
// takes from it whether the Gateway is Programmed.
type GatewayProxy struct {
	metav1.TypeMeta `json:",inline"`
	// Standard object metadata. The name is the pod's.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// The configuration that the pod runs.
	// +optional
	Status GatewayProxyStatus `json:"status,omitzero"`
}

// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
// +kubebuilder:object:root=true

// GatewayProxyList is a list of GatewayProxies.
type GatewayProxyList struct {
	metav1.TypeMeta `json:",inline"`
	// Standard list metadata.
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// The GatewayProxies.
	Items []GatewayProxy `json:"items"`
}

// GatewayProxyStatus is what one proxy pod runs.
type GatewayProxyStatus struct {
	// The Gateway that the pod serves.
	// +optional
	Gateway ProxiedGateway `json:"gateway,omitzero"`

	// The generation of the Gateway that HAProxy answers by.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// How the pod watches the objects of the Gateway API: Cluster as long as it needs no other permission. Empty: it does
	// not know GatewayAttachments, but reads status.attachments of the Gateway.
	// +optional
	Watch WatchMode `json:"watch,omitempty"`

	// The addresses of the pod's node that reach the pod. There are none without spec.pods.hostPorts.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Addresses []NodeAddress `json:"addresses,omitempty"`

	// HAProxy answers by everything of the Gateway API that the pod follows, up to this resourceVersion, but for
	// resources. If it is empty, only what resources lists is known.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion,omitempty"`

	// Resources and namespaces whose objects HAProxy answers by up to a later resourceVersion, or up to none. The pod
	// watches the namespaces that gatewayattachments named up to theirs.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8192
	Resources []ProxiedResource `json:"resources,omitempty"`

	// The problems that keep HAProxy from running all of the Gateway's newest generation. Problems of a whole generation
	// come first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Problems []ProxyProblem `json:"problems,omitempty"`

	// How many more problems there are than problems lists.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OmittedProblems int32 `json:"omittedProblems,omitempty"`
}

// NodeAddress is an IP address of a node.
//
// +kubebuilder:validation:MaxLength=45
// +kubebuilder:validation:XValidation:rule="isIP(self)",message="the address must be an IP address"
type NodeAddress string

// ProxiedGateway is the Gateway that a pod serves.
type ProxiedGateway struct {
	// The name of the Gateway, which is in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// The UID of the Gateway: another one of the same name is not meant.
	// +required
	UID types.UID `json:"uid"`
}

// ProxiedResource reports up to which resourceVersion HAProxy answers by the objects of a resource and namespace.
type ProxiedResource struct {
	// The resource, such as httproutes.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Resource string `json:"resource"`

	// The namespace of the objects.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// All objects with this resourceVersion or a lower one are live. 0: the objects have not been listed yet, or may not
	// be listed.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ResourceVersion string `json:"resourceVersion"`
}

// ProxyProblem is what keeps a proxy from answering by all of its Gateway.
type ProxyProblem struct {
	// The object that the problem is about.
	// +required
	Origin ProblemOrigin `json:"origin"`

	// The name of the listener concerned; empty if it is not about one.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Listener string `json:"listener,omitempty"`

	// The kind of problem.
	// +required
	Reason ProxyProblemReason `json:"reason"`

	// A description of the problem, for people.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message"`
}

// ProblemOrigin is the object that a problem is about.
type ProblemOrigin struct {
	// The kind of the object.
	// +required
	// +kubebuilder:validation:Enum=Gateway;Secret;ConfigMap;ClusterTrustBundle;URL;Namespace
	Kind string `json:"kind"`

	// The namespace of the object, or the Gateway's if it has none.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// The name of the object, or the URL.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// The generation of the object that the problem is about. Secrets and ConfigMaps have none.
	// +optional
	Generation int64 `json:"generation,omitempty"`
}

// ProxyProblemReason is the kind of a problem. LoadFailed: HAProxy does not take the generation, and goes on with an
// older one. WriteFailed: the configuration cannot be written to the disk. HAProxyNotAnswering: HAProxy does not run,
// or hangs. AwaitingReplacement: the pod does not mount all that the generation names, and is about to be replaced by
// one that does. InvalidCertificateRef: the certificate of a Secret is left out. InvalidCACertificateRef: the
// certificates of a ConfigMap cannot be used: a listener that checks its clients by them is left out, requests for
// backends that are checked by them are answered with 500. InvalidUsersRef: some or all users or API keys of a Secret
// cannot be used. InvalidKeysRef: the keys of tokens that a ConfigMap has cannot be used, or those at a URL cannot be
// fetched. InvalidRulesRef: the rules of a WAF that a ConfigMap has cannot be used. AwaitingReload: edits of a
// namespace wait, as it has caused too many reloads.
//
// +kubebuilder:validation:Enum=LoadFailed;WriteFailed;HAProxyNotAnswering;AwaitingReplacement;InvalidCertificateRef;InvalidCACertificateRef;InvalidUsersRef;InvalidKeysRef;InvalidRulesRef;AwaitingReload
type ProxyProblemReason string

const (
	// ProblemLoadFailed says that HAProxy does not take a generation.
	ProblemLoadFailed ProxyProblemReason = "LoadFailed"
	// ProblemWriteFailed says that a configuration cannot be written to the disk.
	ProblemWriteFailed ProxyProblemReason = "WriteFailed"
	// ProblemHAProxyNotAnswering says that HAProxy does not run, or hangs.
	ProblemHAProxyNotAnswering ProxyProblemReason = "HAProxyNotAnswering"
	// ProblemAwaitingReplacement says that the pod does not mount all that a generation names.
	ProblemAwaitingReplacement ProxyProblemReason = "AwaitingReplacement"
	// ProblemInvalidCertificateRef says that the certificate of a Secret cannot be used.
	ProblemInvalidCertificateRef ProxyProblemReason = "InvalidCertificateRef"
	// ProblemInvalidCACertificateRef says that the certificates of a ConfigMap cannot be used.
	ProblemInvalidCACertificateRef ProxyProblemReason = "InvalidCACertificateRef"
	// ProblemInvalidUsersRef says that users or API keys of a Secret cannot be used.
	ProblemInvalidUsersRef ProxyProblemReason = "InvalidUsersRef"
	// ProblemInvalidKeysRef says that keys of tokens cannot be used.
	ProblemInvalidKeysRef ProxyProblemReason = "InvalidKeysRef"
	// ProblemInvalidRulesRef says that rules of a WAF cannot be used.
	ProblemInvalidRulesRef ProxyProblemReason = "InvalidRulesRef"
	// ProblemAwaitingReload says that edits of a namespace wait.
	ProblemAwaitingReload ProxyProblemReason = "AwaitingReload"
)
