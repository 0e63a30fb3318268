package dataplanetest_test

import (
	"fmt"
	"strings"
	"testing"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
)

// featuresWorld is what runs before every change of TestDiffOfFeatures.
const featuresWorld = `
generation: 1
spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: https, port: 443, protocol: HTTPS, hostname: a.io, tls: {certificateRefs: [{name: cert}]}}
    - {name: tls, port: 444, protocol: TLS, tls: {mode: Passthrough}}
  trustedProxies: [10.0.0.0/8]
  routes:
    - name: r
      rules:
        - matches: [{path: {value: /api}, headers: [{name: X-A, value: one}], queryParams: [{name: q, value: one}]}]
          filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: one}]}}]
          backendRefs: [{name: one, port: 80}]
        - matches: [{path: {value: /old}}]
          filters: [{type: RequestRedirect, requestRedirect: {statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]
        - matches: [{path: {value: /text}}]
          filters: [{type: DirectResponse, directResponse: {body: one}}, {type: CORS, cors: {allowOrigins: ["https://a.io"]}}]
        - timeouts: {request: 1s}
          maxRequestBytes: 10
          backendRefs: [{name: one, port: 80}]
  tlsRoutes: [{name: t, hostnames: [b.io], rules: [{backendRefs: [{name: one, port: 80}]}]}]
backends: [{service: one, port: 80, servers: ["10.0.0.1:80"]}]
certificates: {https: [{secret: cert, names: [a.io]}]}
`

