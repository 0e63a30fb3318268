package examples

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/must"
	"gateway/internal/routing"
	source "gateway/internal/source/appv1"
	"gateway/test/internal/examples"
)

// TestHAProxyAcceptsExamples: HAProxy takes what is made of each example, without a warning, with and without
// endpoints.
func TestHAProxyAcceptsExamples(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, example examples.Example) {
		t.Helper()
		gateway := applyGateway(t, example)
		for _, servers := range [][]ir.Server{nil, {{Address: "10.0.0.1", Port: 8080}, {Address: "fd00::1", Port: 8080}}} {
			in := input(t, gateway, servers)
			rendered := render.Render(in)
			if err := haproxytest.Check(t, in.Paths, rendered.AllFiles()); err != nil {
				t.Errorf("with %d servers: %v\n%s", len(servers), err, rendered.Content(ir.ConfigFile))
			}
		}
	})
}

// input is what the agent makes the configuration from, where each Service has these endpoints, and every certificate
// is there and good.
func input(t *testing.T, gateway *appv1.Gateway, servers []ir.Server) render.Input {
	t.Helper()
	table, _ := routing.Compile(source.Translate(gateway), filters.Problem)
	in := render.Input{
		Table:        table,
		Backends:     map[routing.Backend]render.BackendState{},
		Certificates: map[string][]render.Certificate{}, Authorities: map[string][]byte{},
		Paths: haproxytest.NewPaths(t),
	}
	in.Paths.CertificateDir = filepath.Join(filepath.Dir(in.Paths.ConfigDir), "certificates")
	for _, backend := range table.Backends() {
		port := must.Get(servicePort(t, backend))(t)
		in.Backends[backend] = render.BackendState{Exists: true, AppProtocol: ptr.Deref(port.AppProtocol, ""), Servers: servers}
	}
	for _, listener := range table.Listeners {
		if listener.TLS == nil {
			continue
		}
		name := listener.Hostname
		if name == "" {
			name = "shop.example.com"
		}
		for _, secret := range listener.TLS.Secrets {
			writeCertificate(t, filepath.Join(in.Paths.CertificateDir, secret), name)
			in.Certificates[listener.Name] = append(in.Certificates[listener.Name], render.Certificate{
				Secret: secret, Names: []string{name},
			})
		}
	}
	if secret := table.BackendCertificate; secret != "" {
		writeCertificate(t, filepath.Join(in.Paths.CertificateDir, secret), "gateway")
		in.HasBackendCertificate = true
	}
	_, configMaps := references(gateway)
	for _, configMap := range configMaps {
		in.Authorities[configMap] = writeCertificate(t, filepath.Join(in.Paths.CertificateDir, "ca"), "ca.example.com")
	}
	return in
}

// writeCertificate writes tls.pem for HAProxy, and returns the certificate.
func writeCertificate(t *testing.T, dir, name string) []byte {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	certificate := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	must.Do(t, os.MkdirAll(dir, 0o700))
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	joined := slices.Concat(public, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	must.Do(t, os.WriteFile(filepath.Join(dir, "tls.pem"), joined, 0o600))
	return public
}
