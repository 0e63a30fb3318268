package dataplanetest_test

import (
	"strings"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
)

const mandatoryWorld = `
generation: 1
spec:
  trustedProxies: [127.0.0.0/8]
  listeners:
    - name: public
      port: 80
      protocol: HTTP
      maxRequestBytes: 10
      filters:
        - {type: ClientAddress, clientAddress: {deny: [192.0.2.0/24]}}
        - {type: RateLimit, rateLimit: {limits: [{requests: 2, unit: Hour, key: {type: Header, name: X-Key}}]}}
        - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Env, value: listener}]}}
      mandatory:
        - {type: ClientAddress, exceptions: [{paths: [/health]}]}
        - {type: RateLimit, exceptions: [{paths: [/health]}]}
        - {type: RequestHeaderModifier}
        - {type: maxRequestBytes}
  routes:
    - name: shop
      rules:
        - matches: [{path: {value: /}}, {path: {value: /health}}]
          backendRefs: [{name: web, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Env, value: backend}]}}]}]
        - matches: [{path: {value: /own}}]
          maxRequestBytes: 20
          filters:
            - {type: ClientAddress, clientAddress: {deny: [203.0.113.0/24]}}
            - {type: RateLimit, rateLimit: {limits: [{requests: 4, unit: Minute, key: {type: Rule}}]}}
            - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Env, value: rule}]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /around}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 1000, unit: Hour}]}}]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80, servers: ["127.0.0.1:1"]}]
`

// TestMandatoryFilters: no rule gets around the mandatory filters of its listener, but for the exceptions of these.
func TestMandatoryFilters(t *testing.T) {
	t.Parallel()
	web := make(chan string, 100)
	g := startServing(t, rendertest.Parse(t, mandatoryWorld), handlers{"web": record(web, nil)})
	for _, test := range []struct {
		name, path, headers string
		status              int
	}{
		{"a client that the listener denies", "/", "X-Forwarded-For: 192.0.2.1", 403},
		{"at an exception", "/health", "X-Forwarded-For: 192.0.2.1", 200},
		{"at a rule that denies others", "/own", "X-Forwarded-For: 192.0.2.1", 403},
		{"what the rule denies", "/own", "X-Forwarded-For: 203.0.113.1", 403},
		{"what the rule denies, elsewhere", "/", "X-Forwarded-For: 203.0.113.1", 200},
		{"a body that the rule would let through", "/own", "X-Key: z\r\nContent-Length: 11", 413},
		{"a limit of the listener", "/", "X-Key: a", 200},
		{"which rules share", "/own", "X-Key: a", 200},
		{"beyond it", "/own", "X-Key: a", 429},
		{"at another rule", "/", "X-Key: a", 429},
		{"at an exception", "/health", "X-Key: a", 200},
		{"another client", "/own", "X-Key: b", 200},
		{"the limit of the rule", "/own", "X-Key: c", 200},
		{"beyond it", "/own", "X-Key: d", 429},
		{"but not at other rules", "/", "X-Key: d", 200},
		{"a limit in place of the listener's", "/around", "X-Key: e", 500},
	} {
		body := ""
		if strings.Contains(test.headers, "Content-Length") {
			body = "01234567890"
		}
		got := newClient(t, g.ports[80]).send("GET " + test.path + " HTTP/1.1\r\nHost: x\r\n" + test.headers + "\r\n\r\n" + body)
		if got.Status != test.status {
			t.Errorf("%s, for %s with %s: got %d, want %d", test.name, test.path, test.headers, got.Status, test.status)
		}
		if got.Status != 200 {
			continue
		}
		if request := <-web; !strings.Contains(request, "X-Env: listener\r\n") {
			t.Errorf("%s, for %s: the backend got\n%s", test.name, test.path, request)
		}
	}
}
