package config_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/config"
)

// pair issues a certificate for the names, as crypto/tls takes it.
func pair(t testing.TB, authority *certtest.Authority, names ...string) tls.Certificate {
	t.Helper()
	issued := authority.Issue(t, names)
	certificate, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		t.Fatalf("failed to pair a certificate with its key: %v", err)
	}
	return certificate
}

// writeSecret writes a certificate and its key where HAProxy looks for those of a Secret.
func writeSecret(t testing.TB, paths config.Paths, secret string, pair certtest.Pair) {
	t.Helper()
	dir := filepath.Join(paths.CertificateDir, secret)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatalf("failed to make a directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.pem"), slices.Concat(pair.Certificate, pair.Key), 0o600); err != nil {
		t.Fatalf("failed to write a certificate: %v", err)
	}
}

// withRealCertificates gives an Input, whose certificates are only named, files and authorities that HAProxy can load.
func withRealCertificates(t testing.TB, in config.Input) config.Input {
	t.Helper()
	in.Paths.CertificateDir = t.TempDir()
	ca := certtest.NewAuthority(t)
	for _, certificates := range in.Certificates {
		for _, c := range certificates {
			writeSecret(t, in.Paths, c.Secret, ca.Issue(t, c.Names))
		}
	}
	authorities := map[string][]byte{}
	for name := range in.Authorities {
		authorities[name] = ca.PEM
	}
	in.Authorities = authorities
	return in
}
