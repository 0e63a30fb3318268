package dataplanetest_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/keeper"
	"gateway/internal/must"
	"gateway/internal/passwords"
	"gateway/internal/unixsocket"
)

const basicWorld = `
generation: 1
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: closed
      rules:
        - filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}, realm: "Shop & 100% of 'it' #1", clientHeader: X-User}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /plain}}]
          filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /missing}}]
          filters: [{type: BasicAuth, basicAuth: {secretRef: {name: missing}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /both}}]
          filters:
            - {type: BasicAuth, basicAuth: {secretRef: {name: users}, clientHeader: X-User}}
            - {type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}, requestHeaders: [X-User, Authorization]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /external}}]
          filters: [{type: ExternalAuth, externalAuth: {backendRef: {name: auth, port: 80}}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /cors}}]
          filters: [{type: BasicAuth, basicAuth: {secretRef: {name: users}}}, {type: CORS, cors: {allowOrigins: ["https://a.io"]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /changed}}]
          filters:
            - {type: BasicAuth, basicAuth: {secretRef: {name: users}, clientHeader: X-User}}
            - {type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: Authorization, value: of the gateway}]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /limited}}]
          filters:
            - {type: BasicAuth, basicAuth: {secretRef: {name: users}, clientHeader: X-User}}
            - {type: RateLimit, rateLimit: {limits: [{requests: 2, unit: Hour, key: {type: Client}}]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /shadow}}]
          filters:
            - {type: BasicAuth, basicAuth: {secretRef: {name: users}, clientHeader: X-User}}
            - {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour, key: {type: Client}}]}}
          shadow: [BasicAuth]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /some}}]
          filters:
            - {type: BasicAuth, basicAuth: {secretRef: {name: users}}}
            - {type: Authorization, authorization: {rules: [{action: Deny, clients: [bob]}, {action: Allow, clients: [alice, bob]}]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /open}}]
          backendRefs: [{name: web, port: 80}]
  errorPages: [{statuses: [401], body: <h1>Log in</h1>}]
backends:
  - {service: web, port: 80, servers: ["127.0.0.1:1"]}
  - {service: auth, port: 80, servers: ["127.0.0.1:1"]}
`

// passworded is a gateway for basicWorld, with what gateway-keys is beside it.
type passworded struct {
	*gateway
	t          *testing.T
	web, asked chan string
	secrets    *certtest.Volume
	keeper     *keeper.Keeper
	socket     string
	// stop ends the part that answers questions.
	stop func()
}

// hashOf returns what htpasswd -B writes.
func hashOf(t *testing.T, password string) string {
	t.Helper()
	h := must.Get(bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost))(t)
	return string(h)
}

// startBasic runs HAProxy for basicWorld. The Service auth answers 403 to bob, and 200 to others.
func startBasic(t *testing.T) *passworded {
	t.Helper()
	g := &passworded{t: t, web: make(chan string, 1000), asked: make(chan string, 1000), secrets: certtest.NewVolume(t)}
	g.keeper = &keeper.Keeper{Secrets: g.secrets.Dir, Pairs: t.TempDir(), Certificates: t.TempDir(), Users: passwords.NewChecker()}
	g.gateway = startGatewayWith(t, rendertest.Parse(t, basicWorld), func(in *render.Input) {
		g.socket = filepath.Join(in.Paths.RunDir, "users.sock")
		in.Paths.UsersSocket = g.socket
		services := map[string]http.HandlerFunc{"web": record(g.web, nil), "auth": record(g.asked, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-User", "somebody else")
			if r.Header.Get("X-User") == "bob" {
				w.WriteHeader(http.StatusForbidden)
			}
		})}
		serveAll(t, in, services)
	})
	g.put([]byte("alice:" + hashOf(t, "secret") + "\nbob:$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG.\n"))
	g.start()
	return g
}

// start answers questions.
func (g *passworded) start() {
	g.t.Helper()
	listener := must.Get(unixsocket.Listen(g.socket))(g.t)
	ended := make(chan struct{})
	server := &http.Server{Handler: g.keeper.Users} //nolint:gosec // of a test
	go func() {
		_ = server.Serve(listener) // until it is closed
		close(ended)
	}()
	g.stop = sync.OnceFunc(func() {
		_ = server.Close()
		<-ended
	})
	g.t.Cleanup(g.stop)
}

// put edits the Secret; nothing removes it.
func (g *passworded) put(content []byte) {
	g.t.Helper()
	g.secrets.Put(map[string][]byte{"users/auth": content})
	must.Do(g.t, g.keeper.Look(g.t.Context(), time.Now()))
}

func credentials(userAndPassword string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(userAndPassword)) + "\r\n"
}