// TestDiffOfFeatures has, with TestDiff and TestDiffOfFirstTimes, the rows of the table in
// docs/reference/reloads.md.
func TestDiffOfFeatures(t *testing.T) { //nolint:funlen // a flat table
	tests := map[string]struct{ old, new, reload string }{
		"a path":                                      {"value: /api", "value: /other", ""},
		"another type of path":                        {"path: {value: /api}", "path: {type: Exact, value: /api}", ""},
		"the first regular expression":                {"path: {value: /api}", "path: {type: RegularExpression, value: /a.*}", ""},
		"a method":                                    {"path: {value: /api},", "path: {value: /api}, method: GET,", ""},
		"the value of a header":                       {"name: X-A, value: one", "name: X-A, value: two", ""},
		"a regular expression for a header":           {"name: X-A, value: one", "name: X-A, type: RegularExpression, value: o.*", ""},
		"no condition on a header any more":           {"headers: [{name: X-A, value: one}],", "", ""},
		"the value of a parameter":                    {"name: q, value: one", "name: q, value: two", ""},
		"a condition on a header of another name":     {"name: X-A", "name: X-B", ir.ReloadNames},
		"a condition on a parameter of another name":  {"name: q,", "name: p,", ir.ReloadNames},
		"the value of a header that is set":           {"name: X-Set, value: one", "name: X-Set, value: two", ""},
		"a header that is removed and was set before": {"set: [{name: X-Set, value: one}]", "remove: [X-Set]", ""},
		"no filter any more":                          {"filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Set, value: one}]}}]", "", ""},
		"a header of another name that is set":        {"name: X-Set", "name: X-Other", ""},
		"the status of a redirect":                    {"statusCode: 301", "statusCode: 308", ""},
		"the prefix of a redirect":                    {"replacePrefixMatch: /new", "replacePrefixMatch: /newer", ""},
		"a full path of a redirect":                   {"type: ReplacePrefixMatch, replacePrefixMatch: /new", "type: ReplaceFullPath, replaceFullPath: /new", ""},
		"a prefix of another depth that is replaced":  {"value: /old", "value: /old/one", ""},
		"a fixed answer":                              {"body: one", "body: two", ir.ReloadNames},
		"an origin":                                   {"https://a.io", "https://*.b.io", ""},
		"any origin":                                  {"https://a.io", "*", ""},
		"the first addresses of clients":              {"filters: [{type: RequestHeaderModifier,", "filters: [{type: ClientAddress, clientAddress: {deny: [10.0.0.0/8]}}, {type: RequestHeaderModifier,", ir.ReloadNames},
		"the first filter in shadow":                  {"maxRequestBytes: 10", "maxRequestBytes: 10\n          shadow: [maxRequestBytes]", ir.ReloadSettings},
		"the first rate limit":                        {"filters: [{type: RequestHeaderModifier,", "filters: [{type: RateLimit, rateLimit: {limits: [{requests: 5, unit: Hour}]}}, {type: RequestHeaderModifier,", ir.ReloadLimits},
		"the first limit of concurrent requests":      {"filters: [{type: RequestHeaderModifier,", "filters: [{type: RateLimit, rateLimit: {concurrent: {requests: 5}}}, {type: RequestHeaderModifier,", ir.ReloadLimits},
		"the first pattern of paths":                  {"filters: [{type: RequestHeaderModifier,", "filters: [{type: PathRegexRewrite, pathRegexRewrite: {pattern: ^/a, substitution: /b}}, {type: RequestHeaderModifier,", ir.ReloadNames},
		"the first page for errors of a backend":      {"filters: [{type: RequestHeaderModifier,", "filters: [{type: ResponseOverride, responseOverride: {responses: [{statuses: [404], body: a}]}}, {type: RequestHeaderModifier,", ir.ReloadSettings},
		"the first limit of bandwidth":                {"filters: [{type: RequestHeaderModifier,", "filters: [{type: BandwidthLimit, bandwidthLimit: {request: {bytesPerSecond: 1024}}}, {type: RequestHeaderModifier,", ir.ReloadSettings},
		"the first rewrite of answers":                {"filters: [{type: RequestHeaderModifier,", "filters: [{type: ResponseRewrite, responseRewrite: {cookiePath: {from: /a, to: /}}}, {type: RequestHeaderModifier,", ir.ReloadSettings},
		"a timeout":                                   {"request: 1s", "request: 2s", ""},
		"a body limit":                                {"maxRequestBytes: 10", "maxRequestBytes: 20", ""},
		"retries":                                     {"timeouts: {request: 1s}", "retry: {attempts: 1}", ir.ReloadDefaults},
		"session persistence":                         {"timeouts: {request: 1s}", "sessionPersistence: {}", ir.ReloadDefaults},
		"how to talk to a backend":                    {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8]\n  backends: [{name: one, port: 80, proxyProtocol: V2}]", ""},
		"a slow start":                                {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8]\n  backends: [{name: one, port: 80, loadBalancing: {slowStart: 30s}}]", ""},
		"an algorithm that no backend has had":        {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8]\n  backends: [{name: one, port: 80, loadBalancing: {algorithm: RoundRobin}}]", ir.ReloadDefaults},
		"a bound of the load":                         {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8]\n  backends: [{name: one, port: 80, loadBalancing: {algorithm: URI, hashBalanceFactor: 150}}]", ir.ReloadDefaults},
		"the protocol of a Service port":              {"{service: one, port: 80,", "{service: one, port: 80, appProtocol: kubernetes.io/h2c,", ""},
		"a trusted proxy":                             {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8, 192.0.2.0/24]", ir.ReloadPorts},
		"a proxy that is not trusted any more":        {"trustedProxies: [10.0.0.0/8]", "trustedProxies: []", ir.ReloadPorts},
		"a wait for an endpoint":                      {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8]\n  backends: [{name: one, port: 80, waitForEndpoint: {}}]", ir.ReloadDefaults},
		"a backup":                                    {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8]\n  backends: [{name: one, port: 80, backup: {name: two, port: 80}}]", ir.ReloadDefaults},
		"a limit of requests":                         {"trustedProxies: [10.0.0.0/8]", "trustedProxies: [10.0.0.0/8]\n  backends: [{name: one, port: 80, connections: {maxPerEndpoint: 9}}]", ir.ReloadDefaults},
		"another certificate":                         {"{secret: cert, names: [a.io]}", "{secret: cert, names: [a.io]}, {secret: other, keyType: RSA, names: [a.io]}", ""},
		"a minimum version of TLS":                    {"certificateRefs: [{name: cert}]", "certificateRefs: [{name: cert}], minVersion: TLSv1.3", ""},
		"HSTS":                                        {"certificateRefs: [{name: cert}]", "certificateRefs: [{name: cert}], hsts: {}", ""},
		"a redirect to HTTPS":                         {"protocol: HTTP}", "protocol: HTTP, httpsRedirect: {}}", ""},
		"the PROXY protocol":                          {"protocol: HTTP}", "protocol: HTTP, proxyProtocol: Any}", ir.ReloadPorts},
		"a server name of a TLS route":                {"hostnames: [b.io]", "hostnames: [c.io]", ""},
		"the first wildcard server name":              {"hostnames: [b.io]", "hostnames: [\"*.b.io\"]", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(featuresWorld, test.old, test.new, 1)
			if changed == featuresWorld {
				t.Fatal("the test changes nothing")
			}
			running := render.Render(rendertest.Parse(t, featuresWorld).Input(t))
			desired := render.Render(rendertest.Parse(t, changed).Input(t))
			got := plan.Diff(desired, running)
			if got.Reload != test.reload {
				t.Errorf("got %q, want %q", got.Reload, test.reload)
			}
			if got.Empty() {
				t.Error("there is nothing to do")
			}
			after := plan.Change(got.After, desired, got.After, true).After // for stricter listeners, it has a second part
			if again := plan.Diff(desired, after); !again.Empty() {
				t.Errorf("once the plan is carried out, there is more to do: %+v", again)
			}
			if back := plan.Diff(running, after); test.reload == "" && back.Reload != "" {
				t.Errorf("the way back needs a reload: %s", back.Reload)
			}
		})
	}
}

