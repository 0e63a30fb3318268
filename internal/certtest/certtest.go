// Package certtest makes certificates for tests.
package certtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"testing"
	"time"

	"gateway/internal/must"
)

// Authority signs certificates.
type Authority struct {
	// PEM is its own certificate.
	PEM []byte

	certificate *x509.Certificate
	key         crypto.Signer
}

// Pair is a certificate and its key, as in a Secret of type kubernetes.io/tls.
type Pair struct {
	Certificate, Key []byte
	// Leaf is the certificate.
	Leaf *x509.Certificate
}

// Option changes a certificate before it is signed.
type Option func(*request)

type request struct {
	template x509.Certificate
	key      crypto.Signer
}

// NewAuthority makes an authority.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	return newAuthority(t, ecdsaKey(t))
}

func newAuthority(t testing.TB, key crypto.Signer) *Authority {
	t.Helper()
	template := x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(240 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	certificate, encoded := sign(t, &template, &template, key.Public(), key)
	return &Authority{PEM: encoded, certificate: certificate, key: key}
}

// Issue makes a certificate, with an ECDSA key unless the options say otherwise, that is valid now, for servers and
// clients.
func (a *Authority) Issue(t testing.TB, names []string, options ...Option) Pair {
	t.Helper()
	r := request{template: x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "test"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}}
	for _, option := range options {
		option(&r)
	}
	if r.key == nil {
		r.key = ecdsaKey(t)
	}
	leaf, certificate := sign(t, &r.template, a.certificate, r.key.Public(), a.key)
	key := must.Get(x509.MarshalPKCS8PrivateKey(r.key))(t)
	return Pair{Certificate: certificate, Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), Leaf: leaf}
}

// Revoke makes a list of revoked certificates that is valid until some time.
func (a *Authority) Revoke(t testing.TB, until time.Time, revoked ...Pair) []byte {
	t.Helper()
	template := x509.RevocationList{Number: serial(t), ThisUpdate: until.Add(-24 * time.Hour), NextUpdate: until}
	for _, pair := range revoked {
		template.RevokedCertificateEntries = append(template.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: pair.Leaf.SerialNumber, RevocationTime: template.ThisUpdate,
		})
	}
	der := must.Get(x509.CreateRevocationList(rand.Reader, &template, a.certificate, a.key))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der})
}

// Pool trusts the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// Addresses gives the certificate addresses beside its names.
func Addresses(addresses ...net.IP) Option {
	return func(r *request) { r.template.IPAddresses = addresses }
}

// Valid bounds the certificate's time.
func Valid(notBefore, notAfter time.Time) Option {
	return func(r *request) { r.template.NotBefore, r.template.NotAfter = notBefore, notAfter }
}

// URI makes the certificate for a URI, too.
func URI(t testing.TB, uri string) Option {
	t.Helper()
	parsed := must.Get(url.Parse(uri))(t)
	return func(r *request) { r.template.URIs = append(r.template.URIs, parsed) }
}

// RSA gives the certificate an RSA key of so many bits.
func RSA(t testing.TB, bits int) Option {
	t.Helper()
	key := must.Get(rsa.GenerateKey(rand.Reader, bits))(t)
	return func(r *request) { r.key = key }
}

// ECDSA gives the certificate a key of a curve.
func ECDSA(t testing.TB, curve elliptic.Curve) Option {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(curve, rand.Reader))(t)
	return func(r *request) { r.key = key }
}

func ecdsaKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	number := must.Get(rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)))(t)
	return number
}

func sign(t testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) (*x509.Certificate, []byte) {
	t.Helper()
	der := must.Get(x509.CreateCertificate(rand.Reader, template, parent, public, signer))(t)
	certificate := must.Get(x509.ParseCertificate(der))(t)
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
