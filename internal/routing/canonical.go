package routing

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"gateway/internal/regex"
)

// maxOddPath is how long a path may be that has to be brought into its canonical form, in bytes: proxies do that in
// buffers of three times as much. Where a character is not encoded that should be, it grows to five times its length.
const (
	maxOddPath    = 10900
	maxRawOddPath = 3200
)

// CanonicalPath returns the path that a request is matched by. Expressions are compared with what decodedPath makes of
// it. Percent-encoded characters are decoded, if a path can have them as they are (RFC 3986, section 3.3, and the
// slash), all others are encoded in upper case, and slashes in a row are one. So it does not matter which of the ways
// to write a path, all of which are the same to a backend that decodes it, a client chose.
//
// False means that the request is answered with 400, because backends may disagree about what it asks for: a percent
// sign without two hexadecimal digits, an encoded NUL, a backslash, encoded or not, or a segment of one or two dots,
// also with parameters; or because it is too long to tell.
func CanonicalPath(path string) (string, bool) {
	odd, most := strings.Contains(path, "//") || strings.Contains(path, "/."), maxOddPath
	for i := range len(path) {
		odd = odd || !isPathCharacter(path[i])
		if _, isEncoded := encodedByte(path, i); !isEncoded && !isPathCharacter(path[i]) {
			most = maxRawOddPath
		}
	}
	if odd && (len(path) > most || strings.Contains(path, "%00")) {
		return "", false
	}
	decoded, err := url.PathUnescape(path)
	if err != nil {
		return "", false
	}
	canonical := percentEncode(decoded, isPathCharacter)
	for strings.Contains(canonical, "//") {
		canonical = strings.ReplaceAll(canonical, "//", "/")
	}
	// Some backends take a backslash for a slash, and what follows a semicolon for a parameter.
	if strings.Contains(canonical, "%5C") {
		return "", false
	}
	for segment := range strings.SplitSeq(canonical, "/") {
		if name, _, _ := strings.Cut(segment, ";"); name == "." || name == ".." {
			return "", false
		}
	}
	return canonical, true
}

// canonicalValue returns the value of a query parameter that a request is matched by, in which "+" stands for a space.
func canonicalValue(value string) string {
	return decodedValue(strings.NewReplacer("%00", "%2500", "+", " ").Replace(value))
}

// decodedPath returns what expressions are compared with: a canonical path with all text and spaces decoded.
func decodedPath(path string) string {
	decoded, _ := url.PathUnescape(path) // nothing is malformed in a canonical path
	return percentEncode(decoded, isPlainInPath)
}

// decodedPaths are what decodedPath returns, and decodedValues what decodedValue does.
var (
	decodedPaths  = regex.NewValues(isPlainInPath, func(c byte) bool { return c != 0 && !isPlainInPath(c) })
	decodedValues = regex.NewValues(isText, func(c byte) bool { return c != 0 && !isText(c) })
)

func isPlainInPath(c byte) bool { return c == ' ' || isText(c) }

// checkDecoded returns an error for an expression with a part that no path or value has, as these are compared decoded:
// a rule that guards would not hold. what names them.
func checkDecoded(what, expression string, values *regex.Values, isPlain func(c byte) bool) error {
	parsed, err := regex.Parse(expression)
	if err != nil || parsed.Fits(values) {
		return err
	}
	for i := range len(expression) {
		c, ok := encodedByte(expression, i)
		if !ok {
			continue
		}
		code := expression[i : i+3]
		want := strings.ToUpper(code)
		if isPlain(c) {
			want = string(c)
		}
		if want != code {
			return fmt.Errorf("the regular expression of %s has %q, which none has: it is compared decoded, so write %q", what, code, want)
		}
	}
	signs := "printable characters"
	if isPlain(' ') {
		signs += " and spaces"
	}
	return fmt.Errorf("the regular expression of %s has a part that none has: write %s as they are, and all other bytes as %%25 or %%C3, "+
		"in upper case", what, signs)
}

// decodedValue returns a value with all encoded text decoded.
func decodedValue(value string) string {
	decoded, _ := url.PathUnescape(keepMalformed(value)) // nothing in it is malformed any more
	return percentEncode(decoded, isText)
}

// queryParam returns the first parameter of the name, which may be percent-encoded in the query.
func queryParam(query, name string) (string, bool) {
	for pair := range strings.SplitSeq(query, "&") {
		key, value, ok := strings.Cut(pair, "=")
		if ok && canonicalName(key) == name {
			return canonicalValue(value), true
		}
	}
	return "", false
}

// canonicalName decodes what is printable ASCII and cannot be mistaken for the syntax of a query.
func canonicalName(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c, ok := encodedByte(s, i); ok && c > ' ' && c < 0x7f && !strings.ContainsRune("%&=+", rune(c)) {
			b.WriteByte(c)
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// keepMalformed makes percent signs that encode nothing stand for themselves.
func keepMalformed(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		b.WriteByte(s[i])
		if _, ok := encodedByte(s, i); s[i] == '%' && !ok {
			b.WriteString("25")
		}
	}
	return b.String()
}

// isText reports whether a byte is printable ASCII and no percent sign.
func isText(c byte) bool { return c > ' ' && c < 0x7f && c != '%' }

// isPathCharacter reports whether a path may have a byte unencoded.
func isPathCharacter(c byte) bool {
	return isText(c) && !strings.ContainsRune("\"#<>?[\\]^`{|}", rune(c))
}

// percentEncode encodes every byte except those to keep.
func percentEncode(s string, keep func(c byte) bool) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; !keep(c) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// encodedByte returns the byte that is percent-encoded at an index.
func encodedByte(s string, i int) (byte, bool) {
	if s[i] != '%' || i+2 >= len(s) {
		return 0, false
	}
	c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
	return byte(c), err == nil
}