// TestDiffOfFirstTimes has the edits that take a reload because there was nothing of the kind before.
func TestDiffOfFirstTimes(t *testing.T) { //nolint:funlen // a flat table
	const trusted = "trustedProxies: [10.0.0.0/8]"
	balanced := func(with string) string {
		return trusted + "\n  backends: [{name: one, port: 80, loadBalancing: {algorithm: LeastConnections}" + with + "}]"
	}
	addresses := func(deny string) string {
		return "requestRedirect: {statusCode: 301}}, {type: ClientAddress, clientAddress: {deny: ['" + deny + "']}}]"
	}
	mirror := func(percent string) string {
		return "requestRedirect: {statusCode: 301}}, {type: RequestMirror, requestMirror: {backendRefs: [{name: one, port: 80, percent: " + percent + "}]}}]"
	}
	auth := func(path string) string {
		return "requestRedirect: {statusCode: 301}}, {type: ExternalAuth, externalAuth: {backendRef: {name: one, port: 80}, path: " + path + "}}]"
	}
	basic := func(secret string) string {
		return "requestRedirect: {statusCode: 301}}, {type: BasicAuth, basicAuth: {secretRef: {name: " + secret + "}}}]"
	}
	key := func(secret, from string) string {
		return "requestRedirect: {statusCode: 301}}, {type: APIKey, apiKey: {secretRef: {name: " + secret + "}, from: [" + from + "]}}]"
	}
	const header = "{type: Header, name: X-Key}"
	login := func(id, more string) string {
		return "requestRedirect: {statusCode: 301}}, {type: OIDC, oidc: {issuer: 'https://a', secretRef: {name: a}, clientID: " + id + more + "}}]"
	}
	firewall := func(level string) string {
		return "requestRedirect: {statusCode: 301}}, {type: WAF, waf: {paranoiaLevel: " + level + "}}]"
	}
	issuers := func(second, audience string) string {
		return "requestRedirect: {statusCode: 301}}, {type: JWT, jwt: {issuers: [{issuer: a, audiences: [" + audience + "], keys: {configMapRef: {name: keys}}}" + second + "]}}]"
	}
	const second = ", {issuer: b, audiences: [b], keys: {configMapRef: {name: keys}}}"
	token := func(with string, keys ...string) string {
		return "requestRedirect: {statusCode: 301}}, {type: JWT, jwt: {issuers: [{issuer: a, audiences: [a], keys: {inline: '" + keySet(keys...) + "'}}]" + with + "}}]"
	}
	allow := func(fields string) string {
		return token("", "ES256")[:len(token("", "ES256"))-1] + ", {type: Authorization, authorization: {rules: [{action: Allow, " + fields + "}]}}]"
	}
	limit := func(unit string) string {
		return "requestRedirect: {statusCode: 301}}, {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: " + unit + "}]}}]"
	}
	concurrent := func(limit string) string {
		return "requestRedirect: {statusCode: 301}}, {type: RateLimit, rateLimit: {concurrent: {requests: " + limit + "}}}]"
	}
	inShadow := func(most string) string {
		return "maxRequestBytes: " + most + "\n          shadow: [maxRequestBytes]"
	}
	pattern := func(substitution string) string {
		return "requestRedirect: {statusCode: 301}}, {type: PathRegexRewrite, pathRegexRewrite: {pattern: ^/old/(.*), substitution: '" + substitution + "'}}]"
	}
	const stored = "        - {matches: [{path: {value: /more}}], filters: [{type: Cache, cache: {}}], backendRefs: [{name: one, port: 80}]}\n"
	redirect := "requestRedirect: {statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]"
	tests := map[string]struct{ old, before, after, reload string }{
		"a WAF":                            {redirect, redirect, firewall("1"), ir.ReloadSettings},
		"another WAF":                      {redirect, firewall("1"), firewall("2"), ""},
		"rules for a WAF":                  {redirect, firewall("1"), firewall("1, rulesRef: {name: a}"), ""},
		"a mirror":                         {redirect, redirect, mirror("10"), ir.ReloadSettings},
		"a stored answer":                  {"  tlsRoutes:", "  tlsRoutes:", stored + "  tlsRoutes:", ir.ReloadCache},
		"another stored answer":            {"  tlsRoutes:", stored + "  tlsRoutes:", stored + strings.Replace(stored, "/more", "/most", 1) + "  tlsRoutes:", ""},
		"no stored answer any more":        {"  tlsRoutes:", stored + "  tlsRoutes:", "  tlsRoutes:", ir.ReloadCache},
		"another pattern of paths":         {redirect, pattern(`/\1`), pattern(`/a/\1/b`), ""},
		"no pattern of paths any more":     {redirect, pattern(`/\1`), redirect, ""},
		"the size of the store":            {"  tlsRoutes:", stored + "  tlsRoutes:", stored + "  cache: {sizeMiB: 5}\n  tlsRoutes:", ir.ReloadCache},
		"a limit of another unit":          {redirect, limit("Hour"), limit("Minute"), ir.ReloadLimits},
		"a limit for another header":       {redirect, limit("Hour"), limit("Hour, key: {type: Header, name: X-Key}"), ir.ReloadNames},
		"no limit any more":                {redirect, limit("Hour"), redirect, ""},
		"another limit":                    {redirect, limit("Hour"), limit("Hour}, {requests: 1, unit: Minute"), ir.ReloadLimits},
		"one limit of several":             {redirect, limit("Second}, {requests: 1, unit: Minute}, {requests: 1, unit: Hour"), limit("Minute"), ""},
		"limits in another order":          {redirect, limit("Hour}, {requests: 1, unit: Minute"), limit("Minute}, {requests: 1, unit: Hour"), ""},
		"fewer concurrent ones":            {redirect, concurrent("5"), concurrent("4"), ""},
		"concurrent ones by cookie":        {redirect, concurrent("5"), concurrent("5, key: {type: Cookie, name: id}"), ir.ReloadNames},
		"no concurrent limit any more":     {redirect, concurrent("5"), redirect, ""},
		"a concurrent limit, too":          {redirect, limit("Hour"), strings.Replace(limit("Hour"), "{limits", "{concurrent: {requests: 5}, limits", 1), ir.ReloadLimits},
		"a limit of bodies":                {"maxRequestBytes: 10", "", "maxRequestBytes: 10", ir.ReloadSettings},
		"no limit of bodies any more":      {"maxRequestBytes: 10", "maxRequestBytes: 10", "", ""},
		"another limit in shadow":          {"maxRequestBytes: 10", inShadow("10"), inShadow("20"), ""},
		"nothing in shadow any more":       {"maxRequestBytes: 10", inShadow("10"), "maxRequestBytes: 10", ir.ReloadSettings},
		"another percentage":               {redirect, mirror("10"), mirror("20"), ""},
		"no mirror any more":               {redirect, mirror("10"), redirect, ""},
		"an authorization":                 {redirect, redirect, auth("/"), ir.ReloadSettings},
		"another path to ask at":           {redirect, auth("/"), auth("/a"), ""},
		"bodies for the authorization":     {redirect, auth("/"), auth("/, forwardBody: {maxSize: 5}"), ""},
		"no authorization any more":        {redirect, auth("/"), redirect, ""},
		"a password":                       {redirect, redirect, basic("users"), ir.ReloadSettings},
		"other users":                      {redirect, basic("users"), basic("others"), ""},
		"no password any more":             {redirect, basic("users"), redirect, ir.ReloadSettings},
		"another audience":                 {redirect, issuers("", "a"), issuers("", "b"), ""},
		"several issuers":                  {redirect, issuers("", "a"), issuers(second, "a"), ir.ReloadNames},
		"another of several issuers":       {redirect, issuers(second, "a"), issuers(strings.ReplaceAll(second, ": b", ": c"), "d"), ""},
		"one issuer left":                  {redirect, issuers(second, "a"), issuers("", "a"), ""},
		"an Authorization":                 {redirect, token("", "ES256"), allow("methods: [GET]"), ir.ReloadNames},
		"another Authorization":            {redirect, allow("methods: [GET]"), allow("methods: [PUT]}, {action: Deny, paths: [/a]"), ""},
		"an Authorization by claim":        {redirect, allow("methods: [GET]"), allow("claims: [{claim: a, values: [a]}]"), ir.ReloadNames},
		"other values of a claim":          {redirect, allow("claims: [{claim: a, values: [a]}]"), allow("claims: [{claim: a, values: [b]}]"), ""},
		"no Authorization any more":        {redirect, allow("methods: [GET]"), redirect, ""},
		"an API key":                       {redirect, redirect, key("a", header), ir.ReloadSettings},
		"other API keys":                   {redirect, key("a", header), key("b", header), ""},
		"an API key in another place":      {redirect, key("a", header), key("a", "{type: Cookie, name: key}"), ir.ReloadNames},
		"an API key in fewer places":       {redirect, key("a", header+", {type: Cookie, name: key}"), key("a", header), ""},
		"a login":                          {redirect, redirect, login("a", ""), ir.ReloadSettings},
		"another client for logins":        {redirect, login("a", ""), login("b", ""), ""},
		"a token of logins":                {redirect, login("a", ""), login("a", ", forwardToken: ID"), ""},
		"a header with a claim of logins":  {redirect, login("a", ""), login("a", ", claimsToHeaders: [{claim: a, header: X-A}]"), ir.ReloadNames},
		"a claim that logins require":      {redirect, login("a", ""), login("a", ", requiredClaims: [{claim: a, values: [b]}]"), ir.ReloadNames},
		"no login any more":                {redirect, login("a", ""), redirect, ""},
		"no API key any more":              {redirect, key("a", header), redirect, ir.ReloadSettings},
		"a JWT":                            {redirect, redirect, token("", "ES256"), ir.ReloadKeys},
		"a new key":                        {redirect, token("", "ES256"), token("", "ES256", "other"), ir.ReloadKeys},
		"a key less":                       {redirect, token("", "ES256", "other"), token("", "other"), ""},
		"a required scope":                 {redirect, token("", "ES256"), token(", requiredScopes: [read], clockSkew: 1m", "ES256"), ""},
		"a token in another place":         {redirect, token("", "ES256"), token(", from: [{type: Cookie, name: a}]", "ES256"), ir.ReloadNames},
		"a required claim":                 {redirect, token("", "ES256"), token(", requiredClaims: [{claim: a, values: [b]}]", "ES256"), ir.ReloadNames},
		"another value of a claim":         {redirect, token(", requiredClaims: [{claim: a, values: [b]}]", "ES256"), token(", requiredClaims: [{claim: a, values: [c]}]", "ES256"), ""},
		"a claim for a header":             {redirect, token("", "ES256"), token(", claimsToHeaders: [{claim: sub, header: X-User}]", "ES256"), ir.ReloadNames},
		"no JWT any more":                  {redirect, token("", "ES256"), redirect, ""},
		"other addresses of clients":       {redirect, addresses("10.0.0.0/8"), addresses("::/0"), ""},
		"no addresses of clients any more": {redirect, addresses("10.0.0.0/8"), redirect, ""},
		"settings beside an algorithm":     {trusted, balanced(""), balanced(", proxyProtocol: V2"), ""},
		"client validation": {"certificateRefs: [{name: cert}]", "certificateRefs: [{name: cert}]",
			"certificateRefs: [{name: cert}], clientValidation: {caCertificateRefs: [{name: ca}]}", ir.ReloadPorts},
	}
	for name, test := range tests {
		render := func(with string) ir.Config {
			w := rendertest.Parse(t, strings.Replace(featuresWorld, test.old, with, 1))
			w.Authorities = map[string]string{"ca": "PEM"}
			return render.Render(w.Input(t))
		}
		if got := plan.Diff(render(test.after), render(test.before)); got.Reload != test.reload {
			t.Errorf("%s: got %q, want %q", name, got.Reload, test.reload)
		}
	}
}

