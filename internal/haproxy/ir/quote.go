package ir

import (
	"fmt"
	"strings"
)

// Special characters, beside white space and everything that is not ASCII.
const (
	InConfig = `"'\#$`
	InMap    = ""
	// InName is special in names of headers, cookies and the like: in arguments of expressions, log-formats and
	// conditions.
	InName = InConfig + "%,()[]{}|+&="
	// InField is special in a field of a map's value.
	InField = `"'\#$%|`
)

// Quote returns s as part of one word of a file: what ends a word or line, what is not ASCII, and what is special is
// percent-encoded. Every string from outside goes through it on its way to haproxy.cfg or a map.
//
// Strings that the CRD's schema admits come out unchanged, so that requests match them. Anything else is inert: no
// request that HAProxy accepts contains it.
func Quote(s, special string) string {
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

// QuoteAll returns words of haproxy.cfg, joined by spaces.
func QuoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word, InConfig)
	}
	return strings.Join(quoted, " ")
}

func needsQuote(c byte, special string) bool {
	return c <= ' ' || c >= 0x7f || special != "" && strings.IndexByte(special, c) >= 0
}

// QuoteFormat is QuoteText for a word that is a log-format.
func QuoteFormat(s string) string { return QuoteText(strings.ReplaceAll(s, "%", "%%")) }

// QuoteText returns s as a word of haproxy.cfg that HAProxy takes as s, whatever is in it but NUL.
func QuoteText(s string) string {
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
