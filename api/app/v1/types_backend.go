package v1

// Backend configures how proxies talk to a port of a Service. An entry without any setting is refused: an API server
// that is not asked to refuse unknown fields drops them, and a mistyped tls would be none.
//
// +kubebuilder:validation:MinProperties=3
// +kubebuilder:validation:XValidation:rule="!has(self.backup) || !has(self.backup.kind) || self.backup.kind == 'Service'",fieldPath=".backup.kind",message="only the backup of a BackendPolicy can be a ServiceImport: attach routes of the Gateway API, and use a BackendPolicy"
type Backend struct {
	// The name of the Service, in the Gateway's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// The port of the Service.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// Connect to the endpoints by TLS, and verify their certificates. Requests for a Service port whose appProtocol means
	// TLS (https, wss, kubernetes.io/wss) are answered with 500 without this field.
	// +optional
	TLS *BackendTLS `json:"tls,omitempty"`

	BackendSettings `json:",inline"`
}

// BackendSettings configure how proxies talk to the endpoints of a Service port, except TLS.
//
// +kubebuilder:validation:XValidation:rule="!has(self.outlierDetection) || has(self.healthCheck)",fieldPath=".outlierDetection",message="outlierDetection needs healthCheck: an endpoint that was taken out comes back when its health check passes"
type BackendSettings struct {
	// Begin every connection with a PROXY protocol header of this version, which has the client's address.
	// +optional
	// +kubebuilder:validation:Enum=V1;V2
	ProxyProtocol ProxyProtocolVersion `json:"proxyProtocol,omitempty"`

	// How requests are spread over the endpoints.
	// +optional
	LoadBalancing *LoadBalancing `json:"loadBalancing,omitempty"`

	// Ask the endpoints whether they are well, beside what their readiness probes say.
	// +optional
	HealthCheck *HealthCheck `json:"healthCheck,omitempty"`

	// Take an endpoint out when requests fail on it, until its health check passes again.
	// +optional
	OutlierDetection *OutlierDetection `json:"outlierDetection,omitempty"`

	// How many requests an endpoint gets at a time, and how many wait.
	// +optional
	Connections *ConnectionLimits `json:"connections,omitempty"`

	// Let requests wait while the Service has no usable endpoint. Empty: they are answered with 503. Connections of TCP
	// and TLS listeners do not wait.
	// +optional
	WaitForEndpoint *WaitForEndpoint `json:"waitForEndpoint,omitempty"`

	// A Service of the same namespace whose endpoints get the requests and connections while this one has no ready
	// endpoint, or none whose health checks pass. In a BackendPolicy, it may be a ServiceImport. All other settings, TLS
	// and the appProtocol come from this Service.
	// +optional
	Backup *BackupService `json:"backup,omitempty"`
}

// BackupKind is a kind of backups.
type BackupKind string

const (
	// BackupServiceKind is the kind of Services.
	BackupServiceKind BackupKind = "Service"
	// BackupServiceImport is the kind of ServiceImports.
	BackupServiceImport BackupKind = "ServiceImport"
)

// BackupService is a port of a Service, or of a ServiceImport.
type BackupService struct {
	// The kind: Service, or ServiceImport of the group multicluster.x-k8s.io. Empty: Service.
	// +optional
	// +kubebuilder:validation:Enum=Service;ServiceImport
	Kind BackupKind `json:"kind,omitempty"`

	// The name of the Service.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// The port of the Service.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
}

// BackendTLS is how to speak TLS to endpoints.
type BackendTLS struct {
	// The ConfigMaps with the certificates (PEM, under the key ca.crt) of those who sign the endpoints' certificates.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	CACertificateRefs []ObjectReference `json:"caCertificateRefs"`

	// The server name to ask for (SNI). The certificate has to be for it (subjectAltName).
	// +required
	Hostname PreciseHostname `json:"hostname"`
}

// ProxyProtocolVersion is a version of the PROXY protocol. Headers are sent in version V1 or V2, and taken in Any.
type ProxyProtocolVersion string

const (
	// ProxyProtocolV1 is the version in text.
	ProxyProtocolV1 ProxyProtocolVersion = "V1"
	// ProxyProtocolV2 is the binary version.
	ProxyProtocolV2 ProxyProtocolVersion = "V2"
	// ProxyProtocolAny is version 1 or 2, as the sender likes.
	ProxyProtocolAny ProxyProtocolVersion = "Any"
)

// LoadBalancing is how requests are spread over endpoints.
//
// +kubebuilder:validation:XValidation:rule="(self.algorithm == 'Header') == has(self.header)",fieldPath=".header",message="header is required for algorithm Header, and not allowed for any other"
// +kubebuilder:validation:XValidation:rule="!has(self.hashBalanceFactor) || self.algorithm in ['SourceIP', 'URI', 'Header']",fieldPath=".hashBalanceFactor",message="hashBalanceFactor is for the algorithms SourceIP, URI and Header"
type LoadBalancing struct {
	// Random: the less busy of two drawn by chance. RoundRobin: one after the other. LeastConnections: the least busy.
	// SourceIP, URI, Header: always the same endpoint for the address that a connection comes from (not what trusted
	// proxies say), for a path, or for the value of a request header, both as filters leave them, as long as the
	// endpoints stay the same.
	// +optional
	// +kubebuilder:default=Random
	Algorithm LoadBalancingAlgorithm `json:"algorithm,omitempty"`

	// The name of the request header.
	// +optional
	Header HeaderName `json:"header,omitempty"`

	// With SourceIP, URI or Header: how many requests an endpoint has at a time, at most, in percent of the average of
	// all endpoints. More of them go to another endpoint, which is the same one each time. 125 to 200 is usual. Empty:
	// any number.
	// +optional
	// +kubebuilder:validation:Minimum=101
	// +kubebuilder:validation:Maximum=10000
	HashBalanceFactor *int32 `json:"hashBalanceFactor,omitempty"`

	// For how long an endpoint that is new, or whose health check passes again, gets fewer requests than others. It
	// begins with a sixteenth of its share. Empty: it gets its share at once.
	// +optional
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1h')",message="slowStart must be between 1s and 1h"
	SlowStart Duration `json:"slowStart,omitempty"`
}

