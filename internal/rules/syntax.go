package rules

import (
	"regexp"
	"slices"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// What texts may have that HAProxy sets: the Gateway API's schema admits more.
var (
	cookieNames = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	urlPaths    = regexp.MustCompile(`^/([-A-Za-z0-9._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*$`)
	corsOrigins = regexp.MustCompile(`^(\*|https?://(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?)$`)
)

// framing are the headers that cannot be changed. Some backends take other signs for the hyphen.
var framing = []string{
	"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade", "http2-settings", "expect",
}

var hyphens = strings.NewReplacer("_", "-", ".", "-")

// isHeaderName reports whether a text consists of letters, digits, "_", "." and "-", the latter three not at its ends.
func isHeaderName(s string) bool {
	return s != "" && strings.Trim(s, "_.-") == s && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '.' && r != '-'
	})
}

// isHeaderText reports whether a text consists of printable ASCII characters, without white space at its ends.
func isHeaderText(s string) bool {
	return s != "" && strings.Trim(s, " ") == s && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// mayChange reports whether a header can be changed, or passed on to another backend.
func mayChange(name string) bool {
	hyphened := hyphens.Replace(name)
	return isHeaderName(name) && !slices.ContainsFunc(framing, func(s string) bool { return strings.EqualFold(s, hyphened) })
}

func lower(s string) string { return strings.ToLower(s) }

// lowered returns the names of headers in lower case.
func lowered[T ~string](names []T) []string {
	all := texts(names)
	for i := range all {
		all[i] = lower(all[i])
	}
	return all
}

func texts[T ~string](from []T) []string {
	var all []string
	for _, s := range from {
		all = append(all, string(s))
	}
	return all
}

// duration returns 0 for what is no duration, which the schema does not admit.
func duration[T ~string](d T) time.Duration {
	parsed, err := time.ParseDuration(string(d))
	if err != nil {
		return 0
	}
	return parsed
}

// timeout returns a bound, nil if there is none.
func timeout(d *gatewayv1.Duration) *time.Duration {
	if d == nil || *d == "" {
		return nil
	}
	return new(duration(*d))
}