func (g *passworded) expect(status int, path, headers string) answer {
	g.t.Helper()
	got := newClient(g.t, g.ports[80]).send("GET " + path + " HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n")
	if got.Status != status {
		g.t.Errorf("%s with %q: got %d, want %d", path, headers, got.Status, status)
	}
	if got.Status != 200 && len(g.web) > 0 {
		g.t.Errorf("%s with %q: the backend got\n%s", path, headers, <-g.web)
	}
	return got
}

// reached returns what the backend got.
func (g *passworded) reached(path, headers string) string {
	g.t.Helper()
	if g.expect(200, path, headers); len(g.web) == 0 {
		g.t.Fatalf("%s with %q did not reach the backend", path, headers)
	}
	return <-g.web
}

// TestBasicAuth: a right password lets a request through, and nothing else does.
func TestBasicAuth(t *testing.T) {
	t.Parallel()
	g := startBasic(t)
	for _, user := range []string{"alice", "bob"} {
		got := g.reached("/a", credentials(user+":secret")+"x-user: mallory\r\nX-User: mallory\r\nX_User: mallory\r\n")
		if !strings.Contains(got, "\nX-User: "+user+"\r\n") || strings.Contains(got, "mallory") || strings.Contains(got, "Authorization") {
			t.Errorf("the backend got\n%s", got)
		}
	}
	if got := g.reached("/plain", credentials("alice:secret")); strings.Contains(got, "alice") || strings.Contains(got, "Authorization") {
		t.Errorf("the backend got\n%s", got)
	}
	for _, headers := range []string{
		"", credentials("alice:wrong"), credentials("mallory:secret"), credentials("alice:secret") + credentials("alice:secret"),
		credentials("alice:wrong") + credentials("alice:secret"), "Authorization: Basic\r\n", "Authorization: \r\n", "Authorization: Basic !\r\n",
		"Authorization: Bearer abc\r\n", "Authorization:\r\n", "Proxy-" + credentials("alice:secret"), strings.TrimSuffix(credentials("alice:secret"), "\r\n") + ", a\r\n",
		"Gateway-Auth-Backend: web_80\r\nX-User: alice\r\n", credentials("alice:" + strings.Repeat("a", 2000)),
	} {
		got := g.expect(401, "/a", headers)
		if challenge := got.Header["Www-Authenticate"]; len(challenge) != 1 || challenge[0] != `Basic realm="Shop & 100% of 'it' #1"` {
			t.Errorf("%q: the challenge is %q", headers, challenge)
		}
		if got.Body != "<h1>Log in</h1>" || got.Header.Get("Content-Type") != "text/html; charset=utf-8" {
			t.Errorf("%q: got %v, %q", headers, got.Header, got.Body)
		}
	}
	if got := g.expect(401, "/plain", ""); got.Header.Get("Www-Authenticate") != `Basic realm="Restricted"` {
		t.Errorf("the challenge is %q", got.Header.Get("Www-Authenticate"))
	}
	g.expect(503, "/missing", credentials("alice:secret"))
	if got := g.reached("/changed", credentials("alice:secret")); !strings.Contains(got, "\nAuthorization: of the gateway\r\n") {
		t.Errorf("the backend got\n%s", got)
	}
	if log := g.Log(); strings.Contains(log, strings.Fields(credentials("alice:secret"))[2]) {
		t.Error("the log has a password")
	}
}

// TestBasicAuthBesideOthers: each filter decides for itself.
func TestBasicAuthBesideOthers(t *testing.T) {
	t.Parallel()
	g := startBasic(t)
	got := g.reached("/both", credentials("alice:secret")+"X-User: bob\r\n")
	if !strings.Contains(got, "X-User: alice\r\n") || strings.Contains(got, "somebody else") {
		t.Errorf("the backend got\n%s", got)
	}
	if asked := next(t, g.asked); !strings.Contains(asked, "X-User: alice\r\n") || strings.Contains(asked, "\nAuthorization") {
		t.Errorf("the Service was asked\n%s", asked)
	}
	g.expect(403, "/both", credentials("bob:secret")+"X-User: alice\r\n")
	_ = next(t, g.asked)
	g.expect(401, "/both", "X-User: alice\r\n")
	if len(g.asked) > 0 {
		t.Errorf("the Service was asked about a request without a password")
	}
	g.reached("/external", "")
	c := newClient(t, g.ports[80])
	if got := c.send("OPTIONS /cors HTTP/1.1\r\nHost: x\r\nOrigin: https://a.io\r\nAccess-Control-Request-Method: GET\r\n\r\n"); got.Status != 204 {
		t.Errorf("a preflight request got %d", got.Status)
	}
	if got := g.expect(401, "/cors", "Origin: https://a.io\r\n"); got.Header.Get("Access-Control-Allow-Origin") != "https://a.io" {
		t.Errorf("the page cannot read the 401: %v", got.Header)
	}
}

