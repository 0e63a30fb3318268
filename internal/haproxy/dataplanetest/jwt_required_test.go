package dataplanetest_test

import (
	"strings"
	"testing"

	"gateway/internal/haproxy/render/rendertest"
)

const requiredWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: closed
      rules:
        - filters: [{type: JWT, jwt: {ISSUER, requiredClaims: [{claim: realm.role, values: [admin, "on call, too", "a|b"]}, {claim: verified, values: ["true"]}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /url}}]
          filters: [{type: JWT, jwt: {ISSUER, requiredScopes: [read], requiredClaims: [{claim: 'https://example\.com/groups', values: [staff]}], claimsToHeaders: [{claim: sub, header: X-User}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /number}}]
          filters: [{type: JWT, jwt: {ISSUER, requiredClaims: [{claim: level, values: ["5"]}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /shadow}}]
          filters: [{type: JWT, jwt: {ISSUER, requiredClaims: [{claim: level, values: ["5"]}], claimsToHeaders: [{claim: sub, header: X-User}]}}]
          shadow: [JWT]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /any}}]
          filters: [{type: JWT, jwt: {ISSUER}}]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80, servers: ["127.0.0.1:1"]}]
`

// startRequired returns a client of HAProxy for requiredWorld.
func startRequired(t *testing.T) *client {
	t.Helper()
	world := strings.ReplaceAll(requiredWorld, "ISSUER", `issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {inline: '`+keySet("ES256")+`'}}]`)
	return newClient(t, startGateway(t, rendertest.Parse(t, world)).ports[80])
}

// TestJWTRequiredClaims: a valid token gets through only if each required claim is one of its values, or has one.
func TestJWTRequiredClaims(t *testing.T) {
	t.Parallel()
	c := startRequired(t)
	const verified, staff = `"verified":true`, `"https://example.com/groups":["staff"]`
	role := func(value string) string { return `"realm":{"role":` + value + `}` }
	for _, test := range []struct {
		path   string
		claims []string
		want   int
	}{
		{"/", []string{role(`"admin"`), verified}, 200},
		{"/", []string{role(`"on call, too"`), verified}, 200},
		{"/", []string{role(`"a|b"`), verified}, 200},
		{"/", []string{role(`["user", "admin"]`), verified}, 200},
		{"/", []string{role("[\n\"on call, too\" ]"), verified}, 200},
		{"/", []string{role(`"\u0061dmin"`), verified}, 200},
		{"/", []string{role(`"admin"`), `"verified":"true"`}, 200},
		{"/", nil, 403},
		{"/", []string{verified}, 403},
		{"/", []string{role(`"admin"`)}, 403},
		{"/", []string{role(`"admin"`), `"verified":false`}, 403},
		{"/", []string{role(`"admin"`), `"verified":1`}, 403},
		{"/", []string{role(`"Admin"`), verified}, 403},
		{"/", []string{role(`"a"`), verified}, 403},
		{"/", []string{role(`"admins"`), verified}, 403},
		{"/", []string{role(`" admin"`), verified}, 403},
		{"/", []string{role(`"user admin"`), verified}, 403},
		{"/", []string{role(`"on call","too"`), verified}, 401},
		{"/", []string{role(`["on call", "too"]`), verified}, 403},
		{"/", []string{role(`"x\",\"admin"`), verified}, 403},
		{"/", []string{role(`["x\",\"admin"]`), verified}, 403},
		{"/", []string{role(`["admin",5]`), verified}, 403},
		{"/", []string{role(`[["admin"]]`), verified}, 403},
		{"/", []string{role(`{"admin":true}`), verified}, 403},
		{"/", []string{role(`[]`), verified}, 403},
		{"/", []string{role(`""`), verified}, 403},
		{"/", []string{role(`null`), verified}, 403},
		{"/", []string{`"realm.role":"admin"`, verified}, 403},
		{"/", []string{`"role":"admin"`, `"realm":{}`, verified}, 403},
		{"/", []string{`"realm":{"role":"user","role":"admin"}`, verified}, 403},
		{"/url", []string{staff, `"scope":"read"`}, 200},
		{"/url", []string{staff}, 403},
		{"/url", []string{`"scope":"read"`}, 403},
		{"/number", []string{`"level":5`}, 200},
		{"/number", []string{`"level":"5"`}, 200},
		{"/number", []string{`"level":5.0`}, 403},
		{"/number", []string{`"level":55`}, 403},
		{"/number", []string{`"level":[5]`}, 403},
		{"/any", nil, 200},
	} {
		got := c.send(with(test.path, "Bearer "+signed(t, test.claims...)))
		if got.Status != test.want {
			t.Errorf("%s with %q: got %d, want %d", test.path, test.claims, got.Status, test.want)
		}
		if challenge := got.Header.Get("Www-Authenticate"); test.want == 403 && !strings.HasPrefix(challenge, `Bearer error="insufficient_scope"`) {
			t.Errorf("%s with %q: the challenge is %q", test.path, test.claims, challenge)
		}
	}
}

// TestJWTRequiredClaimsOfOthers: claims count only if their issuer wrote them, and in shadow, too.
func TestJWTRequiredClaimsOfOthers(t *testing.T) {
	t.Parallel()
	c := startRequired(t)
	forged := issuerKeys()["other"].sign(t, "ES256", `{"alg":"ES256","kid":"ES256"}`, claims(map[string]any{"level": 5}))
	if got := c.send(with("/number", "Bearer "+forged)); got.Status != 401 {
		t.Errorf("a forged token got %d", got.Status)
	}
	for level, user := range map[string]string{"5": "\nX-User: alice\r\n", "6": ""} {
		got := c.send(with("/shadow", "Bearer "+signed(t, `"sub":"alice"`, `"level":`+level), "X-User: mallory"))
		if got.Status != 200 || !strings.Contains(got.Body, user) || strings.Contains(got.Body, "mallory") || user == "" && strings.Contains(got.Body, "alice") {
			t.Errorf("in shadow, with level %s: got %d %s", level, got.Status, got.Body)
		}
	}
}
