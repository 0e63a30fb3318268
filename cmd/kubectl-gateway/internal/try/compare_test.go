package try_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/cmd/kubectl-gateway/internal/try"
	"gateway/internal/must"
)

// TestCompare: a Gateway answers as it does itself, and not as a server that knows no routes.
func TestCompare(t *testing.T) {
	t.Parallel()
	file := clitest.WriteFile(t, "shop.yaml", ports(shop, "80", "443"))
	tried := must.Get(try.Start(t.Context(), newOptions("default"), []string{file}, "shop"))(t)
	defer tried.Stop()
	proxy := fmt.Sprintf("127.0.0.1:%d", tried.Ports[80])
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	compare := func(old string) clitest.Result {
		requests := "http://shop.example.com/cart\nhttp://shop.example.com/a/../b\nhttp://other.example.com/\n"
		return clitest.Run(t, requests, "compare", "-", "--old", old, "--new", proxy, "--no-body", "--rate", "1000")
	}
	compare(proxy).Want(t, 0, "3 requests: 3 equal")
	compare(server.Listener.Addr().String()).Want(t, 3, "GET http://shop.example.com/a/../b\n  status    200 -> 400\n",
		"GET http://other.example.com/\n  status    200 -> 404\n", "3 requests: 1 equal, 2 different")
}
