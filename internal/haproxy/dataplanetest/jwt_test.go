package dataplanetest_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing/routingtest"
)

// jwtWorld returns a world whose rules need tokens that are signed with one of the keys.
func jwtWorld(keys string) string {
	return strings.NewReplacer("KEYS", keys, "ISSUER", `issuer: "https://id.example.com/", audiences: [shop, "https://api.example.com/v1"]`).Replace(`
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: closed
      rules:
        - filters:
            - type: JWT
              jwt: {issuers: [{ISSUER, keys: {inline: 'KEYS'}}], claimsToHeaders: [
                {claim: sub, header: X-User}, {claim: realm.groups, header: X-Groups}, {claim: id, header: X-Id},
                {claim: 'https://example\.com/groups', header: X-Url}, {claim: 'https://example\.com/app.user\.id', header: X-Url-User}, {claim: 'cognito:groups', header: X-Cognito}]}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /scopes}}]
          filters: [{type: JWT, jwt: {issuers: [{ISSUER, keys: {inline: 'KEYS'}}], requiredScopes: [read, "urn:x/write"]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /exact}}]
          filters: [{type: JWT, jwt: {issuers: [{ISSUER, keys: {inline: 'KEYS'}}], clockSkew: 0s}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /unusable}}]
          filters: [{type: JWT, jwt: {issuers: [{ISSUER, keys: {inline: '{"keys":[]}'}}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /moved}}]
          filters: [{type: JWT, jwt: {issuers: [{ISSUER, keys: {inline: 'KEYS'}}]}}, {type: RequestRedirect, requestRedirect: {hostname: new.io}}]
        - matches: [{path: {value: /cors}}]
          filters: [{type: JWT, jwt: {issuers: [{ISSUER, keys: {inline: 'KEYS'}}]}}, {type: CORS, cors: {allowOrigins: ["https://a.io"]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /open}}]
          backendRefs: [{name: web, port: 80}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
`)
}

func startJWT(t testing.TB, keys ...string) *gateway {
	t.Helper()
	return startGateway(t, rendertest.Parse(t, jwtWorld(keySet(keys...))))
}

// with returns a request with an Authorization, and with other headers.
func with(path, authorization string, headers ...string) string {
	return "GET " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: " + authorization + "\r\n" + strings.Join(append(headers, ""), "\r\n") + "\r\n"
}

// TestJWTAlgorithms: HAProxy verifies signatures by all algorithms that the page names.
func TestJWTAlgorithms(t *testing.T) {
	t.Parallel()
	algorithms := []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"}
	c := newClient(t, startJWT(t, algorithms...).ports[80])
	for _, algorithm := range algorithms {
		good := token(t, algorithm, nil)
		if got := c.send(with("/", "Bearer "+good)); got.Status != 200 || !strings.Contains(got.Body, "X-User: alice\r\n") {
			t.Errorf("%s: got %d %q", algorithm, got.Status, got.Body)
		}
		for _, other := range algorithms {
			k := issuerKeys()[algorithm]
			if other == algorithm || other[0] != algorithm[0] && (other[0] == 'E' || algorithm[0] == 'E') {
				continue
			}
			for _, alg := range []string{algorithm, other} {
				forged := k.sign(t, other, `{"alg":"`+alg+`","kid":"`+algorithm+`"}`, claims(nil))
				if got := c.send(with("/", "Bearer "+forged)); got.Status != 401 {
					t.Errorf("a token that is signed by %s and says %s got %d with a key for %s", other, alg, got.Status, algorithm)
				}
			}
		}
		bad := good[:len(good)-8] + "AAAAAAAA"
		if got := c.send(with("/", "Bearer "+bad)); got.Status != 401 {
			t.Errorf("%s: another signature got %d", algorithm, got.Status)
		}
	}
}

