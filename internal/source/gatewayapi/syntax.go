package gatewayapi

import (
	"regexp"
	"strings"
	"time"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// What texts may have that HAProxy sets: the Gateway API's schema admits more.
var (
	headerNames = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	headerTexts = regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`)
	cookieNames = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	urlPaths    = regexp.MustCompile(`^/([-A-Za-z0-9._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*$`)
	corsOrigins = regexp.MustCompile(`^(\*|https?://(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?)$`)
	// framing are the headers that cannot be changed.
	framing = regexp.MustCompile(`(?i)^(host|content[-_.]length|transfer[-_.]encoding|connection|keep[-_.]alive|proxy[-_.]connection|te|trailer|upgrade|http2[-_.]settings|expect)$`)
)

func lower(s string) string { return strings.ToLower(s) }

// timeout returns a bound, nil if there is none.
func timeout(d *gatewayv1.Duration) *time.Duration {
	if d == nil || *d == "" {
		return nil
	}
	parsed := duration(d)
	return &parsed
}
