package config

import (
	"fmt"
	"strings"
)

// What is special where, beside white space.
const (
	inConfig = `"'\#$`
	inMap    = ""
	// inProgram: url_dec makes of it what it was, see program.go.
	inProgram = `%|+#`
	// inHit: it is also text of JSON.
	inHit = inProgram + `"\`
)

// quote returns s as part of one word of a file: what ends a word or line, what is not ASCII, and what is special in the
// file is percent-encoded. Every string from outside goes through it on its way to haproxy.cfg or a map.
//
// What the CRD's schema admits comes out as it went in, so requests match it; anything else is inert: no request that
// HAProxy accepts contains it.
func quote(s, special string) string {
	plain := true
	for i := range len(s) {
		plain = plain && !needsQuote(s[i], special)
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if needsQuote(s[i], special) {
			fmt.Fprintf(&b, "%%%02X", s[i])
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func needsQuote(c byte, special string) bool {
	return c <= ' ' || c >= 0x7f || special != "" && strings.IndexByte(special, c) >= 0
}

// quoteName returns s as the name of a header, cookie or the like in haproxy.cfg, where even more is special: in the
// arguments of expressions, in log-formats and in condition blocks.
func quoteName(s string) string {
	return quote(s, inConfig+"%,()[]{}|+")
}

// literal returns a text without single quotes as an argument of an expression, in a word of haproxy.cfg.
func literal(text string) string { return `\'` + strings.ReplaceAll(text, `"`, `\"`) + `\'` }

// mark is the quotation mark as such an argument.
var mark = literal(`"`)

// quoteText returns s as a word of haproxy.cfg that HAProxy takes as s, whatever is in it but NUL.
func quoteText(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		c := s[i]
		if c == ' ' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || strings.IndexByte(".,:;/=_+-", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02X`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
