package command_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"gateway/cmd/kubectl-gateway/internal/clitest"
	"gateway/internal/haproxy/filters"
)

const everything = `apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: all}
spec:
  listeners:
    - {name: any, port: 80, protocol: HTTP}
    - {name: narrow, port: 80, protocol: HTTP, hostname: "*.b.test"}
    - {name: a, port: 443, protocol: HTTPS, hostname: a.test, tls: {certificateRefs: [{name: s}], clientValidation: {caCertificateRefs: [{name: ca}]}}}
    - {name: b, port: 443, protocol: HTTPS, hostname: b.test, tls: {certificateRefs: [{name: s}]}}
    - {name: through, port: 443, protocol: TLS, hostname: p.test, tls: {mode: Passthrough}}
    - {name: db, port: 5432, protocol: TCP}
    - {name: pass, port: 8443, protocol: TLS, tls: {mode: Passthrough}}
  routes:
    - name: web
      rules:
        - matches: [{path: {value: /old}}]
          filters: [{type: RequestRedirect, requestRedirect: {hostname: new.test, port: 8080, statusCode: 301, path: {type: ReplacePrefixMatch, replacePrefixMatch: /new}}}]
        - matches: [{path: {value: /fixed}}]
          filters:
            - {type: DirectResponse, directResponse: {statusCode: 418, body: teapot}}
            - {type: CORS, cors: {allowOrigins: ["https://app.test"]}}
        - matches: [{path: {value: /none}}]
        - matches: [{path: {value: /api/v1}, method: POST, queryParams: [{name: q, value: a}], headers: [{name: X, type: RegularExpression, value: "a+"}]}]
          filters:
            - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-A, value: "1"}], remove: [X-B]}}
            - {type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: X-C, value: "2"}]}}
            - {type: URLRewrite, urlRewrite: {hostname: inner.test, path: {type: ReplacePrefixMatch, replacePrefixMatch: /}}}
          timeouts: {backendRequest: 3s}
          retry: {attempts: 2, codes: [502]}
          maxRequestBytes: 10
          sessionPersistence: {}
          backendRefs: [{name: api, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-D, value: "3"}]}}]}]
        - matches: [{path: {value: /api}}, {path: {value: /web}}]
          backendRefs: [{name: api, port: 80}, {name: idle, port: 80, weight: 0}]
    - name: late
      rules: [{matches: [{path: {value: /web}}], backendRefs: [{name: late, port: 80}]}]
  tcpRoutes: [{name: tcp, listeners: [db], rules: [{backendRefs: [{name: db, port: 5432}]}]}]
  tlsRoutes: [{name: through, listeners: [through], hostnames: [p.test], rules: [{backendRefs: [{name: p, port: 443}]}]}, {name: tls, hostnames: [x.test], rules: [{backendRefs: [{name: x, port: 443}]}]}]
`