// TestJWTForgeries: what an attacker can write in the header of a token opens nothing.
func TestJWTForgeries(t *testing.T) {
	t.Parallel()
	c := newClient(t, startJWT(t, "RS256", "ES256").ports[80])
	rs, es, other := issuerKeys()["RS256"], issuerKeys()["ES256"], issuerKeys()["other"]
	body := encode([]byte(claims(nil)))
	unsigned := func(header string) string { return encode([]byte(header)) + "." + body + "." }
	for name, forged := range map[string]string{
		"alg none":                      unsigned(`{"alg":"none","kid":"RS256"}`),
		"alg none with a signature":     unsigned(`{"alg":"none","kid":"RS256"}`) + "AAAA",
		"alg none after another":        unsigned(`{"alg":"RS256","alg":"none","kid":"RS256"}`),
		"HS256 with the public key":     symmetric(t, "RS256", `{"alg":"HS256","kid":"RS256"}`),
		"HS256 that says RS256":         symmetric(t, "RS256", `{"alg":"RS256","kid":"RS256"}`),
		"HS256 before RS256":            symmetric(t, "RS256", `{"alg":"HS256","alg":"RS256","kid":"RS256"}`),
		"EdDSA":                         edwards(t, `{"alg":"EdDSA","kid":"ES256"}`),
		"EdDSA by another name":         edwards(t, `{"alg":"Ed25519","kid":"RS256"}`),
		"a key of the attacker":         other.sign(t, "ES256", `{"alg":"ES256","kid":"ES256"}`, claims(nil)),
		"a key in the header":           other.sign(t, "ES256", `{"alg":"ES256","kid":"ES256","jwk":{"kty":"EC"}}`, claims(nil)),
		"an unknown kid":                es.sign(t, "ES256", `{"alg":"ES256","kid":"es256"}`, claims(nil)),
		"no kid":                        es.sign(t, "ES256", `{"alg":"ES256"}`, claims(nil)),
		"an empty kid":                  es.sign(t, "ES256", `{"alg":"ES256","kid":""}`, claims(nil)),
		"a kid of another key":          es.sign(t, "ES256", `{"alg":"ES256","kid":"RS256"}`, claims(nil)),
		"a kid that is a list":          es.sign(t, "ES256", `{"alg":"ES256","kid":["ES256"]}`, claims(nil)),
		"a kid that is a path":          es.sign(t, "ES256", `{"alg":"ES256","kid":"../jwt.pem"}`, claims(nil)),
		"two kids, of the attacker":     other.sign(t, "ES256", `{"alg":"ES256","kid":"other","kid":"ES256"}`, claims(nil)),
		"two kids, the other way":       other.sign(t, "ES256", `{"alg":"ES256","kid":"ES256","kid":"other"}`, claims(nil)),
		"two kids and algs":             rs.sign(t, "RS256", `{"alg":"ES256","kid":"ES256","kid":"RS256","alg":"RS256"}`, claims(nil)),
		"no alg":                        es.sign(t, "ES256", `{"kid":"ES256"}`, claims(nil)),
		"alg in lower case":             es.sign(t, "ES256", `{"alg":"es256","kid":"ES256"}`, claims(nil)),
		"a critical extension":          es.sign(t, "ES256", `{"alg":"ES256","kid":"ES256","crit":["b64"],"b64":false}`, claims(nil)),
		"a header that is no JSON":      es.sign(t, "ES256", `alg=ES256,kid=ES256`, claims(nil)),
		"a payload that is no JSON":     es.sign(t, "ES256", `{"alg":"ES256","kid":"ES256"}`, "iss"),
		"an empty payload":              es.sign(t, "ES256", `{"alg":"ES256","kid":"ES256"}`, ""),
		"two parts":                     strings.TrimSuffix(unsigned(`{"alg":"RS256","kid":"RS256"}`), "."),
		"four parts":                    token(t, "ES256", nil) + ".a",
		"signs of base64 that are none": token(t, "ES256", nil) + "=",
		"something after it":            token(t, "ES256", nil) + " a",
		"nothing":                       "",
		"a dot":                         "..",
		"a long one":                    strings.Repeat("a", 5000) + "." + strings.Repeat("b", 5000) + ".c",
	} {
		got := c.send(with("/", "Bearer "+forged))
		if got.Status != 401 || got.Header.Get("WWW-Authenticate") != `Bearer error="invalid_token"` {
			t.Errorf("%s: got %d with %q", name, got.Status, got.Header)
		}
	}
	if got := c.send(with("/", "Bearer "+strings.Repeat("a", 16000)+"."+body+".c")); got.Status < 400 {
		t.Errorf("a token that finds no room got %d", got.Status)
	}
}

