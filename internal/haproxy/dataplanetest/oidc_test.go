package dataplanetest_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/keeper"
	"gateway/internal/login"
	"gateway/internal/must"
	"gateway/internal/passwords"
)

const loginsWorld = `
spec:
  trustedProxies: [127.0.0.0/8]
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: shop
      rules:
        - filters:
            - type: OIDC
              oidc:
                issuer: https://id.example.com
                clientID: shop
                secretRef: {name: login}
                claimsToHeaders: [{claim: text, header: X-Text}, {claim: number, header: X-Number}, {claim: "yes", header: X-Yes}, {claim: list, header: X-List},
                  {claim: in.an.object, header: X-Object}, {claim: 'https://example\.com/id', header: X-ID}, {claim: none, header: X-None}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /staff}}]
          filters:
            - type: OIDC
              oidc:
                issuer: https://id.example.com
                clientID: shop
                secretRef: {name: login}
                requiredClaims: [{claim: list, values: [staff]}, {claim: number, values: ["12345678901234567890"]}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /rules}}]
          filters:
            - {type: OIDC, oidc: {issuer: "https://id.example.com", clientID: shop, secretRef: {name: login}}}
            - type: Authorization
              authorization:
                rules:
                  - {action: Deny, paths: [/rules/deny], claims: [{claim: in.an.object, values: [any]}]}
                  - {action: Allow, claims: [{claim: list, values: [staff]}, {claim: number, values: ["12345678901234567890"]}]}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /limit}}]
          filters:
            - {type: OIDC, oidc: {issuer: "https://id.example.com", clientID: shop, secretRef: {name: login}}}
            - {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour, key: {type: Claim, name: number}}]}}
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80}]
`

// logins is a HAProxy whose users log in, and its Service.
type logins struct {
	*passworded
	keys login.Keys
}

func startLogins(t *testing.T) *logins {
	t.Helper()
	g := &logins{passworded: &passworded{t: t, web: make(chan string, 1000), secrets: certtest.NewVolume(t)}}
	pairs := t.TempDir()
	g.gateway = startGatewayWith(t, rendertest.Parse(t, loginsWorld), func(in *render.Input) {
		in.Paths.CertificateDir = pairs
		in.Paths.LoginSocket = filepath.Join(in.Paths.RunDir, "login.sock")
		serveAll(t, in, handlers{"web": record(g.web, nil)})
	})
	k := &keeper.Keeper{
		Secrets: g.secrets.Dir, Pairs: pairs, Certificates: t.TempDir(), Users: passwords.NewChecker(), HAProxy: runtime.NewWorker(g.WorkerSocket),
	}
	lines := []byte(strings.Repeat("ab", 32) + "\n")
	g.secrets.Put(map[string][]byte{"login/session-keys": lines})
	must.Do(t, k.Look(t.Context(), time.Now()))
	g.keys, _ = login.ParseKeys(lines)
	return g
}

// cookie returns the headers of a request over HTTPS with a session.
func (g *logins) cookie(session login.Session) string {
	binding := login.Settings{Issuer: "https://id.example.com", ClientID: "shop", Secret: "login"}.SessionBinding()
	return "X-Forwarded-Proto: https\r\nCookie: " + login.SessionCookie + "=" + g.keys.Seal(login.ForHAProxy, binding, []byte(session.Text())) + "\r\n"
}