// TestExplain asks for everything that may become of a request. That the matches are right is shown by
// TestExplainAgreesWithHAProxy.
func TestExplain(t *testing.T) {
	file := clitest.WriteFile(t, "all.yaml", everything)
	for _, test := range []struct {
		args  []string
		code  int
		wants []string
	}{
		{[]string{"http://a.test/api"}, 0, []string{"listener  any: HTTP on port 80\nroute     web rules[4]: path prefix /api\nbackend   100% to Service api port 80, endpoints not known\n",
			"not       listener narrow\n            because its hostname is *.b.test\n", "not       route web rules[2]: path prefix /none\n            because the path is /api\n"}},
		{[]string{"http://a.test/web"}, 0, []string{"route     web rules[4]: path prefix /web\n", "not       route late rules[0]: path prefix /web\n            because route web rules[4] comes first and gets all of its requests\n"}},
		{[]string{"x.b.test/api"}, 0, []string{"listener  narrow: HTTP on port 80, for *.b.test\n"}},
		{[]string{"http://a.test/api/v1?q=b", "-H", "x: b"}, 0, []string{"because the method is GET; the header x is \"b\"; the query \"q=b\" does not have q=a\n", "rules[4]"}},
		{[]string{"http://a.test/api/v1/x?q=%61", "-X", "POST", "-H", "x: aa"}, 0, []string{
			"rules[3]: path prefix /api/v1, method POST, header x matching a+, query q=a\n",
			"filter    maxRequestBytes: bodies of up to 10 bytes, else 413\nfilter    timeout: 3s until the answer begins\n" +
				"filter    host for the backend: inner.test\nfilter    path for the backend: / in place of the prefix\n" +
				"filter    request header x-a: set [\"1\"]\nfilter    request header x-b: remove\nfilter    answer's header x-c: add [\"2\"]\nfilter    retries: up to 2, also after an answer of 502\nfilter    session: the endpoint that the Service's cookie gateway-session-... names",
			"endpoints not known\n            request header x-d: set [\"3\"]\n",
		}},
		{[]string{"http://a.test/old/x"}, 0, []string{"answer    301: redirect to host new.test, port 8080, path /new in place of the prefix\n"}},
		{[]string{"http://a.test/fixed"}, 0, []string{"answer    418: text/plain; charset=utf-8, 6 bytes\n", "filter    CORS: pages of https://app.test may use it\n"}},
		{[]string{"http://a.test/fixed", "-X", "OPTIONS", "-H", "Origin: https://app.test", "-H", "Access-Control-Request-Method: GET"}, 0, []string{"answer    204: "}},
		{[]string{"http://a.test/none"}, 3, []string{"answer    500: the rule has no backend\n"}},
		{[]string{"http://a.test/../x"}, 3, []string{"answer    400: backends may disagree"}},
		{[]string{"http://a.test/api/v1", "-H", "x: " + strings.Repeat("a", 8193)}, 3, []string{"answer    400: a value of the request is too long"}},
		{[]string{"http://a.test/api", "-X", "CONNECT"}, 3, []string{"answer    405: "}},
		{[]string{"http://a.test/api", "-X", "TRACE"}, 3, []string{"answer    405: "}},
		{[]string{"http://a.test/api", "-H", "Host: a/b"}, 3, []string{`answer    400: the host "a/b" is malformed`}},
		{[]string{"http://a.test/other", "--limit", "1"}, 3, []string{"answer    404: the request meets no rule of listener any\n", "not       6 more, see --limit\n"}},
		{[]string{"http://a.test:81/"}, 3, []string{"answer    no connection: no listener has port 81, but 80, 443, 5432, 8443\n"}},
		{[]string{"https://a.test:80/"}, 3, []string{"answer    no answer to https: port 80 is for HTTP\n"}},
		{[]string{"https://a.test/api"}, 0, []string{"filter    client: has to show a certificate\n", "listener  a: HTTPS on port 443, for a.test"}},
		{[]string{"https://b.test/api", "-H", "Host: a.test"}, 3, []string{`answer    421: the connection is for "b.test", whose listener is not that of the host "a.test"`}},
		{[]string{"https://c.test/api"}, 3, []string{`answer    no connection: no listener of port 443 is for the name "c.test"`, "because its hostname is a.test"}},
		{[]string{"tcp://10.0.0.1:5432"}, 0, []string{"request   tcp://10.0.0.1:5432\n", "route     tcp rules[0]: everything\nbackend   100% to Service db port 5432"}},
		{[]string{"tls://x.test:8443"}, 0, []string{"route     tls rules[0]: host x.test\nbackend   100% to Service x port 443"}},
		{[]string{"https://x.test:8443/any?path", "-X", "POST"}, 0, []string{"route     tls rules[0]: host x.test\n"}},
		{[]string{"https://p.test/", "-H", "Host: b.test"}, 0, []string{"listener  through: TLS on port 443, for p.test\nroute     through rules[0]: host p.test\n"}},
		{[]string{"https://b.test/", "-H", "Host: p.test"}, 3, []string{`answer    421: the connection is for "b.test", whose listener is not that of the host "p.test"`}},
		{[]string{"tls://y.test:8443"}, 3, []string{"has no route for the host y.test, but for x.test"}},
		{[]string{"http://a.test/api", "-o", "yaml"}, 0, []string{"backends:\n- percent: 100\n  port: 80\n  service: api\n", "\nroute: web\nrule: 4\n"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			clitest.Run(t, "", append([]string{"explain", "-f", file}, test.args...)...).Want(t, test.code, test.wants...)
		})
	}
}

// TestExplainAnswers: what a listener changes for backends has no effect where a rule answers, and is not named there.
func TestExplainAnswers(t *testing.T) {
	file := clitest.WriteFile(t, "answers.yaml", `apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: answers}
spec:
  listeners:
    - name: http
      port: 80
      protocol: HTTP
      filters:
        - {type: CORS, cors: {allowOrigins: ["https://app.test"]}}
        - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-Frame-Options, value: DENY}]}}
        - {type: HeaderVariables, headerVariables: {set: [{name: X-Route, variable: Route}]}}
  routes:
    - name: web
      rules:
        - {matches: [{path: {value: /fixed}}], filters: [{type: DirectResponse, directResponse: {body: gone}}]}
        - {matches: [{path: {value: /old}}], filters: [{type: RequestRedirect, requestRedirect: {hostname: new.test}}]}
        - matches: [{path: {value: /moved}}]
          filters:
            - {type: RequestRedirect, requestRedirect: {hostname: new.test}}
            - {type: PathRegexRewrite, pathRegexRewrite: {pattern: '^/moved/(.*)', substitution: '/\1'}}
`)
	const cors = "filter    CORS: pages of https://app.test may use it\n"
	clitest.Run(t, "", "explain", "-f", file, "http://a.test/fixed").Want(t, 0, cors+"answer    200: text/plain; charset=utf-8, 4 bytes\n")
	clitest.Run(t, "", "explain", "-f", file, "http://a.test/old").Want(t, 0, cors+"answer    302: redirect to host new.test\n")
	const path = "filter    path: ^/moved/(.*) is replaced by /\\1\n"
	clitest.Run(t, "", "explain", "-f", file, "http://a.test/moved").Want(t, 0, cors+path+"answer    302: redirect to host new.test\n")
}

