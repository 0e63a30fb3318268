package inventory

import (
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"gateway/internal/certificates"
	"gateway/internal/certtest"
)

// FuzzDescribe: a tls.crt, which may be anything, is for names that can be written into HAProxy's files.
func FuzzDescribe(f *testing.F) {
	pair := certtest.Fixed()
	f.Add(pair.Certificate)
	f.Add(slices.Concat([]byte("text %d\n"), pair.Certificate, pair.Certificate[:100]))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: certificates.Block, Bytes: []byte("%!s")}))
	f.Fuzz(func(t *testing.T, content []byte) {
		chain, problem := certificates.Parse(content)
		if problem != "" {
			return
		}
		got := Describe(chain[0])
		for _, name := range got.Names {
			if !slices.IsSorted(got.Names) || strings.ContainsAny(name, " \n\"#[]!") {
				t.Errorf("it is for %q", got.Names)
			}
		}
	})
}
