package ingress

import (
	"regexp"
	"strings"

	appv1 "gateway/api/app/v1"
)

const (
	twoDomains   = "it is no pair of domains, so cookies stay as they are"
	twoPaths     = "it is no pair of paths, so cookies stay as they are"
	twoLocations = "Location stays as it is: it is replaced by a text in place of its beginning alone, as proxy-redirect-from and proxy-redirect-to say"
	isRelative   = "a new Location that begins with a slash stays so: nginx puts the scheme and the host before it"
)

// The form of a cookie's path, and of the beginning of a URL.
var (
	isCookiePath   = regexp.MustCompile(`^/[!-:<-~]{0,999}$`).MatchString
	isURLBeginning = regexp.MustCompile(`^[!-}][!-~]{0,999}$`).MatchString // with ~, nginx takes it for an expression
)

// pair returns what is replaced and by what, both "" if it is no pair of texts.
func pair(value string) (from, to string) {
	if fields := strings.Fields(value); len(fields) == 2 {
		return fields[0], fields[1]
	}
	return "", ""
}

// setCookieDomain takes a pair of domains. nginx ignores a dot before them.
func setCookieDomain(s *settings, value string) string {
	from, to := pair(strings.ToLower(value))
	from, to = strings.TrimPrefix(from, "."), strings.TrimPrefix(to, ".")
	switch {
	case value == "off":
		return ""
	case !isPreciseHostname(from) || !isPreciseHostname(to):
		return twoDomains
	}
	s.answers.CookieDomain = &appv1.CookieDomainRewrite{From: appv1.PreciseHostname(from), To: appv1.PreciseHostname(to)}
	return ""
}

func setCookiePath(s *settings, value string) string {
	from, to := pair(value)
	switch {
	case value == "off":
		return ""
	case !isCookiePath(from) || !isCookiePath(to):
		return twoPaths
	}
	s.answers.CookiePath = &appv1.CookiePathRewrite{From: appv1.CookiePath(from), To: appv1.CookiePath(to)}
	return ""
}

// setLocation takes the beginning of URLs, for which proxy-redirect-to has another one. By default, nginx replaces what
// no backend answers with.
func setLocation(s *settings, from string) string {
	to := s.values["proxy-redirect-to"]
	switch {
	case from == "off", from == "default", to == "off":
		return ""
	case !isURLBeginning(from) || !isURLBeginning(to):
		return twoLocations
	}
	s.answers.Location = &appv1.LocationRewrite{From: appv1.URLBeginning(from), To: appv1.URLBeginning(to)}
	return either(strings.HasPrefix(to, "/"), isRelative, "")
}
