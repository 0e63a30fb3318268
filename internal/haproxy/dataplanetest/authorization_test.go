package dataplanetest_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"gateway/internal/haproxy/filters"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/must"
	"gateway/internal/routing"
	"gateway/internal/testtier"
)

const authorizationWorld = `
spec:
  listeners:
    - {name: http, port: 80, protocol: HTTP}
    - {name: guarded, port: 81, protocol: HTTP, filters: [{type: Authorization, authorization: {rules: [{action: Allow, methods: [GET]}]}}]}
  routes:
    - name: closed
      rules:
        - matches: [{path: {value: /orders}}]
          filters: [JWT, {type: Authorization, authorization: {rules: [
            {action: Deny, methods: [DELETE]}, {action: Allow, claims: [{claim: realm.role, values: [admin, "on call"]}]},
            {action: Deny, paths: [/orders/secret, "/orders/%61b"]}, {action: Allow, methods: [GET, HEAD], paths: [/orders]}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /guests}}]
          filters: [JWT, {type: Authorization, authorization: {rules: [{action: Deny, claims: [{claim: realm.role, values: [guest, "5"]}]}, {action: Allow}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /two}}]
          filters: [JWT, {type: Authorization, authorization: {rules: [
            {action: Allow, claims: [{claim: name, values: [alice]}, {claim: role, values: [admin]}]}, {action: Deny, claims: [{claim: name, values: [mallory]}, {claim: role, values: [guest]}]},
            {action: Allow, paths: [/two/open]}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /address}}]
          filters: [{type: Authorization, authorization: {rules: [{action: Deny, addresses: [127.0.0.2/32, "fd00::/8"]}, {action: Allow, addresses: [127.0.0.0/10]}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /nothing}}]
          filters: [{type: Authorization, authorization: {rules: [{action: Deny, paths: [/nothing/a]}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /shadow}}]
          filters: [JWT, {type: Authorization, authorization: {rules: [{action: Allow, claims: [{claim: role, values: [admin]}]}]}}]
          shadow: [Authorization]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /unverified}}]
          filters: [JWT, {type: Authorization, authorization: {rules: [{action: Deny, claims: [{claim: role, values: [guest]}]}, {action: Allow}]}}]
          shadow: [JWT]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /moved}}]
          filters: [{type: Authorization, authorization: {rules: [{action: Allow, methods: [GET]}]}}, {type: CORS, cors: {allowOrigins: ["https://a.io"]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /no-token}}]
          filters: [{type: Authorization, authorization: {rules: [{action: Allow}, {action: Deny, claims: [{claim: role, values: [guest]}]}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /listener}}]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80, servers: ["127.0.0.1:1"]}]
`

func startAuthorization(t *testing.T) *gateway {
	t.Helper()
	const jwt = `{type: JWT, jwt: {issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {inline: 'KEYS'}}]}}`
	return startGateway(t, rendertest.Parse(t, strings.NewReplacer("[JWT, ", "["+strings.Replace(jwt, "KEYS", keySet("ES256"), 1)+", ").Replace(authorizationWorld)))
}

// claiming returns the line with a token that has these claims, as its issuer writes them.
func claiming(t *testing.T, more string) string {
	t.Helper()
	payload := strings.TrimSuffix(claims(nil), "}")
	if more != "" {
		payload += "," + more
	}
	k := issuerKeys()["ES256"]
	return "Authorization: Bearer " + k.sign(t, "ES256", `{"alg":"ES256","kid":"ES256"}`, payload+"}") + "\r\n"
}

