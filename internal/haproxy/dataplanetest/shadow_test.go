package dataplanetest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/keeper"
	"gateway/internal/must"
	"gateway/internal/passwords"
)

// shadowRules are each of a rule for the path of its number.
const shadowRules = `
filters: [{type: ClientAddress, clientAddress: {deny: [127.0.0.0/8]}}], shadow: [ClientAddress]
filters: [{type: RateLimit, rateLimit: {limits: [{requests: 2, unit: Hour}]}}], shadow: [RateLimit]
filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}, clientHeader: X-User}}], shadow: [BasicAuth]
filters: [{type: BasicAuth, basicAuth: {secretRef: {name: none}, clientHeader: X-User}}], shadow: [BasicAuth]
filters: [{type: JWT, jwt: {issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {inline: 'KEYS'}}], requiredScopes: [read], claimsToHeaders: [{claim: sub, header: X-User}]}}], shadow: [JWT]
filters: [{type: JWT, jwt: {issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {configMapRef: {name: none}}}], claimsToHeaders: [{claim: sub, header: X-User}]}}], shadow: [JWT]
filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, requestHeaders: [Authorization], responseHeaders: [X-User]}}], shadow: [ExternalAuth]
filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: missing, port: 80}, responseHeaders: [X-User]}}], shadow: [ExternalAuth]
filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, requestHeaders: [Authorization], forwardBody: {maxSize: 3}}}], shadow: [ExternalAuth]
maxRequestBytes: 3, shadow: [maxRequestBytes]
maxRequestBytes: 3, filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, requestHeaders: [Authorization], forwardBody: {maxSize: 100}}}], shadow: [ExternalAuth]
maxRequestBytes: 3, filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, requestHeaders: [Authorization], forwardBody: {maxSize: 100}}}], shadow: [maxRequestBytes]
filters: [{type: ClientAddress, clientAddress: {deny: [127.0.0.0/8]}}, {type: RateLimit, rateLimit: {concurrent: {requests: 1, key: {type: Rule}}, limits: [{requests: 1, unit: Minute}, {requests: 5, unit: Hour, key: {type: Claim, name: sub}}]}}, {type: JWT, jwt: {issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {inline: 'KEYS'}}]}}], shadow: [ClientAddress, RateLimit, JWT]
`

// startShadow runs HAProxy for the rules above, the rules of the route shadow, and under /refuses the same without
// shadow. Other tests describe the users and the Service auth.
func startShadow(t *testing.T) (*gateway, chan string) {
	t.Helper()
	world := "spec:\n  listeners: [{name: http, port: 80, protocol: HTTP}]\n  routes:\n"
	for name, prefix := range map[string]string{"shadow": "/", "refuses": "/refuses/"} {
		world += "    - name: " + name + "\n      rules:\n"
		for i, rule := range strings.Split(strings.TrimSpace(shadowRules), "\n") {
			if name == "refuses" {
				rule, _, _ = strings.Cut(rule, ", shadow:")
			}
			world += fmt.Sprintf("        - {matches: [{path: {value: %s%d}}], backendRefs: [{name: web, port: 80}], %s}\n", prefix, i, rule)
		}
	}
	world = strings.ReplaceAll(world, "KEYS", keySet("ES256")) + "backends: [{service: web, port: 80}, {service: auth, port: 80}]\n"
	web, socket := make(chan string, 1000), ""
	g := startGatewayWith(t, rendertest.Parse(t, world), func(in *render.Input) {
		socket = filepath.Join(in.Paths.RunDir, "users.sock")
		in.Paths.UsersSocket = socket
		serveAll(t, in, handlers{"web": record(web, nil), "auth": byAuthorization})
	})
	secrets := certtest.NewVolume(t)
	users := &passworded{t: t, gateway: g, secrets: secrets, socket: socket}
	users.keeper = &keeper.Keeper{Secrets: secrets.Dir, Pairs: t.TempDir(), Certificates: t.TempDir(), Users: passwords.NewChecker()}
	users.put([]byte("alice:" + hashOf(t, "secret") + "\n"))
	users.start()
	return g, web
}

