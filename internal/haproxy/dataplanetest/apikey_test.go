package dataplanetest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/keeper"
	"gateway/internal/must"
	"gateway/internal/passwords"
)

const keysWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  accessLog: {requestHeaders: [X-API-Key, X-Other]}
  routes:
    - name: closed
      rules:
        - filters: [{type: APIKey, apiKey: {secretRef: {name: partners}, clientHeader: X-Client, from: [
            {type: Header, name: X-API-Key}, {type: QueryParam, name: api_key}, {type: Cookie, name: key}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /bearer}}]
          filters: [{type: APIKey, apiKey: {secretRef: {name: partners}, from: [{type: Header, name: Authorization}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /missing}}]
          filters: [{type: APIKey, apiKey: {secretRef: {name: missing}, from: [{type: Header, name: X-API-Key}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /others}}]
          filters: [{type: APIKey, apiKey: {secretRef: {name: others}, from: [{type: Header, name: X-API-Key}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /limited}}]
          filters:
            - {type: APIKey, apiKey: {secretRef: {name: partners}, from: [{type: Header, name: X-API-Key}]}}
            - {type: RateLimit, rateLimit: {limits: [{requests: 2, unit: Hour, key: {type: Client}}]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /shadow}}]
          filters: [{type: APIKey, apiKey: {secretRef: {name: partners}, clientHeader: X-Client, from: [{type: Header, name: X-API-Key}]}}]
          shadow: [APIKey]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /cors}}]
          filters: [{type: CORS, cors: {allowOrigins: ["https://a.io"]}}, {type: APIKey, apiKey: {secretRef: {name: partners}, from: [{type: Header, name: X-API-Key}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /uncounted}}]
          filters: [{type: RateLimit, rateLimit: {limits: [{requests: 2, unit: Hour, key: {type: Client}}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /banks}}]
          filters:
            - {type: APIKey, apiKey: {secretRef: {name: partners}, from: [{type: Header, name: X-API-Key}]}}
            - {type: Authorization, authorization: {rules: [{action: Allow, clients: [bank, "bank.eu"]}]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /no-banks}}]
          filters:
            - {type: APIKey, apiKey: {secretRef: {name: partners}, from: [{type: Header, name: X-API-Key}]}}
            - {type: Authorization, authorization: {rules: [{action: Deny, clients: [bank]}, {action: Allow}]}}
          shadow: [APIKey]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /open}}]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80}]
