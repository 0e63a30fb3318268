package explain

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"gateway/internal/model"
	"gateway/internal/routing"
)

// what names an entry.
func what(entry *routing.Entry) string {
	if entry.Rule.Route == "" {
		return "the redirect to HTTPS"
	}
	return fmt.Sprintf("route %s rules[%d]: %s", entry.Rule.Route, entry.Rule.Index, describe(entry))
}

// describe describes the requests that match an entry.
func describe(entry *routing.Entry) string {
	var parts []string
	if entry.Hostname != "" {
		parts = append(parts, "host "+entry.Hostname)
	}
	switch {
	case entry.PathType == routing.Exact:
		parts = append(parts, "path "+entry.Path)
	case entry.PathType == routing.Regex:
		parts = append(parts, "path matching "+entry.Path)
	case entry.Path != "/":
		parts = append(parts, "path prefix "+strings.TrimSuffix(entry.Path, "/"))
	}
	if entry.Method != "" {
		parts = append(parts, "method "+entry.Method)
	}
	for _, header := range entry.Headers {
		parts = append(parts, "header "+condition(header))
	}
	for _, param := range entry.Query {
		parts = append(parts, "query "+condition(param))
	}
	if entry.Session != "" {
		parts = append(parts, "cookie "+entry.Session)
	}
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, ", ")
}

func condition(c routing.Condition) string {
	if c.Regex {
		return fmt.Sprintf("%s matching %s", c.Name, c.Value)
	}
	return fmt.Sprintf("%s=%s", c.Name, c.Value)
}

// filters describes what a rule does with a request on the way to a backend, and with the response. Filters that may
// refuse requests come first, in the order of HAProxy.
func filters(rule *routing.Rule, client netip.Addr) []string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if cors := rule.CORS; cors != nil {
		add("CORS: pages of %s may use it", strings.Join(cors.Origins, ", "))
	}
	if clients := rule.Clients; clients != nil {
		all = append(all, clientsText(clients, client))
	}
	all = append(all, limitTexts(rule, false)...)
	if basic := rule.BasicAuth; basic != nil {
		add("BasicAuth: a user of Secret %s, else 401", basic.Secret)
	}
	if jwt := rule.JWT; jwt != nil {
		add("JWT: a token of %s for %s, else 401%s", jwt.Issuer, strings.Join(jwt.Audiences, " or "), scopesText(jwt.Scopes))
	}
	all = append(all, limitTexts(rule, true)...)
	if rule.MaxBody != nil {
		add("maxRequestBytes: bodies of up to %d bytes, else 413", *rule.MaxBody)
	}
	if auth := rule.ExternalAuth; auth != nil {
		at, status := auth.Path, "2xx"
		if auth.Repeat {
			at, status = auth.Path+"/...", "200"
		}
		add("ExternalAuth: Service %s at %s has to answer %s, else the client gets its answer or 503", auth.Backend, at, status)
		if auth.MaxBody > 0 {
			add("ExternalAuth: the Service gets bodies of up to %d bytes, else the client gets 413", auth.MaxBody)
		}
	}
	all = append(all, headerChanges(rule.Headers)...)
	if rewrite := rule.Rewrite; rewrite != nil {
		if rewrite.Hostname != "" {
			add("host for the backend: %s", rewrite.Hostname)
		}
		if rewrite.Path != nil {
			add("path for the backend: %s", pathChange(rewrite.Path))
		}
	}
	for _, mirror := range rule.Mirrors {
		add("copies: %s of the requests, to Service %s", percent(mirror), mirror.Backend)
	}
	if rule.Cache {
		add("Cache: answers are stored if they say that they are for all users, and used for requests without Authorization")
	}
	switch {
	case rule.Timeout > 0:
		add("timeout: %s until the answer begins", rule.Timeout)
	case rule.Timeout < 0:
		add("timeout: none")
	}
	if retry := rule.Retry; retry != nil {
		add("retries: up to %d%s", retry.Attempts, codes(retry.Codes))
	}
	if affinity := rule.Affinity; affinity != nil {
		add("session: the endpoint that the Service's cookie %s-... names, if it is there", affinity.Name)
	}
	return all
}

// scopesText describes the scopes that a token must have.
func scopesText(scopes []string) string {
	if len(scopes) == 0 {
		return ""
	}
	return "; with " + strings.Join(scopes, " and ") + " as scopes, else 403"
}

var counted = map[time.Duration]string{0: "concurrent requests", time.Second: "requests per second", time.Minute: "requests per minute", time.Hour: "requests per hour"}

// limitTexts describe the limits of a rule: those by claims of the token, or all others.
func limitTexts(rule *routing.Rule, byClaim bool) []string {
	var all []string
	for _, limit := range rule.RateLimits {
		if (limit.Key == model.ByClaim) == byClaim {
			all = append(all, fmt.Sprintf("RateLimit: %d %s for %s, else 429", limit.Requests, counted[limit.Period], limitKey(limit)))
		}
	}
	return all
}

// limitKey describes which requests count together.
func limitKey(limit routing.RateLimit) string {
	switch limit.Key {
	case model.ByHeader:
		return "each value of the header " + limit.Name
	case model.ByCookie:
		return "each value of the cookie " + limit.Name
	case model.ByPath:
		return "each path"
	case model.ByRule:
		if limit.Listener != "" {
			return "all requests of listener " + limit.Listener
		}
		return "all requests of the rule"
	case model.ByClaim:
		return "each value of the claim " + limit.Name
	}
	return "each client address"
}

func percent(mirror routing.Mirror) string {
	return fmt.Sprintf("%.4g%%", 100*float64(mirror.Numerator)/float64(max(1, mirror.Denominator)))
}

func codes(codes []int32) string {
	if len(codes) == 0 {
		return ""
	}
	var texts []string
	for _, code := range codes {
		texts = append(texts, fmt.Sprint(code))
	}
	return ", also after an answer of " + strings.Join(texts, ", ")
}

func headerChanges(changes routing.HeaderChanges) []string {
	var all []string
	for _, side := range []struct {
		name string
		list []routing.HeaderChange
	}{{"request", changes.Request}, {"answer's", changes.Response}} {
		for _, change := range side.list {
			verb := "add"
			switch {
			case change.Clear && len(change.Values) == 0:
				all = append(all, fmt.Sprintf("%s header %s: remove", side.name, change.Name))
				continue
			case change.Clear:
				verb = "set"
			}
			all = append(all, fmt.Sprintf("%s header %s: %s %q", side.name, change.Name, verb, change.Values))
		}
	}
	return all
}

func pathChange(change *routing.PathChange) string {
	if change.Full != "" {
		return change.Full
	}
	return change.Prefix + "/ in place of the prefix"
}

// redirect returns where a client is sent.
func redirect(r *routing.Redirect) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if r.Scheme != "" {
		add("scheme %s", r.Scheme)
	}
	if r.Hostname != "" {
		add("host %s", r.Hostname)
	}
	if r.Port != 0 {
		add("port %d", r.Port)
	}
	if r.Path != nil {
		add("path %s", pathChange(r.Path))
	}
	return fmt.Sprintf("%d: redirect to %s", r.Status, strings.Join(parts, ", "))
}
