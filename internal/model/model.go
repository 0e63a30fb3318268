// Package model is the desired state of a data plane, in words that belong to no API and no proxy. internal/source
// makes it from API objects, and internal/routing makes a table from it.
package model

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"gateway/internal/tree"
)

// Origin is the object that a part of the model comes from.
type Origin struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Generation is the object's metadata.generation.
	Generation int64 `json:"generation"`
}

// Gateway is everything that one data plane does. The objects it comes from may be many.
type Gateway struct {
	// Origins are the objects, the one of the kind Gateway first. Routes may come from others.
	Origins   []Origin
	Listeners []Listener
	// Routes are in the order of precedence: of two that ask for the same requests, the first one gets them.
	Routes tree.Map[*Route]
	Settings
	// Problems are the parts of the objects that the model leaves out.
	Problems []Problem
}

// Settings are the settings of the data plane as a whole.
type Settings struct {
	// Policies are the settings of backends that differ from the defaults.
	Policies map[Backend]BackendPolicy
	// BackendCertificate is the name of the Secret with the certificate that backends are shown by TLS; "": none. While it
	// cannot be used, nothing is sent to them.
	BackendCertificate string
	// TrustedProxies are the CIDR ranges of those whose X-Forwarded headers are believed, sorted.
	TrustedProxies []string
	// MaxConnections is how many connections a proxy takes at a time, and how many requests over HTTP/2.
	MaxConnections int
	// MaxPerAddress is how many of both together a client has; 0: any number.
	MaxPerAddress int
	// MaxHeaders is how many headers a request has, and MaxHeaderBytes how many bytes of them, with its URL.
	MaxHeaders, MaxHeaderBytes int
	// Compression is which answers are compressed; nil: none.
	Compression *Compression
	// HTTP3MaxAge is how long clients may remember that a port speaks HTTP/3, in seconds; 0: none does.
	HTTP3MaxAge int32
	// LoggedHeaders are the headers of requests that the access log has, in lower case, sorted.
	LoggedHeaders []string
	// RequestMetrics is ByRoute, ByRule, or "" where requests are not measured.
	RequestMetrics string
	// Tracing is how requests take part in traces; nil: they do not.
	Tracing *Tracing
	// ErrorPages are what clients get in place of the texts of the proxy's own errors, by status.
	ErrorPages map[int32]ErrorPage
	// Cache is how much is stored of the answers of rules that want it.
	Cache Cache
	// DrainTimeout is how long connections may keep a process that is to end from ending.
	DrainTimeout time.Duration
	// Shares is how much requests of each namespace take at a time.
	Shares Shares
}

// Shares is how much of a proxy the requests of each namespace take at a time: questions that are open, long bodies
// that a WAF reads, bodies of unknown length that are counted, and copies. The Owner's namespace has no bound.
type Shares struct {
	Owner                                string
	Questions, WAFBodies, Bodies, Copies int32
}

// Compression tells which answers are compressed: of types that begin so, and of as many bytes.
type Compression struct {
	ContentTypes []string
	MinBytes     int32
}

// Tracing is how requests take part in traces.
type Tracing struct {
	// Endpoint is the collector's host and port.
	Endpoint string
	// PerMillion is how many requests are sampled of those about which no trusted proxy decides.
	PerMillion int32
}

// ErrorPage is the body of an error, and what it is.
type ErrorPage struct{ ContentType, Body string }

// Cache is how much is stored of answers, and for how long.
type Cache struct {
	SizeMiB, MaxObjectBytes, MaxAgeSeconds int32
}

// The protocols of listeners.
const (
	ProtocolHTTP  = "HTTP"
	ProtocolHTTPS = "HTTPS"
	ProtocolTCP   = "TCP"
	ProtocolTLS   = "TLS"
)

// Listener is a port, or the part of its traffic that is for a hostname.
type Listener struct {
	Origin Origin
	// Name is unique. Title is what messages call it; "": Name.
	Name, Title string
	// Port is the port it accepts connections on.
	Port int32
	// Protocol is one of the constants above.
	Protocol string
	// Hostname is exact, a wildcard ("*.example.com"), or "" for every host.
	Hostname string
	// Since is when the ListenerSet was made that it is of, in Unix seconds: older ones come first. 0: it is of a Gateway.
	Since int64
	// ProxyProtocol reports whether connections begin with a PROXY protocol header.
	ProxyProtocol bool
	// TLS is how the listener terminates TLS; nil if it does not: with protocol TLS, it passes TLS through.
	TLS *ListenerTLS
	// Filters are for all rules that it leads to, as Action.With has them; nil: there are none.
	Filters *Action
}

