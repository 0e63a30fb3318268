package routing

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// FuzzCanonicalPath compares with the standard library: a canonical path decodes to what the path decodes to, but for
// slashes in a row, and has no second way to write it.
func FuzzCanonicalPath(f *testing.F) {
	for _, seed := range []string{"/", "", "/api//x", "/%61%2f%2E.", "/a%2", "/a/..;b", "/%5c..%5c", "/ä%C3%A4", "/%00", "/100%25%2561", "/a b\n", "*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		if strings.Contains(path, "\x00") {
			return // no request that HAProxy accepts has one
		}
		canonical, ok := CanonicalPath(path)
		plain, err := url.PathUnescape(path)
		if !ok {
			if err == nil && len(path) <= maxRawOddPath && !strings.ContainsAny(plain, "\x00\\") && !hasDots(plain) {
				t.Errorf("%q was refused", path)
			}
			return
		}
		again, err := url.PathUnescape(canonical)
		if err != nil || again != onceSlashed(plain) {
			t.Errorf("%q became %q, which means %q (%v)", path, canonical, again, err)
		}
		if strings.ContainsFunc(canonical, func(r rune) bool { return r <= ' ' || r >= 0x7f }) || hasDots(again) || strings.ContainsAny(again, "\x00\\") {
			t.Errorf("%q became %q", path, canonical)
		}
		if twice, ok := CanonicalPath(canonical); len(canonical) <= maxRawOddPath && (!ok || twice != canonical) {
			t.Errorf("%q became %q and then %q", path, canonical, twice)
		}
	})
}

func onceSlashed(path string) string { return regexp.MustCompile(`/+`).ReplaceAllString(path, "/") }

// hasDots reports whether a decoded path has a segment that some backend could take for the one above.
func hasDots(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(segment string) bool {
		name, _, _ := strings.Cut(segment, ";")
		return name == "." || name == ".."
	})
}

// FuzzNormalizeHost: a name that was normalised is a name as it is, and is the one that the client sent.
func FuzzNormalizeHost(f *testing.F) {
	for _, seed := range []string{"", "a.example.com", "A.Example.COM.:80", "[::1]:443", "[::1", "a:b", "a..b", "a/b", "a:80:80", "-", "ſ", "a.:", ".", ":80", "[]"} {
		f.Add(seed)
	}
	allowed := regexp.MustCompile(`^(\[[0-9a-f:.]+\]|[-0-9a-z_]+(\.[-0-9a-z_]+)*)?$`)
	f.Fuzz(func(t *testing.T, header string) {
		host, ok := NormalizeHost(header)
		if !ok {
			return
		}
		if !allowed.MatchString(host) || len(host) > maxHostLength {
			t.Errorf("%q became %q", header, host)
		}
		if again, ok := NormalizeHost(host); !ok || again != host {
			t.Errorf("%q became %q and then %q", header, host, again)
		}
		rest := strings.ToLower(header)[len(host):]
		if !strings.HasPrefix(strings.ToLower(header), host) || !regexp.MustCompile(`^\.?(:[0-9]*)?$`).MatchString(rest) {
			t.Errorf("%q became %q, which lacks %q", header, host, rest)
		}
	})
}