`

const (
	shopKey, shopNext, bankKey = "s3cr3t-of-shop", "next+key/of=shop", "key of the bank"
	otherKey                   = "key-of-others"
)

// startKeys runs HAProxy for keysWorld, with what gateway-keys is beside it.
func startKeys(t *testing.T) *passworded {
	t.Helper()
	g := &passworded{t: t, web: make(chan string, 1000), secrets: certtest.NewVolume(t)}
	pairs := t.TempDir()
	g.gateway = startGatewayWith(t, rendertest.Parse(t, keysWorld), func(in *render.Input) {
		in.Paths.CertificateDir = pairs
		serveAll(t, in, handlers{"web": record(g.web, nil)})
	})
	g.keeper = &keeper.Keeper{
		Secrets: g.secrets.Dir, Pairs: pairs, Certificates: t.TempDir(), Users: passwords.NewChecker(), HAProxy: runtime.NewWorker(g.WorkerSocket),
	}
	return g
}

// keyLines are what a Secret holds, of the names of clients and their keys.
func keyLines(namesAndKeys ...string) []byte {
	var b strings.Builder
	for i := 0; i < len(namesAndKeys); i += 2 {
		fmt.Fprintf(&b, "%s:%s\n", namesAndKeys[i], strings.ToLower(passwords.Hash(namesAndKeys[i+1])))
	}
	return []byte(b.String())
}

// putKeys edits the Secrets.
func (g *passworded) putKeys(partners []byte) {
	g.t.Helper()
	g.secrets.Put(map[string][]byte{"partners/api-keys": partners, "others/api-keys": keyLines("other", otherKey)})
	must.Do(g.t, g.keeper.Look(g.t.Context(), time.Now()))
}

// TestAPIKeys: one right key lets a request through, and nothing else does. The backend gets the client, and no key.
func TestAPIKeys(t *testing.T) {
	t.Parallel()
	g := startKeys(t)
	g.expect(503, "/a", "X-API-Key: "+shopKey+"\r\n")
	g.putKeys(keyLines("shop", shopKey, "shop", shopNext, "bank.eu", bankKey))
	const forged = "x-client: mallory\r\nX-Client: mallory\r\nX_Client: mallory\r\n"
	for request, client := range map[[2]string]string{
		{"/a", "X-API-Key: " + shopKey}:                               "shop",
		{"/a", "x-api-key:  " + shopNext + "\t"}:                      "shop",
		{"/a", "X-API-Key: " + bankKey}:                               "bank.eu",
		{"/a?api_key=" + shopKey, "A: b"}:                             "shop",
		{"/a?b=1&api_key=next%2bkey%2Fof=shop&c=2", "A: b"}:           "shop",
		{"/a?api_key=next+key/of%3Dshop", "A: b"}:                     "shop",
		{"/a?x_api_key=1&api_keys=2&api_key=" + shopKey, "A: b"}:      "shop",
		{"/a", "Cookie: a=1; key=" + shopKey + "; keys=2"}:            "shop",
		{"/a", "Cookie: key=" + shopKey}:                              "shop",
		{"/a", "Cookie: a=1\r\nCookie: mykey=3; key=" + shopKey}:      "shop",
		{"/a?api_key=", "X-API-Key: " + shopKey + "\r\nCookie: key="}: "shop",
		{"/bearer", "Authorization: bEARER  " + shopKey}:              "",
		{"/bearer", "Authorization: Bearer " + bankKey}:               "",
		{"/bearer", "Authorization: " + bankKey}:                      "",
	} {
		got := g.reached(request[0], request[1]+"\r\n"+forged)
		hasClient := strings.Contains(got, "\nX-Client: "+client+"\r\n")
		if request[0] != "/bearer" && (!hasClient || strings.Contains(got, "mallory")) || strings.Contains(got, shopKey) ||
			strings.Contains(got, bankKey) || strings.Contains(got, "of=shop") || strings.Contains(got, "of%3Dshop") || strings.Contains(got, "Authorization") {
			t.Errorf("%q: the backend got\n%s", request, got)
		}
	}
	if got := g.expect(401, "/bearer", ""); got.Header.Get("Www-Authenticate") != "Bearer" {
		t.Errorf("the challenge is %q", got.Header.Get("Www-Authenticate"))
	}
	key := "X-API-Key: " + shopKey + "\r\n"
	hash := passwords.Hash(shopKey)
	for _, request := range [][2]string{
		{"/a", ""}, {"/a", forged}, {"/a", "X-API-Key: wrong\r\n"}, {"/a", "X-API-Key:\r\n"}, {"/a", "X-API-Key: \t\r\n"}, {"/a?api_key=", ""}, {"/a?api_key", ""},
		{"/a", "Cookie: key=\r\n"}, {"/a", key + key}, {"/a", key + "X-API-Key: " + bankKey + "\r\n"}, {"/a", key + "X-API-Key:\r\n"},
		{"/a", "X-API-Key: " + shopKey + ", " + shopKey + "\r\n"}, {"/a?api_key=" + shopKey, key}, {"/a?api_key=x", key},
		{"/a?api_key=" + shopKey + "&api_key=" + shopKey, ""}, {"/a?api_key=" + shopKey + "&a=1&api_key=", ""}, {"/a", key + "Cookie: key=x\r\n"},
		{"/a", "Cookie: key=" + shopKey + "; key=" + shopKey + "\r\n"}, {"/a", "Cookie: key=" + shopKey + "\r\nCookie: key=x\r\n"},
		{"/a", "X-API-Key: " + strings.ToUpper(shopKey) + "\r\n"}, {"/a", "X-API-Key: " + hash + "\r\n"}, {"/a", "X-API-Key: " + strings.ToLower(hash) + "\r\n"},
		{"/a", "X-API-Key: partners\r\n"}, {"/a", "X-API-Key: shop\r\n"}, {"/a", "X-API-Key: " + otherKey + "\r\n"}, {"/others", key}, {"/a", "X_API_Key: " + shopKey + "\r\n"},
		{"/a", "X-API-Key: \"" + shopKey + "\"\r\n"}, {"/a", "Authorization: Bearer " + shopKey + "\r\n"}, {"/a?API_KEY=" + shopKey, ""}, {"/a", "Cookie: KEY=" + shopKey + "\r\n"},
		{"/a?a=1;api_key=" + shopKey, ""}, {"/a?api_key=" + shopKey + ";api_key=x", ""}, {"/a?api_key=" + shopKey + "&api%5Fkey=x", ""}, {"/a", "Cookie: a=1,key=" + shopKey + "\r\n"},
		{"/a", "Cookie: a=1, key=" + shopKey + ", b=2\r\n"}, {"/a?api_key=" + shopKey[7:], "X-API-Key: " + shopKey[:7] + "\r\n"},
		{"/a", "X-API-Key: " + shopKey[:7] + "\r\nCookie: key=" + shopKey[7:] + "\r\n"}, {"/a?api_key=" + shopKey[7:], "Cookie: key=" + shopKey[:7] + "\r\n"},
		{"/bearer", "Authorization: Basic " + shopKey + "\r\n"}, {"/bearer", key}, {"/a", "X-API-Key: " + strings.Repeat("a", 9000) + "\r\n"},
	} {
		if got := g.expect(401, request[0], request[1]); !strings.HasPrefix(request[0], "/bearer") && got.Header.Get("Www-Authenticate") != "APIKey" {
			t.Errorf("%q: the challenge is %q", request, got.Header["Www-Authenticate"])
		}
	}
	g.expect(503, "/missing", key)
	g.reached("/others", "X-API-Key: "+otherKey+"\r\n")
	g.reached("/open", key)
	if got := newClient(t, g.ports[80]).send("OPTIONS /cors HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\nAccess-Control-Request-Method: GET\r\n\r\n"); got.Status != 204 {
		t.Errorf("a preflight request got %d", got.Status)
	}
}

// TestQueriesWithoutKeys: what else is in a query or in cookies stays as it is.
func TestQueriesWithoutKeys(t *testing.T) {
	t.Parallel()
	g := startKeys(t)
	g.putKeys(keyLines("shop", shopKey))
	for query, want := range map[string]string{
		"?api_key=K": "", "?a=1&api_key=K": "?a=1", "?api_key=K&a=1": "?a=1", "?a=%20&api_key=K&b=+": "?a=%20&b=+", "?a&&api_key=K": "?a&", "?xapi_key=1&api_key=K": "?xapi_key=1",
		"?a=1;api_key=x&api_key=K": "?a=1;api_key=x", "?a&api%5fkey=K": "?a", "?%61pi_ke%79=K&b": "?b", "?a=%26api_key=x&api_key=K": "?a=%26api_key=x", "?api_key&api_key=K": "?api_key",
	} {
		if got := g.reached("/a"+strings.ReplaceAll(query, "K", shopKey), ""); !strings.HasPrefix(got, "GET /a"+want+"\n") {
			t.Errorf("%s: the backend got\n%s", query, got)
		}
	}
	for cookies, want := range map[string]string{
		"key=K": "", "a=1; key=K": "a=1", "key=K; a=1": "a=1", "a=1; key=K; b=2": "a=1; b=2", "a=1;key=K;b=2": "a=1;b=2", "mykey=1; key = K ": "mykey=1",
		"a=1, key=x; key=K": "a=1, key=x", "a=1\r\nX-A: 1\r\nCookie: key=K\r\nCookie: b=2; c=3": "a=1; b=2; c=3", "a=b=key=x; key=K": "a=b=key=x", "kEy=x; key=K;": "kEy=x;",
	} {
		got := g.reached("/a", "Cookie: "+strings.ReplaceAll(cookies, "K", shopKey)+"\r\n")
		if want != "" && !strings.Contains(got, "\nCookie: "+want+"\r\n") || strings.Count(got, "\nCookie:") != map[bool]int{true: 1}[want != ""] {
			t.Errorf("%s: the backend got\n%s", cookies, got)
		}
	}
}

// TestAPIKeysAreEdited: at once, without a reload. A new worker has them, too.
func TestAPIKeysAreEdited(t *testing.T) {
	t.Parallel()
	g := startKeys(t)
	key := func(key string) string { return "X-API-Key: " + key + "\r\n" }
	g.putKeys(keyLines("shop", shopKey))
	worker := g.Worker("show info\n")
	pid := worker[strings.Index(worker, "Pid:"):][:12]
	g.reached("/a", key(shopKey))
	g.putKeys(keyLines("shop", shopKey, "shop", shopNext))
	g.reached("/a", key(shopKey))
	g.reached("/a", key(shopNext))
	g.putKeys(keyLines("shop", shopNext))
	g.expect(401, "/a", key(shopKey))
	g.putKeys([]byte("shop:" + shopNext))
	g.expect(503, "/a", key(shopNext))
	g.putKeys([]byte("shop:" + passwords.Hash("")))
	g.expect(503, "/a", key(""))
	g.putKeys([]byte("# nobody\n"))
	g.expect(503, "/a", key(shopNext))
	g.putKeys([]byte(" shop:" + passwords.Hash(bankKey) + " \r\n\r\nbank:!\n"))
	g.reached("/a", key(bankKey))
	var many []string
	for i := range 10000 {
		many = append(many, fmt.Sprint("client-", i), fmt.Sprint("key-", i))
	}
	g.putKeys(keyLines(many...))
	if got := g.reached("/a", key("key-9999")); !strings.Contains(got, "X-Client: client-9999\r\n") {
		t.Errorf("the backend got\n%s", got)
	}
	g.putKeys(keyLines("shop", shopKey))
	g.expect(401, "/a", key("key-1"))
	if worker := g.Worker("show info\n"); !strings.Contains(worker, pid) {
		t.Error("HAProxy was reloaded")
	}
	if got := next(t, startedWith(t, g)); !strings.Contains(got, "X-Client: shop\r\n") {
		t.Errorf("after a start, the backend got\n%s", got)
	}
}

// startedWith returns what a backend gets of a HAProxy that starts with the files of another one.
func startedWith(t *testing.T, before *passworded) chan string {
	t.Helper()
	g := &passworded{t: t, web: make(chan string, 10)}
	g.gateway = startGatewayWith(t, rendertest.Parse(t, keysWorld), func(in *render.Input) {
		in.Paths.CertificateDir = before.keeper.Pairs
		serveAll(t, in, handlers{"web": record(g.web, nil)})
	})
	g.expect(200, "/a", "X-API-Key: "+shopKey+"\r\n")
	return g.web
}

// TestAPIKeysBesideOthers: limits by client, the access log, and shadow.
func TestAPIKeysBesideOthers(t *testing.T) {
	t.Parallel()
	g := startKeys(t)
	g.putKeys(keyLines("shop", shopKey, "shop", shopNext, "bank", bankKey))
	shop, bank := "X-API-Key: "+shopKey+"\r\n", "X-API-Key: "+bankKey+"\r\n"
	for range 3 {
		g.expect(401, "/limited", "X-Client: shop\r\n")
	}
	g.reached("/limited", shop)
	g.reached("/limited", "X-API-Key: "+shopNext+"\r\n")
	g.expect(429, "/limited", shop)
	g.reached("/limited", bank)
	g.expect(500, "/uncounted", "")

	const forged = "X-Client: bank\r\nClient-Name: bank\r\nGateway-Client: bank\r\n"
	g.reached("/banks", bank)
	g.expect(403, "/banks", shop+forged)
	g.expect(401, "/banks", forged)
	g.reached("/no-banks", shop)
	g.expect(403, "/no-banks", bank)
	g.expect(403, "/no-banks", forged)

	if got := g.reached("/shadow", shop+"X-Client: mallory\r\n"); !strings.Contains(got, "X-Client: shop\r\n") || strings.Contains(got, "mallory") || !strings.Contains(got, shopKey) {
		t.Errorf("in shadow, the backend got\n%s", got)
	}
	if got := g.reached("/shadow", "X-API-Key: wrong\r\nX-Client: mallory\r\n"); strings.Contains(got, "X-Client") || !strings.Contains(got, "wrong") {
		t.Errorf("in shadow, the backend got\n%s", got)
	}
	g.reached("/open", shop)
	g.expect(401, "/a", shop+shop)
	g.expect(503, "/missing", shop)
	g.reached("/a?api_key="+shopKey, "User-Agent: last\r\nX-Other: other\r\n")
	log := ""
	eventually(t, "the last request is logged", func() bool {
		log = g.Log()
		return strings.Contains(log, `"userAgent":"last"`)
	})
	for _, want := range []string{`"clientName":"shop"`, `"clientName":"bank"`, `"clientName":"-","shadow":{"APIKey":401}`, `"X-Other":"other"`} {
		if !strings.Contains(strings.ToLower(log), strings.ToLower(want)) {
			t.Errorf("the access log lacks %s", want)
		}
	}
	if strings.Contains(log, shopKey) || strings.Contains(log, bankKey) {
		t.Errorf("the log has a key:\n%s", log)
	}
}
