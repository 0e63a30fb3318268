package dataplanetest_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
)

const compressionWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  compression: {contentTypes: [application/json, text/html], minBytes: 100}
  routes:
    - name: r
      rules:
        - backendRefs: [{name: b, port: 80}]
backends: [{service: b, port: 80, servers: ["127.0.0.1:1"]}]
`

// unzip returns what was compressed.
func unzip(t *testing.T, compressed string) string {
	t.Helper()
	reader := must.Get(gzip.NewReader(strings.NewReader(compressed)))(t)
	content := must.Get(io.ReadAll(reader))(t)
	return string(content)
}

// TestCompression: what a client gets is what the backend sent, compressed where that was asked for.
func TestCompression(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{"type": "Content-Type", "encoding": "Content-Encoding", "cache": "Cache-Control"} {
			if given := r.URL.Query().Get(name); given != "" {
				w.Header().Set(value, given)
			}
		}
		w.Header().Set("ETag", `"1"`)
		if r.URL.Query().Has("status") {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, strings.Repeat("a", len(r.URL.Query().Get("body"))))
	}
	g := startServing(t, rendertest.Parse(t, compressionWorld), handlers{"b": answer})
	long := "&body=" + strings.Repeat("b", 1000)
	c := newClient(t, g.ports[80])
	for name, test := range map[string]struct {
		target, accept string
		want           bool
	}{
		"a type":                       {"/?type=application/json" + long, "gzip", true},
		"a type with a parameter":      {"/?type=text/html%3B%20charset=utf-8" + long, "br, gzip;q=0.5", true},
		"another type":                 {"/?type=text/css" + long, "gzip", false},
		"a short answer":               {"/?type=text/html&body=" + strings.Repeat("b", 99), "gzip", false},
		"the shortest":                 {"/?type=text/html&body=" + strings.Repeat("b", 100), "gzip", true},
		"a client without gzip":        {"/?type=text/html" + long, "br", false},
		"a client that refuses it":     {"/?type=text/html" + long, "gzip;q=0", false},
		"one that takes any other":     {"/?type=text/html" + long, "gzip;q=0, *", false},
		"in another order":             {"/?type=text/html" + long, "*;q=0.5, br, GZIP; q=0.000", false},
		"one that takes any":           {"/?type=text/html" + long, "br;q=0, *", true},
		"an answer that is compressed": {"/?type=text/html&encoding=br" + long, "gzip", false},
		"one not to be changed":        {"/?type=text/html&cache=no-transform" + long, "gzip", false},
		"an error":                     {"/?type=text/html&status=404" + long, "gzip", false},
	} {
		got := c.send("GET " + test.target + " HTTP/1.1\r\nHost: x\r\nAccept-Encoding: " + test.accept + "\r\n\r\n")
		_, body, _ := strings.Cut(test.target, "&body=")
		sent := got.Body
		if is := got.Header.Get("Content-Encoding") == "gzip"; is != test.want {
			t.Errorf("%s: compressed is %t, want %t: %v", name, is, test.want, got.Header)
			continue
		}
		if test.want {
			content := unzip(t, sent)
			if len(sent) >= len(content) || got.Header.Get("Vary") != "Accept-Encoding" || got.Header.Get("ETag") != `W/"1"` {
				t.Errorf("%s: %d bytes became %d, with %v", name, len(content), len(sent), got.Header)
			}
			sent = content
		}
		if sent != strings.Repeat("a", len(body)) {
			t.Errorf("%s: got %d bytes, want %d", name, len(sent), len(body))
		}
	}
}
