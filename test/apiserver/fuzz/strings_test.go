package fuzz

import (
	"math/rand/v2"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"
)

// hostile are strings that mean something to HAProxy's parser, to a map file, to HTTP, or to a careless program.
var hostile = []string{
	`"`, `'`, `\`, `\\`, `\"`, `\n`, `\x0A`, `\x22`, `a"b`, `a'b`, `a\`, `a b`, ` a`, `a `, "a\tb", "a\nb", "a\r\nb", "\n", "\r\n", "\x00", "a\x00b", "\x7f", "\x1b[0m",
	`#`, `# comment`, `a#b`, `a #b`, `${HOME}`, `$HOME`, `"$HOME"`, `"${HOME}"`, "`id`", `$(id)`,
	`%[src]`, `%[env(HOME)]`, `a%[src]b`, `%{+Q}[src]`, `%ci`, `%%`, `%`, `%n`, `%s`, `%!d(MISSING)`, `%0`, `%zz`, `%20`, `%0a`, `%0d%0a`, `%00`, `%22`, `%5c`, `%23`, `%25`, `%2520`, `%7c`,
	`|`, `a|b`, `||`, `,`, `a,b`, `;`, `a;b`, `{`, `}`, `{ always_true }`, `{}`, `(`, `)`, `()`, `[`, `]`, `[]`, `<<`, `@`, `@1`, `&`, `=`, `+`, `*`, `?`, `!`, `!*`, `~`, `^`, `$`, `.`, `..`, `:`, `/`, `//`, `<`, `>`,
	"\n    http-request deny\n", "\n\nbackend evil\n", "x\nglobal\n", `" if TRUE`, `' if TRUE`, ` if TRUE`, ` unless FALSE`, `") if { always_true } #`, `),lua.x(`, `,map_str(/etc/passwd)`,
	`","rule":"0","listener":"http","backend":"answer|`, `+`, `/>`, `?0:0000000000000000`, `%|1,1|a,b`, `q-host|`, `|q+host.0=evil|`, `version`, `\x7C`, `(*ACCEPT)`, `(?#`, `(?i)`, `\E`, `\Q`, `(?R)`, `a{1,2}`,
	"ä", "☃", "\u0085", "\u2028", "\ufeff", "\u202e", "\U0001F600", "e\u0301", "ſ", "\xff\xfe", "\xc0\x80",
	// What is left to names: words of HAProxy, of this program's sections and maps, numbers, and odd forms of them.
	"if", "unless", "or", "server", "backend", "global", "defaults", "common", "routing", "routed", "metrics", "no-route", "no-backend", "answer", "any", "all", "default", "none",
	"a--b", "0", "00", "-1", "1e9", "0x10", "127.0.0.1", "localhost", "xn--nxasmq6b", "true", "null", "tcp", "h2", "host", "cookie", "version",
	"/%", "/a%", "/%[src]", "/a|b", "/a,b;c", "/'", "/$HOME", "/a'b", "/&&", "/*", "/(a)", "/a%22b", "/a%0d%0ab", "/a%23", "/%5C", "/a%7cb", "/.a", "/...", "/a/..;/b", "/%25%32%65",
	"a/b; c=d", "text/html; charset='utf-8'", "*/*", "a/#", "a/b ;c=#",
}

// isHostile reports whether a string has something that is special somewhere, or is one of the hostile ones, or very
// long.
func isHostile(s string) bool {
	return len(s) >= 200 || hostileSet[s] || strings.ContainsAny(s, "\"'\\#$%{}|,;[]()&*?!~^`<> \t\r\n\x00") || !isASCII(s)
}

var hostileSet = func() map[string]bool {
	set := map[string]bool{}
	for _, s := range hostile {
		set[s] = true
	}
	return set
}()

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// wanted is what the schema says of a string.
type wanted struct {
	pattern, not *regexp.Regexp
	parsed       *syntax.Regexp
	least, most  int
	// anyOf are alternatives, one of which has to admit the string too.
	anyOf []wanted
}

func (w wanted) admits(s string) bool {
	// The API server counts the characters, but refuses early what is too long in bytes.
	return utf8.ValidString(s) && len(s) >= w.least && len(s) <= w.most &&
		(w.pattern == nil || w.pattern.MatchString(s)) && (w.not == nil || !w.not.MatchString(s)) &&
		(len(w.anyOf) == 0 || slices.ContainsFunc(w.anyOf, func(one wanted) bool { return one.admits(s) }))
}

// text returns a string that the schema wants: a hostile one or a long one if there is one, or any.
func text(r *rand.Rand, w wanted) string {
	switch n := r.IntN(100); {
	case n < 25:
		for range 40 {
			if s := combined(r); w.admits(s) {
				return s
			}
		}
	case n < 30:
		for range 10 {
			if s := matching(r, w, true); w.admits(s) {
				return s
			}
		}
	}
	for range 200 {
		if s := matching(r, w, false); w.admits(s) {
			return s
		}
	}
	return "a"
}

