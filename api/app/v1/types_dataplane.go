package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// ServiceSpec is the Service that makes the proxies reachable. It has one port for each port in spec.listeners.
//
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",fieldPath=".loadBalancerClass",message="loadBalancerClass is only for type LoadBalancer"
// +kubebuilder:validation:XValidation:rule="self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && (!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass)",fieldPath=".loadBalancerClass",message="a load balancer keeps its class: to change it, set another type first, which releases the addresses"
type ServiceSpec struct {
	// ClusterIP: reachable inside the cluster. NodePort: on every node too. LoadBalancer: by a load balancer, if the cluster
	// has them.
	// +optional
	// +kubebuilder:default=LoadBalancer
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// Which of the cluster's load balancer implementations is wanted, as internal-vip or example.com/internal-vip. If it is not set,
	// it is the default one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`

	// Annotations for the Service, such as those a cloud's load balancer is configured with.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ClientLimits is how much of a proxy pod clients may take. Each pod counts for itself.
type ClientLimits struct {
	// How many connections a pod takes at a time, on all ports, and how many requests over HTTP/2 it has in work. More connections are
	// closed at once; more requests are answered with 503. Where the node allows a container fewer than three open files for each, it is
	// a third of these. The pod needs up to 100 KiB of memory for each.
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=300000
	MaxConnections *int32 `json:"maxConnections,omitempty"`

	// How many connections a client may have open at a time, and how many requests over HTTP/2. A client is an IPv4 address, or the
	// first 64 bits of an IPv6 address. Many people may share an address: behind a NAT gateway, and behind a node where the Service
	// has the externalTrafficPolicy Cluster. Trusted proxies have no limit of their own. With proxyProtocol, the address in the PROXY
	// header counts. Zero: no limit of its own for any client.
	// +optional
	// +kubebuilder:default=2500
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300000
	MaxPerAddress *int32 `json:"maxPerAddress,omitempty"`
}

// PodsSpec is how the proxy pods run.
type PodsSpec struct {
	// The resources of the HAProxy container.
	// +optional
	Resources PodResources `json:"resources,omitempty"`
}

// PodResources is what a container may use and is guaranteed.
//
// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !has(self.requests) || self.requests.all(k, !(k in self.limits) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",fieldPath=".requests",message="a request is greater than its limit: lower the request or raise the limit"
type PodResources struct {
	// The most the container may use, by resource: cpu, memory. The limit of memory is 1Gi if there is none here, or as much as is
	// requested, if that is more.
	// +optional
	// +kubebuilder:validation:MaxProperties=2
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory'])",message="only cpu and memory can be set here"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !isQuantity(string(self[k])) || quantity(string(self[k])).compareTo(quantity('0')) >= 0)",message="an amount must not be negative"
	Limits corev1.ResourceList `json:"limits,omitempty"`

	// What the container is guaranteed, by resource. Where a limit is set and no request, the request is the limit. Of memory it
	// is 128Mi if neither is set.
	// +optional
	// +kubebuilder:validation:MaxProperties=2
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory'])",message="only cpu and memory can be set here"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !isQuantity(string(self[k])) || quantity(string(self[k])).compareTo(quantity('0')) >= 0)",message="an amount must not be negative"
	Requests corev1.ResourceList `json:"requests,omitempty"`
}
