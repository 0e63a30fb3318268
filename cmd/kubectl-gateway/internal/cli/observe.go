package cli

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"gateway/internal/agent"
	"gateway/internal/endpoints"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/keyset"
	"gateway/internal/model"
	"gateway/internal/proxypod"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
)

// podPaths are where HAProxy has its files in a proxy pod.
var podPaths = ir.Paths{ConfigDir: "/etc/haproxy/current", RunDir: "/run/haproxy", CertificateDir: proxypod.HAProxyCertificatesDir, WAFSocket: proxypod.WAFSocket}

// Model returns the model of the Gateway and its routes.
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

// ConfigMaps returns what ConfigMaps have, by the names that the model has for those.
func (s *Site) ConfigMaps() map[string]map[string]string { return s.configMaps }

// Secrets returns the files of Secrets, by the names that the model has for those, in a map that may be changed.
func (s *Site) Secrets() map[string]map[string][]byte { return maps.Clone(s.secrets) }

// Input returns the input for a proxy pod's configuration. Certificates that are not in the files are taken to exist
// and to be for the hostname of their listener, so no keys need to be read.
func (s *Site) Input(table routing.Table) render.Input {
	usable := s.usable(table)
	_, isKnown := s.secrets[table.BackendCertificate]
	input := render.Input{
		Table: table, Backends: map[routing.Backend]render.BackendState{},
		Certificates: map[string][]render.Certificate{}, Authorities: usable.Authorities, Paths: podPaths,
		HasBackendCertificate: table.BackendCertificate != "" && (!isKnown || usable.BackendCertificate),
	}
	if input.HasBackendCertificate {
		input.Paths.KeysSocket = proxypod.KeysSocket
	}
	for _, policy := range table.Policies {
		if policy.TLS != nil && policy.TLS.HasNames() {
			input.Paths.RelaySocket = proxypod.RelaySocket
		}
	}
	for _, backend := range table.Backends() {
		input.Backends[backend] = s.Backend(backend, input.Table.Policies)
	}
	if table.Uses.SecretFiles.Len() > 0 {
		input.Paths.KeysSocket, input.Paths.UsersSocket, input.Paths.LoginSocket = proxypod.KeysSocket, proxypod.UsersSocket, proxypod.LoginSocket
	}
	for i := range table.Listeners {
		if listener := &table.Listeners[i]; listener.TLS != nil {
			input.Paths.KeysSocket, input.Paths.UsersSocket, input.Paths.LoginSocket = proxypod.KeysSocket, proxypod.UsersSocket, proxypod.LoginSocket
			input.Certificates[listener.Name] = s.certificates(listener, usable)
		}
	}
	input.KeySets, _, _ = s.keySets(table, true)
	return input
}

// certificates returns the certificates of a listener, none if it is not served.
func (s *Site) certificates(listener *routing.Listener, usable agent.Usable) []render.Certificate {
	for _, name := range listener.TLS.ClientCAs {
		if usable.Authorities[name] == nil {
			return nil
		}
	}
	var names []string
	if listener.Hostname != "" {
		names = []string{listener.Hostname}
	}
	var all []render.Certificate
	for _, secret := range listener.TLS.Secrets {
		if _, isKnown := s.secrets[secret]; !isKnown {
			all = append(all, render.Certificate{Secret: secret, Names: names})
			continue
		}
		for _, certificate := range usable.Certificates[listener.Name] {
			if certificate.Secret == secret {
				all = append(all, certificate)
			}
		}
	}
	return all
}

// MissingKeys returns the sources of keys that are not known. fetched means that those at URLs are.
func (s *Site) MissingKeys(table routing.Table, fetched bool) []string {
	_, missing, _ := s.keySets(table, fetched)
	return missing
}

// keySets returns the keys of tokens that rules name the source of, which of them are missing, and which cannot be
// read.
func (s *Site) keySets(table routing.Table, fetched bool) (sets map[routing.KeySource][]routing.JWTKey, missing, broken []string) {
	sets = map[routing.KeySource][]routing.JWTKey{}
	for _, from := range keySources(table) {
		configMap, isThere := s.configMaps[from.ConfigMap]
		text, ok := configMap[proxypod.KeySetFile]
		keys, err := keyset.Parse(text)
		const none = "there is no ConfigMap %s with %s: requests that need its keys are answered with 503"
		switch {
		case from.URL != "" && fetched:
		case from.URL != "":
			missing = append(missing, fmt.Sprintf("the keys at %s are fetched by the proxies alone: requests that need them are answered with 503 here", from.URL))
		case !isThere:
			missing = append(missing, fmt.Sprintf(none, from.ConfigMap, proxypod.KeySetFile))
		case !ok:
			broken = append(broken, fmt.Sprintf(none, from.ConfigMap, proxypod.KeySetFile))
		case err != nil:
			broken = append(broken, fmt.Sprintf("%s of ConfigMap %s %v: requests that need its keys are answered with 503",
				proxypod.KeySetFile, from.ConfigMap, err))
		default:
			sets[from] = keys
		}
	}
	return sets, missing, broken
}

// keySources returns the sources of a table's keys, without those in rules.
func keySources(table routing.Table) []routing.KeySource {
	var sources []routing.KeySource
	for rules := range table.Uses.Keys.Values() {
		sources = append(sources, rules.First().From)
	}
	return sources
}

// Knows reports whether all endpoints of a namespace are known.
func (s *Site) Knows(namespace string) bool { return s.known[namespace] }

// service returns a Service, nil if there is none; false: unknown.
func (s *Site) service(namespace, name string) (*corev1.Service, bool) {
	service, ok := s.services[types.NamespacedName{Namespace: namespace, Name: name}]
	return service, ok || s.known[namespace]
}

// Backend returns the state of a Service port, whose policy may name a backup. An unknown one is taken to exist.
func (s *Site) Backend(backend routing.Backend, policies map[routing.Backend]routing.BackendPolicy) render.BackendState {
	if _, known := s.service(backend.Namespace, backend.Service); !known {
		return render.BackendState{Exists: true}
	}
	return endpoints.States([]routing.Backend{backend}, policies, endpoints.Cluster{
		Service: func(namespace, name string) *corev1.Service {
			return s.services[types.NamespacedName{Namespace: namespace, Name: name}]
		},
		Slices: func(namespace, service string) []*discoveryv1.EndpointSlice {
			return s.slices[types.NamespacedName{Namespace: namespace, Name: service}]
		},
	})[backend]
}
