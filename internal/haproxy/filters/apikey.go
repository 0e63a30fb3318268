package filters

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gateway/internal/haproxy/ir"
	"gateway/internal/model"
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
// unless in shadow: the backend may check it, as before. Names of Secrets need no encoding.
var apiKey = filter{
	guard: "APIKey", param: "apikey", mayStay: true,
	isUsed: hasAPIKey,
	names: func(rule *routing.Rule) []string {
		names := []string{"client " + rule.APIKey.ClientHeader}
		for _, place := range rule.APIKey.From {
			names = append(names, "key in "+keyParam(place))
		}
		return names
	},
	encode: func(in Input, p *params) {
		key := in.Rule.APIKey
		p.set("apikey", key.Secret)
		for _, place := range key.From {
			p.set(keyParam(place), "1")
		}
		if key.ClientHeader != "" {
			p.set(clientParam(key.ClientHeader), "1")
		}
		scheme := "APIKey"
		if key.From.Want(authorization) {
			scheme = "Bearer"
		}
		p.set("apikey.scheme", scheme)
	},
	rules: keyRules,
	describe: func(rule *routing.Rule) []string {
		var places []string
		for _, place := range rule.APIKey.From {
			places = append(places, string(place.In)+" "+place.Name)
		}
		return []string{fmt.Sprintf("APIKey: a key of Secret %s in %s, else 401", rule.APIKey.Secret, strings.Join(places, " or "))}
	},
}

func hasAPIKey(rule *routing.Rule) bool { return rule.APIKey != nil }

func keyPlaces(rule *routing.Rule) model.CredentialPlaces {
	if rule.APIKey == nil {
		return nil
	}
	return rule.APIKey.From
}

func keyParam(place model.CredentialPlace) string { return placeParam("apikey", place) }

func clientParam(header string) string { return "apikey.to." + ir.Quote(header, ir.InName) }

// clientName is the condition that the client is known by its name.
const clientName = "{ var(txn.client_name) -m found }"

// ClientLog is the expression for the name of the client.
const ClientLog = "var(txn.client_name)"

// namesClients reports whether a rule knows clients by their names.
func namesClients(rule *routing.Rule) bool { return hasAPIKey(rule) || hasBasic(rule) }

// HasClients reports whether requests may have names of clients.
func HasClients(env Env) bool { return slices.ContainsFunc(env.Rules, namesClients) }

// keyRules find the one key of a request and its client. What is false for most requests comes first in conditions: it
// costs less than to read a parameter.
func keyRules(env Env) Rules {
	const wanted = "{ var(txn.api_secret) -m found }"
	lookup := "map_str(" + env.Paths.APIKeysMap() + ")"
	challenge := ` hdr www-authenticate "%[` + param("apikey.scheme") + `]"`
	places, headers := placesOf(env.Rules, "apikey", keyPlaces), map[string]bool{}
	for _, rule := range env.Rules {
		if rule.APIKey != nil && rule.APIKey.ClientHeader != "" {
			headers[rule.APIKey.ClientHeader] = true
		}
	}
	var remove []string
	for _, param := range slices.Sorted(maps.Keys(places)) {
		condition := has(param)
		if env.isShadow {
			condition = "!" + inShadow + " " + condition
		}
		remove = append(remove, takeLines(places[param], condition)...)
	}
	rules := slices.Concat(
		[]string{"http-request set-var(txn.api_secret) " + param("apikey")}, findLines("txn.api_key", `,regsub('^(?i:bearer) +',)`, places),
		[]string{"http-request set-var(txn.client_name) var(txn.api_key),sha2(256),hex,concat(/,txn.api_secret)," + lookup},
		env.refuse(503, "the keys of clients are not known", "", "!"+clientName+" "+wanted+" !{ var(txn.api_secret),"+lookup+" -m found }"),
		env.refuse(401, "an API key is required", challenge, "!"+clientName+" "+wanted+" !{ var(txn.api_key) -m found }"),
		env.refuse(401, "the API key is not valid", challenge, "!"+clientName+" "+wanted),
	)
	if env.isShadow {
		rules = append(rules, "http-request unset-var(txn.client_name) if "+isRefused)
	}
	rules = append(rules, remove...)
	for _, header := range slices.Sorted(maps.Keys(headers)) {
		name, limited := ir.Quote(header, ir.InName), has(clientParam(header))
		if env.isShadow {
			rules = append(rules, "http-request del-header "+name+" if "+isRefused+" "+limited)
		}
		rules = append(rules, "http-request set-header "+name+" %["+ClientLog+"] if "+clientName+" "+limited)
	}
	return Rules{Request: rules}
}