// TestExplainHeaderVariables: a variable replaces what the backendRef says of the same header.
func TestExplainHeaderVariables(t *testing.T) {
	file := clitest.WriteFile(t, "variables.yaml", `apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: variables}
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: web
      rules:
        - filters: [{type: HeaderVariables, headerVariables: {set: [{name: X-Route, variable: Route}]}}]
          backendRefs:
            - name: web
              port: 80
              filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-route, value: other}, {name: X-Version, value: "2"}]}}]
`)
	got := clitest.Run(t, "", "explain", "-f", file, "http://a.test/")
	got.Want(t, 0, "request header x-route: set to the Route", `request header x-version: set ["2"]`)
	if strings.Contains(got.Out, "other") {
		t.Errorf("what has no effect is there:\n%s", got.Out)
	}
}

// TestExplainHosts asks where one listener has routes for many hosts, of every kind of path.
func TestExplainHosts(t *testing.T) {
	file := clitest.WriteFile(t, "hosts.yaml", `apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: hosts}
spec:
  listeners: [{name: http, port: 80, protocol: HTTP, hostname: "*.test"}, {name: db, port: 5432, protocol: TCP}]
  routes:
    - name: web
      hostnames: [a.test, b.test, c.test, d.test, e.test, f.test]
      rules:
        - {matches: [{path: {type: Exact, value: /exact}}], backendRefs: [{name: one, port: 80}]}
        - {matches: [{path: {type: RegularExpression, value: "/re.*"}}], timeouts: {request: 0s}, backendRefs: [{name: one, port: 80}]}
        - {matches: [{path: {value: /session}}], sessionPersistence: {}, backendRefs: [{name: one, port: 80}, {name: two, port: 80}]}
        - {matches: [{path: {value: /cors}}], filters: [{type: CORS, cors: {allowOrigins: ["*"]}}], backendRefs: [{name: one, port: 80}]}
  tcpRoutes: [{name: tcp, listeners: [db], rules: [{backendRefs: [{name: db, port: 5432, weight: 0}]}]}]
`)
	const browser, method = "Origin: https://app.test", "Access-Control-Request-Method: GET"
	for _, test := range []struct {
		args  []string
		code  int
		wants []string
	}{
		{[]string{"http://user@b.test/exact?q#part"}, 0, []string{"route     web rules[0]: host b.test, path /exact\n", "not       6 for other hosts\n"}},
		{[]string{"http://a.test/re1"}, 0, []string{"route     web rules[1]: host a.test, path matching /re.*\nfilter    timeout: none\n", "because the path is /re1\n"}},
		{[]string{"http://a.test/session"}, 0, []string{"rules[2]: host a.test, path prefix /session, cookie gateway-session-864583ed\n            because there is no cookie gateway-session-864583ed\n"}},
		{[]string{"http://a.test/session", "-H", "Cookie: gateway-session-864583ed=1"}, 0, []string{
			"request   GET http://a.test/session -H \"Cookie: gateway-session-864583ed=1\"\n", "backend   100% to Service one port 80"}},
		{[]string{"http://a.test/cors", "-X", "OPTIONS", "-H", browser, "-H", method}, 0, []string{"answer    204: "}},
		{[]string{"http://a.test/cors", "-X", "OPTIONS", "-H", browser}, 0, []string{"100% to Service one"}},
		{[]string{"http://a.test/cors", "-X", "OPTIONS", "-H", method}, 0, []string{"100% to Service one"}},
		{[]string{"http://a.test/cors", "-H", browser, "-H", method}, 0, []string{"100% to Service one"}},
		{[]string{"http://z.test/"}, 3, []string{"answer    404: listener http has no route for the host z.test, but for a.test, b.test, c.test, d.test, e.test and 1 more\n"}},
		{[]string{"http://a.example/"}, 3, []string{"answer    404: no listener of port 80 is for the host \"a.example\"\n", "because its hostname is *.test\n"}},
		{[]string{"http://f.test/zzz", "--limit", "2"}, 3, []string{"host f.test, path /exact\n            because the path is /zzz\n", "not       4 more, see --limit\n"}},
		{[]string{"tcp://10.0.0.1:5432"}, 3, []string{"answer    the connection is closed: the route has no backend\n"}},
		{[]string{"http://f.test/exact", "-o", "json"}, 0, []string{"    \"match\": \"host f.test, path /exact\",\n    \"otherHosts\": 30,\n", "\n}\n"}},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			t.Parallel()
			clitest.Run(t, "", append([]string{"explain", "-f", file}, test.args...)...).Want(t, test.code, test.wants...)
		})
	}
}

