package dataplanetest_test

import (
	"strings"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
)

// TestRewrites has the table of ReplacePrefixMatch in the Gateway API (HTTPPathModifier).
func TestRewrites(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, filtersWorld))
	c := newClient(t, g.ports[80])
	for path, want := range map[string]string{
		"/full/x?q=1": "/a%20b?q=1",
		"/foo/bar":    "/xyz/bar",
		"/foo":        "/xyz",
		"/foo/":       "/xyz/",
		"/foo//bar/":  "/xyz//bar/",
		// The rest after the prefix is the backend's business: in some APIs, "%2F" is a name.
		"/foo/%2F/a%3fb%23c%2e": "/xyz/%2F/a%3fb%23c%2e",
		// Characters that would end the path stay encoded.
		"/%66oo/a%3fb%23c%2e": "/xyz/a%3Fb%23c.",
		"//foo/bar":           "/xyz/bar",
		"/drop//bar":          "//bar",
		"/%64rop/bar":         "/bar",
		"/drop/bar":           "/bar",
		"/drop/":              "/",
		"/drop":               "/",
		"/drop?a=b":           "/?a=b",
		"/ref/one/bar":        "/of/bar",
		"/ref/host/bar":       "/rule/bar",
		"/other/path":         "/under/other/path",
		"/":                   "/under/",
	} {
		got := c.send(get("w.example.com", path))
		if line, _, _ := strings.Cut(got.Body, "\n"); line != "GET "+want {
			t.Errorf("%s: the backend got %q, want %q", path, line, "GET "+want)
		}
	}
	for path, host := range map[string]string{"/full": "other", "/ref/one": "rule", "/ref/host": "ref"} {
		got := c.send(get("w.example.com", path))
		if !strings.Contains(got.Body, "Host: "+host+".example.com\n") || !strings.Contains(got.Body, "X-Forwarded-Host: w.example.com\r\n") {
			t.Errorf("%s: the backend got\n%s", path, got.Body)
		}
	}
}
