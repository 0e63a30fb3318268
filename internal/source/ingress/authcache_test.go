package ingress

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	appv1 "gateway/api/app/v1"
)

const usualDurations = "[200 202 401] 300"

// authCacheTests are keys and durations, and what becomes of them.
var authCacheTests = []struct {
	key, duration string
	// headers and cookies are in the key. others are the headers that the Service gets beside the usual ones.
	headers, cookies, others, durations string
	// why is a part of the note why answers are not kept.
	why string
}{
	{key: "$cookie_session", cookies: "session", durations: usualDurations},
	{key: "$remote_user$http_authorization", headers: "Authorization", durations: usualDurations},
	{key: "${cookie_b}-$cookie_a:$cookie_b", cookies: "a b", durations: usualDurations},
	{key: "$http_x_api_key$request_uri$host", headers: "X-Forwarded-Uri x-api-key", others: "x-api-key", durations: usualDurations},
	{key: "$http_cookie$request_method$binary_remote_addr", headers: "X-Forwarded-For X-Forwarded-Method cookie", durations: usualDurations},
	{key: "$scheme$arg_token$cookie_a", headers: "X-Forwarded-Proto X-Forwarded-Uri", cookies: "a", durations: usualDurations},
	{key: "$cookie_a", duration: "200 202 10m, 401 30s,", cookies: "a", durations: "[200 202] 600, [401] 30"},
	{key: "$cookie_a", duration: "1d", cookies: "a", durations: "[200 301 302] 3600"},
	{key: "foo", why: "tells clients apart"},
	{key: "$host$request_uri$remote_addr", why: "tells clients apart"},
	{key: "$http_x_forwarded_for", why: "tells clients apart"},
	{key: "$cookie_a$1", why: "$1 cannot be a part of the key"},
	{key: "$cookie_a$ssl_client_s_dn", why: "$ssl_client_s_dn cannot"},
	{key: "$cookie_a$http_content_length", why: "$http_content_length cannot"},
	{key: "$cookie_a$", why: "$ cannot"},
	{key: "$cookie_a", duration: "200 502 5m", why: "answers of 502"},
	{key: "$cookie_a", duration: "any 5m", why: "\"any 5m\" is not"},
	{key: "$cookie_a", duration: "200 100ms", why: "\"200 100ms\" is not"},
	{key: "$cookie_a", duration: "200", why: "\"200\" is not"},
	{key: "$cookie_a", duration: strings.Repeat("1m,", 9), why: "is not up to eight"},
	{key: strings.Repeat("$cookie_a", 3) + cookies(17), why: "too many"},
}

// TestAuthCache: answers are kept by the variables of a key, or not at all.
func TestAuthCache(t *testing.T) {
	for _, test := range authCacheTests {
		result := annotated(t, map[string]string{"auth-url": asked, "auth-cache-key": test.key, "auth-cache-duration": test.duration})
		rule := flatten(result)[0]
		auth := rule.extension.Filters[0].ExternalAuth
		note := "annotation auth-cache-key: "
		for _, n := range ofIngresses(result) {
			if after, ok := strings.CutPrefix(n.Text, note); ok {
				note += after
			}
		}
		if test.why != "" {
			if auth.Cache != nil || auth.RequestHeaders != nil || !strings.Contains(note, uncached) || !strings.Contains(note, test.why) {
				t.Errorf("%s, %s: got %s with the note %q", test.key, test.duration, asText(auth), note)
			}
			continue
		}
		want := &appv1.ExternalAuth{BackendRef: appv1.ExternalAuthBackendRef{Name: "login", Port: 4180}, Path: "/oauth2/auth", Timeout: "1m"}
		want.Cache = &appv1.ExternalAuthCache{MaxAgeSeconds: 3600, Key: &appv1.ExternalAuthCacheKey{}}
		for _, name := range strings.Fields(test.headers) {
			want.Cache.Key.Headers = append(want.Cache.Key.Headers, appv1.HeaderName(name))
		}
		for _, name := range strings.Fields(test.cookies) {
			want.Cache.Key.Cookies = append(want.Cache.Key.Cookies, appv1.ExternalAuthCookie(name))
		}
		if test.others != "" {
			want.RequestHeaders = []appv1.HeaderName{"Authorization", "Cookie", appv1.HeaderName(test.others)}
		}
		for one := range strings.SplitSeq(test.durations, ", ") {
			var of appv1.ExternalAuthCacheDuration
			statuses, seconds, _ := strings.Cut(strings.TrimPrefix(one, "["), "] ")
			_, _ = fmt.Sscan(seconds, &of.Seconds)
			for _, status := range strings.Fields(statuses) {
				var code int32
				_, _ = fmt.Sscan(status, &code)
				of.Statuses = append(of.Statuses, code)
			}
			want.Cache.Durations = append(want.Cache.Durations, of)
		}
		if asText(auth) != asText(want) || note != "annotation auth-cache-key: "+cacheNote {
			t.Errorf("%s, %s: got\n%s\nwith the note %q, want\n%s", test.key, test.duration, asText(auth), note, asText(want))
		}
	}
}

// cookies returns so many variables of cookies.
func cookies(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "$cookie_c%d", i)
	}
	return all.String()
}

func asText(object any) string {
	text, _ := yaml.Marshal(object)
	return string(text)
}