// clientsGateway has rules that refuse requests, for TestExplainClients.
const clientsGateway = `apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: clients}
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: web
      rules:
        - matches: [{path: {value: /private}}]
          filters:
            - {type: ClientAddress, clientAddress: {allow: [10.0.0.0/8, 192.0.2.0/24, "fd00::/8", 198.51.100.0/24], deny: [10.1.0.0/16, "::/0"]}}
            - {type: CORS, cors: {allowOrigins: ["*"]}}
            - {type: RateLimit, rateLimit: {limits: [{requests: 100, unit: Hour, key: {type: Cookie, name: id}}, {requests: 7, unit: Second}]}}
            - {type: JWT, jwt: {issuers: [{issuer: "https://id.test", audiences: [web, api], keys: {inline: '{"keys":[{"kid":"2026-11","kty":"EC","crv":"P-256","x":"RRBtXB3hOAbYDKm7UnEt_Zr_-ey4whvVOryn3jLg5sQ","y":"MZaSEzCbFdKWdDDLEMNp9n0FRHPpuRWZCM1COgAwcC4"}]}'}}], requiredScopes: [read, write], requiredClaims: [{claim: realm.role, values: [a, b]}]}}
            - {type: APIKey, apiKey: {secretRef: {name: partners}, from: [{type: Header, name: X-Key}, {type: QueryParam, name: key}, {type: Cookie, name: k}]}}
            - {type: Authorization, authorization: {rules: [{action: Deny, methods: [DELETE]}, {action: Allow}]}}
            - {type: ExternalAuth, externalAuth: {backendRef: {name: login, port: 80}, path: /check, forwardBody: {maxSize: 10}}}
            - {type: WAF, waf: {paranoiaLevel: 2, rulesRef: {name: rules}, excludedRules: [{id: 942100, target: {type: Cookie, name: theme}}, {id: 911100}]}}
          maxRequestBytes: 10
          backendRefs: [{name: web, port: 80}]
        - {matches: [{path: {value: /login}}], filters: [{type: OIDC, oidc: {issuer: "https://id.test", clientID: web, secretRef: {name: login}}}], backendRefs: [{name: web, port: 80}]}
        - {matches: [{path: {value: /users}}], filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}}}], backendRefs: [{name: web, port: 80}]}
        - matches: [{path: {value: /claim}}]
          filters:
            - {type: RateLimit, rateLimit: {concurrent: {requests: 9}, limits: [{requests: 100, unit: Hour, key: {type: Claim, name: sub}}, {requests: 7, unit: Minute}]}}
            - {type: JWT, jwt: {issuers: [{issuer: me, audiences: [web], keys: {configMapRef: {name: keys}}}]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /some}}]
          filters:
            - {type: JWT, jwt: {issuers: [{issuer: me, audiences: [web], keys: {configMapRef: {name: keys}}}]}}
            - {type: Authorization, authorization: {rules: [
                {action: Deny, claims: [{claim: realm.role, values: [guest]}]}, {action: Allow, methods: [GET, HEAD], paths: [/some/open]},
                {action: Allow, addresses: [10.2.0.0/16], claims: [{claim: realm.role, values: [admin, ops]}]}]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /staff}}]
          filters:
            - {type: BasicAuth, basicAuth: {secretRef: {name: users}}}
            - {type: Authorization, authorization: {rules: [{action: Allow, clients: [a, c]}]}}
          backendRefs: [{name: web, port: 80}]
        - {matches: [{path: {value: /none}}], filters: [{type: ClientAddress, clientAddress: {deny: ["::ffff:10.0.0.0/104"]}}]}
`

// claiming returns the arguments for a token with a role, as nobody has signed it.
func claiming(role string) []string {
	return []string{"-H", "Authorization: Bearer a." + base64.RawURLEncoding.EncodeToString([]byte(`{"realm":{"role":`+role+`}}`)) + ".b"}
}

