package keyserver

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// authorityTime is how long an authority is valid, and authorityRenewal how long before its end there is a next one.
	authorityTime, authorityRenewal = 10 * 365 * 24 * time.Hour, 365 * 24 * time.Hour
	// acquaintance is how long pods know an authority before it signs: they are replaced in that time.
	acquaintance = 30 * 24 * time.Hour
	// certificateTime and certificateRenewal are the same for the server's certificate.
	certificateTime, certificateRenewal = 90 * 24 * time.Hour, 30 * 24 * time.Hour
	// clockSkew is how much earlier anything is valid than it was made.
	clockSkew = time.Hour
)

// These are the files of the Secret with the server's identity. caFile has the certificates of all authorities,
// including the key's.
const (
	caFile, caKeyFile     = "ca.crt", "ca.key"
	nextFile, nextKeyFile = "next.crt", "next.key"
	pairFile, pairKeyFile = corev1.TLSCertKey, corev1.TLSPrivateKeyKey
)

// signer is a certificate and its key.
type signer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// renew returns the files as they should be at a time: whoever may be trusted, and a certificate for the names. The
// result is the same if nothing has to change. What cannot be read is made anew.
//
// There is a next authority long before one ends. First pods get to know it, then it signs.
func renew(files map[string][]byte, names []string, now time.Time) (map[string][]byte, error) {
	files = maps.Clone(files)
	if files == nil {
		files = map[string][]byte{}
	}
	authority := parse(files[caFile], files[caKeyFile])
	if authority == nil || !now.Before(authority.certificate.NotAfter) {
		if err := create(files, caFile, caKeyFile, now); err != nil {
			return nil, err
		}
		authority = parse(files[caFile], files[caKeyFile])
	}
	next := parse(files[nextFile], files[nextKeyFile])
	if next == nil && now.After(authority.certificate.NotAfter.Add(-authorityRenewal)) {
		if err := create(files, nextFile, nextKeyFile, now); err != nil {
			return nil, err
		}
		next = parse(files[nextFile], files[nextKeyFile])
	}
	if next != nil && now.After(next.certificate.NotBefore.Add(clockSkew+acquaintance)) {
		files[caFile] = slices.Concat(files[nextFile], encode(authority.certificate.Raw))
		files[caKeyFile], authority = files[nextKeyFile], next
		delete(files, nextFile)
		delete(files, nextKeyFile)
	}
	return files, issue(files, authority, names, now)
}

// trusted are the certificates that pods verify the server's with.
func trusted(files map[string][]byte) []byte { return slices.Concat(files[caFile], files[nextFile]) }

// create creates an authority.
func create(files map[string][]byte, file, keyFile string, now time.Time) error {
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "gateway-key-server"}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityTime),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign,
	}
	var err error
	files[file], files[keyFile], err = sign(template, nil)
	return err
}

// issue issues a certificate for the server, unless it has one.
func issue(files map[string][]byte, authority *signer, names []string, now time.Time) error {
	pair := parse(files[pairFile], files[pairKeyFile])
	if pair != nil && pair.certificate.CheckSignatureFrom(authority.certificate) == nil &&
		slices.Equal(namesIn(pair.certificate), names) && now.Before(pair.certificate.NotAfter.Add(-certificateRenewal)) {
		return nil
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "gateway-key-server"},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(certificateTime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if address := net.ParseIP(name); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	var err error
	files[pairFile], files[pairKeyFile], err = sign(template, authority)
	return err
}

// namesIn are the names that a certificate is for.
func namesIn(certificate *x509.Certificate) []string {
	names := slices.Clone(certificate.DNSNames)
	for _, address := range certificate.IPAddresses {
		names = append(names, address.String())
	}
	return names
}

// sign makes a key, and a certificate of it that an authority signs; nil: it signs itself.
func sign(template *x509.Certificate, authority *signer) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make a key: %w", err)
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, nil, fmt.Errorf("failed to make a serial number: %w", err)
	}
	if authority == nil {
		authority = &signer{template, private}
	}
	signed, err := x509.CreateCertificate(rand.Reader, template, authority.certificate, private.Public(), authority.key)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to make a certificate: %w", err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("failed to encode a key: %w", err)
	}
	return encode(signed), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}

func encode(certificate []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
}

// parse returns the first certificate and its key, nil if the two do not fit.
func parse(certificates, key []byte) *signer {
	block, _ := pem.Decode(certificates)
	keyBlock, _ := pem.Decode(key)
	if block == nil || keyBlock == nil {
		return nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil
	}
	private, ok := parsed.(*ecdsa.PrivateKey)
	if public, isSame := certificate.PublicKey.(*ecdsa.PublicKey); !ok || !isSame || !public.Equal(private.Public()) {
		return nil
	}
	return &signer{certificate, private}
}

// isSameFiles reports whether files are the same.
func isSameFiles(a, b map[string][]byte) bool { return maps.EqualFunc(a, b, bytes.Equal) }