// TestJWTClaims: what a token claims has to be what the rule wants.
func TestJWTClaims(t *testing.T) { //nolint:funlen // a flat table
	t.Parallel()
	c := newClient(t, startJWT(t, "ES256").ports[80])
	now := time.Now().Unix()
	for _, test := range []struct {
		path   string
		claims map[string]any
		want   int
	}{
		{"/", nil, 200},
		{"/", map[string]any{"iss": "https://id.example.com"}, 401},
		{"/", map[string]any{"iss": "https://id.example.com/x"}, 401},
		{"/", map[string]any{"iss": nil}, 401},
		{"/", map[string]any{"iss": []string{"https://id.example.com/"}}, 401},
		{"/", map[string]any{"aud": "https://api.example.com/v1"}, 200},
		{"/", map[string]any{"aud": []string{"a", "https://api.example.com/v1"}}, 200},
		{"/", map[string]any{"aud": []string{"shop"}}, 200},
		{"/", map[string]any{"aud": nil}, 401},
		{"/", map[string]any{"aud": ""}, 401},
		{"/", map[string]any{"aud": []string{}}, 401},
		{"/", map[string]any{"aud": 5}, 401},
		{"/", map[string]any{"aud": "sho"}, 401},
		{"/", map[string]any{"aud": "shopp"}, 401},
		{"/", map[string]any{"aud": "Shop"}, 401},
		{"/", map[string]any{"aud": []string{"a shop", "shop b", `a"shop\"`, "https://apixexample.com/v1"}}, 401},
		{"/", map[string]any{"aud": []string{`a","shop`, `shop","a`, `a,"shop"`, `["shop"]`, `\"shop"`}}, 401},
		{"/", map[string]any{"aud": `a","shop`}, 401},
		{"/", map[string]any{"aud": `["shop"]`}, 401},
		{"/", map[string]any{"aud": []any{5, "shop"}}, 401},
		{"/", map[string]any{"aud": map[string]any{"shop": "shop"}}, 401},
		{"/", map[string]any{"exp": now - 10}, 200},
		{"/exact", map[string]any{"exp": now - 10}, 401},
		{"/", map[string]any{"exp": now - 60}, 401},
		{"/", map[string]any{"exp": nil}, 401},
		{"/", map[string]any{"exp": "soon"}, 401},
		{"/", map[string]any{"exp": true}, 401},
		{"/", map[string]any{"exp": []int64{now + 60}}, 401},
		{"/", map[string]any{"exp": -1}, 401},
		{"/", map[string]any{"exp": 1e300}, 401},
		{"/", map[string]any{"exp": float64(now) + 60.5}, 200},
		{"/", map[string]any{"nbf": now - 1}, 200},
		{"/", map[string]any{"nbf": now + 10}, 200},
		{"/exact", map[string]any{"nbf": now + 10}, 401},
		{"/", map[string]any{"nbf": now + 60}, 401},
		{"/", map[string]any{"nbf": int64(1) << 60}, 401},
		{"/scopes", nil, 403},
		{"/scopes", map[string]any{"scope": "read urn:x/write"}, 200},
		{"/scopes", map[string]any{"scope": "a urn:x/write b read c"}, 200},
		{"/scopes", map[string]any{"scope": "read"}, 403},
		{"/scopes", map[string]any{"scope": "read urn:x/writes"}, 403},
		{"/scopes", map[string]any{"scope": "xread urn:x/write"}, 403},
		{"/scopes", map[string]any{"scope": "read-only urn:x/write"}, 403},
		{"/scopes", map[string]any{"scp": []string{"urn:x/write", "read"}}, 200},
		{"/scopes", map[string]any{"scp": "read urn:x/write"}, 200},
		{"/scopes", map[string]any{"scp": []string{"read"}, "scope": "urn:x/write"}, 200},
		{"/scopes", map[string]any{"scp": []string{"read"}}, 403},
		{"/scopes", map[string]any{"scp": []string{"read urn:x/write"}}, 403},
		{"/scopes", map[string]any{"scope": "read,urn:x/write"}, 403},
		{"/scopes", map[string]any{"scope": "[read] {urn:x/write} read"}, 403},
		{"/scopes", map[string]any{"scope": `read","urn:x/write`}, 403},
		{"/scopes", map[string]any{"scope": ""}, 403},
		{"/scopes", map[string]any{"scope": "read urn:x/write", "iss": "b"}, 401},
		{"/moved", nil, 302},
		{"/moved", map[string]any{"iss": "b"}, 401},
		{"/unusable", nil, 500},
	} {
		got := c.send(with(test.path, "Bearer "+token(t, "ES256", test.claims)))
		if got.Status != test.want {
			t.Errorf("%s with %v: got %d, want %d", test.path, test.claims, got.Status, test.want)
		}
		if want := `Bearer error="insufficient_scope", scope="read urn:x/write"`; test.want == 403 && got.Header.Get("WWW-Authenticate") != want {
			t.Errorf("%s with %v: got %q, want %q", test.path, test.claims, got.Header.Get("WWW-Authenticate"), want)
		}
	}
}