// TestExplainShadow: explain shows what a filter in shadow would refuse, and the request goes on to the next filters.
func TestExplainShadow(t *testing.T) {
	file := clitest.WriteFile(t, "shadow.yaml", strings.ReplaceAll(clientsGateway, "maxRequestBytes: 10", "maxRequestBytes: 10\n          shadow: [ClientAddress, JWT]"))
	run := func(args ...string) clitest.Result {
		return clitest.Run(t, "", append([]string{"explain", "-f", file, "http://x/private", "--client-address", "10.1.0.1", "-H", "X-Key: a"}, args...)...)
	}
	run().Want(t, 0, "else 403 (shadow: it goes on)\n", "100 requests per hour for each value of the cookie id, else 429\n",
		"shadow: would refuse with 403: ClientAddress: 10.1.0.1 is in 10.1.0.0/16, which is denied\n",
		"shadow: would refuse with 401: JWT: the request has no header like Authorization: Bearer ...\n", "backend   100% to Service web")
	file = clitest.WriteFile(t, "shadow.yaml", strings.ReplaceAll(clientsGateway, "maxRequestBytes: 10", "maxRequestBytes: 10\n          shadow: [ClientAddress]"))
	run().Want(t, 3, "shadow: would refuse with 403: ", "answer    401: JWT: ")
}

// TestExplainMandatory: explain names the object of each mandatory filter, but for exceptions.
func TestExplainMandatory(t *testing.T) {
	const file = `apiVersion: app.example.com/v1
kind: GatewayConfig
metadata: {name: shared, namespace: infra}
spec:
  maxRequestBytes: 10
  filters: [{type: RateLimit, rateLimit: {limits: [{requests: 5, unit: Second}]}}, {type: WAF, waf: {}}]
  mandatory: [{type: RateLimit}, {type: WAF, exceptions: [{namespaces: [infra], paths: [/upload]}]}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: shop, namespace: infra}
spec:
  gatewayClassName: gateway
  infrastructure: {parametersRef: {group: app.example.com, kind: GatewayConfig, name: shared}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop, namespace: infra}
spec:
  parentRefs: [{name: shop}]
  rules: [{matches: [{path: {type: PathPrefix, value: /}}, {path: {type: PathPrefix, value: /upload}}], backendRefs: [{name: web, port: 80}]}]
`
	for path, want := range map[string]string{
		"/":       "mandatory: RateLimit, by GatewayConfig infra/shared; mandatory: WAF, by GatewayConfig infra/shared",
		"/upload": "mandatory: RateLimit, by GatewayConfig infra/shared",
	} {
		result := clitest.Run(t, file, "explain", "-f", "-", "http://a.test"+path)
		var got []string
		for line := range strings.Lines(result.Out) {
			if text := strings.TrimSpace(line); strings.Contains(text, "mandatory: ") {
				got = append(got, text[strings.Index(text, "mandatory: "):])
			}
		}
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: got %q, want %q of\n%s%s", path, text, want, result.Out, result.Err)
		}
	}
}

// TestExplainLogins: pages and other requests without a session get different answers.
func TestExplainLogins(t *testing.T) {
	file := clitest.WriteFile(t, "clients.yaml", strings.Replace(clientsGateway, "  listeners:", "  trustedProxies: [10.0.0.0/8]\n  listeners:", 1))
	for headers, want := range map[string]string{
		"":                      "answer    401: OIDC: the request has no session; a browser that asks for a page is sent to https://id.test\n",
		"Accept: text/html,*/*": "answer    302: OIDC: the request has no session: the browser is sent to https://id.test\n",
		"Accept: text/html\nSec-Fetch-Mode: cors":                   "answer    401: OIDC: ",
		"Accept: text/html\nX-Requested-With: x":                    "answer    401: OIDC: ",
		"Cookie: a=b, __Host-gateway-session=a":                     "answer    401: OIDC: ",
		"Cookie: a=b; __Host-gateway-session=a":                     "or 401 (session not checked)\n",
		"Cookie: __Host-gateway-session=a\nX-Forwarded-Proto: http": "or 401 (session not checked)\n",
	} {
		args := []string{"explain", "-f", file, "http://a.test/login", "-H", "X-Forwarded-Proto: https"}
		for header := range strings.SplitSeq(headers, "\n") {
			if header != "" {
				args = append(args, "-H", header)
			}
		}
		clitest.Run(t, "", args...).Want(t, map[bool]int{true: 3}[strings.HasPrefix(want, "answer")], "OIDC: a user who has logged in at https://id.test, else a redirect there, ", want)
	}
	clitest.Run(t, "", "explain", "-f", file, "http://a.test/login", "-H", "Cookie: __Host-gateway-session=a").Want(t, 3, "answer    403: OIDC: logins need HTTPS: ")
}

