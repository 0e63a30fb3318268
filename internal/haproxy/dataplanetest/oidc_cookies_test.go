package dataplanetest_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/login"
	"gateway/internal/must"
	"gateway/internal/routing"
	"gateway/internal/unixsocket"
)

// loginCookiesWorld has users who log in at one listener, and rules of others on the same hosts.
const loginCookiesWorld = `
generation: 1
spec:
  trustedProxies: [127.0.0.0/8]
  listeners:
    - {name: open, port: 80, protocol: HTTP}
    - name: closed
      port: 81
      protocol: HTTP
      filters: [{type: OIDC, oidc: {issuer: "https://id.example.com", clientID: shop, secretRef: {name: login}}}]
  routes:
    - name: neighbours
      rules:
        - backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /conditions}, headers: [{name: Cookie, type: RegularExpression, value: ".*__Host-gateway-session=.*"}]}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /weights}}]
          backendRefs: [{name: web, port: 80}, {name: two, port: 80}]
        - matches: [{path: {value: /copies}}]
          filters: [{type: RequestMirror, requestMirror: {backendRefs: [{name: copy, port: 80}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /questions}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, requestHeaders: [Cookie]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /refused}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: denies, port: 80}, requestHeaders: [Cookie]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /headers}}]
          filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {add: [{name: Set-Cookie, value: __Host-gateway-session=eve}]}}]
          backendRefs: [{name: web, port: 80}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
  - {service: two, port: 80, servers: ["127.0.0.1:1"]}
  - {service: copy, port: 80, servers: ["127.0.0.1:1"]}
  - {service: auth, port: 80, servers: ["127.0.0.1:1"]}
  - {service: denies, port: 80, servers: ["127.0.0.1:1"]}
`

// newCookies are what gateway-login sets, of all lengths that HAProxy's lists write differently.
var newCookies = []string{
	login.SessionCookie + "=new", login.TokensCookie + "=" + strings.Repeat("t", 239-23), login.TokensCookie + "=" + strings.Repeat("t", 240-23),
	login.TokensCookie + "=" + strings.Repeat("t", 2287-23), login.TokensCookie + "=" + strings.Repeat("t", 2288-23), login.TokensCookie + "=" + strings.Repeat("t", 4000),
}

