package dataplanetest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
)

const listenerFiltersWorld = `
generation: 1
spec:
  trustedProxies: [127.0.0.0/8]
  listeners:
    - name: public
      port: 80
      protocol: HTTP
      filters:
        - {type: ClientAddress, clientAddress: {deny: [192.0.2.0/24]}}
        - {type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour, key: {type: Header, name: X-Key}}]}}
        - {type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}}}
        - {type: CORS, cors: {allowOrigins: ["https://a.io"]}}
        - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Env, value: listener}], add: [{name: X-Via, value: listener}]}}
        - {type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: X-Frame-Options, value: DENY}]}}
    - {name: other, port: 81, protocol: HTTP}
  routes:
    - name: shop
      rules:
        - backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /own}}]
          filters:
            - {type: ClientAddress, clientAddress: {deny: [203.0.113.0/24]}}
            - {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour, key: {type: Rule}}]}}
            - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: X-Env, value: rule}], add: [{name: X-Via, value: rule}]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /moved}}]
          filters: [{type: RequestRedirect, requestRedirect: {hostname: new.io}}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
  - {service: auth, port: 80, servers: ["127.0.0.1:1"]}
`

// TestBodiesAtListeners: the limit of a listener is for all its rules, but for those that have one, whether a body says
// its length or not. It is for no other listener.
func TestBodiesAtListeners(t *testing.T) {
	t.Parallel()
	const world = `
generation: 1
spec:
  listeners:
    - {name: small, port: 80, protocol: HTTP, maxRequestBytes: 10}
    - {name: other, port: 81, protocol: HTTP}
    - {name: moved, port: 83, protocol: HTTP, maxRequestBytes: 10, httpsRedirect: {}}
  routes:
    - name: shop
      listeners: [small, other]
      rules:
        - backendRefs: [{name: web, port: 80}]
        - {matches: [{path: {value: /large}}], maxRequestBytes: 20, backendRefs: [{name: web, port: 80}]}
        - {matches: [{path: {value: /answer}}], filters: [{type: DirectResponse, directResponse: {body: hello}}]}
backends: [{service: web, port: 80, servers: ["127.0.0.1:1"]}]
`
	g := startServing(t, rendertest.Parse(t, world), handlers{"web": readAll})
	for _, test := range []struct {
		port   int32
		path   string
		length int
		status int
	}{
		{80, "/", 10, 200}, {80, "/", 11, 413}, {80, "/large", 20, 200}, {80, "/large", 21, 413}, {81, "/", 30, 200}, {81, "/large", 21, 413},
	} {
		body := strings.Repeat("a", test.length)
		for form, rest := range map[string]string{
			"Content-Length": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", test.length, body),
			"chunks":         fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", test.length, body),
		} {
			if got := newClient(t, g.ports[test.port]).send("POST " + test.path + " HTTP/1.1\r\nHost: x\r\n" + rest); got.Status != test.status {
				t.Errorf("%d bytes by %s for %s at port %d: got %d, want %d", test.length, form, test.path, test.port, got.Status, test.status)
			}
		}
	}
	// Redirects and fixed answers read no body. One that is known to be too long is refused.
	for _, test := range []struct {
		port   int32
		path   string
		rest   string
		status int
	}{
		{83, "/", "Content-Length: 1\r\n\r\na", 301}, {83, "/", "Content-Length: 11\r\n\r\n01234567890", 413},
		{80, "/answer", "Content-Length: 1\r\n\r\na", 200}, {80, "/answer", "Content-Length: 11\r\n\r\n01234567890", 413},
	} {
		if got := newClient(t, g.ports[test.port]).send("POST " + test.path + " HTTP/1.1\r\nHost: x\r\n" + test.rest); got.Status != test.status {
			t.Errorf("%q for %s at port %d: got %d, want %d", test.rest, test.path, test.port, got.Status, test.status)
		}
	}
}

