package regex

import (
	"regexp"
	"strings"
	"testing"
)

// replace does what HAProxy does with a replacement, by Go's engine.
func replace(t *testing.T, r Replacement, text string) string {
	t.Helper()
	back := strings.NewReplacer(`(?!)`, `[^\x00-\x{10FFFF}]`, `(?<=\x0A)`, `(?m:^)`, `(?=\x0A)`, `(?m:$)`).Replace(r.Expression)
	lines := strings.Join(append(r.Lines, text), "\n") + "\n"
	groups := regexp.MustCompile(`^` + back).FindStringSubmatch(lines)
	if groups == nil {
		return text
	}
	return regexp.MustCompile(`\\[0-9]`).ReplaceAllStringFunc(r.Value, func(name string) string { return groups[name[1]-'0'] })
}

// inGo returns a substitution as Go writes it.
func inGo(substitution string) string {
	return regexp.MustCompile(`\\([0-9])`).ReplaceAllString(strings.ReplaceAll(substitution, "$", "$$"), "$${$1}")
}

func TestReplacement(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ pattern, substitution, text, want, value string }{
		{`^/something(/|$)(.*)`, `/\2`, "/something/new", "/new", `\1\2\3`},
		{`^/something(/|$)(.*)`, `/\2`, "/something", "/", `\1\2\3`},
		{`^/something(/|$)(.*)`, `/\2`, "/somethingelse", "/somethingelse", `\1\2\3`},
		{`^/v1`, `/v2`, "/v1/users", "/v2/users", `\1\2`},
		{`(?i)^/(?P<a>[a-z]+)/([0-9]+)(/.*)?$`, `/\2/\1\3`, "/User/12", "/12/User", `\1\4\2\3\5\6`},
		{`^/a|^/b`, `/c`, "/b/a", "/c/a", `\1\2`},
		{`^/(.+?)/(.*)$`, `/\2/\1`, "/a/b/c", "/b/c/a", `\1\4\2\3\5`},
		{`^.*`, `\0\0`, "/a", "/a/a", `\1\1\2`},
		{`^(a)(b)(c)(d)(e)(f)(g)(h)`, `/\8/\7/\6/\5/\4/\3/\2/\1`, "abcdefghi", "/h/g/f/e/d/c/b/ai", `/\8/\7/\6/\5/\4/\3/\2/\1\9`},
	} {
		r, err := NewReplacement(test.pattern, test.substitution)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		if got := replace(t, r, test.text); got != test.want || r.Value != test.value {
			t.Errorf("%s with %s: of %s, it makes %q by %s, want %q by %s", test.pattern, test.substitution, test.text, got, r.Value, test.want, test.value)
		}
	}
}

func TestReplacementsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ pattern, substitution, message string }{
		{`(`, `/`, "pattern is invalid: missing closing ): \"(\""},
		{`/a`, `/`, "pattern must begin with ^: HAProxy replaces one match, at the beginning"},
		{`^/a|/b`, `/`, "pattern must begin with ^: HAProxy replaces one match, at the beginning"},
		{`^(/a)*`, `/`, `pattern is refused: in "(/a)*" a group is repeated any number of times, or more than 32 times, which HAProxy cannot match in every length: ` +
			`repeat single characters or classes`},
		{`^/(.*)`, `/\2`, `substitution has \2, but pattern has 1 groups`},
		{`^/(.*)`, `/\x`, `in substitution, a backslash comes before the number of a group, as in \1`},
		{`^/(.*)`, `/\`, `in substitution, a backslash comes before the number of a group, as in \1`},
		{`^(/[a-z]+){2}`, `/\1`, `substitution has \1, a group within a repetition: put the repetition into the group`},
		{`^(a)(b)(c)(d)(e)(f)(g)(h)(i)`, `\1\2\3\4\5\6\7\8\9`, "substitution has too many groups: it may have 8, and 10 with repeated ones"},
		{`^(.*)`, strings.Repeat(`\1`, 11), "substitution has too many groups: it may have 8, and 10 with repeated ones"},
	} {
		if _, err := NewReplacement(test.pattern, test.substitution); err == nil || err.Error() != test.message {
			t.Errorf("%s with %s: got %v, want %s", test.pattern, test.substitution, err, test.message)
		}
	}
}

func TestLongestReplaced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, substitution string
		longest               int
	}{
		{`^/a/(.*)`, `/\1`, 8192}, {`^/(.*)/(.*)$`, `/\2/\1`, 5997}, {`^/(.*)a(.*)b(.*)$`, `/\3`, 1024}, {`^/(.*)`, `/\1/\1/\1/\1/\1/\1`, 1997},
	} {
		if r, err := NewReplacement(test.pattern, test.substitution); err != nil || r.Longest != test.longest {
			t.Errorf("%s with %s: got %d (%v), want %d", test.pattern, test.substitution, r.Longest, err, test.longest)
		}
	}
}

// FuzzReplacement compares what HAProxy does with what Go does, both by Go's engine. What PCRE does is for the property
// test of internal/haproxy/dataplanetest.
func FuzzReplacement(f *testing.F) {
	for _, seed := range [][3]string{
		{`^/something(/|$)(.*)`, `/\2`, "/something/new"}, {`^/(?:a|b(c))??(.*)d`, `\1\2-`, "/bcdd"}, {`^(.*).*x.*(a?)`, `\2\1`, "/axa"}, {`(?i)^K(\b|b)`, `\0\0`, "kb"},
		{`(?m)^/$`, `/x`, "/"}, {`^()()(.{2,3}?)`, `\3\2`, "abcd"}, {`^`, `/x`, "/a"}, {`^(a?){0,1}(|b)`, `\2`, "b"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, pattern, substitution, text string) {
		if strings.ContainsFunc(pattern+substitution+text, func(r rune) bool { return r < ' ' || r > '~' }) || len(pattern)+len(text) > 300 {
			return
		}
		r, err := NewReplacement(pattern, substitution)
		if err != nil {
			return
		}
		got, want := replace(t, r, text), regexp.MustCompile(pattern).ReplaceAllString(text, inGo(substitution))
		if got != want {
			t.Errorf("%q with %q became %q with %q: of %q, it makes %q, want %q", pattern, substitution, r.Expression, r.Value, text, got, want)
		}
	})
}
