package v1

import (
	corev1 "k8s.io/api/core/v1"
)

// WatchMode is how the proxies of a Gateway watch the objects of the Gateway API, Services and EndpointSlices.
// Namespaces: in each namespace that has objects of the Gateway. They may read nothing else. Cluster: in all namespaces
// at once, which costs the API server less if a Gateway has objects in many. The administrator of the operator has to
// allow it for the namespace of the Gateway. If that is not so, they watch namespaces, and the condition ClusterWatch
// of the Gateway is False. Empty: Namespaces.
//
// +kubebuilder:validation:Enum=Namespaces;Cluster
type WatchMode string

const (
	// WatchNamespaces is to watch each namespace that has objects of the Gateway.
	WatchNamespaces WatchMode = "Namespaces"
	// WatchCluster is to watch all namespaces at once.
	WatchCluster WatchMode = "Cluster"
)

// ServiceSpec is the Service that makes the proxies reachable. It has one port for each port in spec.listeners. The
// administrator of the operator may forbid types, classes of load balancers and annotations: Accepted then is False
// with the reason NotAllowed, and the Service stays as it is.
//
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerClass) || self.type == 'LoadBalancer'",fieldPath=".loadBalancerClass",message="loadBalancerClass is only for type LoadBalancer"
// +kubebuilder:validation:XValidation:rule="self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass) && (!has(self.loadBalancerClass) || self.loadBalancerClass == oldSelf.loadBalancerClass)",fieldPath=".loadBalancerClass",message="a load balancer keeps its class: to change it, set another type first, which releases the addresses"
// +kubebuilder:validation:XValidation:rule="!has(self.loadBalancerSourceRanges) || self.type == 'LoadBalancer'",fieldPath=".loadBalancerSourceRanges",message="loadBalancerSourceRanges is only for type LoadBalancer"
// +kubebuilder:validation:XValidation:rule="!has(self.externalTrafficPolicy) || self.type != 'ClusterIP'",fieldPath=".externalTrafficPolicy",message="externalTrafficPolicy is only for types NodePort and LoadBalancer"
// +kubebuilder:validation:XValidation:rule="!has(self.ports) || self.type != 'ClusterIP'",fieldPath=".ports",message="a node port is only for types NodePort and LoadBalancer"
type ServiceSpec struct {
	// ClusterIP: reachable inside the cluster. NodePort: on every node too. LoadBalancer: by a load balancer, if the
	// cluster has them.
	// +optional
	// +kubebuilder:default=LoadBalancer
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// Which of the cluster's load balancer implementations is wanted, as internal-vip or example.com/internal-vip. If
	// it is not set, it is the default one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`

	// The IP address of the Service: its load balancer's, if the load balancer supports that, or else its cluster IP,
	// which cannot change once it is assigned. If it is not set, the cluster chooses.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=45
	// +kubebuilder:validation:XValidation:rule="isIP(self)",message="the address must be an IP address, like 203.0.113.7 or 2001:db8::7"
	Address string `json:"address,omitempty"`

	// The CIDR ranges that may use the load balancer, where it can tell. Empty: everyone.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="every source range must be a CIDR range, like 10.0.0.0/8 or fd00::/8"
	LoadBalancerSourceRanges []CIDR `json:"loadBalancerSourceRanges,omitempty"`

	// Cluster: nodes pass connections on to proxies on other nodes; the proxies see a node's address as the client's.
	// Local: nodes pass them to proxies of their own only, which see the client's address. If it is not set, it is what
	// the Service has: Cluster, unless someone else changed it.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`

	// Whether the Service has addresses of IPv4 and IPv6. If it is not set, it is what the Service has: SingleStack,
	// unless someone else changed it.
	// +optional
	// +kubebuilder:validation:Enum=SingleStack;PreferDualStack;RequireDualStack
	IPFamilyPolicy corev1.IPFamilyPolicy `json:"ipFamilyPolicy,omitempty"`

	// Node ports for ports of listeners. The cluster chooses the node ports of all others.
	// +optional
	// +listType=map
	// +listMapKey=port
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, a.nodePort == b.nodePort))",message="two ports have the same nodePort: change one of them"
	Ports []ServicePort `json:"ports,omitempty"`

	// Annotations for the Service, such as those a cloud's load balancer is configured with.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ServicePort is a port of the Service.
