package explain

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"gateway/cmd/kubectl-gateway/internal/cli"
	"gateway/internal/haproxy/filters"
	"gateway/internal/login"
	"gateway/internal/model"
	"gateway/internal/routing"
)

// parseClient returns the address of the client, which is not valid if it is not given.
func parseClient(text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	client, err := netip.ParseAddr(text)
	if err != nil || client.Zone() != "" {
		return netip.Addr{}, cli.Usagef("the client's address %q is no IP address", text)
	}
	return client.Unmap(), nil
}

// refusal is the usual answer of a filter that is certain to refuse a request.
type refusal struct{ filter, answer string }

// refusals returns the filters that are certain to refuse a request, in order. Filters that explain cannot evaluate may
// still refuse it, or make the answer 503.
func refusals(site *cli.Site, rule *routing.Rule, r request) []refusal {
	var all []refusal
	add := func(filter, format string, args ...any) {
		all = append(all, refusal{filter, fmt.Sprintf(format, args...)})
	}
	if noAccess := noAccess(rule.Clients, r.client); noAccess != "" {
		add("ClientAddress", "403: ClientAddress: %s", noAccess)
	}
	const unauthorized = "401: %s: the request has no header like Authorization: %s ..."
	switch {
	case rule.BasicAuth != nil && site.LacksUsers(rule.BasicAuth.Secret):
		add("BasicAuth", "503: BasicAuth: Secret %s has no users", rule.BasicAuth.Secret)
	case rule.BasicAuth != nil && !authorizes(r, "Basic"):
		add("BasicAuth", unauthorized, "BasicAuth", "Basic")
	}
	switch key := rule.APIKey; {
	case key != nil && site.LacksKeys(key.Secret):
		add("APIKey", "503: APIKey: Secret %s has no keys", key.Secret)
	case key != nil && !hasOne(r, key.From):
		add("APIKey", "401: APIKey: the request does not have one key in its place")
	}
	switch jwt := rule.JWT; {
	case jwt == nil || hasToken(r, jwt):
	case isBearer(jwt):
		add("JWT", unauthorized, "JWT", "Bearer")
	default:
		add("JWT", "401: JWT: the request does not have one token in its place")
	}
	switch oidc := rule.OIDC; {
	case oidc == nil:
	case append(r.Header["x-forwarded-proto"], "")[0] != "https":
		add("OIDC", "403: OIDC: logins need HTTPS: use https, or let the Gateway trust the proxy that terminates TLS")
	case hasSession(r):
	case asksForPage(r):
		add("OIDC", "302: OIDC: the request has no session: the browser is sent to %s", oidc.Login.Issuer)
	default:
		add("OIDC", "401: OIDC: the request has no session; a browser that asks for a page is sent to %s", oidc.Login.Issuer)
	}
	if reason := filters.NotAllowed(rule, r.facts(rule)); reason != "" {
		add("Authorization", "403: Authorization: %s", reason)
	}
	return all
}

// facts are what an Authorization would know of a request. Claims and user name come from the header Authorization,
// whether or not they are valid: another filter refuses invalid ones.
func (r request) facts(rule *routing.Rule) filters.Facts {
	path, _ := routing.CanonicalPath(r.Path)
	facts := filters.Facts{
		Method: r.Method, Path: path, Client: r.client,
		Name: func() (string, bool) {
			from := http.Request{Header: http.Header{"Authorization": r.Header["authorization"]}}
			user, _, ok := from.BasicAuth()
			return user, ok && rule.BasicAuth != nil
		},
		Claim: func(string) ([]string, bool) { return nil, false },
	}
	if rule.JWT != nil && rule.JWT.From.Want("authorization") && authorizes(r, "Bearer") {
		facts.Claim = claimsOf(r.Header["authorization"][0][len("Bearer "):])
	}
	return facts
}

