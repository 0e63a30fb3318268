package config

import (
	"fmt"
	"strings"
)

// What is special in which file, beside white space.
const (
	inConfig = `"'\#$`
	inMap    = ""
)

// quote returns s as part of one word of a file: what ends a word or line, what is not ASCII, and what is special in the
// file is percent-encoded. Every string from outside goes through it on its way to haproxy.cfg or routes.map.
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
	return c <= ' ' || c >= 0x7f || strings.IndexByte(special, c) >= 0
}
