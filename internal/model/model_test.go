package model

import (
	"fmt"
	"slices"
	"testing"
)

// TestBackends: Services of one name in two namespaces are two, by order, name and cookie.
func TestBackends(t *testing.T) {
	t.Parallel()
	backends := []Backend{{"two", "web", 80}, {"one", "web", 443}, {"one", "web", 80}, {"one", "api", 80}, {"", "web", 80}}
	slices.SortFunc(backends, CompareBackends)
	if got := fmt.Sprint(backends); got != "[web:80 one/api:80 one/web:80 one/web:443 two/web:80]" {
		t.Errorf("got %s", got)
	}
	cookies := map[string]bool{}
	for _, backend := range backends {
		cookies[(&Affinity{Name: "session"}).Cookie(backend)] = true
	}
	if len(cookies) != len(backends) {
		t.Errorf("%d backends have the cookies %v", len(backends), cookies)
	}
}

func TestHostnames(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		hostname, other   string
		matches, overlaps bool
	}{
		{"", "a.io", true, true},
		{"a.io", "a.io", true, true},
		{"a.io", "b.io", false, false},
		{"*.io", "a.io", true, true},
		{"*.io", "b.a.io", true, true},
		{"*.a.io", "a.io", false, false},
		{"*.a.io", ".a.io", false, false},
		{"*.a.io", "*.io", false, true},
		{"a.io", "", false, true},
	} {
		if got := HostnameMatches(test.hostname, test.other); got != test.matches {
			t.Errorf("%q matches %q: %t", test.hostname, test.other, got)
		}
		if got := HostnamesOverlap(test.hostname, test.other); got != test.overlaps {
			t.Errorf("%q and %q overlap: %t", test.hostname, test.other, got)
		}
	}
}