// startLoginCookies runs HAProxy for loginCookiesWorld. All Services try to set cookies of logins, and so does
// gateway-login.
func startLoginCookies(t *testing.T) (g *gateway, requests chan string) {
	t.Helper()
	requests = make(chan string, 1000)
	cookies := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for _, cookie := range []string{"__Host-gateway-session=eve; Secure; Path=/", "a=1", "=__Host-gateway-tokens=eve", "b=__Host-gateway-tokens"} {
				w.Header().Add("Set-Cookie", cookie)
			}
			w.WriteHeader(status)
		}
	}
	g = startGatewayWith(t, rendertest.Parse(t, loginCookiesWorld), func(in *render.Input) {
		for name, status := range map[string]int{"web": 200, "two": 200, "copy": 200, "auth": 200, "denies": 403} {
			in.Backends[routing.Backend{Service: name, Port: 80}] = render.BackendState{
				Exists: true, Servers: []ir.Server{serve(t, record(requests, cookies(status)), nil)},
			}
		}
		in.Paths.LoginSocket = filepath.Join(in.Paths.RunDir, "login.sock")
		serveLogins(t, in.Paths.LoginSocket, func(w http.ResponseWriter, r *http.Request) {
			for _, cookie := range newCookies {
				w.Header().Add("Set-Cookie", cookie)
			}
			switch r.Header.Get("Cookie") {
			case "__Host-gateway-session=alice; a=1; __Host-gateway-tokens=t":
				later := time.Now().Add(time.Hour)
				w.Header().Set(login.SessionHeader, base64.StdEncoding.EncodeToString([]byte(login.Session{End: later, Renew: later, Claims: `[{},"end"]`}.Text())))
			default:
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
	})
	return g, requests
}

// serveLogins answers in place of gateway-login.
func serveLogins(t *testing.T, socket string, handler http.HandlerFunc) {
	t.Helper()
	listener := must.Get(unixsocket.Listen(socket))(t)
	server, ended := &http.Server{Handler: handler}, make(chan struct{}) //nolint:gosec // of a test
	go func() {
		_ = server.Serve(listener) // until it is closed
		close(ended)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
}

// TestCookiesOfLogins: once a rule of a Gateway lets users log in, no Service gets their cookies, whatever rule the
// request is for, and none sets them.
func TestCookiesOfLogins(t *testing.T) {
	t.Parallel()
	g, requests := startLoginCookies(t)
	for path, want := range map[string]struct{ status, requests int }{
		"/": {200, 1}, "/a%20b": {200, 1}, "/conditions": {200, 1}, "/weights": {200, 1}, "/copies": {200, 2}, "/questions": {200, 2}, "/refused": {403, 1}, "/headers": {200, 1},
	} {
		for _, port := range []int32{80, 81} {
			got := newClient(t, g.ports[port]).send(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: x\r\nX-Forwarded-Proto: https\r\n"+
				"Cookie: __Host-gateway-session=alice; a=1; __Host-gateway-tokens=t\r\n\r\n", path))
			if got.Status != want.status {
				t.Errorf("%s at %d: got %d, want %d", path, port, got.Status, want.status)
			}
			for range want.requests {
				if sent := next(t, requests); strings.Contains(sent, "gateway-") || strings.Contains(sent, "Cookie") && !strings.Contains(sent, "\nCookie: a=1\r\n") {
					t.Errorf("%s at %d: a Service got\n%s", path, port, sent)
				}
			}
			cookies := strings.Join(got.Header["Set-Cookie"], "\n")
			if strings.Contains(cookies, "eve") || !strings.Contains(cookies, "a=1") || !strings.Contains(cookies, "b=__Host-gateway-tokens") ||
				strings.Contains(cookies, "__Host-gateway-session=new") != (port == 81) {
				t.Errorf("%s at %d: the client got the cookies\n%s", path, port, cookies)
			}
		}
	}
	for cookies, want := range map[string]string{
		"Cookie: __Host-gateway-login-x=1\r\n":                          "",
		"Cookie: a=1;__Host-gateway-session=x;b=2\r\n":                  "Cookie: a=1;b=2",
		"Cookie: a=\"1; \t__Host-gateway-session=x; b=2\"\r\n":          "Cookie: a=\"1; b=2\"",
		"Cookie: __Host-gateway-a=1; __Host-gateway-b=2; c=3\r\n":       "Cookie: c=3",
		"Cookie: a=1, b=2\r\nCookie: c=3\r\n":                           "Cookie: a=1, b=2\r\nCookie: c=3",
		"Cookie: a=1; __Host-gateway-session = x; __Host-gateway=2\r\n": "Cookie: a=1; __Host-gateway=2",
	} {
		g.send(t, 200, cookies)
		sent := next(t, requests)
		_, got, _ := strings.Cut(sent, "\nCookie: ")
		got, _, _ = strings.Cut(got, "\r\nForwarded: ")
		if _, want, _ := strings.Cut(want, "Cookie: "); got != want {
			t.Errorf("%q: the backend got %q", cookies, got)
		}
	}
	g.send(t, 400, "Cookie: a=1\r\nCookie: __Host-gateway-session=alice\r\n")
	g.send(t, 400, "Cookie: __Host-gateway-session=alice\r\nCookie: a=1\r\n")
	if got := newClient(t, g.ports[81]).send(get("x", "/")); got.Status != 401 || !slices.Equal(got.Header["Set-Cookie"], newCookies) {
		t.Errorf("gateway-login sets other cookies: %+v", got)
	}
}

// send sends a request for a rule without filters.
func (g *gateway) send(t *testing.T, status int, headers string) {
	t.Helper()
	if got := newClient(t, g.ports[80]).send("GET / HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n"); got.Status != status {
		t.Errorf("%q: got %d, want %d", headers, got.Status, status)
	}
}