type ServicePort struct {
	// The port of a listener.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// The port on every node, within the range that the cluster has for them.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePort int32 `json:"nodePort"`
}

// Compression is which answers are compressed by gzip. An answer is sent unchanged if the backend has compressed it
// already, if its Cache-Control has no-transform, or if its status is not 200, 201, 202 or 203.
type Compression struct {
	// The media types of answers that are compressed. Each is compared with the beginning of Content-Type: text/html
	// stands for text/html; charset=utf-8, too.
	// +optional
	// +listType=set
	// +kubebuilder:default={"text/html","text/css","text/plain","text/javascript","application/javascript","application/json","application/xml","image/svg+xml"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	ContentTypes []MediaType `json:"contentTypes,omitempty"`

	// Answers with fewer bytes are not compressed, if they say how long they are.
	// +optional
	// +kubebuilder:default=1024
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1048576
	MinBytes *int32 `json:"minBytes,omitempty"`
}

// HTTP3 offers HTTP/3 (RFC 9114) beside HTTP/1.1 and HTTP/2, by the header Alt-Svc and on the same port over UDP. A
// port has no HTTP/3 if one of its listeners takes PROXY headers, asks clients for certificates or passes TLS through.
// HAProxy's manual calls QUIC experimental. A busy client may lose a request when HAProxy reloads.
type HTTP3 struct {
	// How long a client may use HTTP/3 without asking again, in seconds.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=604800
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`
}

// AccessLog is what the access log has beside its usual keys.
type AccessLog struct {
	// Headers of requests to log, as clients send them: "requestHeaders" has each by its name in lower case, up to 256
	// bytes. Headers with credentials cannot be logged.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="!self.exists(n, n.lowerAscii() in ['authorization', 'cookie', 'proxy-authorization'])",message="Authorization, Cookie and Proxy-Authorization have credentials, which do not belong in a log: remove them"
	// +kubebuilder:validation:XValidation:rule="self.all(n, self.exists_one(m, m.lowerAscii() == n.lowerAscii()))",message="two names differ only in case: remove one of them"
	RequestHeaders []HeaderName `json:"requestHeaders,omitempty"`
}

// RequestMetrics selects what the histograms of requests are for.
//
// +kubebuilder:validation:Enum=ByRoute;ByRule
type RequestMetrics string

const (
	// RequestMetricsByRoute has a histogram for each route.
	RequestMetricsByRoute RequestMetrics = "ByRoute"
	// RequestMetricsByRule has a histogram for each rule of a route.
	RequestMetricsByRule RequestMetrics = "ByRule"
)

// Tracing has proxies take part in traces (W3C Trace Context): each request gets a new span ID in the header
// traceparent, and spans of sampled requests are sent to a collector. A request that has a valid traceparent stays in
// its trace. Whether it is sampled is up to a trusted proxy that sent it. All others are sampled at
// samplingRatePerMillion, whatever their traceparent has, so that clients cannot decide how many spans there are.
type Tracing struct {
	// The collector, as HOST:PORT: spans are sent to http://HOST:PORT/v1/traces by OTLP/HTTP, with neither TLS nor
	// credentials. Usually, the port is 4318. A Service has the host NAME.NAMESPACE.svc.
	// +required
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=259
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]):[1-9][0-9]{0,4}$`
	// +kubebuilder:validation:XValidation:rule="int(self.substring(self.lastIndexOf(':') + 1)) <= 65535",message="a port is at most 65535"
	Endpoint string `json:"endpoint,omitempty"`

	// How many of a million requests are sampled, of those about which no trusted proxy decides. 10000 is one in a
	// hundred.
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	SamplingRatePerMillion *int32 `json:"samplingRatePerMillion,omitempty"`
}

// MediaType is a type and a subtype, in lower case.
//
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern=`^[a-z0-9.+-]+/[a-z0-9.+-]+$`
type MediaType string

