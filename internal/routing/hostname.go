package routing

import "strings"

// maxHostLength is the length of the longest DNS name.
const maxHostLength = 253

// NormalizeHost returns the name that a request's Host header (or :authority) asks for: lower case, without the port
// and without one trailing dot. IPv6 addresses keep their brackets. The name is "" for a request that names none, which
// only meets listeners and routes without a hostname. False means the header is malformed, which is answered with 400:
// what else a host may contain could pass for part of a path.
func NormalizeHost(header string) (string, bool) {
	// Not strings.ToLower first: it turns letters of other alphabets into ASCII ones.
	if strings.ContainsFunc(header, func(r rune) bool { return r >= 0x80 }) {
		return "", false
	}
	host := strings.ToLower(header)
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
		if !consistsOf(host[colon+1:], digits) {
			return "", false
		}
		host = host[:colon]
	}
	if len(host) >= 3 && host[0] == '[' && host[len(host)-1] == ']' {
		return host, len(host) <= maxHostLength && consistsOf(host[1:len(host)-1], digits+"abcdef:.")
	}
	if host == "" {
		return "", true
	}
	host = strings.TrimSuffix(host, ".")
	if len(host) > maxHostLength {
		return "", false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || !consistsOf(label, digits+"abcdefghijklmnopqrstuvwxyz-_") {
			return "", false
		}
	}
	return host, true
}

const digits = "0123456789"

func consistsOf(s, chars string) bool {
	return strings.TrimLeft(s, chars) == ""
}