// ListenerTLS is how a listener terminates TLS.
type ListenerTLS struct {
	// Secrets are the names of the Secrets with certificates, in the order of the spec.
	Secrets []string
	// MinVersion is TLSv1.2 or TLSv1.3.
	MinVersion string
	// ClientCAs are the names of the ConfigMaps with those who sign clients' certificates, or TrustBundles; empty: clients
	// are not asked.
	ClientCAs []string
	// ClientRequired reports whether a client must have a certificate.
	ClientRequired bool
	// ClientUnverified reports whether a certificate of a client that is not valid counts as none. The listeners of a port
	// that ask clients agree on it.
	ClientUnverified bool
	// AnyNames reports whether clients get a certificate though it is for other names than the listener's hostname, as the
	// Gateway API has it.
	AnyNames bool
	// HSTS is the value of Strict-Transport-Security; "": none.
	HSTS string
}

// Route sends requests or connections to backends.
type Route struct {
	Origin Origin
	// Kind is HTTPRoute, GRPCRoute, TCPRoute or TLSRoute; "" for what a listener does by itself.
	Kind string
	// Name is unique among routes of the kind; "" for what a listener does by itself.
	Name string
	// Listeners are the names of those it is attached to.
	Listeners []string
	// Hostnames are those it is for, at least one; "" stands for every host. At a listener, those count that overlap with
	// its own.
	Hostnames []string
	Rules     []Rule
}

// Ordered returns routes in this order of precedence.
func Ordered(routes ...Route) tree.Map[*Route] {
	var all tree.Editor[*Route]
	for i := range routes {
		all.Set(fmt.Sprintf("%08d", i), &routes[i])
	}
	return all.Map()
}

// Rule selects requests, their backends, and what happens to them on the way.
type Rule struct {
	// Matches has at least one, one of which a request has to meet.
	Matches []Match
	// Backends get the requests by weight. One of weight zero only gets those that have a session with it.
	Backends []Target
	// Action is never nil. Rules without any have the same one: once a rule is made, nobody changes it.
	*Action
}

// Match is a set of conditions on a request, all of which must be met.
type Match struct {
	PathType PathType
	Path     string
	// Method is the method a request has to have; "": any.
	Method string
	// Headers and Query are the conditions on headers and parameters.
	Headers, Query []Condition
}

// PathType is how a path is compared.
type PathType int

const (
	// Exact matches the path that equals the value.
	Exact PathType = iota
	// Regex matches the paths that a regular expression matches as a whole.
	Regex
	// Prefix matches the value and every path below it, by whole segments.
	Prefix
)

// Condition is a condition on the value of a header or query parameter.
type Condition struct {
	Name string
	// Value is the value to compare with, or an expression that has to match all of it.
	Value string
	Regex bool
}

// Backend is a port of a Service, or of what stands for a ServiceImport.
type Backend struct {
	Namespace, Service string
	// Port is the port of the Service, not of its endpoints.
	Port int32
}

// serviceImport is what names of ServiceImports begin with, among names of Services, which have no ".".
const serviceImport = "ServiceImport."

// ServiceImport stands for the ServiceImport of a name, of which endpoints may be in other clusters. It is no name of a
// Service.
func ServiceImport(name string) string { return serviceImport + name }

// ServiceImportOf returns the name of the ServiceImport that a name stands for; false: it is the name of a Service.
func ServiceImportOf(service string) (name string, ok bool) {
	return strings.CutPrefix(service, serviceImport)
}

// Name returns the name of the Service or ServiceImport.
func (b Backend) Name() string { return strings.TrimPrefix(b.Service, serviceImport) }

// Object returns "Service namespace/name", or "ServiceImport namespace/name".
func (b Backend) Object() string {
	kind := "Service"
	if _, isImport := ServiceImportOf(b.Service); isImport {
		kind = "ServiceImport"
	}
	return kind + " " + b.Namespace + "/" + b.Name()
}

// String returns "namespace/service:port".
func (b Backend) String() string {
	service := b.Service
	if b.Namespace != "" {
		service = b.Namespace + "/" + service
	}
	return fmt.Sprintf("%s:%d", service, b.Port)
}

// CompareBackends orders backends by namespace, then Service, then port.
func CompareBackends(a, b Backend) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Port, b.Port))
}

// Target is a backend with its share of a rule's requests.
type Target struct {
	// Backend gets them. The zero value stands for none: they are answered with 500, connections are refused.
	Backend Backend
	// Refused is why there is none; "": there is.
	Refused string
	// Weight is the share: the weight divided by the sum of the weights of the rule's targets.
	Weight int32
	// Headers is what happens to the headers of requests for this backend, after the rule's.
	Headers HeaderChanges
	// Rewrite has the host and path that take the place of the rule's; nil: none.
	Rewrite *Rewrite
}

// Reference is a route's use of a Service port.
type Reference struct {
	// Kind is the kind of the route, as Route.Kind, or Listener for the filters of one. Route is its name.
	Kind, Route string
	Backend     Backend
	// IsBackup reports whether it is the backup of a Service that the route or listener names.
	IsBackup bool
}

// Cookie returns the name of the cookie for the endpoints of a backend. Each has one of its own: if several shared one,
// each would overwrite what the others had set.
func (a *Affinity) Cookie(backend Backend) string {
	sum := sha256.Sum256([]byte(backend.String()))
	return fmt.Sprintf("%s-%x", a.Name, sum[:4])
}
