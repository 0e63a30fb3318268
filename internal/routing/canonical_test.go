package routing_test

import (
	"regexp"
	"strings"
	"testing"

	"gateway/internal/routing"
)

func TestCanonicalPath(t *testing.T) {
	const refused = "refused"
	for path, want := range map[string]string{
		"/":                                "/",
		"/api/Users":                       "/api/Users",
		"/%61pi":                           "/api",
		"/%7Euser":                         "/~user",
		"//api///x":                        "/api/x",
		"/a%2Fb%2fc":                       "/a/b/c",
		"/%2f%2Fadmin":                     "/admin",
		"/a%20b":                           "/a%20b",
		"/%c3%a4":                          "/%C3%A4",
		"/100%25":                          "/100%25",
		"/%2561":                           "/%2561",
		"/a%3fb%23c":                       "/a%3Fb%23c",
		"/a|b%7c<>":                        "/a%7Cb%7C%3C%3E",
		"/a+b;c=d":                         "/a+b;c=d",
		"/...":                             "/...",
		"/.well-known/x":                   "/.well-known/x",
		"/a/..b":                           "/a/..b",
		"/.":                               refused,
		"/a/../b":                          refused,
		"/a/%2e%2E/b":                      refused,
		"/a%2f..%2fadmin":                  refused,
		"/a/.%2e":                          refused,
		"/%00":                             refused,
		"/a/..;b=c/d":                      refused,
		"/a/.;/d":                          refused,
		`/a/..\b`:                          refused,
		"/a%5c..%5Cb":                      refused,
		"/a;../b":                          "/a;../b",
		`/admin\x`:                         refused,
		"/admin%5cx":                       refused,
		"/admin%5C":                        refused,
		"/a%255cb":                         "/a%255cb",
		"/a%":                              refused,
		"/a%4":                             refused,
		"/a%zz":                            refused,
		"/" + strings.Repeat("a", 9000):    "/" + strings.Repeat("a", 9000),
		"/%61" + strings.Repeat("a", 3200): refused,
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

// TestTranslateRegex compares expressions with Go's own, on the syntax that both have. What PCRE makes of the
// translation is for the property test.
func TestTranslateRegex(t *testing.T) {
	for expression, want := range map[string]string{
		"":                    "(?:)",
		"/a.b":                `(?:(?:\x2Fa)[^\x0A]b)`,
		"a|b":                 `[a-b]`,
		".*ab.*cd.*e":         `(?:(?>[^\x0A]*?(?:ab))(?>[^\x0A]*?(?:cd))(?:[^\x0A]*)e)`,
		"(?i)k1":              `(?:[Kk]1)`,
		"[^a-z]":              `[\x00-\x09\x0B-\x60\x7B-\xFF]`,
		"(ab)?(a)*":           `(?:(?:(?:ab)?)(?:a*))`,
		"a{2,3}":              `(?:a{2,3})`,
		"a{2,}":               `(?:a{2,})`,
		"(ab){2,32}":          `(?:(?:ab){2,32})`,
		"ab|cd":               `(?:(?:ab)|(?:cd))`,
		".*ab[0-9]":           `(?:(?:[^\x0A]*)(?:ab)[0-9])`,
		"[xy]ab.*":            `(?:[x-y](?:ab)(?:[^\x0A]*))`,
		"(?i)k":               `[Kk]`,
		`\ba\B`:               `(?:(?:\b)a(?:\B))`,
		`[\x00-\x0A]`:         `[\x00-\x09]`,
		`[\x0A-\x0C]`:         `[\x0B-\x0C]`,
		`\x{FF}a`:             `(?:\xFFa)`,
		"^a$":                 `(?:(?:(?<=\x0A))a(?:(?=\x0A)))`,
		`\Q"%[src]'\E`:        `(?:\x22\x25\x5Bsrc\x5D\x27)`,
		`[^\x00-\x{10FFFF}]`:  "(?!)",
		`[\x{80}-\x{10FFFF}]`: `[\x80-\xFF]`,
		`(?i)[y-\x{00FF}]`:    `[Y-Zy-\xFF]`,
	} {
		got, err := routing.TranslateRegex(expression)
		if err != nil || got != want {
			t.Errorf("%s: got %s (%v), want %s", expression, got, err, want)
		}
		if plain := regexp.MustCompile(`^[A-Za-z0-9\\()\[\]{}|*+?<>=!:^,-]*$`); !plain.MatchString(got) {
			t.Errorf("%s: %s has other signs than allowed", expression, got)
		}
	}
	for expression, want := range map[string]string{
		"a(":                "missing closing )",
		"*":                 "missing argument to repetition operator",
		`(?=a)`:             "invalid or unsupported Perl syntax",
		`\1`:                "invalid escape sequence",
		"[z-a]":             "invalid character class range",
		"(ab)*":             "a group is repeated any number of times",
		"x(a+|b)+":          "a group is repeated any number of times",
		"(ab){2,}":          "a group is repeated any number of times",
		"(ab){33}":          "more than 32 times",
		"a{1001}":           "invalid repeat count",
		"(?:[a-z]{100}){9}": "it is too large",
		"(?:[a-z]{9}){20}":  "it is too large",
		"(?:" + strings.Repeat("a", 30) + "){32}": "it is too large",
		strings.Repeat("[^a]", 400):               "it is too",
		`\pL`:                                     "invalid escape sequence",
		`(?i)[\x{100}-\x{10F}]`:                   `no character above \xFF`,
		`(?s-m:(?mi)\x{0100})`:                    `no character above \xFF`,
	} {
		if got, err := routing.TranslateRegex(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: got %.20s, %v, want an error with %q", expression, got, err, want)
		}
	}
}

// BenchmarkTranslateRegex has what takes longest to read in 1,024 bytes: the operator reads the expressions of all
// namespaces, and a Gateway has room for a thousand.
func BenchmarkTranslateRegex(b *testing.B) {
	for _, part := range []string{`(?i)[b-\xFF]|`, `(?i)[b-\777]`, "(?i)[^k]|", "(a{0,30}){0,30}", "a|ab|", "(", `\w\W`} {
		expression := strings.Repeat(part, 1024/len(part))
		b.Run(part, func(b *testing.B) {
			for b.Loop() {
				_, _ = routing.TranslateRegex(expression) // some are too large
			}
		})
	}
}
