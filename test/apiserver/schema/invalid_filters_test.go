package schema

import (
	"fmt"
	"strings"
	"testing"
)

const (
	filter0 = "spec.routes[0].rules[0].filters[0]"
	// prefixFilter replaces the prefix of a rule whose matches may come before it.
	prefixFilter = "filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}}}]"
	refFilter    = ref + "{name: a, port: 80, filters: [{type: "
	cors         = filter + "CORS, cors: {allowOrigins: "
	addresses    = filter + "ClientAddress, clientAddress: {"
	limit        = filter + "RateLimit, rateLimit: {limits: [{"
	atATime      = filter + "RateLimit, rateLimit: {concurrent: "
	basic        = filter + "BasicAuth, basicAuth: {"
	key          = filter + "APIKey, apiKey: {"
	jwt          = filter + "JWT, jwt: {"
	remote       = jwt + "issuers: [{issuer: a, audiences: [a], keys: {remote: {uri: "
	oidc         = filter + "OIDC, oidc: {secretRef: {name: a}, "
	auth         = filter + "ExternalAuth, externalAuth: {"
	mirror       = filter + "RequestMirror, requestMirror: {backendRefs: ["
	alike        = "spec.routes[0].rules[0].filters: Invalid value: Cache would answer all users alike: remove it, or BasicAuth, APIKey, JWT and ExternalAuth"
	allow        = filter + "Authorization, authorization: {rules: ["
	bodiless     = "Invalid value: an answer with the status 204 or 304 has no body: remove it"
)

// filters are the types, with the field each needs and a value for it.
var filters = []struct{ kind, field, value string }{
	{"RequestHeaderModifier", "requestHeaderModifier", "{remove: [a]}"},
	{"ResponseHeaderModifier", "responseHeaderModifier", "{remove: [a]}"},
	{"RequestRedirect", "requestRedirect", "{}"},
	{"URLRewrite", "urlRewrite", "{hostname: a}"},
	{"DirectResponse", "directResponse", "{}"},
	{"CORS", "cors", "{allowOrigins: ['*']}"},
	{"ClientAddress", "clientAddress", "{deny: [10.0.0.0/8]}"},
	{"RateLimit", "rateLimit", "{limits: [{requests: 1, unit: Hour}]}"},
	{"BasicAuth", "basicAuth", "{secretRef: {name: a}}"},
	{"APIKey", "apiKey", "{secretRef: {name: a}, from: [{type: Header, name: a}]}"},
	{"JWT", "jwt", "{issuers: [{issuer: a, audiences: [a], keys: {inline: a}}]}"},
	{"OIDC", "oidc", "{issuer: 'https://a', clientID: a, secretRef: {name: a}}"},
	{"Authorization", "authorization", "{rules: [{action: Allow}]}"},
	{"ExternalAuth", "externalAuth", "{backendRef: {name: a, port: 80}}"},
	{"WAF", "waf", "{}"},
	{"RequestMirror", "requestMirror", "{backendRefs: [{name: a, port: 80}]}"},
	{"Cache", "cache", "{}"},
	{"HeaderVariables", "headerVariables", "{set: [{name: a, variable: Route}]}"},
	{"PathRegexRewrite", "pathRegexRewrite", "{pattern: ^/a, substitution: /b}"},
	{"ResponseOverride", "responseOverride", "{responses: [{statuses: [404], body: a}]}"},
	{"ResponseRewrite", "responseRewrite", "{cookiePath: {from: /a, to: /}}"},
	{"BandwidthLimit", "bandwidthLimit", "{request: {bytesPerSecond: 1024}}"},
}

// invalidFilters are about filters: the fixed ones, and what every type and every list of headers has in common.
func invalidFilters() []refusal {
	all := fixedFilters
	for i, f := range filters {
		other := filters[(i+1)%len(filters)]
		all = append(all, union(filter0, filter, f.kind, f.field, f.value, other.field, other.value)...)
		all = append(all,
			refusal{f.kind + " twice", "", filter + f.kind + ", " + f.field + ": " + f.value + "}, {type: " + f.kind + ", " +
				f.field + ": " + f.value + "}]}]}]}", []string{`filters[1]: Duplicate value: {"type":"` + f.kind + `"}`}},
		)
		if f.kind == "RequestRedirect" || f.kind == "DirectResponse" {
			all = append(all, refusal{f.kind + " with a backend", "",
				rule + "[{backendRefs: [{name: a, port: 80}], filters: [{type: " + f.kind + ", " + f.field + ": {}}]}]}]}",
				[]string{"spec.routes[0].rules[0].backendRefs: Invalid value: a rule with a RequestRedirect or DirectResponse filter has no backendRefs"}})
		}
	}
	for i, f := range filters[:2] {
		all = append(all, framing(filter, f.kind, f.field)...)
		all = append(all, framing(refFilter, f.kind, f.field)...)
		other := filters[1-i]
		at := "spec.routes[0].rules[0].backendRefs[0].filters[0]"
		all = append(all, union(at, refFilter, f.kind, f.field, f.value, other.field, other.value)...)
		all = append(all, union(at, refFilter, "URLRewrite", "urlRewrite", "{hostname: a}", f.field, f.value)...)
	}
	return all
}

// union are the ways to have other fields than the type wants, in a filter that begins like place.
func union(at, place, kind, field, value, otherField, otherValue string) []refusal {
	closing := "}]}]}]}"
	if strings.Contains(place, "backendRefs") {
		closing = "}]" + closing
	}
	at, missing := at+": ", at+"."+field+": Required value"
	return []refusal{
		{at + kind + " without its field", "", place + kind + closing, []string{missing}},
		{at + kind + " with another's field", "", place + kind + ", " + otherField + ": " + otherValue + closing, []string{missing}},
		{at + kind + " with another's field beside its own", "",
			place + kind + ", " + field + ": " + value + ", " + otherField + ": " + otherValue + closing, []string{at + "Too many: 3: must have at most 2 items"}},
	}
}

// framingHeaders may not be changed: a message would end elsewhere for the next server, or go elsewhere.
var framingHeaders = []string{
	"host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer", "upgrade",
	"http2-settings", "expect",
	// As some backends read them too.
	"content_length", "content.length", "transfer_encoding", "keep_alive", "proxy.connection", "http2_settings",
}