// TestExplainClients asks on behalf of clients that have access, and others. What may refuse a request is named in the
// order in which HAProxy asks it.
func TestExplainClients(t *testing.T) { //nolint:funlen // a flat table
	file := clitest.WriteFile(t, "clients.yaml", clientsGateway)
	const clients = "filter    ClientAddress: clients from 10.0.0.0/8, 192.0.2.0/24, fd00::/8 and 1 more, not from 10.1.0.0/16, ::/0, else 403"
	const unknown = "filter    explain does not know who the client is: see --client-address\n"
	const others = "filter    RateLimit: 7 requests per second for each client address, else 429\n" +
		"filter    RateLimit: 100 requests per hour for each value of the cookie id, else 429\n" +
		"filter    APIKey: a key of Secret partners in cookie k or header x-key or query key, else 401\n" +
		"filter    JWT: a token of https://id.test for web or api, else 401; with read and write as scopes, else 403; with realm.role of a or b, else 403\n" +
		"filter    Authorization: deny DELETE; allow all; else 403\n" +
		"filter    maxRequestBytes: bodies of up to 10 bytes, else 413\n" +
		"filter    ExternalAuth: Service default/login:80 at /check has to answer 2xx, else the client gets its answer or 503\n" +
		"filter    ExternalAuth: the Service gets bodies of up to 10 bytes, else the client gets 413\n" +
		"filter    WAF: a score below 5 of the Core Rule Set at paranoia level 2, without rule 942100 for the cookie theme and rule 911100, with the rules of ConfigMap rules, else 403\n" +
		"filter    WAF: bodies of up to 32768 bytes, else 413\n"
	keyed := strings.Replace(others, "query key, else 401", "query key, else 401 (key not checked)", 1)
	checked := strings.Replace(keyed, "a or b, else 403", "a or b, else 403 (token not checked)", 1)
	var order []string
	for line := range strings.Lines(clients + "\n" + others) {
		order = append(order, strings.Trim(strings.Fields(line)[1], ":"))
	}
	// BasicAuth and OIDC are in no rule with APIKey or JWT.
	if want := slices.DeleteFunc(filters.Guards(), func(guard string) bool { return guard == "BasicAuth" || guard == "OIDC" }); !slices.Equal(slices.Compact(order), want) {
		t.Errorf("the order is %v, but HAProxy asks %v", order, want)
	}
	token, key, password := []string{"-H", "Authorization: bearer a.b.c", "-H", "X-Key: a"}, []string{"-H", "X-Key: a"}, []string{"-H", "Authorization: Basic YTpi"}
	page := []string{"-H", "X-Forwarded-Proto: https", "-H", "Accept: text/html,*/*"}
	for _, test := range []struct {
		client, path string
		more         []string
		code         int
		wants        []string
	}{
		{"", "/private", token, 0, []string{clients + "\n", unknown, "100% to Service web"}},
		{"10.2.0.1", "/private", token, 0, []string{clients + "\n" + checked, "100% to Service web"}},
		{"::ffff:10.2.0.1", "/private", token, 0, []string{"100% to Service web"}},
		{"10.2.0.1", "/private", nil, 3, []string{"answer    401: APIKey: the request does not have one key in its place\n"}},
		{"10.2.0.1", "/private", append(key, key...), 3, []string{"answer    401: APIKey: "}},
		{"10.2.0.1", "/private", append(key, "-H", "Cookie: a=b; k=c"), 3, []string{"answer    401: APIKey: "}},
		{"10.2.0.1", "/private?a=1&key=", token, 0, []string{"100% to Service web"}},
		{"10.2.0.1", "/private?a=1;key=a", token[:2], 3, []string{"answer    401: APIKey: "}},
		{"10.2.0.1", "/private?ke%79=a", token[:2], 0, []string{"100% to Service web"}},
		{"10.2.0.1", "/private?a=1&key=a", token[:2], 0, []string{"100% to Service web"}},
		{"10.2.0.1", "/private", append(token[:2:2], "-H", "Cookie: a=b; k=c"), 0, []string{"100% to Service web"}},
		{"10.2.0.1", "/private", key, 3, []string{clients + "\n" + keyed, "answer    401: JWT: the request has no header like Authorization: Bearer ...\n"}},
		{"10.2.0.1", "/private", append(token, token[:2]...), 3, []string{"answer    401: JWT: "}},
		{"10.2.0.1", "/private", append(password, key...), 3, []string{"answer    401: JWT: "}},
		{"10.1.2.3", "/private", nil, 3, []string{"answer    403: ClientAddress: 10.1.2.3 is in 10.1.0.0/16, which is denied\n"}},
		{"fd00::1", "/private", nil, 3, []string{"answer    403: ClientAddress: fd00::1 is in ::/0, which is denied\n"}},
		{"203.0.113.1", "/private", nil, 3, []string{"answer    403: ClientAddress: 203.0.113.1 is in no range that is allowed\n"}},
		{"10.1.2.3", "/private", []string{"-X", "OPTIONS", "-H", "Origin: https://a.test", "-H", "Access-Control-Request-Method: GET"}, 0, []string{"answer    204: "}},
		{"", "/login", append(page, "-H", "Cookie: __Host-gateway-session=a"), 3, []string{"answer    403: OIDC: logins need HTTPS: use https, or let the Gateway trust the proxy that terminates TLS\n"}},
		{"", "/users", nil, 3, []string{"answer    401: BasicAuth: the request has no header like Authorization: Basic ...\n"}},
		{"", "/users", token, 3, []string{"answer    401: BasicAuth: "}},
		{"", "/users", password, 0, []string{"filter    BasicAuth: a user of Secret users, else 401 (password not checked)\n", "100% to Service web"}},
		{"", "/claim", token, 0, []string{"filter    RateLimit: 9 concurrent requests for each client address, else 429\nfilter    RateLimit: 7 requests per minute for each client address, else 429\n" +
			"filter    JWT: a token of me for web, else 401 (token not checked)\nfilter    RateLimit: 100 requests per hour for each value of the claim sub, else 429\n"}},
		{"10.2.0.1", "/private", append(token, "-X", "DELETE"), 3, []string{"answer    403: Authorization: rules[0] denies it\n"}},
		{"", "/some", claiming(`"admin"`), 0, []string{"filter    Authorization: deny claim realm.role guest; allow GET or HEAD path /some/open; " +
			"allow address in 10.2.0.0/16 claim realm.role admin or ops; else 403\n", "100% to Service web"}},
		{"10.3.0.1", "/some", claiming(`"admin"`), 3, []string{"answer    403: Authorization: no rule allows it\n"}},
		{"10.2.0.1", "/some", claiming(`["a","ops"]`), 0, []string{"100% to Service web"}},
		{"10.2.0.1", "/some", claiming(`"user"`), 3, []string{"answer    403: Authorization: no rule allows it\n"}},
		{"10.2.0.1", "/some", claiming(`["guest"]`), 3, []string{"answer    403: Authorization: rules[0] denies it\n"}},
		{"10.3.0.1", "/some/%6fpen/a", claiming(`5`), 0, []string{"100% to Service web"}},
		{"10.2.0.1", "/some", claiming(`{}`), 0, []string{"100% to Service web"}},
		{"10.3.0.1", "/some", token, 3, []string{"answer    403: Authorization: no rule allows it\n"}},
		{"10.3.0.1", "/some", nil, 3, []string{"answer    401: JWT: "}},
		{"", "/staff", password, 0, []string{"filter    Authorization: allow client a or c; else 403\n", "100% to Service web"}},
		{"", "/staff", []string{"-H", "Authorization: Basic YjpjCg=="}, 3, []string{"answer    403: Authorization: no rule allows it\n"}},
		{"10.1.2.3", "/none", nil, 3, []string{"answer    403: ClientAddress: 10.1.2.3 is in 10.0.0.0/8, which is denied\n"}},
		{"203.0.113.1", "/none", nil, 3, []string{"answer    500: "}},
		{"localhost", "/private", nil, 2, []string{`the client's address "localhost" is no IP address`}},
		{"fe80::1%eth0", "/private", nil, 2, []string{"is no IP address"}},
	} {
		t.Run(test.client+test.path+strings.Join(test.more, ""), func(t *testing.T) {
			t.Parallel()
			args := append([]string{"explain", "-f", file, "--client-address", test.client, "http://a.test" + test.path}, test.more...)
			clitest.Run(t, "", args...).Want(t, test.code, test.wants...)
		})
	}
	clitest.Run(t, "", "explain", "-f", file, "http://a:b@a.test/users").Want(t, 0, "100% to Service web")
}

