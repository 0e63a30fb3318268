package inventory

import (
	"slices"
	"strings"
	"testing"

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