// framing are the ways to change a header that frames messages, by a filter that begins like place.
func framing(place, kind, field string) []refusal {
	var all []refusal
	closing, at, where := "}]}]}]}", filter0, "a rule's "
	if strings.Contains(place, "backendRefs") {
		closing, at, where = "}]"+closing, "spec.routes[0].rules[0].backendRefs[0].filters[0]", "a backend's "
	}
	for i, name := range framingHeaders {
		spelled := []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]}[i%3]
		for _, change := range []struct{ list, item, at string }{
			{"set", "{name: %s, value: a}", "set[0].name"}, {"add", "{name: %s, value: a}", "add[0].name"}, {"remove", "%s", "remove[0]"},
		} {
			spec := fmt.Sprintf("%s%s, %s: {%s: ["+change.item+"]}%s", place, kind, field, change.list, spelled, closing)
			all = append(all, refusal{where + kind + ", " + change.list + " " + spelled, "", spec,
				[]string{fmt.Sprintf("%q %s", at+"."+field+"."+change.at, none), fmt.Sprintf("%s: Invalid value: %q: ", at+"."+field+"."+change.at, spelled),
					"should match '^any header but those that frame a message and its connection, see kubectl explain$'"}})
		}
	}
	return all
}

// disguises are spellings of framing headers that some server or language could take for the header.
var disguises = []string{
	"Host ", " host", "host:", "host\\t", "host\\n", "host\\r\\nx", "\\nhost", "host\\0", "host%20", "ho\u017ft", "\u212aeep-alive",
	"\\ufeffhost", "host\\u200b", "\\uff48ost", "transfer\u2010encoding", "Content Length", "te,", "\\\"te\\\"", "(?i)te", ".host", "-te", "te_",
	":authority", ":method", "upgrade;", "host/1",
}

func TestDisguisedHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range disguises {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, list := range []string{"set: [{name: \"%s\", value: a}]", "add: [{name: \"%s\", value: a}]", "remove: [\"%s\"]"} {
				for _, f := range filters[:2] {
					spec := fmt.Sprintf(filter+f.kind+", "+f.field+": {"+list+"}}]}]}]}", name)
					expectRefusal(t, "shop", spec, filter0+"."+f.field, "should match")
				}
			}
		})
	}
	// These only begin or end like one.
	for _, name := range []string{"hostname", "x-host", "te-st", "tea", "x-upgrade", "Upgrade-Insecure-Requests", "expect-ct", "Content-Length-2"} {
		expectAdmission(t, filter+"RequestHeaderModifier, requestHeaderModifier: {remove: ["+name+"]}}]}]}]}")
	}
}

