package routing

import (
	"errors"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"testing"

	"gateway/internal/model"
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
			if err == nil && len(path) <= maxOddPath && !strings.ContainsAny(plain, "\x00\\") && !hasDots(plain) {
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
		if twice, ok := CanonicalPath(canonical); len(canonical) <= maxOddPath && (!ok || twice != canonical) {
			t.Errorf("%q became %q and then %q", path, canonical, twice)
		}
	})
}

func onceSlashed(path string) string { return regexp.MustCompile(`/+`).ReplaceAllString(path, "/") }

// hasDots says whether a decoded path has a segment that some backend could take for the one above.
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

// fromPCRE says in RE2 what TranslateRegex says in the part of PCRE that RE2 lacks, for a text that is one line.
var fromPCRE = strings.NewReplacer(`(?!)`, `[^\x00-\x{10FFFF}]`, `(?<=\x0A)`, `\A`, `(?=\x0A)`, `\z`, `(?>`, `(?:`)

// FuzzTranslateRegex compares a translation with the expression, both read by Go. How PCRE reads it is for the property
// test of internal/haproxy/render.
func FuzzTranslateRegex(f *testing.F) {
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
		translated, err := TranslateRegex(expression)
		if err != nil {
			return
		}
		if !signs.MatchString(translated) || len(translated) > MaxRegex {
			t.Fatalf("%q became %q", expression, translated)
		}
		back := fromPCRE.Replace(translated)
		var problem *syntax.Error
		if _, err := regexp.Compile(back); errors.As(err, &problem) && (problem.Code == syntax.ErrNestingDepth || problem.Code == syntax.ErrLarge) {
			return
		} else if err != nil {
			t.Fatalf("%q became %q, which is %v", expression, translated, err)
		}
		// As text, the expression could go on behind its end: `\Q`.
		parsed, _ := model.ParseRegex(expression) // TranslateRegex has done it
		if got, want := regexMatches(back, text), regexMatches(parsed.String(), text); got != want {
			t.Errorf("%q became %q: of %q it says %v, want %v", expression, translated, text, got, want)
		}
	})
}

// FuzzQuoteRegex: a quoted text is an expression that matches the text alone.
func FuzzQuoteRegex(f *testing.F) {
	for _, seed := range []string{"", "a.b", `\Q(`, "x-header", "\xff\x00", "%[src]\n\"'"} {
		f.Add(seed, seed+"x")
	}
	f.Fuzz(func(t *testing.T, text, other string) {
		if quoted := QuoteRegex(text); !regexMatches(quoted, text) || regexMatches(quoted, other) != (text == other) {
			t.Errorf("%q became %q, and matches %q: %v", text, quoted, other, regexMatches(quoted, other))
		}
	})
}