// TestAuthorization: the first rule that a request meets decides, and without one it is refused.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	g := startAuthorization(t)
	c := newClient(t, g.ports[80])
	admin, user := claiming(t, `"realm":{"role":["x","admin"]}`), claiming(t, "")
	for _, test := range []struct {
		method, path, headers string
		want                  int
	}{
		{"GET", "/orders", user, 200}, {"HEAD", "/orders/1", user, 200}, {"POST", "/orders", user, 403}, {"DELETE", "/orders", user, 403},
		{"POST", "/orders", admin, 200}, {"GET", "/orders/secret", admin, 200}, {"DELETE", "/orders", admin, 403}, {"PROPFIND", "/orders", user, 403},
		{"GET", "/orders/secret", user, 403}, {"GET", "/orders/secret/", user, 403}, {"GET", "/orders/secret/1?a=b", user, 403}, {"GET", "/orders/secrets", user, 200},
		{"GET", "/orders/%73ecret", user, 403}, {"GET", "/orders//secret", user, 403}, {"GET", "//orders/secret", user, 403}, {"GET", "/orders%2Fsecret", user, 403},
		{"GET", "/orders/secret;v=1", user, 403}, {"GET", "/orders;v=1/secret", user, 404}, {"GET", "/orders/secret;v=1/a", user, 403}, {"GET", "/orders/;/secret", user, 403},
		{"GET", "/orders/;a=b/;/%73ecret;v=1/a", user, 403}, {"GET", "/orders//;//secret", user, 403}, {"GET", "/orders/%3b/secret", user, 403}, {"GET", "/orders/a;/secret", user, 200}, {"GET", "/orders/x/../secret", user, 400},
		{"GET", "/orders/%2e%2e/orders/secret", user, 400}, {"GET", "/orders\\secret", user, 400}, {"GET", "/orders/secret%00", user, 400}, {"GET", "/orders/ab", user, 403},
		{"GET", "/orders/%61%62", user, 403}, {"GET", "/orders/secret%0A", user, 200}, {"GET", "/orders/%0A/secret", user, 200}, {"GET", "http://x/orders/secret", user, 403},
		{"GET", "/orders/secret", user + "X-Original-URL: /orders\r\n", 403}, {"GET", "/orders", "Realm.role: admin\r\nRole: admin\r\n", 401},
		{"POST", "/orders", user + "X-HTTP-Method-Override: GET\r\n", 403},
		{"delete", "/orders", admin, 403}, {"DeletE", "/orders", admin, 403}, {"DELETES", "/orders", admin, 200}, {"get", "/orders", user, 403},
		{"GET", "/nothing", "", 403}, {"GET", "/nothing/a", "", 403}, {"GET", "/no-token", "", 500},
		{"GET", "/shadow", user, 200}, {"GET", "/moved", "", 200}, {"POST", "/moved", "", 403},
		{"GET", "/unverified", user, 200}, {"GET", "/unverified", "", 403}, {"GET", "/unverified", "Authorization: Bearer a.b.c\r\n", 403},
	} {
		body := ""
		if test.method == "POST" {
			body = "Content-Length: 0\r\n"
		}
		got := c.send(test.method + " " + test.path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + body + test.headers + "\r\n")
		if got.Status != test.want {
			t.Errorf("%s %s: got %d, want %d", test.method, test.path, got.Status, test.want)
		}
		c = newClient(t, g.ports[80])
	}
	if got := c.send("OPTIONS /moved HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\nAccess-Control-Request-Method: POST\r\n\r\n"); got.Status != 204 {
		t.Errorf("a preflight request got %d", got.Status)
	}
	guarded := newClient(t, g.ports[81])
	if got, other := guarded.send(get("x", "/listener")), guarded.send("POST /listener HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"); got.Status != 200 || other.Status != 403 {
		t.Errorf("at the listener, got %d and %d", got.Status, other.Status)
	}
	for address, want := range map[string]int{"127.0.0.1": 200, "127.0.0.2": 403, "127.63.0.1": 200, "127.64.0.1": 403} {
		if got := newClientFrom(t, address, g.ports[80]).send(with("/address", "", "X-Forwarded-For: 127.0.0.1", "Forwarded: for=127.0.0.1")); got.Status != want {
			t.Errorf("from %s: got %d, want %d", address, got.Status, want)
		}
	}
	log := strings.Join(g.accessLog(t, 40), "\n")
	if !strings.Contains(log, `"filter":"Authorization"`) || !strings.Contains(log, `"shadow":{"Authorization":403}`) {
		t.Errorf("the access log does not name the filter")
	}
}