// combined returns one or some of the hostile strings.
func combined(r *rand.Rand) string {
	s := hostile[r.IntN(len(hostile))]
	for r.IntN(3) == 0 {
		s += hostile[r.IntN(len(hostile))]
	}
	if r.IntN(4) == 0 {
		s = "/" + s
	}
	return s
}

// matching returns a string that matches the pattern; its length may be wrong. If long, repetitions are many.
func matching(r *rand.Rand, w wanted, long bool) string {
	if w.parsed == nil {
		return combined(r)
	}
	m := matcher{r: r, most: 1, room: w.most}
	switch {
	case long:
		m.most = w.most
	case r.IntN(2) == 0:
		m.most = 8
	}
	m.write(w.parsed)
	return m.b.String()
}

// matcher writes strings that match a regular expression.
type matcher struct {
	r *rand.Rand
	b strings.Builder
	// most is how often something without a limit is repeated at most, and room how long the string may become.
	most, room int
}

func (m *matcher) write(re *syntax.Regexp) {
	switch re.Op {
	case syntax.OpLiteral:
		for _, c := range re.Rune {
			if re.Flags&syntax.FoldCase != 0 && m.r.IntN(2) == 0 {
				m.b.WriteString(strings.ToUpper(string(c)))
			} else {
				m.b.WriteRune(c)
			}
		}
	case syntax.OpCharClass:
		m.b.WriteRune(m.character(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		m.b.WriteRune(m.character([]rune{' ', '~'}))
	case syntax.OpConcat, syntax.OpCapture:
		for _, sub := range re.Sub {
			m.write(sub)
		}
	case syntax.OpAlternate:
		m.write(re.Sub[m.r.IntN(len(re.Sub))])
	case syntax.OpQuest:
		m.repeat(re.Sub[0], 0, 1)
	case syntax.OpStar:
		m.repeat(re.Sub[0], 0, m.most)
	case syntax.OpPlus:
		m.repeat(re.Sub[0], 1, m.most)
	case syntax.OpRepeat:
		m.repeat(re.Sub[0], re.Min, re.Max)
	default: // begin, end and the like write nothing
	}
}

func (m *matcher) repeat(re *syntax.Regexp, least, most int) {
	n := least
	if most > least {
		n += m.r.IntN(most - least + 1)
	}
	for i := 0; i < n && (i < least || m.b.Len() < m.room-1); i++ {
		m.write(re)
	}
}

// character returns a character of a class, given as pairs of first and last; often one that is special somewhere.
func (m *matcher) character(class []rune) rune {
	if m.r.IntN(3) == 0 {
		special := []rune("\"'\\#$%{}|,;[]()&*?!~^`<>=+@:/.-_ \t\n\r")
		c := special[m.r.IntN(len(special))]
		for i := 0; i < len(class); i += 2 {
			if class[i] <= c && c <= class[i+1] {
				return c
			}
		}
	}
	i := m.r.IntN(len(class)/2) * 2
	// Beyond ASCII, one character of a range is like another.
	first, last := class[i], min(class[i+1], class[i]+200)
	c := first + rune(m.r.IntN(int(last-first)+1))
	if !utf8.ValidRune(c) {
		return first
	}
	return c
}

// expression returns a regular expression, mostly a valid one.
func expression(r *rand.Rand, depth int) string {
	atoms := []string{
		"a", "/", "/api", ".", `\.`, `\d`, `\w`, `\s`, `\S`, `\D`, `\b`, `\B`, "^", "$", `\A`, `\z`, "[a-z]", "[^/]", "[[:alpha:]]", `[\d_]`, `[^\x00-\x7f]`, `\x41`,
		`\x{41}`, `\x{2603}`, `\pL`, `\PL`, `\p{Greek}`, `\n`, `\t`, `\Q"'#$%[|\E`, `"`, `'`, "#", "%", "%[src]", "${HOME}", ",", ";", "{", "}", " ", "(?i)", "(?s).", "(?m)^", "(?U)a+",
		`\\`, `\"`, `\#`, "[]]", "[#]", `["']`, "[-a]", "~", "&", "=", "<", "(?:)", "()", `\C`, `\1`, "(?=a)", "(?<n>a)", "(?P<n>a)", "(*ACCEPT)", "\\", "[", "(", ")", "*", "{2,1}", "[z-a]",
	}
	if depth == 0 || r.IntN(3) == 0 {
		// What is at the end of the list is not valid, and seldom here.
		return atoms[r.IntN(len(atoms)-r.IntN(30)%13)]
	}
	one := expression(r, depth-1)
	switch r.IntN(6) {
	case 0:
		return one + "|" + expression(r, depth-1)
	case 1:
		return "(" + one + ")"
	case 2:
		repeat := []string{"*", "+", "?", "*?", "+?", "{2}", "{0,3}", "{3,}", "{1000}", "{0}", "{1,1000}?"}
		return "(?:" + one + ")" + repeat[r.IntN(len(repeat))]
	}
	return one + expression(r, depth-1)
}