// fixedFilters are about single filters, and about filters of different types in one rule.
var fixedFilters = []refusal{
	{"an unknown filter", "", filter + "ResponseCache}]}]}]}",
		[]string{filter0 + `.type: Unsupported value: "ResponseCache": supported values: "RequestHeaderModifier", "ResponseHeaderModifier"`}},
	{"a rate limit without requests", "", limit + "unit: Hour}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].requests: Required value"}},
	{"a rate limit without a unit", "", limit + "requests: 1}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].unit: Required value"}},
	{"rate limits without one", "", filter + "RateLimit, rateLimit: {limits: []}}]}]}]}", []string{filter0 + ".rateLimit.limits: Invalid value: 0: "}},
	{"two rate limits of a unit", "", limit + "requests: 1, unit: Hour}, {requests: 2, unit: Hour}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[1]: Duplicate value: "}},
	{"a rate limit of another unit", "", limit + "requests: 1, unit: Day}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].unit: Unsupported value: \"Day\""}},
	{"a rate limit of no requests", "", limit + "requests: 0, unit: Hour}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].requests: Invalid value: 0: "}},
	{"a rate limit of too many requests", "", limit + "requests: 1000001, unit: Hour}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].requests: Invalid value: 1000001: "}},
	{"a rate limit by a header without a name", "", limit + "requests: 1, unit: Hour, key: {type: Header}}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].key.name: Required value"}},
	{"a rate limit by a cookie without a name", "", limit + "requests: 1, unit: Hour, key: {type: Cookie}}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].key.name: Required value"}},
	{"a rate limit by a claim without a name", "", limit + "requests: 1, unit: Hour, key: {type: Claim}}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].key.name: Required value"}},
	{"a rate limit by a claim that begins with a dot", "", limit + "requests: 1, unit: Hour, key: {type: Claim, name: .a}}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].key.name: Invalid value: \".a\""}},
	{"a rate limit by a path of a name", "", limit + "requests: 1, unit: Hour, key: {type: Path, name: a}}]}}]}]}]}", []string{filter0 + `.rateLimit.limits[0].key.type: Unsupported value: "Path": supported values: "Header", "Cookie", "Claim"`}},
	{"a rate limit by a name that is none", "", limit + "requests: 1, unit: Hour, key: {type: Cookie, name: 'a b'}}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].key.name: Invalid value: \"a b\""}},
	{"a rate limit of nothing", "", filter + "RateLimit, rateLimit: {}}]}]}]}", []string{filter0 + ".rateLimit: Invalid value: a RateLimit has limits, concurrent or both"}},
	{"no requests at a time", "", atATime + "{requests: 0}}}]}]}]}", []string{filter0 + ".rateLimit.concurrent.requests: Invalid value: 0: "}},
	{"too many requests at a time", "", atATime + "{requests: 1000001}}}]}]}]}", []string{filter0 + ".rateLimit.concurrent.requests: Invalid value: 1000001: "}},
	{"requests at a time without their number", "", atATime + "{key: {type: Rule}}}}]}]}]}", []string{filter0 + ".rateLimit.concurrent.requests: Required value"}},
	{"a rate limit by a claim with a dot that is not escaped", "", limit + "requests: 1, unit: Hour, key: {type: Claim, name: 'https://a.io/b'}}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].key.name: Invalid value: \"https://a.io/b\""}},
	{"a rate limit by a header that is named like a claim", "", limit + "requests: 1, unit: Hour, key: {type: Header, name: 'a:b'}}]}}]}]}]}", []string{filter0 + ".rateLimit.limits[0].key"}},
	{"requests at a time by a cookie that is named like a claim", "", atATime + "{requests: 1, key: {type: Cookie, name: 'a:b'}}}}]}]}]}", []string{filter0 + ".rateLimit.concurrent.key"}},
	{"requests at a time by a claim without a name", "", atATime + "{requests: 1, key: {type: Claim}}}}]}]}]}", []string{filter0 + ".rateLimit.concurrent.key.name: Required value"}},
	{"requests at a time by a rule of a name", "", atATime + "{requests: 1, key: {type: Rule, name: a}}}}]}]}]}", []string{filter0 + `.rateLimit.concurrent.key.type: Unsupported value: "Rule": supported values: "Header", "Cookie", "Claim"`}},
	{"requests at a time in a unit", "", atATime + "{requests: 1, unit: Hour}}}]}]}]}", []string{"unknown field"}},
	{"a variable that there is not", "", filter + "HeaderVariables, headerVariables: {set: [{name: a, variable: Path}]}}]}]}]}",
		[]string{filter0 + `.headerVariables.set[0].variable: Unsupported value: "Path": supported values: "BackendService", "Route"`}},
	{"a variable in a header that frames", "", filter + "HeaderVariables, headerVariables: {set: [{name: Host, variable: Route}]}}]}]}]}",
		[]string{filter0 + `.headerVariables.set[0].name`}},
	{"shadow of what refuses nothing", "", filter + "Cache, cache: {}}], shadow: [Cache]}]}]}",
		[]string{`spec.routes[0].rules[0].shadow[0]: Unsupported value: "Cache": supported values: "ClientAddress", "RateLimit", "BasicAuth", "APIKey", "JWT", "Authorization", "ExternalAuth", "WAF", "maxRequestBytes"`}},
	{"shadow twice", "", filter + "Cache, cache: {}}], shadow: [JWT, JWT]}]}]}", []string{`spec.routes[0].rules[0].shadow[1]: Duplicate value: "JWT"`}},
	{"no variables", "", filter + "HeaderVariables, headerVariables: {set: []}}]}]}]}", []string{filter0 + `.headerVariables.set: Invalid value: 0`}},
	{"stored answers of users", "", filter + "Cache, cache: {}}, {type: BasicAuth, basicAuth: {secretRef: {name: a}}}]}]}]}", []string{alike}},
	{"stored answers for tokens", "", filter + "Cache, cache: {}}, {type: JWT, jwt: {issuers: [{issuer: a, audiences: [a], keys: {inline: a}}]}}]}]}]}", []string{alike}},
	{"stored answers that a Service allows", "", filter + "Cache, cache: {}}, {type: ExternalAuth, externalAuth: {backendRef: {name: a, port: 80}}}]}]}]}", []string{alike}},
	{"no addresses", "", filter + "ClientAddress, clientAddress: {}}]}]}]}", []string{filter0 + ".clientAddress: Invalid value: 0: "}},
	{"an empty list of addresses that are allowed", "", addresses + "allow: []}}]}]}]}", []string{filter0 + ".clientAddress.allow: Invalid value: 0: "}},
	{"an empty list of addresses that are denied", "", addresses + "deny: []}}]}]}]}", []string{filter0 + ".clientAddress.deny: Invalid value: 0: "}},
	{"an address without a length", "", addresses + "allow: [10.0.0.1]}}]}]}]}", []string{filter0 + ".clientAddress.allow[0]: Invalid value: \"10.0.0.1\""}},
	{"a range that is too long", "", addresses + "deny: [10.0.0.0/33]}}]}]}]}", []string{filter0 + ".clientAddress.deny[0]: Invalid value: \"10.0.0.0/33\""}},
	{"a range twice", "", addresses + "deny: [10.0.0.0/8, 10.0.0.0/8]}}]}]}]}", []string{filter0 + ".clientAddress.deny[1]: Duplicate value"}},
	{"more ranges than 4096", "", addresses + "deny: [" + repeat(4097, "'fd00::%d/128'", 1) + "]}}]}]}]}", []string{filter0 + ".clientAddress.deny: Too many: 4097"}},
	{"keys of nobody", "", key + "from: [{type: Header, name: a}]}}]}]}]}", []string{filter0 + ".apiKey.secretRef: Required value"}},
	{"keys nowhere", "", key + "secretRef: {name: a}}}]}]}]}", []string{filter0 + ".apiKey.from: Required value"}},
	{"keys in no place", "", key + "secretRef: {name: a}, from: []}}]}]}]}", []string{filter0 + ".apiKey.from: Invalid value: 0"}},
	{"keys in too many places", "", key + "secretRef: {name: a}, from: [" + repeat(5, "{type: Header, name: a%d}", 1) + "]}}]}]}]}", []string{filter0 + ".apiKey.from: Too many: 5: must have at most 4 items"}},
	{"keys in a body", "", key + "secretRef: {name: a}, from: [{type: Body, name: a}]}}]}]}]}", []string{filter0 + `.apiKey.from[0].type: Unsupported value: "Body": supported values: "Header", "QueryParam", "Cookie"`}},
	{"keys in a place twice", "", key + "secretRef: {name: a}, from: [{type: Header, name: a}, {type: Header, name: a}]}}]}]}]}", []string{filter0 + ".apiKey.from[1]: Duplicate value"}},
	{"a key without a name", "", key + "secretRef: {name: a}, from: [{type: Cookie}]}}]}]}]}", []string{filter0 + ".apiKey.from[0].name: Required value"}},
	{"a key in a cookie with a space", "", key + "secretRef: {name: a}, from: [{type: Cookie, name: 'a b'}]}}]}]}]}", []string{filter0 + ".apiKey.from[0].name: Invalid value: \"a b\""}},
	{"a key in a header that the proxies remove", "", key + "secretRef: {name: a}, from: [{type: Header, name: api_key}]}}]}]}]}", []string{filter0 + ".apiKey.from[0].name: Invalid value: \"api_key\""}},
	{"a key as Host", "", key + "secretRef: {name: a}, from: [{type: Header, name: Host}]}}]}]}]}", []string{filter0 + ".apiKey.from[0].name: Invalid value: \"Host\"", "frame a message"}},
	{"a client as the length", "", key + "secretRef: {name: a}, from: [{type: Header, name: a}], clientHeader: Content-Length}}]}]}]}", []string{filter0 + ".apiKey.clientHeader: Invalid value: \"Content-Length\"", "frame a message"}},
	{"two filters that say who the client is", "", basic + "secretRef: {name: a}}}, {type: APIKey, apiKey: {secretRef: {name: a}, from: [{type: Header, name: a}]}}]}]}]}",
		[]string{"spec.routes[0].rules[0].filters: Invalid value: BasicAuth and APIKey both say who the client is: remove one of them"}},
	{"a rate limit by a client of a name", "", limit + "requests: 1, unit: Hour, key: {type: Client, name: a}}]}}]}]}]}", []string{filter0 + `.rateLimit.limits[0].key.type: Unsupported value: "Client": supported values: "Header", "Cookie", "Claim"`}},
	{"users of nobody", "", basic + "realm: a}}]}]}]}", []string{filter0 + ".basicAuth.secretRef: Required value"}},
	{"users elsewhere", "", basic + "secretRef: {name: ../a}}}]}]}]}", []string{filter0 + ".basicAuth.secretRef.name: Invalid value"}},
	{"a realm with a quote", "", basic + "secretRef: {name: a}, realm: 'a\"b'}}]}]}]}", []string{filter0 + ".basicAuth.realm: Invalid value"}},
	{"a realm with a line break", "", basic + "secretRef: {name: a}, realm: \"a\\r\\nb\"}}]}]}]}", []string{filter0 + ".basicAuth.realm: Invalid value"}},
	{"a user as the length", "", basic + "secretRef: {name: a}, clientHeader: Content-Length}}]}]}]}", []string{filter0 + ".basicAuth.clientHeader: Invalid value: \"Content-Length\"", "frame a message"}},
	{"a user in a header with a comma", "", basic + "secretRef: {name: a}, clientHeader: 'a,b'}}]}]}]}", []string{filter0 + ".basicAuth.clientHeader: Invalid value: \"a,b\""}},
	{"rules for nothing", "", allow + "]}}]}]}]}", []string{filter0 + ".authorization.rules: Invalid value: 0"}},
	{"a rule without an action", "", allow + "{methods: [GET]}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].action: Required value"}},
	{"a rule that asks", "", allow + "{action: Ask}]}}]}]}]}", []string{filter0 + `.authorization.rules[0].action: Unsupported value: "Ask": supported values: "Allow", "Deny"`}},
	{"more rules than sixteen", "", allow + repeat(17, "{action: Allow}", 1) + "]}}]}]}]}", []string{filter0 + ".authorization.rules: Too many: 17: must have at most 16 items"}},
	{"a rule for no method", "", allow + "{action: Deny, methods: []}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].methods: Invalid value: 0"}},
	{"a rule for no path", "", allow + "{action: Deny, paths: []}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].paths: Invalid value: 0"}},
	{"a rule for a path that goes up", "", allow + "{action: Deny, paths: [/a/../b]}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].paths[0]: Invalid value"}},
	{"a rule for a path with a query", "", allow + "{action: Deny, paths: ['/a?b']}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].paths[0]: Invalid value"}},
	{"a rule for a path with a star", "", allow + "{action: Deny, paths: [/a/*]}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].paths[0]: Invalid value"}},
	{"a rule for no path but a name", "", allow + "{action: Deny, paths: [a]}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].paths[0]: Invalid value"}},
	{"a rule for no address", "", allow + "{action: Deny, addresses: []}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].addresses: Invalid value: 0"}},
	{"a rule for a name of an address", "", allow + "{action: Deny, addresses: [localhost]}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].addresses[0]: Invalid value"}},
	{"a rule for no client", "", allow + "{action: Deny, clients: []}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].clients: Invalid value: 0"}},
	{"a rule for a client with a line break", "", allow + "{action: Deny, clients: [\"a\\nb\"]}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].clients[0]: Invalid value"}},
	{"a rule for no claim", "", allow + "{action: Deny, claims: []}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].claims: Invalid value: 0"}},
	{"a rule for a claim twice", "", allow + "{action: Deny, claims: [{claim: a, values: [a]}, {claim: a, values: [b]}]}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].claims[1]: Duplicate value"}},
	{"a rule for more claims than four", "", allow + "{action: Deny, claims: [" + repeat(5, "{claim: a%d, values: [a]}", 1) + "]}]}}]}]}]}", []string{filter0 + ".authorization.rules[0].claims: Too many: 5: must have at most 4 items"}},
	{"tokens of anybody", "", jwt + "issuers: [{audiences: [a], keys: {inline: a}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].issuer: Required value"}},
	{"tokens of nobody", "", jwt + "issuers: []}}]}]}]}", []string{filter0 + ".jwt.issuers: Invalid value: 0: "}},
	{"an issuer twice", "", jwt + "issuers: [" + repeat(2, "{issuer: a, audiences: [a], keys: {inline: a%d}}", 1) + "]}}]}]}]}", []string{filter0 + ".jwt.issuers[1]: Duplicate value"}},
	{"more issuers than eight", "", jwt + "issuers: [" + repeat(9, "{issuer: a%d, audiences: [a], keys: {inline: a}}", 1) + "]}}]}]}]}", []string{filter0 + ".jwt.issuers: Too many: 9: must have at most 8 items"}},
	{"tokens for anybody", "", jwt + "issuers: [{issuer: a, audiences: [], keys: {inline: a}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].audiences: Invalid value: 0: "}},
	{"tokens without keys", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].keys in body should have at least 1 properties"}},
	{"keys over plain HTTP", "", remote + "'http://a/keys', caCertificateRefs: [{name: a}]}}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].keys.remote.uri: Invalid value: \"http://a/keys\""}},
	{"keys at a user's address", "", remote + "'https://a:b@c/keys', caCertificateRefs: [{name: a}]}}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].keys.remote.uri: Invalid value"}},
	{"keys of a server that nobody vouches for", "", remote + "'https://a/keys', caCertificateRefs: []}}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].keys.remote.caCertificateRefs: Invalid value: 0"}},
	{"keys every second", "", remote + "'https://a/keys', caCertificateRefs: [{name: a}], refreshInterval: 1s}}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].keys.remote.refreshInterval: Invalid value: \"1s\""}},
	{"keys every other day", "", remote + "'https://a/keys', caCertificateRefs: [{name: a}], refreshInterval: 48h}}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].keys.remote.refreshInterval: Invalid value: \"48h\""}},
	{"keys in two places", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a, configMapRef: {name: a}}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].keys: Too many: 2: must have at most 1 item"}},
	{"an issuer with a space", "", jwt + "issuers: [{issuer: 'a b', audiences: [a], keys: {inline: a}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].issuer: Invalid value: \"a b\""}},
	{"an audience with a quote", "", jwt + "issuers: [{issuer: a, audiences: ['a\"b'], keys: {inline: a}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].audiences[0]: Invalid value"}},
	{"an audience that begins with a comma", "", jwt + "issuers: [{issuer: a, audiences: [','], keys: {inline: a}}]}}]}]}]}", []string{filter0 + ".jwt.issuers[0].audiences[0]: Invalid value"}},
	{"a scope with a space", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], requiredScopes: ['a b']}}]}]}]}", []string{filter0 + ".jwt.requiredScopes[0]: Invalid value: \"a b\""}},
	{"more scopes than eight", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], requiredScopes: [" + repeat(9, "a%d", 1) + "]}}]}]}]}", []string{filter0 + ".jwt.requiredScopes: Too many: 9: must have at most 8 items"}},
	{"a token in no place", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], from: []}}]}]}]}", []string{filter0 + ".jwt.from: Invalid value: 0"}},
	{"a token as the length", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], from: [{type: Header, name: Content-Length}]}}]}]}]}", []string{filter0 + ".jwt.from[0].name: Invalid value: \"Content-Length\"", "frame a message"}},
	{"a claim of no value", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], requiredClaims: [{claim: a, values: []}]}}]}]}]}", []string{filter0 + ".jwt.requiredClaims[0].values: Invalid value: 0"}},
	{"a claim of a value with a quote", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], requiredClaims: [{claim: a, values: ['a\"b']}]}}]}]}]}", []string{filter0 + ".jwt.requiredClaims[0].values[0]: Invalid value"}},
	{"a claim of a value with a backslash", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], requiredClaims: [{claim: a, values: ['a\\b']}]}}]}]}]}", []string{filter0 + ".jwt.requiredClaims[0].values[0]: Invalid value"}},
	{"a claim required twice", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], requiredClaims: [{claim: a, values: [a]}, {claim: a, values: [b]}]}}]}]}]}", []string{filter0 + ".jwt.requiredClaims[1]: Duplicate value"}},
	{"more claims than eight", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], requiredClaims: [" + repeat(9, "{claim: a%d, values: [a]}", 1) + "]}}]}]}]}", []string{filter0 + ".jwt.requiredClaims: Too many: 9: must have at most 8 items"}},
	{"a claim with a bracket", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], claimsToHeaders: [{claim: 'a[0]', header: X-A}]}}]}]}]}", []string{filter0 + ".jwt.claimsToHeaders[0].claim: Invalid value: \"a[0]\""}},
	{"a claim with a dot that is not escaped", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], claimsToHeaders: [{claim: 'https://example.com/groups', header: X-A}]}}]}]}]}", []string{filter0 + ".jwt.claimsToHeaders[0].claim: Invalid value: \"https://example.com/groups\""}},
	{"a claim that is a URL without its dots escaped", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], claimsToHeaders: [{claim: 'https://example.com', header: X-A}]}}]}]}]}", []string{filter0 + ".jwt.claimsToHeaders[0].claim: Invalid value: \"https://example.com\""}},
	{"a claim as Host", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], claimsToHeaders: [{claim: a, header: Host}]}}]}]}]}", []string{filter0 + ".jwt.claimsToHeaders[0].header: Invalid value: \"Host\""}},
	{"clocks that differ by hours", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], clockSkew: 1h}}]}]}]}", []string{filter0 + ".jwt.clockSkew: Invalid value: \"1h\""}},
	{"two claims for a header", "", jwt + "issuers: [{issuer: a, audiences: [a], keys: {inline: a}}], claimsToHeaders: [{claim: a, header: X-A}, {claim: b, header: X-A}]}}]}]}]}", []string{filter0 + ".jwt.claimsToHeaders[1]: Duplicate value"}},
	{"logins at nobody", "", oidc + "clientID: a}}]}]}]}", []string{filter0 + ".oidc.issuer: Required value"}},
	{"logins of nobody", "", oidc + "issuer: 'https://a'}}]}]}]}", []string{filter0 + ".oidc.clientID: Required value"}},
	{"logins without keys", "", filter + "OIDC, oidc: {issuer: 'https://a', clientID: a}}]}]}]}", []string{filter0 + ".oidc.secretRef: Required value"}},
	{"logins without TLS", "", oidc + "issuer: 'http://a', clientID: a}}]}]}]}", []string{filter0 + ".oidc.issuer: Invalid value"}},
	{"logins at a URL with a query", "", oidc + "issuer: 'https://a/?b', clientID: a}}]}]}]}", []string{filter0 + ".oidc.issuer: Invalid value"}},
	{"logins at a relative path", "", oidc + "issuer: 'https://a', clientID: a, path: a}}]}]}]}", []string{filter0 + ".oidc.path: Invalid value"}},
	{"logins everywhere", "", oidc + "issuer: 'https://a', clientID: a, path: /}}]}]}]}", []string{filter0 + ".oidc.path: Invalid value"}},
	{"a logout that leads elsewhere", "", oidc + "issuer: 'https://a', clientID: a, loggedOutPath: //b.example.com}}]}]}]}", []string{filter0 + ".oidc.loggedOutPath: Invalid value"}},
	{"a token that there is not", "", oidc + "issuer: 'https://a', clientID: a, forwardToken: Refresh}}]}]}]}", []string{filter0 + `.oidc.forwardToken: Unsupported value: "Refresh": supported values: "ID", "Access"`}},
	{"a claim in a header that is not the proxy's", "", oidc + "issuer: 'https://a', clientID: a, claimsToHeaders: [{claim: a, header: Host}]}}]}]}]}", []string{filter0 + ".oidc.claimsToHeaders[0].header: Invalid value"}},
	{"a login beside a password", "", oidc + "issuer: 'https://a', clientID: a}}, {type: BasicAuth, basicAuth: {secretRef: {name: a}}}]}]}]}",
		[]string{"spec.routes[0].rules[0].filters: Invalid value: OIDC says who the client is: remove it, or BasicAuth, APIKey, JWT and Cache"}},
	{"stored answers of those who logged in", "", oidc + "issuer: 'https://a', clientID: a}}, {type: Cache, cache: {}}]}]}]}",
		[]string{"spec.routes[0].rules[0].filters: Invalid value: OIDC says who the client is: remove it, or BasicAuth, APIKey, JWT and Cache"}},
	{"a WAF without rules", "", filter + "WAF, waf: {paranoiaLevel: 0}}]}]}]}", []string{filter0 + ".waf.paranoiaLevel: Invalid value: 0"}},
	{"a WAF with more rules than there are", "", filter + "WAF, waf: {paranoiaLevel: 5}}]}]}]}", []string{filter0 + ".waf.paranoiaLevel: Invalid value: 5"}},
	{"a WAF that refuses all", "", filter + "WAF, waf: {anomalyThreshold: 0}}]}]}]}", []string{filter0 + ".waf.anomalyThreshold: Invalid value: 0"}},
	{"a WAF that refuses nothing", "", filter + "WAF, waf: {anomalyThreshold: 1001}}]}]}]}", []string{filter0 + ".waf.anomalyThreshold: Invalid value: 1001"}},
	{"a WAF for long bodies", "", filter + "WAF, waf: {maxBodyBytes: 131073}}]}]}]}", []string{filter0 + ".waf.maxBodyBytes: Invalid value: 131073"}},
	{"a WAF for no bodies", "", filter + "WAF, waf: {maxBodyBytes: 0}}]}]}]}", []string{filter0 + ".waf.maxBodyBytes: Invalid value: 0"}},
	{"a WAF without the rule that adds up", "", filter + "WAF, waf: {excludedRules: [{id: 949110}]}}]}]}]}", []string{filter0 + ".waf.excludedRules[0].id: Invalid value: 949110"}},
	{"a WAF without a rule of its setup", "", filter + "WAF, waf: {excludedRules: [{id: 901001}]}}]}]}]}", []string{filter0 + ".waf.excludedRules[0].id: Invalid value: 901001"}},
	{"a WAF that excludes nothing", "", filter + "WAF, waf: {excludedRules: [{target: {type: Cookie, name: a}}]}}]}]}]}", []string{filter0 + ".waf.excludedRules[0].id: Required value"}},
	{"a WAF that does not look at a part that there is not", "", filter + "WAF, waf: {excludedRules: [{id: 942100, target: {type: Body, name: a}}]}}]}]}]}",
		[]string{filter0 + `.waf.excludedRules[0].target.type: Unsupported value: "Body": supported values: "Argument", "Cookie", "Header"`}},
	{"a WAF with rules of no ConfigMap", "", filter + "WAF, waf: {rulesRef: {}}}]}]}]}", []string{filter0 + ".waf.rulesRef.name: Required value"}},
	{"a WAF with rules of another namespace", "", filter + "WAF, waf: {rulesRef: {name: a/b}}}]}]}]}", []string{filter0 + ".waf.rulesRef.name: Invalid value: \"a/b\""}},
	{"a WAF that does not look at a name with a space", "", filter + "WAF, waf: {excludedRules: [{id: 942100, target: {type: Cookie, name: 'a b'}}]}}]}]}]}", []string{filter0 + ".waf.excludedRules[0].target.name: Invalid value"}},
	{"nobody to ask", "", auth + "path: /}}]}]}]}", []string{filter0 + ".externalAuth.backendRef: Required value"}},
	{"a port of none to ask", "", auth + "backendRef: {name: a}}}]}]}]}", []string{filter0 + ".externalAuth.backendRef.port: Required value"}},
	{"a path with a line break", "", auth + "backendRef: {name: a, port: 80}, path: \"/a\\r\\nb\"}}]}]}]}", []string{filter0 + ".externalAuth.path: Invalid value"}},
	{"a path with a fragment", "", auth + "backendRef: {name: a, port: 80}, path: '/a#b'}}]}]}]}", []string{filter0 + ".externalAuth.path: Invalid value"}},
	{"a length to pass on", "", auth + "backendRef: {name: a, port: 80}, requestHeaders: [Content-Length]}}]}]}]}", []string{filter0 + ".externalAuth.requestHeaders[0]: Invalid value: \"Content-Length\"", "frame a message"}},
	{"a host to take over", "", auth + "backendRef: {name: a, port: 80}, responseHeaders: [X-User, host]}}]}]}]}", []string{filter0 + ".externalAuth.responseHeaders[1]: Invalid value: \"host\""}},
	{"a header with a comma", "", auth + "backendRef: {name: a, port: 80}, responseHeaders: ['a,b']}}]}]}]}", []string{filter0 + ".externalAuth.responseHeaders[0]: Invalid value: \"a,b\""}},
	{"a body that is not held", "", auth + "backendRef: {name: a, port: 80}, forwardBody: {maxSize: 8193}}}]}]}]}", []string{filter0 + ".externalAuth.forwardBody.maxSize: Invalid value: 8193"}},
	{"a body of no bytes", "", auth + "backendRef: {name: a, port: 80}, forwardBody: {maxSize: 0}}}]}]}]}", []string{filter0 + ".externalAuth.forwardBody.maxSize: Invalid value: 0"}},
	{"a body of any length", "", auth + "backendRef: {name: a, port: 80}, forwardBody: {}}}]}]}]}", []string{filter0 + ".externalAuth.forwardBody.maxSize: Required value"}},
	{"answers that are kept for too long", "", auth + "backendRef: {name: a, port: 80}, cache: {maxAgeSeconds: 3601}}}]}]}]}", []string{filter0 + ".externalAuth.cache.maxAgeSeconds: Invalid value: 3601"}},
	{"answers that are kept for no time", "", auth + "backendRef: {name: a, port: 80}, cache: {durations: [{statuses: [200], seconds: 0}]}}}]}]}]}", []string{filter0 + ".externalAuth.cache.durations[0].seconds: Invalid value: 0"}},
	{"an error that is kept", "", auth + "backendRef: {name: a, port: 80}, cache: {durations: [{statuses: [200, 500], seconds: 60}]}}}]}]}]}", []string{filter0 + ".externalAuth.cache.durations[0].statuses[1]: Invalid value: 500"}},
	{"a key of nothing", "", auth + "backendRef: {name: a, port: 80}, cache: {key: {}}}}]}]}]}", []string{filter0 + ".externalAuth.cache.key: Invalid value: 0"}},
	{"a key of no cookies", "", auth + "backendRef: {name: a, port: 80}, cache: {key: {cookies: []}}}}]}]}]}", []string{filter0 + ".externalAuth.cache.key.cookies: Invalid value: 0"}},
	{"a key of a cookie with a space", "", auth + "backendRef: {name: a, port: 80}, cache: {key: {cookies: ['a b']}}}}]}]}]}", []string{filter0 + ".externalAuth.cache.key.cookies[0]: Invalid value: \"a b\""}},
	{"a mirror without a Service", "", mirror + "]}}]}]}]}", []string{filter0 + ".requestMirror.backendRefs: Invalid value: 0: "}},
	{"more mirrors than eight", "", mirror + repeat(9, "{name: a%d, port: 80}", 1) + "]}}]}]}]}", []string{filter0 + ".requestMirror.backendRefs: Too many: 9: must have at most 8 items"}},
	{"a mirror twice", "", mirror + "{name: a, port: 80}, {name: a, port: 80, percent: 1}]}}]}]}]}", []string{filter0 + ".requestMirror.backendRefs[1]: Duplicate value"}},
	{"a mirror for more than all", "", mirror + "{name: a, port: 80, percent: 101}]}}]}]}]}", []string{filter0 + ".requestMirror.backendRefs[0].percent: Invalid value: 101"}},
	{"a mirror for less than none", "", mirror + "{name: a, port: 80, percent: -1}]}}]}]}]}", []string{filter0 + ".requestMirror.backendRefs[0].percent: Invalid value: -1"}},
	{"a mirror without a port", "", mirror + "{name: a}]}}]}]}]}", []string{filter0 + ".requestMirror.backendRefs[0].port: Required value"}},
	{"a mirror in another namespace", "", mirror + "{name: a/b, port: 80}]}}]}]}]}", []string{filter0 + ".requestMirror.backendRefs[0].name: Invalid value"}},
	{"a filter without a type", "", rule + "[{filters: [{cors: {allowOrigins: ['*']}}]}]}]}", []string{filter0 + ".type: Required value"}},
	{"a filter without anything", "", rule + "[{filters: [{}]}]}]}", []string{filter0 + ".type: Required value"}},
	{"two filters that want the header Authorization", "", basic + "secretRef: {name: a}}}, {type: JWT, jwt: {issuers: [{issuer: a, audiences: [a], keys: {inline: a}}]}}]}]}]}",
		[]string{"spec.routes[0].rules[0].filters: Invalid value: BasicAuth and JWT both want the header Authorization, so every request would get 401: remove one of them"}},
	{"14 filters", "", rule + "[{filters: [" + repeat(14, "{type: RequestRedirect, requestRedirect: {}}", 0) + "]}]}]}", []string{"filters: Too many: 14: must have at most 13 items"}},
	{"a redirect and a rewrite", "", filter + "RequestRedirect, requestRedirect: {}}, {type: URLRewrite, urlRewrite: {hostname: a}}]}]}]}",
		[]string{"spec.routes[0].rules[0].filters: Invalid value: RequestRedirect answers the request, so beside it only CORS and PathRegexRewrite make sense: remove the other filters"}},
	{"a page and a Service in place of an error", "", filter + "ResponseOverride, responseOverride: {responses: [{statuses: [404], body: a, backendRef: {name: a, port: 80}}]}}]}]}]}",
		[]string{filter0 + `.responseOverride.responses[0]" must validate one and only one schema (oneOf). Found 2`}},
	{"nothing in place of an error", "", filter + "ResponseOverride, responseOverride: {responses: [{statuses: [404]}]}}]}]}]}",
		[]string{filter0 + ".responseOverride.responses[0].body: Required value"}},
	{"a status that is no error", "", filter + "ResponseOverride, responseOverride: {responses: [{statuses: [200], body: a}]}}]}]}]}",
		[]string{filter0 + ".responseOverride.responses[0].statuses[0]: Invalid value: 200"}},
	{"nothing to rewrite in answers", "", filter + "ResponseRewrite, responseRewrite: {}}]}]}]}", []string{filter0 + ".responseRewrite: Invalid value: 0"}},
	{"a space in a location", "", filter + "ResponseRewrite, responseRewrite: {location: {from: /a, to: /b c}}}]}]}]}",
		[]string{filter0 + ".responseRewrite.location.to: Invalid value"}},
	{"another attribute in the path of cookies", "", filter + "ResponseRewrite, responseRewrite: {cookiePath: {from: /, to: /;Secure}}}]}]}]}",
		[]string{filter0 + ".responseRewrite.cookiePath.to: Invalid value"}},
	{"a domain of cookies with a dot before it", "", filter + "ResponseRewrite, responseRewrite: {cookieDomain: {from: .a.io, to: b.io}}}]}]}]}",
		[]string{filter0 + ".responseRewrite.cookieDomain.from: Invalid value"}},
	{"no limit of the bandwidth", "", filter + "BandwidthLimit, bandwidthLimit: {}}]}]}]}", []string{filter0 + ".bandwidthLimit: Invalid value: 0"}},
	{"hardly any bandwidth", "", filter + "BandwidthLimit, bandwidthLimit: {request: {bytesPerSecond: 1023}}}]}]}]}",
		[]string{filter0 + ".bandwidthLimit.request.bytesPerSecond: Invalid value: 1023"}},
	{"a length of answers without a limit", "", filter + "BandwidthLimit, bandwidthLimit: {response: {minBytes: 1}}}]}]}]}",
		[]string{filter0 + ".bandwidthLimit.response.bytesPerSecond: Required value"}},
	{"a pattern that is not ASCII", "", filter + "PathRegexRewrite, pathRegexRewrite: {pattern: ^/ä, substitution: /b}}]}]}]}",
		[]string{filter0 + ".pathRegexRewrite.pattern: Invalid value"}},
	{"groups as nginx writes them", "", filter + "PathRegexRewrite, pathRegexRewrite: {pattern: ^/a/(.*), substitution: /$1}}]}]}]}",
		[]string{filter0 + ".pathRegexRewrite.substitution: Invalid value"}},
	{"a query in a substitution", "", filter + "PathRegexRewrite, pathRegexRewrite: {pattern: ^/a/(.*), substitution: '/b?a=\\1'}}]}]}]}",
		[]string{filter0 + ".pathRegexRewrite.substitution: Invalid value"}},
	{"a redirect and a direct response", "", filter + "RequestRedirect, requestRedirect: {}}, {type: DirectResponse, directResponse: {}}]}]}]}",
		[]string{"filters: Invalid value: RequestRedirect answers the request", "filters: Invalid value: DirectResponse answers the request"}},
	{"a direct response and headers of the answer", "",
		filter + "DirectResponse, directResponse: {}}, {type: ResponseHeaderModifier, responseHeaderModifier: {remove: [a]}}]}]}]}",
		[]string{"filters: Invalid value: DirectResponse answers the request, so beside it only CORS makes sense: remove the other filters"}},
	{"a direct response, CORS and headers of the answer", "",
		filter + "DirectResponse, directResponse: {}}, {type: ResponseHeaderModifier, responseHeaderModifier: {remove: [a]}}, " +
			"{type: CORS, cors: {allowOrigins: ['*']}}]}]}]}",
		[]string{"filters: Invalid value: DirectResponse answers the request, so beside it only CORS makes sense: remove the other filters"}},

	{"another prefix for an exact path", "", rule + "[{matches: [{path: {type: Exact, value: /a}}], " + prefixFilter + "}]}]}",
		[]string{"filters: Invalid value: ReplacePrefixMatch needs exactly one match in the rule, with a path of type PathPrefix"}},
	{"another prefix for a regular expression", "", rule + "[{matches: [{path: {type: RegularExpression, value: /a}}], " + prefixFilter + "}]}]}",
		[]string{"filters: Invalid value: ReplacePrefixMatch needs exactly one match"}},
	{"another prefix for two matches", "", rule + "[{matches: [{path: {value: /a}}, {method: GET}], " + prefixFilter + "}]}]}",
		[]string{"filters: Invalid value: ReplacePrefixMatch needs exactly one match"}},
	{"another prefix for no match", "", rule + "[{matches: [], " + prefixFilter + "}]}]}",
		[]string{"filters: Invalid value: ReplacePrefixMatch needs exactly one match"}},
	{"a redirect to another prefix for an exact path", "", rule + "[{matches: [{path: {type: Exact, value: /a}}], " +
		"filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplacePrefixMatch, replacePrefixMatch: /b}}}]}]}]}",
		[]string{"filters: Invalid value: ReplacePrefixMatch needs exactly one match"}},
	{"another path without a path", "", filter + "URLRewrite, urlRewrite: {path: {type: ReplaceFullPath}}}]}]}]}",
		[]string{"urlRewrite.path.replaceFullPath: Required value"}},
	{"another path of the other kind", "", filter + "RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replacePrefixMatch: /a}}}]}]}]}",
		[]string{"requestRedirect.path.replaceFullPath: Required value"}},
	{"another path of both kinds", "",
		filter + "URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /a, replacePrefixMatch: /a}}}]}]}]}",
		[]string{"urlRewrite.path: Too many: 3: must have at most 2 items"}},
	{"another prefix without one", "", match + "{value: /a}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplacePrefixMatch}}}]}]}]}",
		[]string{"urlRewrite.path.replacePrefixMatch: Required value"}},
	{"another path with a query", "", filter + "URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: '/a?b'}}}]}]}]}",
		[]string{`urlRewrite.path.replaceFullPath: Invalid value: "/a?b"`}},
	{"another path with a line break", "", filter + "URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: \"/a\\r\\nb\"}}}]}]}]}",
		[]string{`urlRewrite.path.replaceFullPath: Invalid value: "/a\r\nb"`}},
	{"a wildcard to rewrite to", "", filter + "URLRewrite, urlRewrite: {hostname: '*.example.com'}}]}]}]}",
		[]string{`urlRewrite.hostname: Invalid value: "*.example.com"`}},
	{"a redirect with a status that is none", "", filter + "RequestRedirect, requestRedirect: {statusCode: 300}}]}]}]}",
		[]string{`requestRedirect.statusCode: Unsupported value: 300: supported values: "301", "302", "303", "307", "308"`}},
	{"a redirect to another scheme", "", filter + "RequestRedirect, requestRedirect: {scheme: ftp}}]}]}]}",
		[]string{`requestRedirect.scheme: Unsupported value: "ftp": supported values: "http", "https"`}},

	{"a header's value with a line break", "",
		filter + "RequestHeaderModifier, requestHeaderModifier: {set: [{name: a, value: \"b\\r\\nhost: c\"}]}}]}]}]}",
		[]string{`requestHeaderModifier.set[0].value: Invalid value: "b\r\nhost: c"`}},
	{"a change of nothing", "", filter + "RequestHeaderModifier, requestHeaderModifier: {}}]}]}]}",
		[]string{filter0 + ".requestHeaderModifier: Invalid value: 0: " + filter0 + ".requestHeaderModifier in body should have at least 1 properties"}},
	{"a body with a NUL", "", filter + "DirectResponse, directResponse: {body: \"a\\0b\"}}]}]}]}",
		[]string{`directResponse.body: Invalid value: "a\x00b"`}},
	{"an informational direct response", "", filter + "DirectResponse, directResponse: {statusCode: 101}}]}]}]}",
		[]string{"directResponse.statusCode: Invalid value: 101", "greater than or equal to 200"}},
	{"a direct response with a header that frames", "", filter + "DirectResponse, directResponse: {headers: [{name: content_length, value: '1'}]}}]}]}]}",
		[]string{"directResponse.headers[0].name", "any header but Content-Type and those that frame a message"}},
	{"a direct response with a content type twice", "", filter + "DirectResponse, directResponse: {headers: [{name: Content-Type, value: a/b}]}}]}]}]}",
		[]string{"directResponse.headers[0].name", "any header but Content-Type and those that frame a message"}},
	{"a body for 204", "", filter + "DirectResponse, directResponse: {statusCode: 204, body: a}}]}]}]}", []string{filter0 + ".directResponse.body: " + bodiless}},
	{"a body for 304", "", filter + "DirectResponse, directResponse: {statusCode: 304, body: a}}]}]}]}", []string{filter0 + ".directResponse.body: " + bodiless}},
	{"a content type that ends the header", "", filter + "DirectResponse, directResponse: {contentType: \"a/b\\r\\nc: d\"}}]}]}]}",
		[]string{`directResponse.contentType: Invalid value: "a/b\r\nc: d"`}},
	{"a content type with a quote", "", filter + "DirectResponse, directResponse: {contentType: 'a/b; c=\"d\"'}}]}]}]}",
		[]string{`directResponse.contentType: Invalid value: "a/b; c=\"d\""`}},

	{"credentials from every origin", "", cors + "['*'], allowCredentials: true}}]}]}]}",
		[]string{`"` + filter0 + `.cors" ` + none, filter0 + `.cors.allowOrigins[0]: Invalid value: "*"`, "should match '^https?://'"}},
	{"credentials from every origin, which comes last", "", cors + "['https://a', '*'], allowCredentials: true}}]}]}]}",
		[]string{`"` + filter0 + `.cors" ` + none, filter0 + `.cors.allowOrigins[1]: Invalid value: "*"`, "should match '^https?://'"}},
	{"an origin that is a hostname", "", cors + "[example.com]}}]}]}]}", []string{`cors.allowOrigins[0]: Invalid value: "example.com"`}},
	{"the origin of files", "", cors + "['null']}}]}]}]}", []string{`cors.allowOrigins[0]: Invalid value: "null"`}},
	{"an origin with a path", "", cors + "['https://a/']}}]}]}]}", []string{`cors.allowOrigins[0]: Invalid value: "https://a/"`}},
	{"an origin that is a wildcard alone", "", cors + "['https://*']}}]}]}]}", []string{`cors.allowOrigins[0]: Invalid value: "https://*"`}},
	{"an origin twice", "", cors + "['https://a', 'https://a']}}]}]}]}", []string{`cors.allowOrigins[1]: Duplicate value: "https://a"`}},
	{"a method that is none", "", cors + "['*'], allowMethods: [FETCH]}}]}]}]}", []string{`cors.allowMethods[0]: Unsupported value: "FETCH"`}},
	{"a list as one header", "", cors + "['*'], allowHeaders: ['a, b']}}]}]}]}", []string{`cors.allowHeaders[0]: Invalid value: "a, b"`}},

	{"a redirect for one backend", "", refFilter + "RequestRedirect, requestRedirect: {hostname: a}}]}]}]}]}",
		[]string{`unknown field "spec.routes[0].rules[0].backendRefs[0].filters[0].requestRedirect"`}},
	{"a type of filter for one backend that is for rules", "",
		refFilter + "RequestRedirect, requestHeaderModifier: {remove: [a]}}]}]}]}]}",
		[]string{`backendRefs[0].filters[0].type: Unsupported value: "RequestRedirect"`}},
	{"a rewrite for one backend that changes nothing", "", refFilter + "URLRewrite, urlRewrite: {}}]}]}]}]}",
		[]string{"backendRefs[0].filters[0].urlRewrite: Invalid value: ", "should have at least 1 properties"}},
}