// claimsOf returns a function for the claims of a token. One that cannot be read is not known.
func claimsOf(token string) func(path string) ([]string, bool) {
	var claims map[string]any
	if parts := strings.Split(strings.TrimSpace(token), "."); len(parts) == 3 {
		payload, _ := base64.RawURLEncoding.DecodeString(parts[1])
		decoder := json.NewDecoder(bytes.NewReader(payload))
		decoder.UseNumber()
		_ = decoder.Decode(&claims) // without claims, none is known
	}
	return func(path string) ([]string, bool) {
		var value any = claims
		for _, name := range filters.ClaimNames(path) {
			object, _ := value.(map[string]any)
			value = object[name]
		}
		return claimTexts(value, claims != nil)
	}
}

// claimTexts returns the texts that a claim is, or has.
func claimTexts(value any, isKnown bool) ([]string, bool) {
	switch claim := value.(type) {
	case nil:
		return nil, isKnown
	case string, bool, json.Number:
		return []string{fmt.Sprint(claim)}, true
	case []any:
		var all []string
		for _, one := range claim {
			text, ok := one.(string)
			if !ok {
				return nil, false
			}
			all = append(all, text)
		}
		return all, true
	}
	return nil, false
}

// authorizes reports whether a request has credentials of a scheme. With several headers, it counts as having none.
func authorizes(r request, scheme string) bool {
	values := r.Header["authorization"]
	return len(values) == 1 && strings.HasPrefix(strings.ToLower(values[0]), strings.ToLower(scheme)+" ")
}

// hasOne reports whether a request has one key or token, whatever it is. An empty one is none.
func hasOne(r request, places model.CredentialPlaces) bool {
	keys := 0
	for _, place := range places {
		values := valuesIn(r, place)
		if len(values) > 1 {
			return false
		}
		if len(values) == 1 && values[0] != "" {
			keys++
		}
	}
	return keys == 1
}

// valuesIn returns what a request has in a place.
func valuesIn(r request, place model.CredentialPlace) []string {
	switch place.In {
	case model.InQuery:
		return valuesOf(r.Query, "&", place.Name, url.PathUnescape)
	case model.InCookie:
		return valuesOf(strings.Join(r.Header["cookie"], ";"), ";", place.Name, func(name string) (string, error) { return strings.Trim(name, " \t"), nil })
	}
	return r.Header[place.Name]
}

// valuesOf returns the values of a name in a text of NAME=VALUE.
func valuesOf(text, separator, name string, read func(string) (string, error)) []string {
	var all []string
	for part := range strings.SplitSeq(text, separator) {
		if key, value, ok := strings.Cut(part, "="); ok {
			if key, err := read(key); err == nil && key == name {
				all = append(all, strings.Trim(value, " \t"))
			}
		}
	}
	return all
}

// isBearer reports whether tokens are in the header Authorization alone.
func isBearer(jwt *model.JWT) bool { return len(jwt.From) == 1 && jwt.From.Want("authorization") }

// hasToken reports whether a request has a token, whatever it is.
func hasToken(r request, jwt *model.JWT) bool {
	if isBearer(jwt) {
		return authorizes(r, "Bearer")
	}
	return hasOne(r, jwt.From)
}

// hasSession reports whether a request has a session, whatever it is.
func hasSession(r request) bool {
	return hasOne(r, model.CredentialPlaces{{In: model.InCookie, Name: login.SessionCookie}})
}

// asksForPage reports whether a browser asks for a page, by the same rules as gateway-login.
func asksForPage(r request) bool {
	mode := strings.Join(r.Header["sec-fetch-mode"], ",")
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && (mode == "" || mode == "navigate") && r.Header["x-requested-with"] == nil &&
		strings.Contains(strings.Join(r.Header["accept"], ","), "text/html")
}

// noAccess returns why a client has no access, "" if it has, or if that is not known.
func noAccess(clients *routing.Clients, client netip.Addr) string {
	if clients == nil || !client.IsValid() {
		return ""
	}
	contains := func(p netip.Prefix) bool { return p.Contains(client) }
	if i := slices.IndexFunc(clients.Deny, contains); i >= 0 {
		return fmt.Sprintf("%s is in %s, which is denied", client, clients.Deny[i])
	}
	if len(clients.Allow) > 0 && !slices.ContainsFunc(clients.Allow, contains) {
		return fmt.Sprintf("%s is in no range that is allowed", client)
	}
	return ""
}