// TestListenerFilters: the filters of a listener are for all its rules, but for those that have one of the same type,
// and for no other listener.
func TestListenerFilters(t *testing.T) {
	t.Parallel()
	web := make(chan string, 100)
	refuse := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.Header.Get("X-Forwarded-Uri"), "/refused") {
			w.WriteHeader(http.StatusForbidden)
		}
	}
	g := startServing(t, rendertest.Parse(t, listenerFiltersWorld), handlers{"web": record(web, nil), "auth": refuse})
	send := func(port int32, path string, headers ...string) answer {
		return newClient(t, g.ports[port]).send("GET " + path + " HTTP/1.1\r\nHost: x\r\n" + strings.Join(append(headers, "\r\n"), "\r\n"))
	}
	const denied, ownDenied = "X-Forwarded-For: 192.0.2.1", "X-Forwarded-For: 203.0.113.1"
	for _, test := range []struct {
		name   string
		port   int32
		path   string
		header string
		status int
	}{
		{"a client that the listener denies", 80, "/", denied, 403},
		{"at a redirect", 80, "/moved", denied, 403},
		{"at another listener", 81, "/", denied, 200},
		{"at a rule that denies others", 80, "/own", ownDenied, 403},
		{"at a rule that lets it in", 80, "/own", denied, 200},
		{"a second time: the limit of the rule counts", 80, "/own", denied, 429},
		{"what the Service refuses", 80, "/refused", "X-Key: r", 403},
		{"at a redirect", 80, "/moved/refused", "X-Key: r", 403},
		{"at another listener", 81, "/refused", "X-Key: r", 200},
		// All rules of the listener count together.
		{"a first request", 80, "/", "X-Key: k", 200},
		{"a second one", 80, "/", "X-Key: k", 200},
		{"a third one of another rule", 80, "/moved", "X-Key: k", 302},
		{"a fourth one", 80, "/", "X-Key: k", 429},
		{"with another key", 80, "/", "X-Key: l", 200},
		{"at another listener", 81, "/", "X-Key: k", 200},
	} {
		if got := send(test.port, test.path, test.header); got.Status != test.status {
			t.Errorf("%s: GET %s at port %d: got %d, want %d", test.name, test.path, test.port, got.Status, test.status)
		}
	}
	for len(web) > 0 {
		<-web
	}
	got := send(80, "/", "Origin: https://a.io", "X-Key: m")
	if got.Header.Get("Access-Control-Allow-Origin") != "https://a.io" || got.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("the answer has not the headers of the listener: %v", got.Header)
	}
	if got := <-web; !strings.Contains(got, "X-Env: listener") || !strings.Contains(got, "X-Via: listener") {
		t.Errorf("the request has not the headers of the listener: %s", got)
	}
	if got := send(81, "/", "Origin: https://a.io"); got.Header.Get("Access-Control-Allow-Origin") != "" || got.Header.Get("X-Frame-Options") != "" {
		t.Errorf("the answer of the other listener: %v", got.Header)
	}
	if got := <-web; strings.Contains(got, "listener") {
		t.Errorf("the request at the other listener: %s", got)
	}
}

// TestFiltersBeforeADirectResponse: a RouteFilter may guard its DirectResponse.
func TestFiltersBeforeADirectResponse(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  trustedProxies: [127.0.0.0/8]
  routes:
    - name: gone
      rules:
        - filters:
            - {type: DirectResponse, directResponse: {statusCode: 410, body: gone}}
            - {type: ClientAddress, clientAddress: {deny: [192.0.2.0/24]}}
            - {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour}]}}
            - {type: CORS, cors: {allowOrigins: ["https://a.io"]}}
`))
	for _, test := range []struct {
		client string
		status int
	}{{"192.0.2.1", 403}, {"203.0.113.1", 410}, {"203.0.113.1", 429}, {"203.0.113.2", 410}} {
		got := newClient(t, g.ports[80]).send("GET / HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\nX-Forwarded-For: " + test.client + "\r\n\r\n")
		if got.Status != test.status || got.Header.Get("Access-Control-Allow-Origin") != "https://a.io" || (got.Status == 410) != (got.Body == "gone") {
			t.Errorf("%s: got %+v, want %d", test.client, got, test.status)
		}
	}
}
