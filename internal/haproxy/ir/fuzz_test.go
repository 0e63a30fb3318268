package ir

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// FuzzQuoteWord: whatever goes in, one word comes out, in each place; and what went in can be read back from it.
func FuzzQuoteWord(f *testing.F) {
	for _, seed := range []string{"", "api-v2", `"'\#$HOME`, "a b\nglobal", "%[src]", "%41", "é\x00\xff", "a|b#r+x.0=y", "{ always_true }", "x,json(utf8s)", "100%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		places := map[string]string{"config": InConfig, "map": InMap, "field": InField, "parameter": "%&", "list of certificates": InConfig + "![]"}
		for place, special := range places {
			quoted := Quote(s, special)
			if strings.ContainsFunc(quoted, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(special, r) && r != '%' }) {
				t.Errorf("in a %s, %q became %q", place, s, quoted)
			}
			// If the percent sign is not quoted, an encoded character stands for itself, encoded.
			if read, err := url.PathUnescape(quoted); (strings.Contains(special, "%") || !strings.Contains(s, "%")) && (err != nil || read != s) {
				t.Errorf("in a %s, %q became %q, which reads %q (%v)", place, s, quoted, read, err)
			}
		}
		name := Quote(s, InName)
		if read, err := url.PathUnescape(name); err != nil || read != s || strings.ContainsAny(name, " \t\r\n\"'\\#$,()[]{}|+&=") {
			t.Errorf("as a name, %q became %q (%v)", s, name, err)
		}
	})
}

// FuzzQuoteText reads the word as HAProxy's configuration manual, section 2.2, says that it is read.
func FuzzQuoteText(f *testing.F) {
	for _, seed := range []string{"", "text/plain; charset=utf-8", "{\"a\": \"$b\"}\n", `\x41"`, "é\xff", "%[src]", "a # b"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted := QuoteText(s)
		if read, err := readQuoted(quoted); err != nil || read != s {
			t.Errorf("%q became %s, which reads %q (%v)", s, quoted, read, err)
		}
	})
}

// readQuoted reads one word between double quotes.
func readQuoted(word string) (string, error) {
	inner := strings.TrimSuffix(strings.TrimPrefix(word, `"`), `"`)
	if len(word) != len(inner)+2 {
		return "", errors.New("it is not between quotes")
	}
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '"' || c == '$' || c < ' ' || c >= 0x7f:
			return "", errors.New("it ends before its end, has a variable, or is not ASCII")
		case c != '\\':
			b.WriteByte(c)
		case i+3 < len(inner) && inner[i+1] == 'x':
			value, err := strconv.ParseUint(inner[i+2:i+4], 16, 8)
			if err != nil {
				return "", err
			}
			b.WriteByte(byte(value))
			i += 3
		default:
			return "", errors.New("it has an escape of another kind")
		}
	}
	return b.String(), nil
}