// TestExplainForwarded asks with headers that the proxy replaces or removes, unless it trusts the client.
func TestExplainForwarded(t *testing.T) {
	file := `apiVersion: app.example.com/v1
kind: Gateway
metadata: {name: forwarded}
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}, {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: s}]}}]
  routes:
    - name: web
      rules:
        - {matches: [{headers: [{name: X-Forwarded-Proto, value: https}]}], backendRefs: [{name: secure, port: 80}]}
        - {matches: [{headers: [{name: X-Forwarded-For, value: 10.0.0.1}]}, {headers: [{name: Client-Cert, value: a}]}], backendRefs: [{name: admin, port: 80}]}
        - {matches: [{path: {value: /port}, headers: [{name: X-Forwarded-Port, value: "443"}]}], backendRefs: [{name: well-known, port: 80}]}
        - backendRefs: [{name: web, port: 80}]
`
	const unknown = "because explain does not know who the client is, which the header x-forwarded-for says\n"
	const taken = "warning: default/forwarded: explain does not know who the client is: it is taken for one of spec.trustedProxies, whose X-Forwarded headers count\n"
	for _, test := range []struct {
		name, more string
		args       []string
		wants      []string
		warns      string
	}{
		{"replaced", "", []string{"http://a.test/", "-H", "X-Forwarded-Proto: https"}, []string{"100% to Service web", "because the header x-forwarded-proto is \"http\"\n", unknown}, ""},
		{"set", "", []string{"https://a.test/"}, []string{"100% to Service secure"}, ""},
		{"removed", "", []string{"http://a.test/", "-H", "Client-Cert: a", "-H", "X-Forwarded-For: 10.0.0.1"}, []string{"100% to Service web", "because there is no header client-cert\n", unknown}, ""},
		{"trusted", "  trustedProxies: [10.0.0.0/8]\n", []string{"http://a.test/", "-H", "X-Forwarded-Proto: https"}, []string{"100% to Service secure"}, taken},
		{"trusted, without a port", "  trustedProxies: [10.0.0.0/8]\n", []string{"http://a.test/port", "-H", "X-Forwarded-Proto: HTTPS"}, []string{"100% to Service well-known"}, taken},
		{"trusted, but for whom", "  trustedProxies: [10.0.0.0/8]\n", []string{"http://a.test/", "-H", "X-Forwarded-For: 10.0.0.1"}, []string{"100% to Service web", unknown}, taken},
		{"trusted, without such headers", "  trustedProxies: [10.0.0.0/8]\n", []string{"https://a.test/"}, []string{"100% to Service secure"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			result := clitest.Run(t, file+test.more, append([]string{"explain", "-f", "-"}, test.args...)...)
			result.Want(t, 0, test.wants...)
			if result.Err != test.warns {
				t.Errorf("it warns %q, want %q", result.Err, test.warns)
			}
		})
	}
}

