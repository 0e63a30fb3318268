package model

import (
	"strings"
	"time"
)

// BackendPolicy configures how to talk to a backend.
type BackendPolicy struct {
	// From names the objects that set the policy, beside the Gateway of our own.
	From []string
	// Refused is why nothing may be sent there: it is not sure that TLS is not meant to be spoken. "": all is well.
	Refused string
	// TLS is how to connect by TLS; nil: without TLS.
	TLS *BackendTLS
	// ProxyProtocol is "V1", "V2" or "".
	ProxyProtocol string
	// Algorithm is Random, RoundRobin, LeastConnections, SourceIP, URI or Header; "": Random. Header is the name of the
	// header for the last of them.
	Algorithm, Header string
	// HashBalanceFactor is how many requests an endpoint has at a time with the last three of them, in percent of the
	// average; 0: any number.
	HashBalanceFactor int32
	// SlowStart is how long an endpoint that is new, or well again, gets fewer requests than others; 0: it does not.
	SlowStart time.Duration
	// Check is how to check endpoints; nil: not at all.
	Check *HealthCheck
	// MaxErrors is how many requests in a row have to fail until an endpoint is taken out; 0: that is not counted.
	MaxErrors int32
	// MaxConnections is how many requests an endpoint gets at a time; 0: any number. MaxQueue is how many wait for it; 0:
	// any number.
	MaxConnections, MaxQueue int32
	// QueueTimeout is how long a request may wait; 0: the default.
	QueueTimeout time.Duration
	// WaitTimeout is how long a request waits while no endpoint can take it; 0: not at all. MaxWaiting is how many do.
	WaitTimeout time.Duration
	MaxWaiting  int32
	// Backup is the Service port whose endpoints are asked while no endpoint can take requests; zero: there is none.
	Backup Backend
}

// SystemCAs stands for public authorities. It is no name of a ConfigMap.
const SystemCAs = "@system"

// trustBundle begins the names of ClusterTrustBundles among the names of ConfigMaps.
const trustBundle = "@ClusterTrustBundle/"

// TrustBundle stands for the ClusterTrustBundle of a name. It is no name of a ConfigMap.
func TrustBundle(name string) string { return trustBundle + name }

// TrustBundleOf returns the name of the ClusterTrustBundle that a name stands for; false: it is another name.
func TrustBundleOf(ca string) (name string, ok bool) { return strings.CutPrefix(ca, trustBundle) }

// BackendTLS is how to speak TLS to endpoints.
type BackendTLS struct {
	// CAs are the names of the ConfigMaps with those who sign the endpoints' certificates, SystemCAs or TrustBundles.
	CAs []string
	// ServerName is asked for. The certificate has to be for it, unless there are other names.
	ServerName string
	// DNSNames and URIs are other names: the certificate has to be for one of them.
	DNSNames, URIs []string
}

// HasNames reports whether the certificate has to be for another name than the one that is asked for.
func (t *BackendTLS) HasNames() bool { return len(t.DNSNames)+len(t.URIs) > 0 }

// HealthCheck is how endpoints are checked.
type HealthCheck struct {
	// Path is requested from Hostname; "": a connection is enough.
	Path, Hostname    string
	Interval, Timeout time.Duration
	// Fall checks in a row take an endpoint out, Rise bring it back.
	Fall, Rise int32
}