// TestJWTRequests: where the token is in a request, and what reaches the backend of it.
func TestJWTRequests(t *testing.T) {
	t.Parallel()
	c := newClient(t, startJWT(t, "ES256").ports[80])
	good := token(t, "ES256", nil)
	for name, test := range map[string]struct {
		request, challenge string
		status             int
	}{
		"no token":                {get("x", "/"), "Bearer", 401},
		"one in another scheme":   {with("/", "Basic "+good), `Bearer error="invalid_token"`, 401},
		"one without a scheme":    {with("/", good), `Bearer error="invalid_token"`, 401},
		"one in the query":        {get("x", "/?access_token="+good), "Bearer", 401},
		"one in a cookie":         {"GET / HTTP/1.1\r\nHost: x\r\nCookie: Bearer=" + good + "\r\n\r\n", "Bearer", 401},
		"two headers":             {with("/", "Bearer "+good, "Authorization: Bearer "+good), `Bearer error="invalid_token"`, 401},
		"two tokens":              {with("/", "Bearer "+good+", Bearer "+good), `Bearer error="invalid_token"`, 401},
		"a scheme in lower case":  {with("/", "bearer "+good), "", 200},
		"a bad one for all rules": {with("/open", "Bearer a.b.c"), "", 200},
	} {
		got := c.send(test.request)
		if challenge := got.Header.Get("WWW-Authenticate"); got.Status != test.status || challenge != test.challenge {
			t.Errorf("%s: got %d with %q, want %d with %q", name, got.Status, challenge, test.status, test.challenge)
		}
	}
	got := c.send("OPTIONS /cors HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\nAccess-Control-Request-Method: GET\r\n\r\n")
	if got.Status != 204 {
		t.Errorf("a preflight request got %d", got.Status)
	}
}