// TestUsersAreClients: the user is the client by name, for limits and the access log. What a client sends is not.
func TestUsersAreClients(t *testing.T) {
	t.Parallel()
	g := startBasic(t)
	const odd = `Bö\b "x"}`
	g.put([]byte("alice:" + hashOf(t, "secret") + "\nbob:" + hashOf(t, "secret") + "\n" + odd + ":" + hashOf(t, "secret") + "\n"))
	const forged = "Gateway-Client: bob\r\nX-User: bob\r\n"
	for range 3 {
		g.expect(401, "/limited", credentials("alice:wrong")+forged)
	}
	for range 2 {
		if got := g.reached("/limited", credentials("alice:secret")+forged); !strings.Contains(got, "X-User: alice\r\n") || strings.Contains(got, "X-User: bob") {
			t.Errorf("the backend got\n%s", got)
		}
	}
	g.expect(429, "/limited", credentials("alice:secret")+forged)
	g.reached("/limited", credentials("bob:secret"))
	g.expect(200, "/limited", credentials(odd+":secret"))
	<-g.web
	g.reached("/some", credentials("alice:secret"))
	g.expect(403, "/some", credentials("bob:secret")+"Gateway-Client: alice\r\n")
	g.expect(403, "/some", credentials(odd+":secret"))
	g.expect(401, "/some", credentials("alice:wrong")+"Gateway-Client: alice\r\n")
	// In shadow, the others are nobody, and count together.
	g.reached("/shadow", credentials("bob:secret"))
	g.reached("/shadow", credentials("bob:wrong")+forged)
	g.expect(429, "/shadow", forged)
	g.reached("/open", "User-Agent: last\r\n"+forged)
	var names []string
	eventually(t, "the last request is logged", func() bool { names = clientNames(g.Log()); return slices.Contains(names, "/open -") })
	for _, want := range []string{"/limited -", "/limited alice", "/limited bob", "/limited " + odd, "/shadow bob", "/shadow -", "/open -"} {
		if !slices.Contains(names, want) {
			t.Errorf("the access log has the clients %q, and not %q", names, want)
		}
	}
}

// clientNames returns the path and the name of the client in each line of an access log.
func clientNames(log string) []string {
	var all []string
	for line := range strings.Lines(log) {
		var request struct{ Path, ClientName string }
		if _, text, ok := strings.Cut(line, "{"); ok && json.Unmarshal([]byte("{"+text), &request) == nil {
			all = append(all, request.Path+" "+request.ClientName)
		}
	}
	return all
}

// TestUsersAreEdited: at once, without a reload.
func TestUsersAreEdited(t *testing.T) {
	t.Parallel()
	g := startBasic(t)
	worker := g.Worker("show info\n")
	pid := worker[strings.Index(worker, "Pid:"):][:12]
	g.reached("/a", credentials("alice:secret"))
	g.put([]byte("alice:" + hashOf(t, "other") + "\ncarol:" + hashOf(t, "secret")))
	g.expect(401, "/a", credentials("alice:secret"))
	g.expect(401, "/a", credentials("bob:secret"))
	g.reached("/a", credentials("alice:other"))
	g.reached("/a", credentials("carol:secret"))
	g.put([]byte("alice:no hash"))
	g.expect(503, "/a", credentials("alice:other"))
	g.put([]byte("carol:" + hashOf(t, "secret")))
	g.reached("/a", credentials("carol:secret"))
	g.put(nil)
	g.expect(503, "/a", credentials("carol:secret"))
	g.put([]byte("carol:" + hashOf(t, "secret")))
	g.reached("/a", credentials("carol:secret"))
	if worker := g.Worker("show info\n"); !strings.Contains(worker, pid) {
		t.Error("HAProxy was reloaded")
	}
}

// TestUsersWithoutKeys: while gateway-keys does not run, nobody gets in, and other rules go on.
func TestUsersWithoutKeys(t *testing.T) {
	t.Parallel()
	g := startBasic(t)
	g.reached("/a", credentials("alice:secret"))
	g.stop()
	g.expect(503, "/a", credentials("alice:secret"))
	g.expect(503, "/a", "")
	g.reached("/open", "")
	if err := os.WriteFile(g.socket, nil, 0o600); err != nil { // as one that was killed leaves it
		t.Fatal(err)
	}
	g.start()
	g.reached("/a", credentials("alice:secret"))
}
