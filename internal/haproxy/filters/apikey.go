package filters

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
	"gateway/internal/regex"
	"gateway/internal/routing"
)

func init() { after(&basic, &apiKey) }

// apiKey answers 401 to requests without a key of a client. The parameter "apikey" is the Secret, "apikey.PLACE.NAME"
// is there for each place where a key may be, and "apikey.to.HEADER" for the header that tells the backend the client.
// "apikey.scheme" is for the challenge.
//
// gateway-keys keeps the map of keys by their hashes, and the names of their clients. So no program is asked about a
// request, and what may be compared byte by byte is a hash, which nobody can choose. HAProxy starts without the file.
//
// A request has one key. Otherwise, the proxy and the backend could take different ones. What it is in is removed,
// unless in shadow: the backend may check it, as before.
var apiKey = filter{
	guard: "APIKey", param: "apikey", mayStay: true,
	isUsed: hasAPIKey,
	names: func(rule *routing.Rule) []string {
		if rule.APIKey == nil {
			return nil
		}
		names := []string{"client " + rule.APIKey.ClientHeader}
		for _, place := range rule.APIKey.From {
			names = append(names, "key in "+keyParam(place))
		}
		return names
	},
	encode: func(in Input, p *params) {
		key := in.Rule.APIKey
		if key == nil {
			return
		}
		p.set("apikey", key.Secret)
		for _, place := range key.From {
			p.set(keyParam(place), "1")
		}
		if key.ClientHeader != "" {
			p.set(clientParam(key.ClientHeader), "1")
		}
		scheme := "APIKey"
		if key.Wants("authorization") {
			scheme = "Bearer"
		}
		p.set("apikey.scheme", scheme)
	},
	rules: keyRules,
	describe: func(rule *routing.Rule) []string {
		if rule.APIKey == nil {
			return nil
		}
		var places []string
		for _, place := range rule.APIKey.From {
			places = append(places, string(place.In)+" "+place.Name)
		}
		return []string{fmt.Sprintf("APIKey: a key of Secret %s in %s, else 401", rule.APIKey.Secret, strings.Join(places, " or "))}
	},
}

func hasAPIKey(rule *routing.Rule) bool { return rule.APIKey != nil }

func keyParam(place model.KeyPlace) string {
	return "apikey." + string(place.In) + "." + ir.Quote(place.Name, ir.InName)
}

func clientParam(header string) string { return "apikey.to." + ir.Quote(header, ir.InName) }

// clientName is the condition that the client is known by its name.
const clientName = "{ var(txn.client_name) -m found }"

// ClientLog is the expression for the name of the client.
const ClientLog = "var(txn.client_name)"

// HasClients reports whether requests may have names of clients.
func HasClients(env Env) bool { return slices.ContainsFunc(env.Rules, hasAPIKey) }

// keyRules find the one key of a request and its client.
func keyRules(env Env) Rules {
	const isFound = "{ var(txn.api_keys) -m int 1 }"
	found, remove, headers := []string{"http-request set-var(txn.api_keys) int(0) if " + has("apikey")}, []string(nil), map[string]bool{}
	places := map[model.KeyPlace]bool{}
	for _, rule := range env.Rules {
		if rule.APIKey == nil {
			continue
		}
		for _, place := range rule.APIKey.From {
			places[place] = true
		}
		if header := rule.APIKey.ClientHeader; header != "" {
			headers[header] = true
		}
	}
	for _, param := range slices.Sorted(maps.Keys(byParam(places))) {
		place := byParam(places)[param]
		found = append(found, findLines(place)...)
		remove = append(remove, removeLines(env, place)...)
	}
	var forget, tell []string
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		name, limited := ir.Quote(header, ir.InName), has(clientParam(header))
		forget = append(forget, "http-request del-header "+name+" if "+limited)
		tell = append(tell, "http-request set-header "+name+" %["+ClientLog+"] if "+limited+" "+clientName)
	}
	lookup := "map_str(" + env.Paths.APIKeysMap() + ")"
	challenge := ` hdr www-authenticate "%[` + param("apikey.scheme") + `]"`
	rules := slices.Concat(
		env.refuse(503, "the keys of clients are not known", "", has("apikey")+" !{ "+text("apikey")+","+lookup+" -m found }"),
		found,
		[]string{
			`http-request set-var-fmt(txn.api_hash) "%[` + text("apikey") + `]/%[var(txn.api_key),sha2(256),hex]" if ` + has("apikey") + " " + isFound,
			"http-request unset-var(txn.api_key)",
			"http-request set-var(txn.client_name) var(txn.api_hash)," + lookup + " if " + has("apikey") + " " + isFound,
		},
		env.refuse(401, "an API key is required", challenge, has("apikey")+" { var(txn.api_keys) -m int 0 }"),
		env.refuse(401, "the API key is not valid", challenge, has("apikey")+" !"+clientName),
	)
	if env.isShadow {
		rules = append(rules, "http-request unset-var(txn.client_name) if "+isRefused)
	}
	return Rules{Request: slices.Concat(rules, remove, forget, tell)}
}