// TestDiffOfRemovals: what does something without being asked for by a rule leaves HAProxy with a reload.
func TestDiffOfRemovals(t *testing.T) {
	const listener, trusted = "{name: http, port: 80, protocol: HTTP}", "  trustedProxies: [10.0.0.0/8]"
	const client = "certificateRefs: [{name: cert}], clientValidation: {caCertificateRefs: [{name: ca}]"
	more := func(with string) [2]string { return [2]string{trusted, trusted + "\n  " + with} }
	other := func(with string) [2]string {
		return [2]string{"    - " + listener, "    - " + listener + "\n    - " + with}
	}
	for name, test := range map[string]struct {
		edit   [2]string // what the running world has in place of a part of featuresWorld
		reload string
	}{
		"compression":                         {more("compression: {}"), ir.ReloadSettings},
		"an error page":                       {more("errorPages: [{statuses: [404], body: gone}]"), ir.ReloadSettings},
		"logged headers":                      {more("accessLog: {requestHeaders: [Referer]}"), ir.ReloadSettings},
		"measured requests":                   {more("requestMetrics: ByRule"), ir.ReloadSettings},
		"traces":                              {more(`tracing: {endpoint: "collector:4318"}`), ir.ReloadSettings},
		"HTTP/3":                              {more("http3: {}"), ir.ReloadPorts},
		"a limit of headers":                  {more("clientLimits: {maxHeaderBytes: 65536}"), ir.ReloadSettings},
		"a limit of connections":              {more("clientLimits: {maxPerAddress: 5}"), ir.ReloadPorts},
		"a grace period":                      {more("drainTimeout: 5s"), ir.ReloadSettings},
		"the trusted proxies":                 {[2]string{trusted, "  trustedProxies: []"}, ir.ReloadPorts},
		"another listener with TLS":           {other("{name: b, port: 443, protocol: HTTPS, hostname: b.io, tls: {certificateRefs: [{name: cert}]}}"), ""},
		"the last certificate of a port":      {[2]string{"name: https, port: 443", "name: other, port: 443"}, ir.ReloadPorts},
		"another hostname of a listener":      {[2]string{"hostname: a.io", "hostname: \"*.io\""}, ""},
		"TLS that is passed through, besides": {other("{name: b, port: 443, protocol: TLS, hostname: b.io, tls: {mode: Passthrough}}"), ir.ReloadPorts},
		"the PROXY protocol":                  {[2]string{listener, "{name: http, port: 80, protocol: HTTP, proxyProtocol: Any}"}, ir.ReloadPorts},
		"client validation":                   {[2]string{"certificateRefs: [{name: cert}]", client + "}"}, ir.ReloadPorts},
		"the last use of the cache":           {[2]string{"- timeouts:", "- filters: [{type: Cache, cache: {}}]\n          timeouts:"}, ir.ReloadCache},
	} {
		render := func(text string) ir.Config {
			w := rendertest.Parse(t, text)
			w.Authorities = map[string]string{"ca": "PEM"}
			return render.Render(w.Input(t))
		}
		text := strings.Replace(featuresWorld, test.edit[0], test.edit[1], 1)
		if text == featuresWorld {
			t.Errorf("%s: the test changes nothing", name)
		}
		if got := plan.Diff(render(featuresWorld), render(text)); got.Reload != test.reload {
			t.Errorf("%s: got %q, want %q", name, got.Reload, test.reload)
		}
	}
}

