package dataplanetest_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// TestAbsoluteURIs: a backend gets the path and the query alone, and no request with another scheme than HTTP's.
func TestAbsoluteURIs(t *testing.T) {
	t.Parallel()
	var seen atomic.Pointer[string]
	g := startBackends(t, "", "", "", serve(t, func(_ http.ResponseWriter, r *http.Request) { seen.Store(&r.RequestURI) }, nil))
	received := func() string {
		if uri := seen.Swap(nil); uri != nil {
			return *uri
		}
		return ""
	}
	for target, want := range map[string]string{
		"http://x/a?b=c": `/a?b=c`, "HTTPS://x/a": `/a`, "http://x": `/`, "http://x?b": `/?b`, "/a": `/a`,
		"ftp://x/a": "", "ftp://x": "", "foo://x/a?b": "", "httpx://x/a": "",
	} {
		got := newClient(t, g.ports[80]).send("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if uri := received(); uri != want || (got.Status == 400) != (want == "") {
			t.Errorf("%s: got %d, and the backend received %q, want %q", target, got.Status, uri, want)
		}
	}
	for scheme, want := range map[string]string{"http": `/a`, "https": `/a`, "ftp": "", "/": "", "": ""} {
		conn := dial(t, g.ports[80])
		lines := fields(field(":method", "GET"), field(":scheme", scheme), field(":path", "/a"), field(":authority", "x"))
		_, _ = io.WriteString(conn, strings.Join([]string{preface, frame(frameSettings, 0, ""), frame(frameHeaders, flagEndStream|flagEndHeaders, lines)}, ""))
		if ok, uri := answered(t, conn), received(); uri != want || ok != (want != "") {
			t.Errorf("the scheme %q over HTTP/2: answered with 200: %t, and the backend received %q, want %q", scheme, ok, uri, want)
		}
	}
}