// TestClaimsOfSessions: HAProxy reads in a session what the ID token said, without any program.
func TestClaimsOfSessions(t *testing.T) {
	t.Parallel()
	g := startLogins(t)
	cookie := func(token string) string {
		var all map[string]json.RawMessage
		must.Do(t, json.Unmarshal([]byte(token), &all))
		claims := must.Get(login.Claims(all))(t)
		later := time.Now().Add(time.Hour)
		return g.cookie(login.Session{End: later, Renew: later, Claims: claims})
	}
	const token = `{"iss": "x", "text": "a\"b|c\\ \u00e9\u2028\/", "number": 12345678901234567890, "yes": true, "list": ["staff", "a,b"],
		"in": {"an": {"object": -1e5}}, "https://example.com/id": "7", "none": null, "exp": 1}`
	got := g.reached("/", cookie(token)+"X-None: forged\r\n")
	for _, want := range []string{"X-Text: a\"b|c\\ é\u2028/", "X-Number: 12345678901234567890", "X-Yes: true", `X-List: ["staff","a,b"]`, "X-Object: -1e5", "X-Id: 7"} {
		if !strings.Contains(got, want+"\r\n") {
			t.Errorf("the backend lacks %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "X-None") || strings.Contains(got, "Cookie") {
		t.Errorf("the backend got\n%s", got)
	}
	g.reached("/staff", cookie(token))
	g.expect(403, "/staff", cookie(strings.Replace(token, `"staff"`, `"staffs"`, 1)))
	g.expect(403, "/staff", cookie(strings.Replace(token, `"list"`, `"lists"`, 1)))
	g.expect(403, "/staff", cookie(strings.Replace(token, "567890,", "567891,", 1)))
	g.reached("/rules", cookie(token))
	g.expect(403, "/rules", cookie(strings.Replace(token, `"staff"`, `"staffs"`, 1)))
	g.expect(403, "/rules", cookie(strings.Replace(token, `"list"`, `"lists"`, 1)))
	g.expect(403, "/rules", cookie(`{"list": {"list": ["staff"]}, "number": 12345678901234567890}`))
	g.reached("/rules/deny", cookie(token))
	g.expect(403, "/rules/deny", cookie(strings.Replace(token, "-1e5", `{"not": "read"}`, 1)))
	g.reached("/limit", cookie(token))
	g.expect(429, "/limit", cookie(token))
	g.reached("/limit", cookie(strings.Replace(token, "567890,", "567891,", 1)))
	g.expect(503, "/staff", strings.Replace(cookie(token), login.SessionCookie, login.TokensCookie, 1))
}

// TestSessionsGoOn: a session that should be renewed goes on while nobody renews it. One that has ended does not, nor
// do logouts.
func TestSessionsGoOn(t *testing.T) {
	t.Parallel()
	g := startLogins(t)
	const claims = `[{"text":"alice"},"end"]`
	now := time.Now()
	live := g.cookie(login.Session{End: now.Add(time.Hour), Renew: now.Add(-time.Second), Claims: claims})
	ended := g.cookie(login.Session{End: now.Add(-time.Second), Renew: now.Add(-time.Second), Claims: claims})
	look := func(what string) {
		t.Helper()
		if got := g.reached("/", live+"Gateway-Session: forged\r\n"); !strings.Contains(got, "X-Text: alice\r\n") || strings.Contains(got, "Gateway-Session") {
			t.Errorf("%s: the backend got\n%s", what, got)
		}
		g.expect(503, "/", ended)
		g.expect(503, "/oauth2/logout", live)
	}
	look("gateway-login does not run")
	var answer atomic.Pointer[http.HandlerFunc]
	serveLogins(t, g.in.Paths.LoginSocket, func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) })
	answers := func(handler http.HandlerFunc) { answer.Store(&handler) }
	answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	look("the provider does not answer")
	answers(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if got := g.reached("/", live); !strings.Contains(got, "X-Text: alice\r\n") {
		t.Errorf("gateway-login hangs: the backend got\n%s", got)
	}
	answers(func(w http.ResponseWriter, _ *http.Request) {
		later := now.Add(time.Hour)
		w.Header().Set(login.SessionHeader, base64.StdEncoding.EncodeToString([]byte(login.Session{End: later, Renew: later, Claims: `[{"text":"bob"},"end"]`}.Text())))
	})
	if got := g.reached("/", live); !strings.Contains(got, "X-Text: bob\r\n") {
		t.Errorf("it is renewed: the backend got\n%s", got)
	}
}