// TestNotAdmitted has Gateways that the API server refuses: no command takes them, and HAProxy is not asked.
func TestNotAdmitted(t *testing.T) {
	t.Setenv("PATH", "")
	for _, test := range []struct {
		from, to string
		line     int
		want     string
	}{
		{"port: 80,", "port: 0,", 6, "spec.listeners[0].port: Invalid value: 0: should be greater than or equal to 1"},
		{", tls: {certificateRefs: [{name: s}]}}", "}", 5, "spec.listeners[3].tls: Invalid value: tls is required for protocols HTTPS and TLS, and not allowed for any other"},
		{"weight: 0", "weight: -90", 34, "spec.routes[0].rules[4].backendRefs[1].weight: Invalid value: -90: "},
		{"backendRequest: 3s", "backendRequest: 1d", 28, `spec.routes[0].rules[3].timeouts.backendRequest: Invalid value: "1d": `},
		{"name: b, port: 443", "name: a, port: 443", 9, `spec.listeners[3]: Duplicate value: {"name":"a"}`},
		{"port: 80, protocol: HTTP, hostname: \"*.b.test\"", "port: 80, protocol: HTTP", 5, "two listeners have the same port and hostname: "},
		{"type: DirectResponse", "type: CORS", 20, "spec.routes[0].rules[1].filters[0].cors: Required value"},
		{"value: /old", "value: /a/../b", 16, `spec.routes[0].rules[0].matches[0].path.value: Invalid value: "/a/../b": must have a form like /shop`},
		{"listeners: [db]", "listeners: [dbs]", 37, "must be the name of a listener in spec.listeners: correct the name or add the listener"},
		{"statusCode: 418", "statusCode: ok", 20, `statusCode: Invalid value: "ok": must be a whole number`},
		{"method: POST", "methods: POST", 23, `unknown field "spec.routes[0].rules[3].matches[0].methods"`},
		{"name: all", "name: a.b", 3, "metadata.name"},
	} {
		if strings.Count(everything, test.from) == 0 {
			t.Errorf("there is no %q to replace", test.from)
		}
		file := strings.ReplaceAll(everything, test.from, test.to)
		for _, args := range []string{"render", "render --check", "explain http://a.test/"} {
			result := clitest.Run(t, file, append(strings.Fields(args), "-f", "-", "-n", "x")...)
			result.Want(t, 1, fmt.Sprintf("error: standard input:%d: Gateway x/", test.line), test.want)
		}
	}
}
