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
	// The most the container may use, by resource: cpu, memory.
	// +optional
	// +kubebuilder:validation:MaxProperties=2
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory'])",message="only cpu and memory can be set here"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !isQuantity(string(self[k])) || quantity(string(self[k])).compareTo(quantity('0')) >= 0)",message="an amount must not be negative"
	Limits corev1.ResourceList `json:"limits,omitempty"`

	// What the container is guaranteed, by resource. Where a limit is set and no request, the request is the limit.
	// +optional
	// +kubebuilder:validation:MaxProperties=2
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory'])",message="only cpu and memory can be set here"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !isQuantity(string(self[k])) || quantity(string(self[k])).compareTo(quantity('0')) >= 0)",message="an amount must not be negative"
	Requests corev1.ResourceList `json:"requests,omitempty"`
}
