package certificates

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"time"
)

const (
	// RevocationsFile is the key of a ConfigMap that holds lists of revoked certificates, and the name of its file.
	RevocationsFile = "ca.crl"
	// RevocationsBlock is the type of such a list's PEM block.
	RevocationsBlock = "X509 CRL"
)

// ParseRevocations returns the lists of a ca.crl without the text around them, and until when they are valid. Each
// authority has to have one: without, OpenSSL takes none of its certificates.
func ParseRevocations(content []byte, authorities []*x509.Certificate) (lists []byte, until time.Time, problem string) {
	listed := map[*x509.Certificate]bool{}
	for n := 1; ; n++ {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil {
			break
		}
		list, err := x509.ParseDERCRL(block.Bytes) //nolint:staticcheck // the new function refuses version 1, as openssl makes it
		if block.Type != RevocationsBlock || err != nil {
			return nil, until, fmt.Sprintf("block %d in %s is no list of revoked certificates in PEM", n, RevocationsFile)
		}
		for _, authority := range authorities {
			listed[authority] = listed[authority] || isOf(list, authority)
		}
		if expiry := list.TBSCertList.NextUpdate; !expiry.IsZero() && (until.IsZero() || expiry.Before(until)) {
			until = expiry
		}
		lists = append(lists, pem.EncodeToMemory(&pem.Block{Type: RevocationsBlock, Bytes: block.Bytes})...)
	}
	for _, authority := range authorities {
		if !listed[authority] {
			return nil, until, fmt.Sprintf("%s has no list of %s, so none of its certificates is valid", RevocationsFile, authority.Subject)
		}
	}
	return lists, until, ""
}

// isOf reports whether an authority signed a list, and may.
func isOf(list *pkix.CertificateList, authority *x509.Certificate) bool {
	return (authority.KeyUsage == 0 || authority.KeyUsage&x509.KeyUsageCRLSign != 0) &&
		authority.CheckCRLSignature(list) == nil //nolint:staticcheck // see ParseRevocations
}

// HasRevocations reports whether there are lists beside the certificates of authorities.
func HasRevocations(authorities []byte) bool {
	return bytes.Contains(authorities, []byte(begin+RevocationsBlock))
}
