package dataplanetest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/plan"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/routing/routingtest"
)

// claimLimitsWorld returns a world whose rules count requests by claims.
func claimLimitsWorld() string {
	const jwt = `{type: JWT, jwt: {issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {inline: 'KEYS'}}], claimsToHeaders: [{claim: sub, header: X-User}]}}`
	return strings.NewReplacer("JWT", strings.ReplaceAll(jwt, "KEYS", keySet("ES256")), "WEB", "backendRefs: [{name: web, port: 80}]").Replace(`
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  trustedProxies: [127.0.0.0/8]
  routes:
    - name: limited
      rules:
        - filters: [JWT, {type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour, key: {type: Claim, name: sub}}]}}]
          WEB
        - matches: [{path: {value: /within}}]
          filters: [JWT, {type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour, key: {type: Claim, name: realm.user-id}}]}}]
          WEB
        - matches: [{path: {value: /url}}]
          filters: [JWT, {type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour, key: {type: Claim, name: 'https://example\.com/id'}}]}}]
          WEB
        - matches: [{path: {value: /address}}]
          filters: [JWT, {type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour}]}}]
          WEB
        - matches: [{path: {value: /several}}]
          filters: [JWT, {type: RateLimit, rateLimit: {limits: [{requests: 4, unit: Hour}, {requests: 2, unit: Minute, key: {type: Claim, name: sub}}]}}]
          WEB
        - matches: [{path: {value: /unverified}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour, key: {type: Claim, name: sub}}]}}]
          WEB
        - matches: [{path: {value: /basic}}]
          filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}}}, {type: RateLimit, rateLimit: {limits: [{requests: 3, unit: Hour, key: {type: Claim, name: sub}}]}}]
          WEB
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
`)
}

// TestClaimLimits sends requests that count together: three are let through, and a fourth is not. All come from one
// address. Those with other values of the claim still get through, whatever the headers of clients say.
func TestClaimLimits(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, claimLimitsWorld()))
	user := func(path string, claim any, headers ...string) string {
		others := map[string]any{"sub": claim}
		switch path {
		case "/within":
			others = map[string]any{"realm": map[string]any{"user-id": claim}}
		case "/url":
			others = map[string]any{"https://example.com/id": claim}
		}
		return with(path, "Bearer "+token(t, "ES256", others), headers...)
	}
	for name, test := range map[string]struct{ together, beside []string }{
		"users": {
			[]string{user("/", "ann"), user("/a", "ann", "X-User: ben", "X-Forwarded-For: 192.0.2.1"), user("/", "ann", "x_user: ben", "X-User: cy")},
			[]string{user("/", "ben"), user("/", "ben", "X-User: ann"), user("/", "Ann")},
		},
		"without the claim": {
			[]string{user("/", nil), user("/", map[string]string{"a": "b"}), user("/", nil, "X-User: eve")},
			[]string{user("/", "fay")},
		},
		"within another": {
			[]string{user("/within", 1234567890123), user("/within", 1234567890123)},
			[]string{user("/within", 1234567890124), user("/within", "x 1234567890123")},
		},
		"long numbers": {
			[]string{user("/url", uint64(9007199254740993)), user("/url", "9007199254740993")},
			[]string{user("/url", uint64(9007199254740992)), user("/url", uint64(9007199254740994)), user("/url", json.RawMessage("9.007199254740993e15"))},
		},
		"booleans":           {[]string{user("/url", true)}, []string{user("/url", false), user("/url", 1)}},
		"without any":        {[]string{user("/within", nil), with("/within", "Bearer "+token(t, "ES256", map[string]any{"realm": "a"}))}, nil},
		"lists":              {[]string{user("/", []string{"gus", "hal"})}, []string{user("/", []string{"hal", "gus"})}},
		"clients of a token": {[]string{user("/address", "ann"), user("/address", "ben")}, []string{user("/address", "ann", "X-Forwarded-For: 192.0.2.1")}},
	} {
		c := newClient(t, g.ports[80])
		for i := range 3 {
			got := c.send(test.together[i%len(test.together)])
			if want := fmt.Sprintf(`"hour";r=%d;t=3600`, 2-i); got.Status != http.StatusOK || got.Header.Get("RateLimit") != want {
				t.Errorf("%s: request %d: got %d, %v, want RateLimit %s", name, i, got.Status, got.Header, want)
			}
		}
		for _, request := range test.together {
			got := c.send(request)
			if got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") != "4800" || got.Header.Get("RateLimit") != `"hour";r=0;t=3600` ||
				got.Header.Get("RateLimit-Policy") != `"hour";q=3;w=3600` {
				t.Errorf("%s: a fourth request: got %d, %v", name, got.Status, got.Header)
			}
		}
		for _, request := range test.beside {
			if got := c.send(request); got.Status != http.StatusOK {
				t.Errorf("%s: got %d, %v for %s", name, got.Status, got.Header, request)
			}
		}
	}
}

