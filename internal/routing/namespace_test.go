package routing_test

import (
	"testing"

	"gateway/internal/routing"
)

// TestNamespaceOf has the forms of routes in the access log.
func TestNamespaceOf(t *testing.T) {
	for route, want := range map[string]string{"": "", "-": "", "web": "own", "shop/web": "shop", "GRPCRoute/shop/web": "shop"} {
		if got := routing.NamespaceOf(route, "own"); got != want {
			t.Errorf("%q is of namespace %q, want %q", route, got, want)
		}
	}
}
