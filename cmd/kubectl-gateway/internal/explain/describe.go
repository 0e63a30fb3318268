package explain

import (
	"fmt"
	"strings"

	"gateway/internal/haproxy/filters"
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

// steps returns what happens to a request on the way to a backend, and to the answer. What may refuse requests comes in
// the order in which HAProxy asks it.
func steps(rule *routing.Rule, r request) []string {
	all := filters.Describe(rule)
	for i, text := range all {
		name, _, _ := strings.Cut(text, ":")
		if secret := given(rule, r)[name]; secret != "" {
			all[i] += " (" + secret + " not checked)"
		}
	}
	for _, mandatory := range rule.Mandatory {
		all = append(all, fmt.Sprintf("mandatory: %s, by %s", mandatory.Filter, mandatory.By))
	}
	if rule.Clients != nil && !r.client.IsValid() {
		all = append(all, "explain does not know who the client is: see --client-address")
	}
	if retry := rule.Retry; retry != nil {
		all = append(all, fmt.Sprintf("retries: up to %d%s", retry.Attempts, codes(retry.Codes)))
	}
	if affinity := rule.Affinity; affinity != nil {
		all = append(all, fmt.Sprintf("session: the endpoint that the Service's cookie %s-... names, if it is there", affinity.Name))
	}
	return all
}

// given returns the credentials of a request that are not checked here, by the filter that would check them.
func given(rule *routing.Rule, r request) map[string]string {
	all := map[string]string{}
	if rule.BasicAuth != nil && authorizes(r, "Basic") {
		all["BasicAuth"] = "password"
	}
	if rule.APIKey != nil && hasOne(r, rule.APIKey.From) {
		all["APIKey"] = "key"
	}
	if rule.JWT != nil && hasToken(r, rule.JWT) {
		all["JWT"] = "token"
	}
	if rule.OIDC != nil && hasSession(r) {
		all["OIDC"] = "session"
	}
	return all
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
