package ingress

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

// The limits of our API's fields, as in its schema. Values beyond them are noted, so that every Gateway is admitted.
var (
	serviceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	hostnames   = regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	headerNames = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	headerTexts = regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`)
	cookieNames = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	urlPaths    = regexp.MustCompile(`^/([-A-Za-z0-9._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*$`)
	corsOrigins = regexp.MustCompile(`^(\*|https?://(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?)$`)
	expressions = regexp.MustCompile(`^[ -~]+$`)
	// substitutions are paths with groups.
	substitutions = regexp.MustCompile(`^([-A-Za-z0-9._~!&'()*+,;=:@/]|%[0-9A-Fa-f]{2}|\\[0-9])+$`)

	mediaTypes = regexp.MustCompile(`^[a-z0-9.+-]+/[a-z0-9.+-]+$`)
	// badSegments are segments that a path to match may not have.
	badSegments = regexp.MustCompile(`(?i)//|/(\.|%2e){1,2}(/|$)|%2f|%5c|%00`)
	// framing are the headers that cannot be changed.
	framing = regexp.MustCompile(`(?i)^(host|content[-_.]length|transfer[-_.]encoding|connection|keep[-_.]alive|proxy[-_.]connection|te|trailer|upgrade|http2[-_.]settings|expect)$`)
)

func isServiceName(s string) bool { return len(s) <= 63 && serviceName.MatchString(s) }
func isHostname(s string) bool    { return len(s) <= 253 && hostnames.MatchString(s) }
func isHeaderName(s string) bool  { return len(s) <= 128 && headerNames.MatchString(s) }
func isHeaderText(s string) bool  { return len(s) <= 1024 && headerTexts.MatchString(s) }
func isCookieName(s string) bool  { return len(s) <= 64 && cookieNames.MatchString(s) }
func isURLPath(s string) bool     { return len(s) <= 1024 && urlPaths.MatchString(s) }
func isOrigin(s string) bool      { return len(s) <= 253 && corsOrigins.MatchString(s) }
func isExpression(s string) bool  { return len(s) <= 1024 && expressions.MatchString(s) }

// isMatch reports whether a rule can match the path.
func isMatch(path pathMatch) bool {
	if path.kind == gatewayv1.PathMatchRegularExpression {
		return isExpression(path.value)
	}
	return isURLPath(path.value) && !badSegments.MatchString(path.value)
}

func isPreciseHostname(s string) bool { return isHostname(s) && !strings.HasPrefix(s, "*") }

// isMatchableHeader reports whether a rule can match the header: the proxies remove those with other characters.
func isMatchableHeader(s string) bool { return isHeaderName(s) && !strings.ContainsAny(s, "_.") }

func isChangeableHeader(s string) bool { return isHeaderName(s) && !framing.MatchString(s) }

// methods are the methods that rules can match, and CORS can allow.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}

// retryCodes are the statuses after which a request can be retried.
var retryCodes = []int{401, 403, 404, 408, 425, 500, 501, 502, 503, 504}

// redirectCodes are the statuses that a redirect can have.
var redirectCodes = []int{301, 302, 303, 307, 308}

// maxGatewayName is how long the name of a Gateway may be, and maxLabel how long the name of a route.
const (
	maxGatewayName = 52
	maxLabel       = 63
)

// label makes a DNS label of a name, which begins with a letter. A long one is cut, and gets a hash.
func label(name string, most int) string {
	text := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.ReplaceAll(name, "*", "any")))
	if text = strings.Trim(text, "-"); text == "" || text[0] <= '9' {
		text = strings.TrimRight("x-"+text, "-")
	}
	if len(text) > most {
		text = fmt.Sprintf("%s-%x", strings.TrimRight(text[:most-9], "-"), sha256.Sum256([]byte(name)))[:most]
	}
	return text
}

// digest returns a part of a name that tells contents apart.
func digest(content any) string {
	text, err := json.Marshal(content)
	utilruntime.Must(err) // objects of the API are made to be written
	return fmt.Sprintf("%x", sha256.Sum256(text))[:10]
}

// GatewayName returns the name of the Gateway of a class.
func GatewayName(class string) string { return label(class, maxGatewayName) }

// claim returns the name for an object of a kind and namespace, with a number if it is taken. Numbers are in the order
// of the alphabet.
func (t *translator) claim(kind, namespace, name string) string {
	candidate := name
	for i := 2; t.taken[Subject{kind, namespace, candidate}]; i++ {
		suffix := fmt.Sprintf("-%02d", i)
		candidate = strings.TrimRight(name[:min(len(name), maxLabel-len(suffix))], "-") + suffix
	}
	t.taken[Subject{kind, namespace, candidate}] = true
	return candidate
}

// seconds writes a number of seconds as a duration, which has up to five digits before a unit.
func seconds(n int) *gatewayv1.Duration {
	n = min(n, 99999*3600)
	switch {
	case n > 0 && n%3600 == 0:
		return new(gatewayv1.Duration(strconv.Itoa(n/3600) + "h"))
	case n > 0 && n%60 == 0 && n/60 < 100000:
		return new(gatewayv1.Duration(strconv.Itoa(n/60) + "m"))
	case n < 100000:
		return new(gatewayv1.Duration(strconv.Itoa(n) + "s"))
	}
	return new(gatewayv1.Duration((time.Duration(n) * time.Second).String()))
}

// list splits a value at its commas.
func list(value string) []string {
	var all []string
	for item := range strings.SplitSeq(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}
