package certtest

import (
	"crypto/rand"
	"crypto/rsa"
	"testing"

	"gateway/internal/must"
)

// Refused is a certificate for *.example.com with another's key, both of a kind (Ed448) that Go does not know: HAProxy
// alone refuses it. It lasts until 2126.
func Refused() Pair { return Pair{Certificate: []byte(refusedCertificate), Key: []byte(refusedKey)} }

// RefusedCertificatesKey is the key that Refused's certificate has in truth.
func RefusedCertificatesKey() []byte { return []byte(fittingKey) }

// Weak is a pair that fits, and that HAProxy alone refuses: the authority that signed it has a key of 1024 bits.
func Weak(t testing.TB, names []string) Pair {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 1024) //nolint:gosec // that it is weak is the point
	must.Do(t, err)
	weak := newAuthority(t, key)
	pair := weak.Issue(t, names)
	pair.Certificate = append(pair.Certificate, weak.PEM...)
	return pair
}

const (
	refusedCertificate = `-----BEGIN CERTIFICATE-----
MIIBoDCCASCgAwIBAgIUfFXESL/Gbrah49DuBfEORpjWjWUwBQYDK2VxMBIxEDAO
BgNVBAMMB3JlZnVzZWQwIBcNMjYxMTIyMjIwNTAzWhgPMjEyNjEwMjkyMjA1MDNa
MBIxEDAOBgNVBAMMB3JlZnVzZWQwQzAFBgMrZXEDOgBfoo02zVN58YYrO+tBSR8j
WvxpafML6qSRkH0nZDJsasjxyzwhbJvOrYAaVN7K5AU8w7KkOpoc+ACjbTBrMB0G
A1UdDgQWBBSmTiZ3EstOa693y3XbdrVtvXFzPTAfBgNVHSMEGDAWgBSmTiZ3EstO
a693y3XbdrVtvXFzPTAPBgNVHRMBAf8EBTADAQH/MBgGA1UdEQQRMA+CDSouZXhh
bXBsZS5jb20wBQYDK2VxA3MAOZTVeq31ZmDmTlXNtV4GaSkFl9CSG5SRzbrAdNNE
XHGqY4zDepMjrjldfhz2l2imtYCKN1AWUQeAsBCTwD4mYEGQN7N7nRcsJkLYS3CT
1eqTeUO9s8kngUrM2MrYt8S9cT83MsmxHrURL7C6fR/Lgy8A
-----END CERTIFICATE-----
`
	refusedKey = `-----BEGIN PRIVATE KEY-----
MEcCAQAwBQYDK2VxBDsEOSf8i+HhHAjkbWsxLg1hQfIL+AOAOXb5OsDvlF7M/EnQ
YR4ya2Op+j16nwEss2bk8jgztvhSr2klhA==
-----END PRIVATE KEY-----
`
	fittingKey = `-----BEGIN PRIVATE KEY-----
MEcCAQAwBQYDK2VxBDsEOV71OQsjvcz+HnK8aX3kXO0xQdC2/eEMB78pxlTEtyAk
QK9gMqcBCXwwwVajssq+mDvvfuVbYGWF3Q==
-----END PRIVATE KEY-----
`
)
