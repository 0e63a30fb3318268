package selfsigned

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
	"time"

	"gateway/internal/must"
)

// TestNew: who trusts the certificate connects to its names, and the key is its key.
func TestNew(t *testing.T) {
	certificate, key, err := New("a.example.com", "*.b.example.com")
	if err != nil {
		t.Fatal(err)
	}
	pair := must.Get(tls.X509KeyPair(certificate, key))(t)
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	for name, valid := range map[string]bool{"a.example.com": true, "x.b.example.com": true, "127.0.0.1": true, "c.example.com": false} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots}); (err == nil) != valid {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: time.Now().AddDate(0, 11, 0)}); err != nil {
		t.Errorf("in 11 months: got %v", err)
	}
}