// TestAuthorizationByClaims: what a claim may look like. A rule that allows takes none that cannot be read, and one
// that denies takes it for what it denies.
func TestAuthorizationByClaims(t *testing.T) {
	t.Parallel()
	c := newClient(t, startAuthorization(t).ports[80])
	role := func(value string) string { return `"realm":{"role":` + value + `}` }
	for _, test := range []struct {
		claims           string
		isAdmin, isGuest bool
	}{
		{"", false, false}, {role(`null`), false, false}, {role(`[]`), false, false}, {role("[ \t]"), false, false}, {`"realm":{}`, false, false}, {`"realm":null`, false, false},
		{`"realm":"admin"`, false, false}, {`"realm":["role","admin"]`, false, false}, {`"role":"admin"`, false, false}, {`"x":{"realm":{"role":"guest"}}`, false, false}, {`"realm":{"x":{"role":"guest"}}`, false, false},
		{role(`"admin"`), true, false}, {role(`"on call"`), true, false}, {role(`["a","on call"]`), true, false}, {role("[\n\"admin\"\n]"), true, false}, {role(`"\u0061dmin"`), true, false}, {role(`["\u0061dmin"]`), true, false},
		{role(`"guest"`), false, true}, {role(`["a","guest"]`), false, true}, {role(`["gu\u0065st"]`), false, true}, {`"re\u0061lm":{"r\u006fle":"guest"}`, false, true}, {role(`["admin","guest"]`), true, true},
		{role(`5`), false, true}, {role(`"5"`), false, true}, {role(`50`), false, false}, {role(`true`), false, false}, {role(`"Guest"`), false, false}, {role(`"guests"`), false, false}, {role(`"admin guest"`), false, false}, {role(`"admin,guest"`), false, false},
		{role(`[5]`), false, true}, {role(`[6]`), false, true}, {role(`[true]`), false, true}, {role(`[["admin"]]`), false, true}, {role(`[["guest"]]`), false, true}, {role(`["a",5]`), false, true}, {role(`["admin",5]`), false, true}, {role(`["admin",null]`), false, true},
		{role(`{"admin":"admin"}`), false, true}, {role(`{}`), false, true}, {role(`[{"role":"admin"}]`), false, true}, {role(`"a\"admin"`), false, true}, {role(`"[\"admin\"]"`), false, true},
		{role(`"a\",\"guest"`), false, true}, {role(`["a\",\"admin"]`), false, false}, {role(`"\\"`), false, false}, {role(`"a\nadmin"`), false, false}, {role(`"admin\u0000"`), false, true}, {role(`"\u0000guest"`), false, true},
		{role(`"` + strings.Repeat("a", 4000) + `"`), false, false}, {role(`["` + strings.Repeat(`a","`, 1000) + `guest"]`), false, true}, {role(`["` + strings.Repeat(`a","`, 1000) + `admin"]`), true, false},
	} {
		for path, isMet := range map[string]bool{"/orders/secret": test.isAdmin, "/guests": !test.isGuest} {
			want := map[bool]int{true: 200, false: 403}[isMet]
			if got := c.send("GET " + path + " HTTP/1.1\r\nHost: x\r\n" + claiming(t, test.claims) + "\r\n"); got.Status != want {
				t.Errorf("%s with %.80s: got %d, want %d", path, test.claims, got.Status, want)
			}
		}
	}
	for name, more := range map[string]string{
		"a mark": role(`"\u0001"`), "half a pair": role(`"\ud83d"`), "what is no JSON": role(`"admin"`) + ",", "a number that is none": role(`05`), "an exponent without digits": role("1e"),
	} {
		if got := c.send("GET /guests HTTP/1.1\r\nHost: x\r\n" + claiming(t, more) + "\r\n"); got.Status != 401 {
			t.Errorf("%s: got %d, want 401", name, got.Status)
		}
	}
}

// TestAuthorizationMixUp: no claim, and nothing else that somebody chooses, passes for another one.
func TestAuthorizationMixUp(t *testing.T) {
	t.Parallel()
	g := startAuthorization(t)
	c := newClient(t, g.ports[80])
	for _, test := range []struct {
		path, claims string
		want         int
	}{
		{"/two", `"name":"alice","role":"admin"`, 200}, {"/two", `"role":["admin"],"name":["bob","alice"]`, 200}, {"/two", `"name":"alice"`, 403}, {"/two", `"role":"admin"`, 403},
		{"/two/open", `"name":"bob"`, 200}, {"/two/open", `"name":"mallory"`, 200}, {"/two/open", `"name":"mallory","role":"guest"`, 403}, {"/two/open", `"name":"mallory","role":{}`, 403}, {"/two/open", `"name":[1],"role":[2]`, 403},
		{"/two", `"name":"alice\n[\"admin\"]"`, 403}, {"/two", `"name":["alice","\n","admin"]`, 403}, {"/two", `"name":["alice","role","admin"]`, 403}, {"/two", `"name":"admin","role":"alice"`, 403},
		{"/two", `"name":"alice\u0002","role":"admin"`, 403}, {"/two", `"name":"alice\u0000","role":"admin"`, 403}, {"/two", `"name":"alice\",\"x","role":"admin"`, 403},
		{"/two/open", `"name":"mallory\u0000","role":"guest"`, 403}, {"/two/open", `"name":["mallory","\u0000"],"role":"guest"`, 403}, {"/two/open", `"name":["mallory","x\u0000y"],"role":["a\u0000","guest"]`, 403},
		{"/two/%0A[%22alice%22]%01[%22admin%22]%01", "", 403}, {"/two?name=alice&role=admin", "", 403}, {"/two", `"names":"alice","roles":"admin"`, 403}, {"/two", `"x":{"name":"alice","role":"admin"}`, 403},
	} {
		if got := c.send("GET " + test.path + " HTTP/1.1\r\nHost: x\r\nName: alice\r\nRole: admin\r\n" + claiming(t, test.claims) + "\r\n"); got.Status != test.want {
			t.Errorf("%s with %s: got %d, want %d", test.path, test.claims, got.Status, test.want)
		}
	}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols}
	defer transport.CloseIdleConnections()
	for path, want := range map[string]int{"/orders": 200, "/orders/secret": 403, "/orders/%73ecret": 403, "/orders//secret": 403} {
		request := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", g.ports[80], path), http.NoBody))(t)
		request.Header.Set("Authorization", strings.TrimSpace(strings.TrimPrefix(claiming(t, ""), "Authorization:")))
		answer, err := transport.RoundTrip(request)
		must.Do(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != want || answer.ProtoMajor != 2 {
			t.Errorf("%s: got %d over %s, want %d", path, answer.StatusCode, answer.Proto, want)
		}
	}
}