// TestJWTHeaders: the backend gets claims in headers, and nothing that the client or the issuer smuggles there.
func TestJWTHeaders(t *testing.T) {
	t.Parallel()
	c := newClient(t, startJWT(t, "ES256").ports[80])
	forged := []string{"X-User: root", "x-user: root", "X_User: root", "X.User: root", "X-Groups: root", "X-Id: root", "X-Other: kept"}
	got := c.send(with("/", "Bearer "+token(t, "ES256", map[string]any{"id": 12345678901, "realm": map[string]any{"groups": []string{"a", "b"}}}), forged...))
	for _, want := range []string{"X-User: alice\r\n", `X-Groups: ["a","b"]` + "\r\n", "X-Id: 12345678901\r\n", "X-Other: kept\r\n"} {
		if !strings.Contains(got.Body, want) {
			t.Errorf("the backend did not get %q:\n%s", want, got.Body)
		}
	}
	if strings.Contains(got.Body, "root") {
		t.Errorf("the backend got\n%s", got.Body)
	}
	got = c.send(with("/", "Bearer "+token(t, "ES256", map[string]any{"sub": nil}), forged...))
	if got.Status != 200 || strings.Contains(got.Body, "root") || strings.Contains(got.Body, "X-User") {
		t.Errorf("without the claim, the backend got\n%s", got.Body)
	}
	got = c.send(with("/", "Bearer "+token(t, "ES256", map[string]any{"sub": "a\r\nX-Admin: yesé"}), forged...))
	if got.Status != 200 || !strings.Contains(got.Body, "X-User: a%0D%0AX-Admin: yesé\r\n") {
		t.Errorf("with a line break, the backend got\n%s", got.Body)
	}
}

// TestJWTLogs: neither tokens nor claims are in the access log.
func TestJWTLogs(t *testing.T) {
	t.Parallel()
	g := startJWT(t, "ES256")
	c := newClient(t, g.ports[80])
	good := token(t, "ES256", nil)
	c.send(with("/", "Bearer "+good))
	c.send(with("/", "Bearer "+good+"x"))
	c.send(with("/open", "Bearer "+good, "X-User: alice"))
	for _, line := range g.accessLog(t, 3) {
		for _, secret := range []string{good[len(good)-40:], good[:40], "alice", "id.example.com"} {
			if strings.Contains(line, secret) {
				t.Errorf("the log has %q: %s", secret, line)
			}
		}
	}
}

// TestJWTRotation: a key is replaced by edits, of which those that bring a new key take a reload. No request fails.
func TestJWTRotation(t *testing.T) {
	t.Parallel()
	w := rendertest.Parse(t, jwtWorld(keySet("ES256")))
	g := startGateway(t, w)
	wanted := func(keys ...string) ir.Config {
		next := rendertest.Parse(t, jwtWorld(keySet(keys...)))
		next.Spec.Listeners[0].Port = g.ports[80]
		in := g.in
		in.Table, _ = routingtest.Compile(&next.Spec)
		return render.Render(in)
	}
	var key atomic.Value
	key.Store("ES256")
	tokens := map[string]string{"ES256": token(t, "ES256", nil), "other": token(t, "other", nil)}
	done := make(chan struct{})
	var senders sync.WaitGroup
	for range 2 {
		senders.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				request, c := with("/", "Bearer "+tokens[key.Load().(string)], "Connection: close"), newClient(t, g.ports[80])
				if got, err := c.try(request); err != nil || got.Status != 200 {
					t.Errorf("a request got %d (%v)", got.Status, err)
					return
				}
			}
		})
	}
	before, both, after := wanted("ES256"), wanted("ES256", "other"), wanted("other")
	if p := plan.Diff(both, before); p.Reload != ir.ReloadKeys {
		t.Errorf("a new key: got %q, want %q", p.Reload, ir.ReloadKeys)
	}
	g.WriteFiles(both.AllFiles())
	g.Master("reload")
	for strings.Contains(g.Master("show proc"), "old workers\n") && t.Context().Err() == nil {
		_, old, _ := strings.Cut(g.Master("show proc"), "old workers\n")
		if old, _, _ = strings.Cut(old, "#"); strings.TrimSpace(old) == "" {
			break
		}
	}
	key.Store("other")
	for range 50 {
		newClient(t, g.ports[80]).send(get("x", "/open"))
	}
	g.change(t, plan.Diff(after, both), func() {})
	close(done)
	senders.Wait()
	c := newClient(t, g.ports[80])
	if got := c.send(with("/", "Bearer "+tokens["ES256"])); got.Status != 401 {
		t.Errorf("a token of the key that is gone got %d", got.Status)
	}
	if got := c.send(with("/", "Bearer "+tokens["other"])); got.Status != 200 {
		t.Errorf("a token of the new key got %d", got.Status)
	}
}