// TestClaimLimitsAndTokens: a token that is not valid does not count, and a limit by address comes before it is looked
// at.
func TestClaimLimitsAndTokens(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, claimLimitsWorld()))
	c := newClient(t, g.ports[80])
	good := "Bearer " + token(t, "ES256", nil)
	bad := map[string]string{
		"another signature": good[:len(good)-8] + "AAAAAAAA", "an old one": "Bearer " + token(t, "ES256", map[string]any{"exp": 1}),
		"another issuer": "Bearer " + token(t, "ES256", map[string]any{"iss": "a"}), "no signature": good[:strings.LastIndex(good, ".")+1],
	}
	for name, authorization := range bad {
		got := c.send(with("/", authorization))
		if got.Status != http.StatusUnauthorized || got.Header.Get("RateLimit") != "" {
			t.Errorf("%s: got %d, %v", name, got.Status, got.Header)
		}
	}
	for i := range 4 {
		if got := c.send(with("/", good)); (got.Status == http.StatusOK) != (i < 3) {
			t.Errorf("request %d: got %d, %v", i, got.Status, got.Header)
		}
	}
	for i, test := range []struct {
		authorization, left string
		status              int
	}{
		{good, `"hour";r=3;t=3600, "minute";r=1;t=60`, 200},
		{good, `"hour";r=2;t=3600, "minute";r=0;t=60`, 200},
		{good, `"hour";r=1;t=3600, "minute";r=0;t=60`, 429},
		{bad["an old one"], `"hour";r=0;t=3600`, 401},
		{bad["an old one"], `"hour";r=0;t=3600`, 429},
		{"Bearer " + token(t, "ES256", map[string]any{"sub": "ben"}), `"hour";r=0;t=3600`, 429},
	} {
		got := c.send(with("/several", test.authorization))
		if left := got.Header["Ratelimit"]; got.Status != test.status || len(left) != 1 || left[0] != test.left {
			t.Errorf("request %d for both: got %d, %v, want %d, %s", i, got.Status, got.Header, test.status, test.left)
		}
	}
	for _, path := range []string{"/unverified", "/basic"} {
		if got := c.send(with(path, good)); got.Status != http.StatusInternalServerError {
			t.Errorf("%s: a claim that nobody verified: got %d", path, got.Status)
		}
	}
}

// TestClaimLimitLogs: the access log names the filter that stopped a request, and no claim.
func TestClaimLimitLogs(t *testing.T) {
	t.Parallel()
	g := startGateway(t, rendertest.Parse(t, claimLimitsWorld()))
	c := newClient(t, g.ports[80])
	for range 4 {
		c.send(with("/", "Bearer "+token(t, "ES256", nil)))
	}
	c.send(get("x", "/"))
	lines := g.accessLog(t, 5)
	for i, want := range map[int]string{3: `"filter":"RateLimit"`, 4: `"filter":"JWT"`} {
		if !strings.Contains(lines[i], want) || strings.Contains(lines[i], "alice") {
			t.Errorf("line %d is %s, want %s", i, lines[i], want)
		}
	}
}

// TestClaimLimitChanges: another number takes no reload, and what was counted still counts. Another claim takes one.
func TestClaimLimitChanges(t *testing.T) {
	t.Parallel()
	world := claimLimitsWorld()
	g := startGateway(t, rendertest.Parse(t, world))
	changed := func(old, replacement string) ir.Config {
		next := rendertest.Parse(t, strings.ReplaceAll(world, old, replacement))
		next.Spec.Listeners[0].Port = g.ports[80]
		in := g.in
		in.Table, _ = routingtest.Compile(&next.Spec)
		return render.Render(in)
	}
	send := func(want int) {
		t.Helper()
		if got := newClient(t, g.ports[80]).send(with("/", "Bearer "+token(t, "ES256", nil))); got.Status != want {
			t.Errorf("got %d, want %d", got.Status, want)
		}
	}
	for range 3 {
		send(http.StatusOK)
	}
	send(http.StatusTooManyRequests)
	g.change(t, plan.Diff(changed("requests: 3", "requests: 4"), render.Render(g.in)), func() {})
	send(http.StatusOK)
	send(http.StatusTooManyRequests)
	if p := plan.Diff(changed("name: sub", "name: email"), render.Render(g.in)); p.Reload == "" {
		t.Error("another claim takes no reload: the page says that it does")
	}
}
