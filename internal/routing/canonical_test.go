package routing_test

import (
	"strings"
	"testing"

	"gateway/internal/routing"
)

func TestCanonicalPath(t *testing.T) {
	const refused = "refused"
	for path, want := range map[string]string{
		"/":                              "/",
		"/api/Users":                     "/api/Users",
		"/%61pi":                         "/api",
		"/%7Euser":                       "/~user",
		"//api///x":                      "/api/x",
		"/a%2Fb%2fc":                     "/a/b/c",
		"/%2f%2Fadmin":                   "/admin",
		"/a%20b":                         "/a%20b",
		"/%c3%a4":                        "/%C3%A4",
		"/100%25":                        "/100%25",
		"/%2561":                         "/%2561",
		"/a%3fb%23c":                     "/a%3Fb%23c",
		"/a|b%7c<>":                      "/a%7Cb%7C%3C%3E",
		"/a+b;c=d":                       "/a+b;c=d",
		"/...":                           "/...",
		"/.well-known/x":                 "/.well-known/x",
		"/a/..b":                         "/a/..b",
		"/.":                             refused,
		"/a/../b":                        refused,
		"/a/%2e%2E/b":                    refused,
		"/a%2f..%2fadmin":                refused,
		"/a/.%2e":                        refused,
		"/%00":                           refused,
		"/a/..;b=c/d":                    refused,
		"/a/.;/d":                        refused,
		`/a/..\b`:                        refused,
		"/a%5c..%5Cb":                    refused,
		"/a;../b":                        "/a;../b",
		`/admin\x`:                       refused,
		"/admin%5cx":                     refused,
		"/admin%5C":                      refused,
		"/a%255cb":                       "/a%255cb",
		"/a%":                            refused,
		"/a%4":                           refused,
		"/a%zz":                          refused,
		"/" + strings.Repeat("a", 9000):  "/" + strings.Repeat("a", 9000),
		"/|" + strings.Repeat("a", 3200): refused, "//%zz" + strings.Repeat("a", 3200): refused,
		"//%61" + strings.Repeat("a", 10895): "/a" + strings.Repeat("a", 10895), "//%61" + strings.Repeat("a", 10896): refused, "/" + strings.Repeat("a", 20000): "/" + strings.Repeat("a", 20000),
	} {
		got, ok := routing.CanonicalPath(path)
		if !ok {
			got = refused
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}
