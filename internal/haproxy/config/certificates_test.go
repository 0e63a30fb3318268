package config_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gateway/internal/haproxy/config"
)

// authority signs certificates for tests.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
	pem         []byte
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("failed to make a key: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatalf("failed to make an authority: %v", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatalf("failed to parse an authority: %v", err)
	}
	return &authority{certificate: certificate, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

// pool returns what trusts the authority.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// issue returns a certificate for the names and its key, both as PEM.
func (a *authority) issue(t testing.TB, key crypto.Signer, names ...string) (certificate, privateKey []byte) {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatalf("failed to make a serial number: %v", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		t.Fatalf("failed to make a certificate: %v", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatalf("failed to marshal a key: %v", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// pair is issue with a new ECDSA key, as crypto/tls takes it.
func (a *authority) pair(t testing.TB, names ...string) tls.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair(a.issue(t, newKey(t), names...))
	if err != nil {
		t.Fatalf("failed to pair a certificate with its key: %v", err)
	}
	return pair
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatalf("failed to make a key: %v", err)
	}
	return key
}

func newRSAKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatalf("failed to make a key: %v", err)
	}
	return key
}

// writeSecret writes a certificate and its key where HAProxy looks for those of a Secret.
func writeSecret(t testing.TB, paths config.Paths, secret string, certificate, key []byte) {
	t.Helper()
	dir := filepath.Join(paths.CertificateDir, secret)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatalf("failed to make a directory: %v", err)
	}
	for name, content := range map[string][]byte{"tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatalf("failed to write %s: %v", name, err)
		}
	}
}

// withRealCertificates gives an Input, whose certificates are only named, files and authorities that HAProxy can load.
func withRealCertificates(t testing.TB, in config.Input) config.Input {
	t.Helper()
	in.Paths.CertificateDir = t.TempDir()
	ca := newAuthority(t)
	for _, certificates := range in.Certificates {
		for _, c := range certificates {
			certificate, key := ca.issue(t, newKey(t), c.Names...)
			writeSecret(t, in.Paths, c.Secret, certificate, key)
		}
	}
	authorities := map[string][]byte{}
	for name := range in.Authorities {
		authorities[name] = ca.pem
	}
	in.Authorities = authorities
	return in
}
