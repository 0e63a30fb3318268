package regex_test

import (
	"regexp"
	"strings"
	"testing"

	"gateway/internal/regex"
)

// TestTranslate compares expressions with Go's own, on the syntax that both have. What PCRE makes of the
// translation is for the property test.
func TestTranslate(t *testing.T) {
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
		got, _, err := regex.Translate(expression)
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
		if got, _, err := regex.Translate(expression); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: got %.20s, %v, want an error with %q", expression, got, err, want)
		}
	}
}

// BenchmarkTranslate has what takes longest to read in 1,024 bytes: the operator reads the expressions of all
// namespaces, and a Gateway has room for a thousand.
func BenchmarkTranslate(b *testing.B) {
	for _, part := range []string{`(?i)[b-\xFF]|`, `(?i)[b-\777]`, "(?i)[^k]|", "(a{0,30}){0,30}", "a|ab|", "(", `\w\W`} {
		expression := strings.Repeat(part, 1024/len(part))
		b.Run(part, func(b *testing.B) {
			for b.Loop() {
				_, _, _ = regex.Translate(expression) // some are too large
			}
		})
	}
}
