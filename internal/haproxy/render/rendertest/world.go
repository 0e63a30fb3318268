// Package rendertest writes what HAProxy's configuration is made of in YAML, for tests.
package rendertest

import (
	"net/netip"
	"os"
	"slices"
	"testing"

	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/routing"
	"gateway/internal/routing/routingtest"
)

// PodPaths are the paths in the data-plane pod.
var PodPaths = ir.Paths{ConfigDir: "/etc/haproxy/current", RunDir: "/run/haproxy", CertificateDir: "/etc/haproxy-certificates"}

// World is an Input as it is written in YAML.
type World struct {
	Generation int64             `json:"generation"`
	Spec       appv1.GatewaySpec `json:"spec"`
	// Backends are the Service ports that exist, with the addresses of their endpoints.
	Backends []Backend `json:"backends"`
	// Certificates are by listener, Authorities by ConfigMap.
	Certificates map[string][]render.Certificate `json:"certificates"`
	Authorities  map[string]string               `json:"authorities"`
	// Repeated are the paths of those ExternalAuths that ask as the Gateway API has it. Our own kind has no field for
	// that.
	Repeated []string `json:"repeated"`
}

// Backend is a Service port that exists.
type Backend struct {
	Service     string   `json:"service"`
	Port        int32    `json:"port"`
	Servers     []string `json:"servers"`
	AppProtocol string   `json:"appProtocol"`
}

// Input returns the Input of a world in the data-plane pod.
func (w World) Input(t testing.TB) render.Input {
	t.Helper()
	table, _ := routingtest.Compile(&w.Spec)
	table.Rules(func(_ *routing.Listener, rule *routing.Rule) {
		if auth := rule.ExternalAuth; auth != nil {
			auth.Repeat = slices.Contains(w.Repeated, auth.Path)
		}
	})
	in := render.Input{
		Table: table, Backends: map[routing.Backend]render.BackendState{}, Paths: PodPaths,
		Certificates: w.Certificates, Authorities: map[string][]byte{}, HasBackendCertificate: true,
	}
	in.Paths.UsersSocket, in.Paths.LoginSocket = "/run/haproxy-keys/users.sock", "/run/haproxy-login/login.sock"
	in.Paths.WAFSocket = "/run/haproxy-waf/waf.sock"
	if len(w.Certificates) > 0 {
		in.Paths.KeysSocket = "/run/haproxy-keys/keys.sock"
	}
	for name, authority := range w.Authorities {
		in.Authorities[name] = []byte(authority)
	}
	for _, backend := range w.Backends {
		state := render.BackendState{Exists: true, AppProtocol: backend.AppProtocol}
		for _, server := range backend.Servers {
			addr, err := netip.ParseAddrPort(server)
			if err != nil {
				t.Fatalf("failed to parse a server: %v", err)
			}
			state.Servers = append(state.Servers, ir.Server{Address: addr.Addr().String(), Port: int32(addr.Port())})
		}
		in.Backends[routing.Backend{Service: backend.Service, Port: backend.Port}] = state
	}
	return in
}

// Read returns the World of a file.
func Read(t testing.TB, path string) World {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("failed to read the world: %v", err)
	}
	return Parse(t, string(content))
}

// Parse returns the World of a text.
func Parse(t testing.TB, text string) World {
	t.Helper()
	var w World
	if err := yaml.UnmarshalStrict([]byte(text), &w); err != nil {
		t.Fatalf("failed to parse the world: %v", err)
	}
	return w
}