// ErrorPage is the body of errors that the proxies answer with by themselves. Answers of backends, of the filter
// DirectResponse, and of Services that ExternalAuth asks stay as they are.
type ErrorPage struct {
	// The statuses that it is for.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=13
	Statuses []ErrorStatus `json:"statuses"`

	// The type of the body. It cannot be application/grpc, by which clients of gRPC see that a backend has answered.
	// +optional
	// +kubebuilder:default="text/html; charset=utf-8"
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#&^_.+-]+/[A-Za-z0-9!#&^_.+-]+( *; *[A-Za-z0-9!#&^_.+-]+=[A-Za-z0-9!#&^_.+-]+)*$`
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().startsWith('application/grpc')",message="clients of gRPC would take the page for an answer of a backend: use another type"
	ContentType string `json:"contentType,omitempty"`

	// The body, of at most 12288 bytes. It is sent as it is: there are no variables.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=12288
	// +kubebuilder:validation:XValidation:rule="size(bytes(self)) <= 12288",message="it is longer than 12288 bytes: link to what is large"
	Body string `json:"body"`
}

// ErrorStatus is a status that the proxies answer with by themselves.
//
// +kubebuilder:validation:Enum=400;401;403;404;405;408;413;421;429;500;502;503;504
type ErrorStatus int32

// ResponseCache is how much each proxy pod stores of answers, for rules with the filter Cache. What is stored is in
// memory, and gone after a reload.
type ResponseCache struct {
	// How many MiB of answers a pod stores. When there is no room, the oldest ones go. The pod needs as much memory more,
	// and twice as much while an old HAProxy process ends.
	// +optional
	// +kubebuilder:default=16
	// +kubebuilder:validation:Minimum=4
	// +kubebuilder:validation:Maximum=1024
	SizeMiB *int32 `json:"sizeMiB,omitempty"`

	// Answers with more bytes are not stored; headers count.
	// +optional
	// +kubebuilder:default=131072
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=2097152
	MaxObjectBytes *int32 `json:"maxObjectBytes,omitempty"`

	// For how many seconds an answer is used at most. Its Cache-Control may say that it is for less.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`
}

// ClientLimits is how much of a proxy pod clients may take. Each pod counts for itself.
type ClientLimits struct {
	// How many connections a pod takes at a time, on all ports, and how many requests over HTTP/2 it has in work. More
	// connections are closed at once; more requests are answered with 503. Where the node allows a container fewer than
	// three open files for each, it is a third of these. The pod needs up to 100 KiB of memory for each.
	// +optional
	// +kubebuilder:default=10000
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=300000
	MaxConnections *int32 `json:"maxConnections,omitempty"`

	// How many connections a client may have open at a time, and how many requests over HTTP/2. A client is an IPv4
	// address, or the first 64 bits of an IPv6 address. Many people may share an address: behind a NAT gateway, and
	// behind a node where the Service has the externalTrafficPolicy Cluster. Trusted proxies have no limit of their
	// own. With proxyProtocol, the address in the PROXY header counts. Zero: no limit of its own for any client.
	// +optional
	// +kubebuilder:default=2500
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300000
	MaxPerAddress *int32 `json:"maxPerAddress,omitempty"`

	// How many headers a request may have. A request with more is answered with 431.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=1000
	MaxHeaders *int32 `json:"maxHeaders,omitempty"`

	// How many bytes the headers of a request may have, with its URL. A request with more is answered with 431. An answer
	// may have about twice as many, but no fewer than 31,000. What a pod needs of memory for a connection grows with what
	// clients send.
	// +optional
	// +kubebuilder:default=16384
	// +kubebuilder:validation:Minimum=4096
	// +kubebuilder:validation:Maximum=65536
	MaxHeaderBytes *int32 `json:"maxHeaderBytes,omitempty"`
}

