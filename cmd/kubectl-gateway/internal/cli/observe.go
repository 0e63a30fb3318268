package cli

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/endpoints"
	"gateway/internal/haproxy/feature"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

// assumedAuthority is in place of a ConfigMap that the files do not have.
const assumedAuthority = "# the content of the ConfigMap\n"

// podPaths are where HAProxy has its files in a proxy pod.
var podPaths = ir.Paths{ConfigDir: "/etc/haproxy/current", RunDir: "/run/haproxy", CertificateDir: proxypod.HAProxyCertificatesDir}

// Compile returns the table of the Gateway, and what has no effect.
func (s *Site) Compile() (routing.Table, []model.Problem) {
	return routing.Compile(s.Model())
}

// Model returns what the Gateway and its routes ask for.
func (s *Site) Model() *model.Gateway {
	if s.model != nil {
		return s.model
	}
	return source.Translate(s.Gateway)
}

// Objects returns the Services, and their EndpointSlices by the Service, in maps that may be changed.
func (s *Site) Objects() (map[types.NamespacedName]*corev1.Service, map[types.NamespacedName][]*discoveryv1.EndpointSlice) {
	return maps.Clone(s.services), maps.Clone(s.slices)
}

// Authorities returns the CAs, by the names that the model has for ConfigMaps.
func (s *Site) Authorities() map[string][]byte { return s.authorities }

// Secrets returns the files of Secrets, by the names that the model has for those, in a map that may be changed.
func (s *Site) Secrets() map[string]map[string][]byte { return maps.Clone(s.secrets) }

// Input returns what a proxy pod's configuration is made from. Certificates are taken to exist and to be for the
// hostname of their listener: keys and what goes with them are nothing to read for that.
func (s *Site) Input(table routing.Table) render.Input {
	input := render.Input{
		Table: table, Backends: map[routing.Backend]render.BackendState{},
		Certificates: map[string][]render.Certificate{}, Authorities: map[string][]byte{}, Paths: podPaths,
		HasBackendCertificate: table.BackendCertificate != "",
	}
	if input.HasBackendCertificate {
		input.Paths.KeysSocket = proxypod.KeysSocket
	}
	for _, backend := range table.Backends() {
		input.Backends[backend] = s.Backend(backend)
	}
	if feature.HasBasic(table) {
		input.Paths.KeysSocket, input.Paths.UsersSocket = proxypod.KeysSocket, proxypod.UsersSocket
	}
	for i := range table.Listeners {
		listener := &table.Listeners[i]
		if listener.TLS == nil {
			continue
		}
		input.Paths.KeysSocket, input.Paths.UsersSocket = proxypod.KeysSocket, proxypod.UsersSocket
		var names []string
		if listener.Hostname != "" {
			names = []string{listener.Hostname}
		}
		for _, secret := range listener.TLS.Secrets {
			input.Certificates[listener.Name] = append(input.Certificates[listener.Name], render.Certificate{Secret: secret, Names: names})
		}
	}
	for _, name := range AuthorityNames(table) {
		content, ok := s.authorities[name]
		if !ok && !s.Live {
			content = []byte(assumedAuthority)
		}
		input.Authorities[name] = content
	}
	return input
}

// Knows says whether all endpoints of a namespace are known.
func (s *Site) Knows(namespace string) bool { return s.known[namespace] }

// service returns a Service, nil if there is none; false: nobody knows.
func (s *Site) service(namespace, name string) (*corev1.Service, bool) {
	service, ok := s.services[types.NamespacedName{Namespace: namespace, Name: name}]
	return service, ok || s.known[namespace]
}

// Backend returns what is known of a Service port. One of which nothing is known exists.
func (s *Site) Backend(backend routing.Backend) render.BackendState {
	if _, known := s.service(backend.Namespace, backend.Service); !known {
		return render.BackendState{Exists: true}
	}
	return endpoints.States([]routing.Backend{backend}, endpoints.Cluster{
		Service: func(namespace, name string) *corev1.Service {
			return s.services[types.NamespacedName{Namespace: namespace, Name: name}]
		},
		Slices: func(namespace, service string) []*discoveryv1.EndpointSlice {
			return s.slices[types.NamespacedName{Namespace: namespace, Name: service}]
		},
	})[backend]
}
