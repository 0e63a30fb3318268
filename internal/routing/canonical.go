package routing

import (
	"strings"
)

const upperHex = "0123456789ABCDEF"

// CanonicalPath returns the path that a request is matched by: percent-encoded characters are decoded, if they are
// printable ASCII and no percent sign, and encoded in upper case otherwise, and slashes in a row are one. So it does not
// matter which of the ways to write a path, all of which are the same to a backend that decodes it, a client chose.
//
// False means that the request is answered with 400, because backends may disagree about what it asks for: a percent sign
// without two hexadecimal digits, an encoded NUL, or a segment of one or two dots.
func CanonicalPath(path string) (string, bool) {
	if strings.Contains(path, "%00") {
		return "", false
	}
	decoded, ok := percentDecode(path)
	if !ok {
		return "", false
	}
	canonical := percentEncode(decoded)
	for strings.Contains(canonical, "//") {
		canonical = strings.ReplaceAll(canonical, "//", "/")
	}
	for segment := range strings.SplitSeq(canonical, "/") {
		if segment == "." || segment == ".." {
			return "", false
		}
	}
	return canonical, true
}

// canonicalValue returns the value of a query parameter that a request is matched by, in which "+" stands for a space.
func canonicalValue(value string) string {
	value = strings.ReplaceAll(strings.ReplaceAll(keepMalformed(value), "%00", "%2500"), "+", " ")
	decoded, _ := percentDecode(value) // nothing in it is malformed any more
	return percentEncode(decoded)
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

func percentDecode(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		c, ok := encodedByte(s, i)
		if !ok {
			return "", false
		}
		b.WriteByte(c)
		i += 2
	}
	return b.String(), true
}

// percentEncode encodes what is not printable ASCII, and the percent sign.
func percentEncode(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || c == '%' {
			b.WriteString("%" + string(upperHex[c>>4]) + string(upperHex[c&15]))
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
	high, low := hexDigit(s[i+1]), hexDigit(s[i+2])
	return high<<4 | low&15, high < 16 && low < 16
}

// hexDigit returns the value of a hexadecimal digit, or 16.
func hexDigit(c byte) byte {
	if i := strings.IndexByte(upperHex, strings.ToUpper(string(c))[0]); i >= 0 {
		return byte(i)
	}
	return 16
}