// TestDiffOfProtocols: a port that was for TLS connections refuses all that do not begin like one.
func TestDiffOfProtocols(t *testing.T) {
	t.Parallel()
	render := func(protocol string) ir.Config {
		return render.Render(rendertest.Parse(t, `{spec: {listeners: [{name: db, port: 5432, protocol: `+protocol+`}]}}`).Input(t))
	}
	if got := plan.Diff(render("TCP"), render("TLS")); got.Reload != ir.ReloadPorts {
		t.Errorf("from TLS to TCP: got %q, want %q", got.Reload, ir.ReloadPorts)
	}
	if got := plan.Diff(render("TLS"), render("TCP")); got.Reload != ir.ReloadPorts {
		t.Errorf("from TCP to TLS: got %q, want %q", got.Reload, ir.ReloadPorts)
	}
}

// TestDiffOfManyTrustedProxies: HAProxy takes so many ranges in a line, and one that is not trusted any more may have
// had a line of its own.
func TestDiffOfManyTrustedProxies(t *testing.T) {
	render := func(n int) ir.Config {
		w := rendertest.Parse(t, featuresWorld)
		w.Spec.TrustedProxies = nil
		for i := range n {
			w.Spec.TrustedProxies = append(w.Spec.TrustedProxies, appv1.CIDR(fmt.Sprintf("10.0.%d.0/24", i+10)))
		}
		return render.Render(w.Input(t))
	}
	for _, n := range []int{2, 32, 33, 64} {
		if got := plan.Diff(render(n-1), render(n)); got.Reload != ir.ReloadPorts {
			t.Errorf("one of %d is not trusted any more: got %q, want %q", n, got.Reload, ir.ReloadPorts)
		}
	}
}
