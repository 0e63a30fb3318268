package render

import (
	"gateway/internal/haproxy/ir"
	"gateway/internal/routing"
)

// Input is the input of HAProxy's configuration.
type Input struct {
	// Table says which requests go where.
	Table routing.Table
	// Backends holds what was observed of every Service port that Table refers to. One that is missing counts as a
	// Service that does not exist.
	Backends map[routing.Backend]BackendState
	// Certificates are the certificates that can be used, by the name of the HTTPS listener, in the order of the spec.
	// A listener with none is not there.
	Certificates map[string][]Certificate
	// Certified are the names of the listeners whose Certificates may be others than in the Input before; nil: all.
	Certified []string
	// HasBackendCertificate reports whether the certificate that Table names for backends can be used. Without it,
	// requests to backends that are to see it are answered with 500.
	HasBackendCertificate bool
	// Authorities are CA certificates (PEM) by the name of the ConfigMap. What needs one that is missing is not served:
	// a listener is not there, requests for a backend are answered with 500.
	Authorities map[string][]byte
	// KeySets are the token keys of each source that Table names. Requests that need a missing source are answered with
	// 503.
	KeySets map[routing.KeySource][]routing.JWTKey
	// Paths are where HAProxy finds its files and sockets.
	Paths ir.Paths
	// Bind says where HAProxy accepts connections.
	Bind Bind
}

// BackendState is the observed state of a Service port.
type BackendState struct {
	// Exists reports whether the Service and its port exist (and the Service is not of type ExternalName). Requests for
	// one that does not are answered with 500.
	Exists bool
	// AppProtocol is the appProtocol of the Service's port, in lower case.
	AppProtocol string
	// Servers are the endpoints that take traffic, in any order. None: requests are answered with 503.
	Servers []ir.Server
}

// Certificate is a certificate whose key HAProxy finds beside it.
type Certificate struct {
	// Secret is the name of the Secret. HAProxy finds it with its key as Paths.CertificateDir/SECRET/tls.pem.
	Secret string
	// Names are the server names that the certificate is shown for, in lower case and as in the certificate: the ones
	// within the listener's hostname.
	Names []string
	// KeyType is the type of its key: RSA, ECDSA and so on. Clients get one that they can use.
	KeyType string
}

// MetricsPort is the port of HAProxy's own endpoint in the data-plane pod: /metrics for Prometheus and /healthz.
const MetricsPort = 8404

// Bind says where HAProxy accepts connections. The zero value is for the data-plane pod: every IPv4 and IPv6
// address, and MetricsPort.
type Bind struct {
	// Addresses are the IP addresses that every port is bound on. Empty: all of IPv4 and IPv6. A node whose kernel has
	// no IPv6 needs "0.0.0.0" here: HAProxy does not start if it cannot bind an address.
	Addresses []string
	// MetricsPort is the port of /metrics and /healthz. 0: the constant MetricsPort.
	MetricsPort int32
	// Files is how many files HAProxy may open, including one for each connection; 0: enough.
	Files int
}
