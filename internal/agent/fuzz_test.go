package agent

import (
	"bytes"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"unicode"

	"gateway/internal/certificates"
	"gateway/internal/certtest"
)

// FuzzAuthorities: a ca.crt, which may be anything, is either told to be wrong or read as what it is.
func FuzzAuthorities(f *testing.F) {
	pair := certtest.NewAuthority(f).Issue(f, []string{"a.example.com", "*.Example.com"})
	f.Add(pair.Certificate)
	f.Add(pair.Key)
	f.Add(slices.Concat(pair.Certificate, pair.Key))
	f.Add(slices.Concat(pair.Certificate, []byte("-----BEGIN CERTIFICATE-----\n%s%n\n")))
	f.Add(slices.Concat([]byte("text %d\n"), pair.Certificate, pair.Certificate[:100]))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: certificates.Block, Bytes: []byte("%!s")}))
	f.Fuzz(func(t *testing.T, content []byte) {
		authority := parseAuthority(content, nil)
		if strings.ContainsFunc(authority.problem, unicode.IsControl) {
			t.Errorf("the problem is told as %q", authority.problem)
		}
		if authority.problem != "" {
			return
		}
		want, _ := certificates.ParseChain(content, certificates.AuthorityFile)
		got, problem := certificates.ParseChain(authority.pem, certificates.AuthorityFile)
		if problem != "" || len(got) != len(want) || bytes.Contains(authority.pem, []byte("PRIVATE")) {
			t.Errorf("of %d authorities %d are kept: %s", len(want), len(got), problem)
		}
		if rest := bytes.TrimSpace(content); !bytes.Contains(rest, []byte("-----BEGIN "+certificates.Block)) {
			t.Errorf("%q holds an authority", rest)
		}
	})
}
