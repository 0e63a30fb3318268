package fuzz

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"gateway/internal/must"
)

// certificates are the files of Secrets: the same certificate under every name.
type certificates struct {
	dir            string
	authority, key []byte
}

func newCertificates(t *testing.T) *certificates {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fuzz"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"shop.example.com"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	// Not in t.TempDir, whose name holds the test's, and HAProxy's expressions cannot quote everything.
	dir := must.Get(os.MkdirTemp("/tmp", "fuzz"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return &certificates{
		dir:       dir,
		authority: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:       pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	}
}

// write writes the file of a Secret. Several workers may write the same one: its content is the same.
func (c *certificates) write(secret string) error {
	dir := filepath.Join(c.dir, secret)
	if _, err := os.Stat(filepath.Join(dir, "tls.pem")); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(dir, "new")
	if err != nil {
		return err
	}
	if _, err := temporary.Write(slices.Concat(c.authority, c.key)); err != nil {
		return err
	}
	if err := temporary.Close(); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), filepath.Join(dir, "tls.pem"))
}
