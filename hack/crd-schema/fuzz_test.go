package main

import (
	"regexp"
	"strings"
	"testing"
)

// FuzzLiteralPath compares the pattern with what the API's documentation says of paths.
func FuzzLiteralPath(f *testing.F) {
	for _, seed := range []string{"/", "/a/b", "/.", "/..", "/...", "/%2e%2E/", "/a//b", "/a%2fb", "/a%5cb", "/a%00", "/ä", "/a?b", "/a\n", "", "/%e9", "/a/.%2e/b"} {
		f.Add(seed)
	}
	pattern := regexp.MustCompile(literalPath)
	f.Fuzz(func(t *testing.T, path string) {
		if got, want := pattern.MatchString(path), wantLiteral(path); got != want {
			t.Errorf("the pattern says %v of %q, want %v", got, path, want)
		}
	})
}

// FuzzFraming: however a framing header is written, with signs that some backend takes for the same, it is refused.
func FuzzFraming(f *testing.F) {
	for _, seed := range []string{"Host", "content_length", "TRANSFER.ENCODING", "te", "x-host", "http2-settings", "Proxy_Connection", "a"} {
		f.Add(seed)
	}
	pattern := regexp.MustCompile(framing)
	names := map[string]bool{"host": true, "content-length": true, "transfer-encoding": true, "connection": true, "keep-alive": true, "proxy-connection": true,
		"te": true, "trailer": true, "upgrade": true, "http2-settings": true, "expect": true}
	valid := regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	f.Fuzz(func(t *testing.T, name string) {
		plain := strings.NewReplacer("_", "-", ".", "-").Replace(strings.ToLower(name))
		if got := pattern.MatchString(name); valid.MatchString(name) && got != names[plain] {
			t.Errorf("%q is refused: %v", name, got)
		}
	})
}
