package dataplanetest_test

import (
	"strings"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
)

const placesWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: closed
      rules:
        - filters: [{type: JWT, jwt: {ISSUER, from: [{type: Header, name: Authorization}, {type: Header, name: X-Token}, {type: Cookie, name: session}, {type: QueryParam, name: access_token}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /cookie}}]
          filters: [{type: JWT, jwt: {ISSUER, from: [{type: Cookie, name: session}], claimsToHeaders: [{claim: sub, header: X-User}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /usual}}]
          filters: [{type: JWT, jwt: {ISSUER}}]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80, servers: ["127.0.0.1:1"]}]
`

// TestJWTPlaces: a token counts only where the rule wants it, and only one. The backend gets it.
func TestJWTPlaces(t *testing.T) {
	t.Parallel()
	world := strings.ReplaceAll(placesWorld, "ISSUER", `issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {inline: '`+keySet("ES256")+`'}}]`)
	c := newClient(t, startGateway(t, rendertest.Parse(t, world)).ports[80])
	const invalid = `Bearer error="invalid_token"`
	good := token(t, "ES256", nil)
	for _, test := range []struct {
		path, headers string
		want          int
		challenge     string
	}{
		{"/", "Authorization: Bearer TOKEN", 200, ""},
		{"/", "Authorization: bearer   TOKEN", 200, ""},
		{"/", "X-Token: TOKEN", 200, ""},
		{"/", "Cookie: a=b; session=TOKEN", 200, ""},
		{"/?access_token=TOKEN", "A: b", 200, ""},
		{"/?a=b&access_token=TOKEN&c=d", "A: b", 200, ""},
		{"/cookie", "Cookie: session=TOKEN", 200, ""},
		{"/cookie", "Cookie: session=TOKEN\r\nAuthorization: Basic YTpi", 200, ""},
		{"/", "A: b", 401, "Bearer"},
		{"/", "Cookie: other=TOKEN", 401, "Bearer"},
		{"/", "Cookie: Session=TOKEN", 401, "Bearer"},
		{"/cookie", "Authorization: Bearer TOKEN", 401, "Bearer"},
		{"/cookie?session=TOKEN", "A: b", 401, "Bearer"},
		{"/usual", "Cookie: session=TOKEN", 401, "Bearer"},
		{"/usual?access_token=TOKEN", "X-Token: TOKEN", 401, "Bearer"},
		{"/", "Authorization: TOKEN", 401, invalid},
		{"/", "Authorization: Basic TOKEN", 401, invalid},
		{"/", "Authorization: Basic Bearer TOKEN", 401, invalid},
		{"/", "Authorization: BearerTOKEN", 401, invalid},
		{"/usual", "Authorization: TOKEN", 401, invalid},
		{"/", "X-Token: Bearer TOKEN", 401, invalid},
		{"/", "X-Token: TOKEN\r\nX-Token: TOKEN", 401, invalid},
		{"/", "X-Token: TOKEN\r\nCookie: session=TOKEN", 401, invalid},
		{"/?access_token=TOKEN", "Authorization: Bearer TOKEN", 401, invalid},
		{"/?access_token=TOKEN&access_token=TOKEN", "A: b", 401, invalid},
		{"/", "Cookie: session=TOKEN; session=TOKEN", 401, invalid},
		{"/", "Cookie: session=x\r\nCookie: session=TOKEN", 401, invalid},
		{"/?access_token=x", "X-Token: TOKEN", 401, invalid},
		{"/", "X-Token: TOKENx", 401, invalid},
		{"/?a=1;access_token=TOKEN", "A: b", 401, "Bearer"},
		{"/?access_token=TOKEN;access_token=TOKEN", "A: b", 401, invalid},
		{"/?access_token=TOKEN&access%5ftoken=x", "A: b", 401, invalid},
		{"/", "Cookie: a=1, session=TOKEN", 401, "Bearer"},
		{"/", "Cookie: session=; a=1\r\nAuthorization: Bearer TOKEN", 200, ""},
		{"/?access_token=HALF", "X-Token: REST", 401, invalid},
	} {
		request := strings.ReplaceAll("GET "+test.path+" HTTP/1.1\r\nHost: x\r\nX-User: mallory\r\n"+test.headers+"\r\n\r\n", "TOKEN", good)
		request = strings.NewReplacer("HALF", good[50:], "REST", good[:50]).Replace(request)
		got := c.send(request)
		if got.Status != test.want || got.Header.Get("Www-Authenticate") != test.challenge {
			t.Errorf("%s with %s: got %d and the challenge %q, want %d and %q", test.path, test.headers, got.Status, got.Header.Get("Www-Authenticate"), test.want, test.challenge)
		}
		if test.want == 200 && !strings.Contains(got.Body, good) || test.path == "/cookie" && test.want == 200 && !strings.Contains(got.Body, "X-User: alice\r\n") {
			t.Errorf("%s with %s: the backend got %s", test.path, test.headers, got.Body)
		}
	}
}