// shadowOf returns what the line of the access log about a request of this user agent says of guards in shadow.
func (g *gateway) shadowOf(t *testing.T, agent string) (shadow map[string]int) {
	t.Helper()
	eventually(t, "the request is logged", func() bool {
		for line := range strings.Lines(g.Log()) {
			entry := struct {
				UserAgent string
				Shadow    map[string]int
			}{}
			if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &entry) == nil && entry.UserAgent == agent {
				shadow = entry.Shadow
			}
		}
		return shadow != nil
	})
	return shadow
}

// Parts of requests: headers, and bodies of known and unknown length.
const (
	alice  = "Authorization: Basic YWxpY2U6c2VjcmV0\r\n"
	forged = "X-User: root\r\n"
)

func bearer(t *testing.T, change map[string]any) string {
	t.Helper()
	return "Authorization: Bearer " + token(t, "ES256", change) + "\r\n"
}

func byWord(word string) string { return "Authorization: " + word + "\r\n" }

func body(text string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text) }

func chunks(text string) string {
	return fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(text), text)
}

// statuses are what guards in shadow would have answered.
type statuses = map[string]int

// TestShadow: a guard in shadow lets through what it refuses otherwise. The access log and the counters tell what it
// would have done, and the backend gets no header that says that the request passed.
func TestShadow(t *testing.T) { //nolint:funlen // a flat table
	t.Parallel()
	g, web := startShadow(t)
	good, long := bearer(t, map[string]any{"scope": "read"}), strings.Repeat("abcd", 50_000)
	counted := map[string]int64{}
	for i, test := range []struct {
		rule    int
		request string
		refuses int
		shadow  statuses
		// got is a part of what the backend gets, and lacks none.
		got, lacks string
	}{
		{0, "\r\n", 403, statuses{"ClientAddress": 403}, "", "RateLimit"},
		{1, "\r\n", 200, statuses{}, "", ""},
		{1, "\r\n", 200, statuses{}, "", ""},
		{1, "\r\n", 429, statuses{"RateLimit": 429}, "", ""},
		{1, "\r\n", 429, statuses{"RateLimit": 429}, "", ""},
		{2, alice + forged + "\r\n", 200, statuses{}, "X-User: alice", "root"},
		{2, byWord("Basic YWxpY2U6eA==") + forged + "\r\n", 401, statuses{"BasicAuth": 401}, "Authorization: Basic YWxpY2U6eA==", "X-User"},
		{2, forged + "\r\n", 401, statuses{"BasicAuth": 401}, "", "X-User"},
		{3, alice + forged + "\r\n", 503, statuses{"BasicAuth": 503}, "", "X-User"},
		{4, good + forged + "\r\n", 200, statuses{}, "X-User: alice", "root"},
		{4, forged + "\r\n", 401, statuses{"JWT": 401}, "", "X-User"},
		{4, strings.Replace(good, "\r", "A\r", 1) + forged + "\r\n", 401, statuses{"JWT": 401}, "", "X-User"},
		{4, bearer(t, map[string]any{"exp": 1}) + forged + "\r\n", 401, statuses{"JWT": 401}, "", "X-User"},
		{4, bearer(t, nil) + forged + "\r\n", 403, statuses{"JWT": 403}, "", "X-User"},
		{5, good + forged + "\r\n", 503, statuses{"JWT": 503}, "", "X-User"},
		{6, byWord("good") + forged + "\r\n", 200, statuses{}, "X-User: alice", "root"},
		{6, byWord("login") + forged + "\r\n", 302, statuses{"ExternalAuth": 302}, "Authorization: login", "X-User"},
		{6, forged + "\r\n", 401, statuses{"ExternalAuth": 401}, "", "X-User"},
		{6, byWord("broken") + forged + "\r\n", 503, statuses{"ExternalAuth": 503}, "", "X-User"},
		{6, byWord("cut") + forged + "\r\n", 503, statuses{"ExternalAuth": 503}, "", "X-User"},
		{7, forged + "\r\n", 503, statuses{"ExternalAuth": 503}, "", "X-User"},
		{8, byWord("good") + body("abc"), 200, statuses{}, "abc", ""},
		{8, byWord("good") + body("abcd"), 413, statuses{"ExternalAuth": 413}, "abcd", ""},
		{8, byWord("good") + chunks("abcd"), 413, statuses{"ExternalAuth": 413}, "abcd", ""},
		{9, body("abc"), 200, statuses{}, "abc", ""},
		{9, body("abcd"), 413, statuses{"maxRequestBytes": 413}, "abcd", ""},
		{9, chunks("abc"), 200, statuses{}, "abc", ""},
		{9, chunks("abcd"), 413, statuses{"maxRequestBytes": 413}, "abcd", ""},
		{9, chunks(long), 413, statuses{"maxRequestBytes": 413}, long, ""},
		{9, "Connection: upgrade\r\nUpgrade: x\r\n" + chunks("a"), 411, statuses{"maxRequestBytes": 411}, "a", ""},
		{10, body("abc"), 401, statuses{"ExternalAuth": 401}, "abc", ""},
		{10, byWord("good") + chunks("abc"), 200, statuses{}, "abc", ""},
		{11, byWord("good") + body("abcd"), 413, statuses{"maxRequestBytes": 413}, "abcd", ""},
		{11, byWord("good") + chunks("abcd"), 413, statuses{"maxRequestBytes": 413}, "abcd", ""},
		{12, good + "\r\n", 403, statuses{"ClientAddress": 403}, "", ""},
		{12, "\r\n", 403, statuses{"ClientAddress": 403, "RateLimit": 429, "JWT": 401}, "", ""},
		{12, "\r\n", 403, statuses{"ClientAddress": 403, "RateLimit": 429, "JWT": 401}, "", ""},
	} {
		name := fmt.Sprint("line ", i)
		got := newClient(t, g.ports[80]).send(fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: x\r\nUser-Agent: %s\r\n%s", test.rule, name, test.request))
		if got.Status != 200 || got.Header.Get("RateLimit") != "" {
			t.Errorf("%s: got %d %v", name, got.Status, got.Header)
		}
		if text := next(t, web); !strings.Contains(text, test.got) || test.lacks != "" && strings.Contains(text, test.lacks) {
			t.Errorf("%s: the backend got %.500s", name, text)
		}
		if shadow := g.shadowOf(t, name); !maps.Equal(shadow, test.shadow) {
			t.Errorf("%s: logged %v, want %v", name, shadow, test.shadow)
		}
		for guard, status := range test.shadow {
			counted[fmt.Sprint(guard, " ", status >= 500)]++
		}
		counted["all"]++
		got = newClient(t, g.ports[80]).send(fmt.Sprintf("POST /refuses/%d HTTP/1.1\r\nHost: x\r\nUser-Agent: not %s\r\n%s", test.rule, name, test.request))
		if shadow := g.shadowOf(t, "not "+name); got.Status != test.refuses || len(shadow) > 0 {
			t.Errorf("%s without shadow: got %d and logged %v", name, got.Status, shadow)
		}
		drain(web)
	}
	g.expectShadows(t, counted)
}

// drain forgets what a Service got.
func drain(requests chan string) {
	for len(requests) > 0 {
		<-requests
	}
}

// expectShadows compares the counters of the rules with shadow, which let all requests through.
func (g *gateway) expectShadows(t *testing.T, want map[string]int64) {
	t.Helper()
	all := must.Get(runtime.NewWorker(g.WorkerSocket).Decisions(t.Context()))(t)
	got := map[string]int64{}
	for _, rule := range all {
		if rule.Route != "shadow" {
			continue
		}
		got["all"] += rule.Allowed
		for guard, count := range rule.ShadowDenied {
			got[guard+" false"] += count
		}
		for guard, count := range rule.ShadowFailed {
			got[guard+" true"] += count
		}
		if len(rule.Denied)+len(rule.Failed) > 0 {
			t.Errorf("rule %s refused %v and %v", rule.Rule, rule.Denied, rule.Failed)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("counted are %v, want %v", got, want)
	}
}
