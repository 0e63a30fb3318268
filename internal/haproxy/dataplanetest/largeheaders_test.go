package dataplanetest_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
)

// TestLargeHeaders: over HTTP/2, a request beyond the limits gets 431, one with twice as many bytes ends its
// connection, and one with ten times as many headers is reset. Over HTTP/1.1, HAProxy answers such requests.
func TestLargeHeaders(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, shopWorld))
	send := func(bytes, headers int) string {
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/api", g.ports[80]), nil))(t)
		r.Host = "shop.example.com"
		for i := range headers {
			r.Header.Set(fmt.Sprint("X-", i), strings.Repeat("a", bytes/headers))
		}
		got, err := http2Client(t).Do(r)
		switch {
		case err == nil:
		case strings.Contains(err.Error(), "GOAWAY"), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
			return "connection ended" // which of them, depends on how much was written before
		default:
			return err.Error()
		}
		_ = got.Body.Close()
		return got.Status
	}
	for _, test := range []struct {
		bytes, headers int
		want           string
	}{
		{12_000, 10, "200"}, {17_000, 10, "431"}, {30_000, 10, "431"}, {40_000, 10, "connection ended"},
		{100_000, 10, "connection ended"},
		{1000, 90, "200"}, {1000, 200, "431"}, {1100, 1100, "stream error"},
	} {
		if got := send(test.bytes, test.headers); !strings.Contains(got, test.want) {
			t.Errorf("%d bytes in %d headers: got %s, want %s", test.bytes, test.headers, got, test.want)
		}
	}
	for request, want := range map[string]int{
		"GET /api HTTP/1.1\r\nHost: shop.example.com\r\n" + strings.Repeat("X-A: "+strings.Repeat("a", 1000)+"\r\n", 40) + "\r\n": 431,
		"GET /api HTTP/1.1\r\nHost: shop.example.com\r\n" + strings.Repeat("X-A: a\r\n", 1100) + "\r\n":                           400,
		get("shop.example.com", "/api/"+strings.Repeat("a", 40_000)):                                                              414,
	} {
		if got := newClient(t, g.ports[80]).send(request); got.Status != want {
			t.Errorf("%.60q: got %d, want %d", request, got.Status, want)
		}
	}
}
