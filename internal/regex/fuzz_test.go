package regex

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
)

// fromPCRE says in RE2 what Translate says in the part of PCRE that RE2 lacks, for a text that is one line.
var fromPCRE = strings.NewReplacer(`(?!)`, `[^\x00-\x{10FFFF}]`, `(?<=\x0A)`, `\A`, `(?=\x0A)`, `\z`, `(?>`, `(?:`)

// FuzzTranslate compares a translation with the expression, both read by Go. How PCRE reads it is for the property
// test of internal/haproxy/dataplanetest.
func FuzzTranslate(f *testing.F) {
	for _, seed := range [][2]string{
		{"/api/[0-9]+", "/api/12"}, {".*ab.*cd.*", "xabycdz"}, {"(?i)k(1|2){2,3}?", "K121"}, {`\Ba|^b$|\bc`, "b"}, {`[^a-z\n]`, "\xff"},
		{`\pL+`, "\xe4"}, {`[[:space:]]?\x{100}|.`, "a"}, {"(a|b)*", "ab"}, {"(?s).{0,32}", "x"}, {`\Q"%[src]'\E`, `"%[src]'`}, {"(", ""}, {`\Q`, ""}, {`(?i)\xe9\xb5\xff`, "\xe9\xb5\xff"}, {`\Qa(`, "a("},
	} {
		f.Add(seed[0], seed[1])
	}
	signs := regexp.MustCompile(`^[A-Za-z0-9\\()\[\]{}|*+?<>=!:^,-]*$`)
	f.Fuzz(func(t *testing.T, expression, text string) {
		if strings.Contains(text, "\n") || len(expression) > 200 || len(text) > 200 {
			return
		}
		translated, _, err := Translate(expression)
		if err != nil {
			return
		}
		if !signs.MatchString(translated) || len(translated) > maxTranslated {
			t.Fatalf("%q became %q", expression, translated)
		}
		back := fromPCRE.Replace(translated)
		var problem *syntax.Error
		if _, err := regexp.Compile(back); errors.As(err, &problem) && (problem.Code == syntax.ErrNestingDepth || problem.Code == syntax.ErrLarge) {
			return
		} else if err != nil {
			t.Fatalf("%q became %q, which is %v", expression, translated, err)
		}
		if got, want := matches(t, back, text), matches(t, expression, text); got != want {
			t.Errorf("%q became %q: of %q it says %v, want %v", expression, translated, text, got, want)
		}
	})
}

// FuzzQuote: a quoted text is an expression that matches the text alone.
func FuzzQuote(f *testing.F) {
	for _, seed := range []string{"", "a.b", `\Q(`, "x-header", "\xff\x00", "%[src]\n\"'"} {
		f.Add(seed, seed+"x")
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		if quoted := Quote(text); !matches(t, quoted, text) || matches(t, quoted, other) != (text == other) {
			t.Errorf("%q became %q, and matches %q: %v", text, quoted, other, matches(t, quoted, other))
		}
	})
}

func matches(t *testing.T, expression, text string) bool {
	t.Helper()
	parsed, err := Parse(expression)
	if err != nil {
		t.Fatalf("%q: %v", expression, err)
	}
	return parsed.Matches(text)
}