// TestAuthorizationProperty: HAProxy lets through what the reference does, for random rules and requests.
func TestAuthorizationProperty(t *testing.T) {
	t.Parallel()
	random := testtier.Rand(t)
	some := func(all ...string) []string {
		var chosen []string
		for _, one := range all {
			if random.IntN(3) == 0 {
				chosen = append(chosen, one)
			}
		}
		return chosen
	}
	methods, segments, texts := []string{"GET", "HEAD", "PUT", "DELETE"}, []string{"a", "ab", "b", "a;v=1", "%61", ";", ";a"}, []string{"x", "xy", "x y", "1"}
	sent := append([]string{"delete", "Get"}, methods...)
	world := "spec:\n  listeners: [{name: http, port: 80, protocol: HTTP}]\n  routes:\n    - name: closed\n      rules:\n"
	const rules = 30
	for i := range rules {
		var list []string
		for range 1 + random.IntN(4) {
			one := "{action: " + []string{"Allow", "Deny"}[random.IntN(2)]
			add := func(field string, values []string) {
				if len(values) > 0 && random.IntN(2) == 0 {
					one += ", " + field + ": ['" + strings.Join(values, "', '") + "']"
				}
			}
			add("methods", some(methods...))
			add("paths", some(fmt.Sprintf("/%d/a", i), fmt.Sprintf("/%d/ab/", i), fmt.Sprintf("/%d/b/a", i), "/"))
			add("addresses", some("127.0.0.1/32", "127.0.0.2/31", "127.0.0.0/29", "fd00::/8"))
			if values := some("x", "xy", "1"); len(values) > 0 && random.IntN(2) == 0 {
				one += ", claims: [{claim: " + []string{"c", "d.e"}[random.IntN(2)] + ", values: ['" + strings.Join(values, "', '") + "']}]"
			}
			list = append(list, one+"}")
		}
		world += fmt.Sprintf("        - {matches: [{path: {value: /%d}}], filters: [JWT, {type: Authorization, authorization: {rules: [%s]}}], backendRefs: [{name: web, port: 80}]}\n", i, strings.Join(list, ", "))
	}
	world = strings.ReplaceAll(world, "JWT", `{type: JWT, jwt: {issuers: [{issuer: "https://id.example.com/", audiences: [shop], keys: {inline: '`+keySet("ES256")+`'}}]}}`)
	g := startGateway(t, rendertest.Parse(t, world+"backends: [{service: web, port: 80, servers: [\"127.0.0.1:1\"]}]\n"))
	compiled := map[int]*routing.Rule{}
	g.in.Table.Rules(func(_ *routing.Listener, rule *routing.Rule) { compiled[rule.Index] = rule })
	for range 600 {
		i, has := random.IntN(rules), map[string][]string{"c": some(texts...), "d.e": some(texts...)}
		facts := filters.Facts{
			Method: sent[random.IntN(len(sent))], Client: netip.AddrFrom4([4]byte{127, 0, 0, byte(1 + random.IntN(8))}),
			Claim: func(path string) ([]string, bool) { return has[path], true },
		}
		path := fmt.Sprintf("/%d", i)
		for range random.IntN(3) {
			path += "/" + segments[random.IntN(len(segments))]
		}
		facts.Path, _ = routing.CanonicalPath(path)
		token := "Bearer " + token(t, "ES256", map[string]any{"c": has["c"], "d": map[string]any{"e": has["d.e"]}})
		got := newClientFrom(t, facts.Client.String(), g.ports[80]).send(strings.Replace(with(path, token, "Content-Length: 0"), "GET", facts.Method, 1))
		if reason := filters.NotAllowed(compiled[i], facts); (got.Status == 200) != (reason == "") {
			t.Errorf("%s %s of %s with %v: got %d, want %q of %+v", facts.Method, path, facts.Client, has, got.Status, reason, compiled[i].Authorization)
		}
	}
}