func byParam(places map[model.KeyPlace]bool) map[string]model.KeyPlace {
	params := map[string]model.KeyPlace{}
	for place := range places {
		params[keyParam(place)] = place
	}
	return params
}

// findLines set txn.api_key to the key in a place, and count keys in txn.api_keys.
func findLines(place model.KeyPlace) []string {
	limited, name := has(keyParam(place)), ir.Quote(place.Name, ir.InName)
	key, count := "", ""
	switch place.In {
	case model.InQuery:
		isThere := limited + " { url_param(" + name + ") -m found }"
		return []string{
			"http-request set-var(txn.api_key) url_param(" + name + "),url_dec if " + isThere,
			"http-request set-var(txn.api_keys) var(txn.api_keys),add(1) if " + isThere,
			"http-request set-var(txn.api_keys) int(2) if " + limited + " { query -m reg '(?:^|&)" + regex.Quote(place.Name) + "=.*&" + regex.Quote(place.Name) + "=' }",
		}
	case model.InCookie:
		key, count = "req.cook("+name+")", "req.cook_cnt("+name+")"
	default:
		key, count = "req.fhdr("+name+")", "req.fhdr_cnt("+name+")"
		if place.Name == "authorization" {
			key += `,regsub('^(?i:bearer) +',)`
		}
	}
	return []string{
		"http-request set-var(txn.api_key) " + inQuotes(key) + " if " + limited + " { " + count + " gt 0 }",
		"http-request set-var(txn.api_keys) " + count + ",add(txn.api_keys) if " + limited,
	}
}

// removeLines remove a key from where it is. A query or a header of cookies that had nothing else goes with it.
func removeLines(env Env, place model.KeyPlace) []string {
	limited, name, pattern := has(keyParam(place)), ir.Quote(place.Name, ir.InName), regex.Quote(place.Name)
	if env.isShadow {
		limited += " !" + inShadow
	}
	switch place.In {
	case model.InQuery:
		isThere := limited + " { url_param(" + name + ") -m found }"
		return []string{
			"http-request set-var(txn.query) " + inQuotes("query,regsub('(?:^|&)"+pattern+"=[^&]*','')") + " if " + isThere,
			"http-request set-pathq %[path] if " + isThere + " { var(txn.query) -m len 0 }",
			"http-request set-query %[var(txn.query),regsub(^&,)] if " + isThere + " !{ var(txn.query) -m len 0 }",
		}
	case model.InCookie:
		limited += " { req.cook_cnt(" + name + ") gt 0 }"
		return []string{
			"http-request replace-header cookie " + inQuotes(`^(.*[;,])[ \t]*`+pattern+`[ \t]*=[^;,]*[;,]?[ \t]*(.*)$`) + ` "\1 \2" if ` + limited,
			"http-request replace-header cookie " + inQuotes(`^[ \t]*`+pattern+`[ \t]*=[^;,]*[;,]?[ \t]*(.*)$`) + ` "\1" if ` + limited,
		}
	}
	lines := []string{"http-request del-header " + name + " if " + limited}
	if i := slices.Index(env.Table.LoggedHeaders, place.Name); i >= 0 {
		lines = append(lines, fmt.Sprintf("http-request unset-var(txn.logged_%d) if %s", i, has(keyParam(place))))
	}
	return lines
}
