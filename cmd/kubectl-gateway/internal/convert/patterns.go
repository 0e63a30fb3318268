package convert

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	appv1 "gateway/api/app/v1"
)

// The limits of our API's fields, as in its schema. Values beyond them are noted, so that every Gateway is admitted.
var (
	serviceName = regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	objectNames = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	hostnames   = regexp.MustCompile(`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	headerNames = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	headerTexts = regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`)
	cookieNames = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	urlPaths    = regexp.MustCompile(`^/([-A-Za-z0-9._~!$&'()*+,;=:@/]|%[0-9A-Fa-f]{2})*$`)
	corsOrigins = regexp.MustCompile(`^(\*|https?://(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*(:[1-9][0-9]{0,4})?)$`)
	expressions = regexp.MustCompile(`^[ -~]+$`)
	// badSegments are those that a path to match may not have.
	badSegments = regexp.MustCompile(`(?i)//|/(\.|%2e){1,2}(/|$)|%2f|%5c|%00`)
	// framing are the headers that cannot be changed.
	framing = regexp.MustCompile(`(?i)^(host|content[-_.]length|transfer[-_.]encoding|connection|keep[-_.]alive|proxy[-_.]connection|te|trailer|upgrade|http2[-_.]settings|expect)$`)
)

func isServiceName(s string) bool { return len(s) <= 63 && serviceName.MatchString(s) }
func isGatewayName(s string) bool { return len(s) <= 55 && serviceName.MatchString(s) }
func isObjectName(s string) bool  { return len(s) <= 253 && objectNames.MatchString(s) }
func isHostname(s string) bool    { return len(s) <= 253 && hostnames.MatchString(s) }
func isHeaderName(s string) bool  { return len(s) <= 128 && headerNames.MatchString(s) }
func isHeaderText(s string) bool  { return len(s) <= 1024 && headerTexts.MatchString(s) }
func isCookieName(s string) bool  { return len(s) <= 64 && cookieNames.MatchString(s) }
func isURLPath(s string) bool     { return len(s) <= 1024 && urlPaths.MatchString(s) }
func isOrigin(s string) bool      { return len(s) <= 253 && corsOrigins.MatchString(s) }
func isExpression(s string) bool  { return len(s) <= 1024 && expressions.MatchString(s) }

// isMatch reports whether a rule can match the path.
func isMatch(path appv1.PathMatch) bool {
	if path.Type == appv1.PathMatchRegularExpression {
		return isExpression(path.Value)
	}
	return isURLPath(path.Value) && !badSegments.MatchString(path.Value)
}

func isPreciseHostname(s string) bool { return isHostname(s) && !strings.HasPrefix(s, "*") }

// isMatchableHeader reports whether a rule can match the header: the proxies remove those with other characters.
func isMatchableHeader(s string) bool { return isHeaderName(s) && !strings.ContainsAny(s, "_.") }

func isChangeableHeader(s string) bool { return isHeaderName(s) && !framing.MatchString(s) }

// methods are those that rules can match, and CORS can allow.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"}

// retryCodes are the statuses after which a request can be retried.
var retryCodes = []int{401, 403, 404, 408, 425, 500, 501, 502, 503, 504}

// redirectCodes are the statuses that a redirect can have.
var redirectCodes = []int{301, 302, 303, 307, 308}

// gatewayName returns the name if a Gateway can have it, or else one like it.
func gatewayName(name string) string {
	name = label(name)
	if name == "" || name[0] <= '9' {
		name = "gateway-" + name
	}
	return strings.TrimRight(name[:min(len(name), 55)], "-")
}

// label makes a DNS label of a name, for a listener or route.
func label(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.ReplaceAll(name, "*", "any")))
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// names gives every route a name of its own.
type names map[appv1.Name]bool

// unique returns a label of the name, with a number if it is taken.
func (n names) unique(name string) appv1.Name {
	base := label(name)
	candidate := appv1.Name(base)
	for i := 2; n[candidate] || candidate == ""; i++ {
		suffix := "-" + strconv.Itoa(i)
		candidate = appv1.Name(strings.TrimLeft(base[:min(len(base), 63-len(suffix))]+suffix, "-"))
	}
	n[candidate] = true
	return candidate
}

// seconds writes a number of seconds as a duration, which has up to five digits before a unit.
func seconds(n int) appv1.Duration {
	n = min(n, 99999*3600)
	switch {
	case n > 0 && n%3600 == 0:
		return appv1.Duration(strconv.Itoa(n/3600) + "h")
	case n > 0 && n%60 == 0 && n/60 < 100000:
		return appv1.Duration(strconv.Itoa(n/60) + "m")
	case n < 100000:
		return appv1.Duration(strconv.Itoa(n) + "s")
	}
	return appv1.Duration((time.Duration(n) * time.Second).String())
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
