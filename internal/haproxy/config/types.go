package config

import "gateway/internal/routing"

// Input is everything HAProxy's configuration is made from.
type Input struct {
	// Generation is the metadata.generation of the Gateway that Table was compiled from.
	Generation int64
	// Table says which requests go where.
	Table routing.Table
	// Backends holds what was observed of every Service port that Table refers to. One that is missing counts as a Service
	// that does not exist.
	Backends map[routing.Backend]BackendState
	// SameBackends says that Backends is what it was for the configuration before, but for what WithServers was told since. Then Next
	// need not look at thousands of them.
	SameBackends bool
	// Certificates are the certificates that can be used, by the name of the HTTPS listener, in the order of the spec. A
	// listener with none is not there.
	Certificates map[string][]Certificate
	// Authorities are the certificates (PEM) of those who sign others, by the name of the ConfigMap. What needs one that is
	// missing is not served: a listener is not there, requests for a backend are answered with 500.
	Authorities map[string][]byte
	// Paths are where HAProxy finds its files and sockets.
	Paths Paths
	// Bind says where HAProxy accepts connections.
	Bind Bind
}

// BackendState is what was observed of a Service port.
type BackendState struct {
	// Exists says whether the Service and its port exist (and the Service is not of type ExternalName). Requests for one
	// that does not are answered with 500.
	Exists bool
	// AppProtocol is the appProtocol of the Service's port, in lower case.
	AppProtocol string
	// Servers are the endpoints that take traffic, in any order. None: requests are answered with 503.
	Servers []Server
}

// Certificate is a certificate whose key HAProxy finds beside it.
type Certificate struct {
	// Secret is the name of the Secret. HAProxy finds it with its key as Paths.CertificateDir/SECRET/tls.pem.
	Secret string
	// Names are the server names that clients get it for, in lower case: those of its names that are within the listener's
	// hostname, as they are in the certificate.
	Names []string
}

// Server is one endpoint of a Service.
type Server struct {
	// Address is an IPv4 or IPv6 address in the form netip.Addr prints.
	Address string
	// Port is the port on that address, 1 to 65535.
	Port int32
}

// MetricsPort is the port of HAProxy's own endpoint in the data-plane pod: /metrics for Prometheus and /healthz.
const MetricsPort = 8404

// Bind says where HAProxy accepts connections. The zero value is that of the data-plane pod: every IPv4 and IPv6 address,
// and MetricsPort.
type Bind struct {
	// Addresses are the IP addresses that every port is bound on. Empty: all of IPv4 and IPv6. A node whose kernel has no
	// IPv6 needs "0.0.0.0" here: HAProxy does not start if it cannot bind an address.
	Addresses []string
	// MetricsPort is the port of /metrics and /healthz. 0: the constant MetricsPort.
	MetricsPort int32
	// Files is how many files HAProxy may open, of which each connection is one; 0: enough.
	Files int
}

// Paths are the files and sockets of one HAProxy, as absolute paths of letters, digits and "/._-": HAProxy's expressions
// cannot quote anything else.
type Paths struct {
	// ConfigDir holds load.cfg, haproxy.cfg and routes.map.
	ConfigDir string
	// RunDir holds the sockets.
	RunDir string
	// CertificateDir holds a directory for each Secret with certificates.
	CertificateDir string
	// KeysSocket is the socket of the command line by which gateway-keys hands certificates over; "" where it does not run.
	KeysSocket string
}

// Config is what HAProxy runs by, split by how a change of it is brought about.
type Config struct {
	// Skeleton is haproxy.cfg without its server lines. Adding to it takes a reload.
	Skeleton string
	// Static are the files that are read at a reload only, by name: lists of certificates, and authorities.
	Static map[string][]byte
	// Routes are the entries of MapFile. At run time they are edited, or replaced as a whole and atomically.
	Routes RouteMap
	// Maps are the entries of each other map file, by name. They are replaced, each as a whole and atomically, at run time.
	Maps map[string][]MapEntry
	// Servers are the servers by backend section. They are added and removed at run time.
	Servers ServerSets
	// Settings say how to add a server to a backend section, where that takes more than its address.
	Settings map[string]ServerSettings

	// head is the first part of Skeleton.
	head head
	// sections are those for Service ports, its rest.
	sections *sectionSet
	// hosts are what the maps were made of.
	hosts *hostSet
	// covers is a skeleton that Skeleton does the work of, if there is one beside itself.
	covers string
}

// ServerSettings are what a server gets at run time that it inherits from its section when it is in haproxy.cfg.
type ServerSettings struct {
	// Options follow the address in "add server".
	Options string
	// Check says that health checks have to be switched on.
	Check bool
	// CookieKey is the dynamic-cookie-key of the section; setting it anew gives the server its cookie. "": it has none.
	CookieKey string
}

// MapEntry is one line of a HAProxy map file.
type MapEntry struct {
	Key, Value string
}