// PodsSpec is how the proxy pods run. Whoever edits it replaces them all, one after the other. Fields have the meaning
// that they have in a pod. The administrator of the operator may forbid those that decide where pods run: Accepted then
// is False with the reason NotAllowed, and the pods stay as they are.
//
// +kubebuilder:validation:XValidation:rule="!has(self.hostPorts) || !self.hostPorts || self.kind == 'DaemonSet'",fieldPath=".hostPorts",message="hostPorts is only for kind DaemonSet: two pods on a node cannot have the same port"
type PodsSpec struct {
	// The kind of object that creates the proxy pods. Deployment: spec.replicas pods. DaemonSet: one pod on each node
	// that the fields below allow; spec.replicas has no effect. The kind of a Gateway cannot change.
	// +optional
	// +kubebuilder:default=Deployment
	Kind PodsKind `json:"kind,omitempty"`

	// Whether the nodes of the pods take connections on the listeners' ports and pass them to their pod. It is only for
	// kind DaemonSet. With a Service that is no load balancer, status.addresses has the addresses of these nodes. The
	// administrator has to allow the ports. The Pod Security Standards baseline and restricted forbid it: the namespace
	// needs privileged. A new port of a listener replaces the pods.
	// +optional
	HostPorts bool `json:"hostPorts,omitempty"`

	// How long a pod that is to stop goes on accepting connections, until whatever sends them has noticed: 10s if there is
	// none here, which is for Services. Load balancers that know the pods by themselves may need minutes. Meanwhile the
	// pod closes HTTP/1.1 connections after their next answer. Then it accepts none, and spec.drainTimeout begins.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="stopDelay must be between 1s and 1h"
	StopDelay Duration `json:"stopDelay,omitempty"`

	// Labels for the proxy pods. Their keys must not be among those that the operator sets itself:
	// app.example.com/gateway, whose value is the Gateway's name, and app.kubernetes.io/name, /instance and
	// /managed-by. A Service that selects its pods by such a label alone gets these, too.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('app.example.com/') && !(k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/managed-by', 'pod-template-hash']))",message="labels with the prefix app.example.com/, and app.kubernetes.io/name, app.kubernetes.io/instance, app.kubernetes.io/managed-by and pod-template-hash are set by the operator and by Kubernetes: remove them"
	Labels map[string]string `json:"labels,omitempty"`

	// Annotations for the proxy pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Annotations map[string]string `json:"annotations,omitempty"`

	// Labels that the nodes must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// Taints of nodes that do not keep the proxy pods away.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Which nodes are wanted, by their labels and by the pods they run. Without podAntiAffinity, the pods of a Gateway
	// prefer nodes that have no other of them.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// How the proxy pods are spread over zones, nodes and the like. The label app.example.com/gateway, with the
	// Gateway's name, selects them. With none here, the scheduler's defaults apply.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +kubebuilder:validation:MaxItems=16
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// The name of the PriorityClass: pods of a lower one may have to make room.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// The Secrets by which the images are pulled, in the Gateway's namespace.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []ObjectReference `json:"imagePullSecrets,omitempty"`

	// The resources of the HAProxy container.
	// +optional
	Resources PodResources `json:"resources,omitempty"`
}

// PodsKind is the kind of object that creates the proxy pods.
//
// +kubebuilder:validation:Enum=Deployment;DaemonSet
type PodsKind string

const (
	// PodsKindDeployment creates spec.replicas pods.
	PodsKindDeployment PodsKind = "Deployment"
	// PodsKindDaemonSet creates a pod on each node.
	PodsKindDaemonSet PodsKind = "DaemonSet"
)

// PodResources is what a container may use and is guaranteed.
//
// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !has(self.requests) || self.requests.all(k, !(k in self.limits) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",fieldPath=".requests",message="a request is greater than its limit: lower the request or raise the limit"
type PodResources struct {
	// The most the container may use, by resource: cpu, memory. The limit of memory is 1Gi if there is none here, or as
	// much as is requested, if that is more.
	// +optional
	// +kubebuilder:validation:MaxProperties=2
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory'])",message="only cpu and memory can be set here"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !isQuantity(string(self[k])) || quantity(string(self[k])).compareTo(quantity('0')) >= 0)",message="an amount must not be negative"
	Limits corev1.ResourceList `json:"limits,omitempty"`

	// The resources that the container is guaranteed. If a limit is set and no request, the request is the limit. For
	// memory, it is 128Mi if neither is set.
	// +optional
	// +kubebuilder:validation:MaxProperties=2
	// +kubebuilder:validation:XValidation:rule="self.all(k, k in ['cpu', 'memory'])",message="only cpu and memory can be set here"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !isQuantity(string(self[k])) || quantity(string(self[k])).compareTo(quantity('0')) >= 0)",message="an amount must not be negative"
	Requests corev1.ResourceList `json:"requests,omitempty"`
}
