package certificates_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/certtest"
	"gateway/internal/must"
)

func TestParseRevocations(t *testing.T) {
	one, two := certtest.NewAuthority(t), certtest.NewAuthority(t)
	soon, later := time.Now().Add(time.Hour).Truncate(time.Second).UTC(), time.Now().Add(24*time.Hour).Truncate(time.Second).UTC()
	ofOne, ofTwo := one.Revoke(t, later), two.Revoke(t, soon)
	der, _ := pem.Decode(ofOne)
	const none = "ca.crl has no list of CN=test authority, so none of its certificates is valid"
	for name, test := range map[string]struct {
		content     []byte
		authorities [][]byte
		problem     string
		until       time.Time
	}{
		"a list":                   {ofOne, [][]byte{one.PEM}, "", later},
		"text around it":           {slices.Concat([]byte("remark\n"), ofOne, []byte("end\n")), [][]byte{one.PEM}, "", later},
		"two":                      {slices.Concat(ofOne, ofTwo), [][]byte{one.PEM, two.PEM}, "", soon},
		"one of two":               {ofOne, [][]byte{one.PEM, two.PEM}, none, time.Time{}},
		"that of another one":      {ofTwo, [][]byte{one.PEM}, none, time.Time{}},
		"nothing":                  {nil, [][]byte{one.PEM}, none, time.Time{}},
		"DER":                      {der.Bytes, [][]byte{one.PEM}, none, time.Time{}},
		"a certificate":            {one.PEM, [][]byte{one.PEM}, "block 1 in ca.crl is no list of revoked certificates in PEM", time.Time{}},
		"a list that is cut short": {pem.EncodeToMemory(&pem.Block{Type: "X509 CRL", Bytes: der.Bytes[:20]}), [][]byte{one.PEM}, "block 1 in ca.crl is no list of revoked certificates in PEM", time.Time{}},
	} {
		var authorities []*x509.Certificate
		for _, content := range test.authorities {
			chain, _ := certificates.ParseChain(content, "ca.crt")
			authorities = append(authorities, chain...)
		}
		lists, until, problem := certificates.ParseRevocations(test.content, authorities)
		if problem != test.problem || problem == "" && (!until.Equal(test.until) || !certificates.HasRevocations(lists)) || strings.Contains(string(lists), "remark") {
			t.Errorf("%s: got %q, until %v, problem %q", name, lists, until, problem)
		}
	}
}

// TestVersion1Revocations: openssl makes lists of version 1 unless its configuration asks for extensions.
func TestVersion1Revocations(t *testing.T) {
	var contents [2][]byte
	for i, file := range []string{"testdata/openssl.crt", "testdata/openssl.crl"} {
		content := must.Get(os.ReadFile(file))(t)
		contents[i] = content
	}
	chain, _ := certificates.ParseChain(contents[0], "ca.crt")
	lists, until, problem := certificates.ParseRevocations(contents[1], chain)
	if problem != "" || until.Year() != 2126 || !certificates.HasRevocations(lists) {
		t.Errorf("got %q, until %v, problem %q", lists, until, problem)
	}
}
