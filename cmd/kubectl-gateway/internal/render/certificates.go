package render

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"path/filepath"
	"slices"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/haproxy/render"
)

// makeCertificates makes one certificate, with its key, that stands for all that HAProxy is to find: it starts on no
// other.
func makeCertificates(input *render.Input) error {
	certificate, key, err := selfSigned()
	if err != nil {
		return fmt.Errorf("failed to make a certificate for the check: %w", err)
	}
	for _, list := range input.Certificates {
		for _, c := range list {
			files := map[string][]byte{certificates.JoinedFile: slices.Concat(certificate, key)}
			if err := write(filepath.Join(input.Paths.CertificateDir, c.Secret), files); err != nil {
				return err
			}
		}
	}
	for name, content := range input.Authorities {
		if len(content) > 0 {
			input.Authorities[name] = certificate
		}
	}
	return nil
}

func selfSigned() (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "for haproxy -c"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		return nil, nil, err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return certificate, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}
