package ingress

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appv1 "gateway/api/app/v1"
)

const (
	cacheNote = "each thread of each pod keeps answers of 2xx to 4xx, for up to 1h, by Host and Authorization too. " +
		"The Service is asked about requests without Authorization and without what the key names of clients"
	uncached = "the Service is asked about each request: "
)

// mostCacheTime is the longest time in seconds that answers are kept.
const mostCacheTime = 3600

// cacheHeaders are the headers of questions that have what nginx's variables are. The host is always a part of the key.
var cacheHeaders = map[string]appv1.HeaderName{
	"host": "", "http_host": "", "best_http_host": "", "server_name": "", "remote_user": "Authorization", "http_authorization": "Authorization",
	"request_uri": "X-Forwarded-Uri", "uri": "X-Forwarded-Uri", "document_uri": "X-Forwarded-Uri", "args": "X-Forwarded-Uri", "query_string": "X-Forwarded-Uri",
	"is_args": "X-Forwarded-Uri", "request_method": "X-Forwarded-Method", "remote_addr": "X-Forwarded-For", "binary_remote_addr": "X-Forwarded-For",
	"the_real_ip": "X-Forwarded-For", "proxy_add_x_forwarded_for": "X-Forwarded-For", "scheme": "X-Forwarded-Proto", "server_port": "X-Forwarded-Port",
}

var (
	variable      = regexp.MustCompile(`\$(?:([A-Za-z0-9_]+)|\{([A-Za-z0-9_]+)\})?`)
	cacheDuration = regexp.MustCompile(`^((?:[0-9]{3} +)*)([1-9][0-9]{0,6})([smhdw])$`)
)

// setAuthCache takes what answers of the Service are kept by. The Service is asked about each request where they cannot
// be kept.
func setAuthCache(s *settings, value string) string {
	if note := part("auth-url")(s, value); note != "" {
		return note
	}
	_, note := s.authCache()
	return note
}

// authCache returns how answers of the Service are kept, and what is to be noted.
func (s *settings) authCache() (cache *appv1.ExternalAuthCache, note string) {
	key, why := cacheKey(s.values["auth-cache-key"])
	if why != "" {
		return nil, uncached + why
	}
	durations, why := cacheDurations(cmp.Or(s.values["auth-cache-duration"], "200 202 401 5m"))
	if why != "" {
		return nil, uncached + why
	}
	return &appv1.ExternalAuthCache{MaxAgeSeconds: mostCacheTime, Key: key, Durations: durations}, cacheNote
}

// sendKey has the Service get the headers of the key, beside those that it gets anyway.
func sendKey(auth *appv1.ExternalAuth) {
	usual := []appv1.HeaderName{"Authorization", "Cookie"}
	if auth.Cache == nil {
		return
	}
	for _, name := range auth.Cache.Key.Headers {
		if !isForwarded(name) && !slices.ContainsFunc(usual, func(u appv1.HeaderName) bool { return strings.EqualFold(string(u), string(name)) }) {
			auth.RequestHeaders = append(auth.RequestHeaders, name)
		}
	}
	if len(auth.RequestHeaders) > 0 {
		auth.RequestHeaders = append(usual, auth.RequestHeaders...)
	}
}

// cacheKey returns the part of a question that has the variables of a key, or why there is none.
func cacheKey(text string) (key *appv1.ExternalAuthCacheKey, why string) {
	key = &appv1.ExternalAuthCacheKey{}
	isKnown := false
	for _, match := range variable.FindAllStringSubmatch(text, -1) {
		name := match[1] + match[2]
		header, ok := cacheHeaders[name]
		if cookie, isCookie := strings.CutPrefix(name, "cookie_"); isCookie {
			key.Cookies = append(key.Cookies, appv1.ExternalAuthCookie(cookie))
			isKnown = true
			continue
		}
		if strings.HasPrefix(name, "arg_") {
			header, ok = "X-Forwarded-Uri", true
		}
		if other, isHeader := strings.CutPrefix(name, "http_"); isHeader && !ok {
			header = appv1.HeaderName(strings.ReplaceAll(other, "_", "-"))
			ok = isMatchableHeader(string(header)) && isChangeableHeader(string(header))
		}
		if !ok {
			return nil, fmt.Sprintf("%s cannot be a part of the key", match[0])
		}
		if header != "" {
			key.Headers = append(key.Headers, header)
			isKnown = isKnown || !isForwarded(header)
		}
	}
	slices.Sort(key.Headers)
	slices.Sort(key.Cookies)
	key.Headers, key.Cookies = slices.Compact(key.Headers), slices.Compact(key.Cookies)
	switch {
	case !isKnown:
		return nil, "auth-cache-key has no header and no cookie that tells clients apart, so one client would get what the Service says of another"
	case len(key.Headers) > mostAuthHeaders-2 || len(key.Cookies) > mostAuthHeaders:
		return nil, "auth-cache-key has too many variables"
	}
	return key, ""
}

// isForwarded reports whether a header is one that the proxy makes for questions.
func isForwarded(name appv1.HeaderName) bool {
	return strings.HasPrefix(strings.ToLower(string(name)), "x-forwarded-")
}

// cacheDurations returns how long answers are kept, by status, or why they are not.
func cacheDurations(text string) (all []appv1.ExternalAuthCacheDuration, why string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		parts := cacheDuration.FindStringSubmatch(one)
		if parts == nil || len(all) == 8 {
			return nil, fmt.Sprintf("auth-cache-duration %q is not up to eight times STATUS... NUMBER, with s, m, h, d or w", one)
		}
		n, _ := strconv.Atoi(parts[2])
		unit := map[string]int{"s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}[parts[3]]
		duration := appv1.ExternalAuthCacheDuration{Seconds: int32(min(n*unit, mostCacheTime))} //nolint:gosec // an hour
		for _, status := range strings.Fields(cmp.Or(parts[1], "200 301 302")) {
			code, _ := strconv.Atoi(status)
			if code < 200 || code > 499 {
				return nil, fmt.Sprintf("auth-cache-duration keeps answers of %d", code)
			}
			duration.Statuses = append(duration.Statuses, int32(code)) //nolint:gosec // a status
		}
		if slices.Sort(duration.Statuses); len(slices.Compact(duration.Statuses)) > 16 {
			return nil, "auth-cache-duration has more than 16 statuses with one time"
		}
		duration.Statuses = slices.Compact(duration.Statuses)
		all = append(all, duration)
	}
	return all, ""
}