// LoadBalancingAlgorithm is a way to spread requests over endpoints.
//
// +kubebuilder:validation:Enum=Random;RoundRobin;LeastConnections;SourceIP;URI;Header
type LoadBalancingAlgorithm string

const (
	// LoadBalancingRandom takes the less busy of two endpoints drawn by chance.
	LoadBalancingRandom LoadBalancingAlgorithm = "Random"
	// LoadBalancingRoundRobin takes one endpoint after the other.
	LoadBalancingRoundRobin LoadBalancingAlgorithm = "RoundRobin"
	// LoadBalancingLeastConnections takes the least busy endpoint.
	LoadBalancingLeastConnections LoadBalancingAlgorithm = "LeastConnections"
	// LoadBalancingSourceIP takes the same endpoint for the same client address.
	LoadBalancingSourceIP LoadBalancingAlgorithm = "SourceIP"
	// LoadBalancingURI takes the same endpoint for the same path.
	LoadBalancingURI LoadBalancingAlgorithm = "URI"
	// LoadBalancingHeader takes the same endpoint for the same value of a header.
	LoadBalancingHeader LoadBalancingAlgorithm = "Header"
)

// HealthCheck is how endpoints are asked whether they are well.
//
// +kubebuilder:validation:XValidation:rule="has(self.path) || !has(self.hostname)",fieldPath=".hostname",message="hostname is for a health check over HTTP: set path too"
type HealthCheck struct {
	// The path to request by GET; an answer of 200 to 399 is good. Empty: a connection is enough.
	// +optional
	Path URLPath `json:"path,omitempty"`

	// The hostname to request it from. Empty: the name of the Service.
	// +optional
	Hostname PreciseHostname `json:"hostname,omitempty"`

	// The time between two checks of an endpoint.
	// +optional
	// +kubebuilder:default="5s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('1h')",message="interval must be between 100ms and 1h"
	Interval Duration `json:"interval,omitempty"`

	// How long an answer may take.
	// +optional
	// +kubebuilder:default="2s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10ms') && duration(self) <= duration('1h')",message="timeout must be between 10ms and 1h"
	Timeout Duration `json:"timeout,omitempty"`

	// How many checks in a row have to fail until the endpoint is taken out.
	// +optional
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	UnhealthyThreshold *int32 `json:"unhealthyThreshold,omitempty"`

	// How many checks in a row have to pass until the endpoint is back.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	HealthyThreshold *int32 `json:"healthyThreshold,omitempty"`
}

// OutlierDetection is when an endpoint is taken out because of the requests it fails.
type OutlierDetection struct {
	// How many requests in a row have to fail: no connection, no answer, or one of 500 and above except 501 and 505.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	ConsecutiveErrors *int32 `json:"consecutiveErrors,omitempty"`
}

// ConnectionLimits bounds what an endpoint has to do. Each proxy pod counts for itself.
type ConnectionLimits struct {
	// How many requests (of a TCP listener: connections) an endpoint gets at a time; more of them wait. A request
	// takes no place before its body has arrived, or 15 KiB of it; one that takes longer than 10 seconds for that is
	// answered with 408. What follows after these 15 KiB may come slowly, and so may calls of gRPC and Connect over
	// HTTP/2 to a backend that may speak HTTP/2: they hold a place meanwhile. With a maxRequestBytes of at most 15360 in
	// the rule, no body with a Content-Length does.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxPerEndpoint int32 `json:"maxPerEndpoint"`

	// How many requests may wait for an endpoint; more of them are sent to another. Zero: any number.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000
	MaxQueue *int32 `json:"maxQueue,omitempty"`

	// How long a request may wait; then it is answered with 503.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('24h')",message="queueTimeout must be between 1ms and 24h"
	QueueTimeout Duration `json:"queueTimeout,omitempty"`
}

// WaitForEndpoint bounds the requests that wait while a Service has no endpoint that can take them. Each proxy pod
// counts for itself.
type WaitForEndpoint struct {
	// How long a request waits; then it is answered with 503. The timeout of a rule ends the wait, too, and is then
	// the limit of the answer again. A request notices an endpoint after at most an eighth of the time that it has
	// waited, or one second.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('100ms') && duration(self) <= duration('5m')",message="timeout must be between 100ms and 5m"
	Timeout Duration `json:"timeout,omitempty"`

	// How many requests wait at a time; further ones are answered with 503 at once.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxRequests *int32 `json:"maxRequests,omitempty"`
}
