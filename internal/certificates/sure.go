package certificates

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"slices"
)

const (
	// sureSize is the largest pair, and sureRSABits the longest RSA key, that HAProxy takes for sure.
	sureSize    = 32 << 10
	sureRSABits = 8192
)

// sureSignatures are signatures that OpenSSL takes at each of its security levels up to 2.
var sureSignatures = []x509.SignatureAlgorithm{
	x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA, x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512,
}

// sureCurves are curves of which HAProxy was seen to take keys.
var sureCurves = []string{"P-256", "P-384", "P-521"}

// isSure reports whether it is sure that HAProxy takes a certificate, at the beginning of a file or behind others. Go
// reads DER more strictly than OpenSSL does.
func isSure(certificate *x509.Certificate) bool {
	switch key := certificate.PublicKey.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < minRSABits || bits > sureRSABits {
			return false
		}
	case *ecdsa.PublicKey:
		if !slices.Contains(sureCurves, key.Curve.Params().Name) {
			return false
		}
	default:
		return false
	}
	return slices.Contains(sureSignatures, certificate.SignatureAlgorithm)
}

// parseKey reads a private key in one of the forms that crypto/tls reads; nil: it cannot. isUsual reports whether it is
// encoded as everybody encodes it.
func parseKey(block *pem.Block) (signer crypto.Signer, isUsual bool) {
	if key, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
		signer, _ = key.(crypto.Signer)
		again, err := x509.MarshalPKCS8PrivateKey(key)
		return signer, err == nil && block.Type == "PRIVATE KEY" && bytes.Equal(again, block.Bytes)
	}
	if key, err := x509.ParseECPrivateKey(block.Bytes); err == nil {
		again, err := x509.MarshalECPrivateKey(key)
		return key, err == nil && block.Type == "EC PRIVATE KEY" && bytes.Equal(again, block.Bytes)
	}
	if key, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return key, block.Type == "RSA PRIVATE KEY" && bytes.Equal(x509.MarshalPKCS1PrivateKey(key), block.Bytes)
	}
	return nil, false
}
