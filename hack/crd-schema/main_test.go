package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gateway/internal/testtier"
)

var literal = regexp.MustCompile(`^/([-A-Za-z0-9._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*$`)

// wantLiteral says in words of Go what the API's documentation says of paths that are not regular expressions.
func wantLiteral(path string) bool {
	if !literal.MatchString(path) || strings.Contains(path, "%00") || strings.Contains(path, "//") ||
		strings.Contains(strings.ToLower(path), "%2f") || strings.Contains(strings.ToLower(path), "%5c") {
		return false
	}
	segments := strings.Split(strings.NewReplacer("%2e", ".", "%2E", ".").Replace(path), "/")
	return !slices.Contains(segments, ".") && !slices.Contains(segments, "..")
}

func TestLiteralPath(t *testing.T) {
	pattern := regexp.MustCompile(literalPath)
	pieces := []string{"/", "/", "/", ".", ".", "..", "a", "~", "-", "%", "%2", "%2e", "%2E", "%2f", "%2F", "%00", "%01", "%25", "%20", "%3f", "%c3", "%5c", "%5C", "%5b", "%0", "2f", ";", "=", "@", " ", "?", "#", "\n", "\\", "ä", "\""}
	r := testtier.Rand(t)
	admitted := 0
	for range 200000 {
		var b strings.Builder
		b.WriteString("/")
		for range r.IntN(8) {
			b.WriteString(pieces[r.IntN(len(pieces))])
		}
		path := b.String()
		got := pattern.MatchString(path)
		if want := wantLiteral(path); got != want {
			t.Fatalf("the pattern says %v of %q, want %v", got, path, want)
		}
		if got {
			admitted++
		}
	}
	if admitted < 10000 {
		t.Errorf("only %d paths of 200000 were good ones", admitted)
	}
}

func TestFraming(t *testing.T) {
	pattern := regexp.MustCompile(framing)
	for _, name := range []string{"host", "Host", "HOST", "Content-Length", "transfer-Encoding", "TE", "Trailer", "expect", "HTTP2-Settings", "Keep-Alive",
		"content_length", "Content.Length", "TRANSFER_ENCODING", "keep.alive", "proxy_connection", "http2_settings"} {
		if !pattern.MatchString(name) {
			t.Errorf("%s may be changed", name)
		}
	}
	for _, name := range []string{"x-host", "hosts", "content-type", "te-a", "a-te", "upgrade-insecure-requests", "accept", "cookie", "content~length", "contentlength"} {
		if pattern.MatchString(name) {
			t.Errorf("%s may not be changed", name)
		}
		if regexp.MustCompile(noName("host")).MatchString(name) {
			t.Errorf("%s matches what is only a message", name)
		}
	}
}

// TestRun: what the committed CRD has is what this program adds; a second time changes nothing.
func TestRun(t *testing.T) {
	committed, err := os.ReadFile("../../artifacts/crd/app.example.com_gateways.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "crd.yaml")
	if err := os.WriteFile(path, committed, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{path}); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(again) != string(committed) {
		t.Error("the committed CRD lacks what this program adds: run `make manifests`")
	}
	for _, arguments := range [][]string{nil, {"a", "b"}, {filepath.Join(t.TempDir(), "none")}} {
		if run(arguments) == nil {
			t.Errorf("no error for the arguments %q", arguments)
		}
	}
}
