package inventory

import (
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"gateway/internal/certificates"
	"gateway/internal/certtest"
)

func TestDescribe(t *testing.T) {
	got := Describe(certtest.NewAuthority(t).Issue(t, []string{"Shop.Example.com.", "*.example.com", "shop.example.com", "Cart.Example.com."}).Leaf)
	if !slices.Equal(got.Names, []string{"*.example.com", "cart.example.com", "shop.example.com"}) || got.NotAfter.IsZero() {
		t.Errorf("got %+v", got)
	}
	hostile := []string{"a.example.com\n[verify none] b", "c d", "*", "a.*.com", "#", "good.example.com", strings.Repeat("a", 300)}
	if got = Describe(certtest.NewAuthority(t).Issue(t, hostile).Leaf); !slices.Equal(got.Names, []string{"good.example.com"}) {
		t.Errorf("names that are none: got %q", got.Names)
	}
}

// FuzzDescribe: a tls.crt, which may be anything, is for names that can be written into HAProxy's files.
func FuzzDescribe(f *testing.F) {
	pair := certtest.NewAuthority(f).Issue(f, []string{"a.example.com", "*.Example.com"})
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
