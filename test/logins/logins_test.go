// Package logins_test sends requests of users with sessions through HAProxy, which asks the built gateway-login.
package logins_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/render"
	"gateway/internal/haproxy/render/rendertest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/keeper"
	"gateway/internal/login"
	"gateway/internal/must"
	"gateway/internal/passwords"
	"gateway/internal/routing"
	"gateway/internal/testbuild"
	"gateway/internal/testtier"
	"gateway/test/internal/testenv"
)

// issuer refuses connections, and gateway-login does not even try.
const issuer = "https://127.0.0.1"

const world = `
spec:
  trustedProxies: [127.0.0.0/8]
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: shop
      rules:
        - filters:
            - {type: OIDC, oidc: {issuer: "` + issuer + `", clientID: shop, secretRef: {name: login}, path: /oauth2, loggedOutPath: /bye, claimsToHeaders: [{claim: sub, header: X-User}]}}
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80}]
`

// sites are two HAProxies with one gateway-login. The first knows the key of sessions, the second does not.
type sites struct {
	t     *testing.T
	ports [2]int32
	keys  login.Keys
}

func startSites(t *testing.T) *sites {
	t.Helper()
	s := &sites{t: t}
	lines := []byte(strings.Repeat("ab", 32) + "\n")
	secrets := certtest.NewVolume(t)
	secrets.Put(map[string][]byte{"login/session-keys": lines, "login/client-secret": []byte("secret"), "login/issuer": []byte(issuer)})
	s.keys, _ = login.ParseKeys(lines)
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Got", fmt.Sprintf("%s %s %q %q", r.Method, r.RequestURI, r.Header["X-User"], r.Header["Cookie"]))
	}))
	t.Cleanup(backend.Close)
	address := netip.MustParseAddrPort(backend.Listener.Addr().String())
	socket := filepath.Join(haproxytest.NewPaths(t).RunDir, "login.sock")
	for i := range s.ports {
		s.ports[i] = haproxytest.FreePort(t)
		w := rendertest.Parse(t, world)
		w.Spec.Listeners[0].Port = s.ports[i]
		in := w.Input(t)
		in.Bind = render.Bind{Addresses: []string{"127.0.0.1"}, MetricsPort: haproxytest.FreePort(t)}
		in.Paths = haproxytest.NewPaths(t)
		in.Paths.LoginSocket, in.Paths.CertificateDir = socket, t.TempDir()
		in.Backends[routing.Backend{Service: "web", Port: 80}] = render.BackendState{
			Exists: true, Servers: []ir.Server{{Address: address.Addr().String(), Port: int32(address.Port())}},
		}
		h := haproxytest.Start(t, in.Paths, haproxytest.ShowMatches(render.Render(in).AllFiles()))
		if i == 0 {
			k := &keeper.Keeper{
				Secrets: secrets.Dir, Pairs: in.Paths.CertificateDir, Certificates: t.TempDir(), Users: passwords.NewChecker(), HAProxy: runtime.NewWorker(h.WorkerSocket),
			}
			must.Do(t, k.Look(t.Context(), time.Now()))
		}
	}
	testenv.Start(t, nil, testbuild.Program(t, "cmd/gateway-login"), "-logtostderr", "-secrets-dir="+secrets.Dir, "-authorities-dir="+t.TempDir(), "-socket="+socket)
	testenv.Eventually(t, 30*time.Second, "gateway-login to listen", func(context.Context) error {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
	return s
}

// session returns a sealed session that ends, and should be renewed, so much later.
func (s *sites) session(end, renew time.Duration, token string) string {
	settings := login.Settings{Issuer: issuer, ClientID: "shop", Secret: "login", Token: token}
	now := time.Now()
	return s.keys.Seal(login.ForHAProxy, settings.SessionBinding(), []byte(login.Session{End: now.Add(end), Renew: now.Add(renew), Claims: `[{"sub":"alice"},"end"]`}.Text()))
}

// same sends a request to both sites, and returns the answer, which has to be the same.
func (s *sites) same(request string) string {
	s.t.Helper()
	known, unknown := s.send(s.ports[0], request), s.send(s.ports[1], request)
	if known != unknown {
		s.t.Errorf("%q: HAProxy with the key answers\n%s\nand without\n%s", request, known, unknown)
	}
	return known
}

// ports are numbers of ports in answers.
var ports = regexp.MustCompile(`:[0-9]{4,5}\b`)

// send returns what tells an answer from another one.
func (s *sites) send(port int32, request string) string {
	s.t.Helper()
	conn := must.Get(net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))))(s.t)
	defer func() { _ = conn.Close() }()
	must.Do(s.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	must.Get(io.WriteString(conn, request))(s.t)
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		s.t.Fatalf("%q: %v", request, err)
	}
	_ = got.Body.Close()
	return ports.ReplaceAllString(fmt.Sprintf("%d %q %q", got.StatusCode, got.Header["Location"], got.Header["Got"]), ":PORT")
}

// TestTwoEyes: HAProxy, which opens sessions by itself, decides as gateway-login does, which it asks where it cannot.
func TestTwoEyes(t *testing.T) {
	s := startSites(t)
	valid := login.SessionCookie + "=" + s.session(time.Hour, time.Hour, "")
	const https, passes = "X-Forwarded-Proto: https\r\n", `200 [] ["GET / [\"alice\"]`
	get := func(path, headers string) string { return "GET " + path + " HTTP/1.1\r\n" + headers + "\r\n" }
	if got := s.same(get("/", "Host: a.io\r\n"+https+"Cookie: "+valid+"\r\n")); !strings.HasPrefix(got, passes) {
		t.Fatalf("a session is not valid: %s", got)
	}
	for _, scheme := range []string{
		"", "X-Forwarded-Proto: http\r\n", "X-Forwarded-Proto: HTTPS\r\n", "X-Forwarded-Proto: https, http\r\n", "X-Forwarded-Proto:\r\n",
		"X-Forwarded-Proto: http\r\n" + https,
	} {
		if got := s.same(get("/", "Host: a.io\r\n"+scheme+"Cookie: "+valid+"\r\n")); !strings.HasPrefix(got, "403 ") {
			t.Errorf("%q: a session is valid without HTTPS: %s", scheme, got)
		}
	}
	s.same(get("/", "Host: a.io\r\n"+https+"X-Forwarded-Proto: http\r\nCookie: "+valid+"\r\n"))
	for _, host := range []string{"A.io", "a.io:443", "a.io:8443", "a.io.", "a.io:", "[::1]", "127.0.0.1", "a_b.io", "a.io:123456"} {
		for _, path := range []string{
			"/", "/oauth2/logout", "/oauth2/%6cogout", "/oauth2/callback?state=12345678", "/oauth2/call%62ack", "//oauth2/logout", "/oauth2//logout", "/oauth2/logout/",
			"/oauth2/logout;a=b", "/oauth2%2flogout", "/%6Fauth2/logout", "/oauth2/LOGOUT", "/oauth2/logout%00", "/oauth2/logout%0a", "/oauth2/logout+", "/a/../oauth2/logout",
			"/oauth2/logout#x", "/oauth2/logout?x#y", "/oauth2%3f/logout", "/x/logout", "http://a.io/oauth2/%6cogout", "/%E4/logout", "/a%20b?c;d",
		} {
			s.same(get(path, "Host: "+host+"\r\n"+https+"Cookie: "+valid+"\r\n"))
		}
	}
	s.same("GET / HTTP/1.0\r\n" + https + "Cookie: " + valid + "\r\n\r\n")
	sealed := strings.TrimPrefix(valid, login.SessionCookie+"=")
	for _, cookie := range []string{
		"a=1, " + valid, "a=1," + valid, "$Version=1, " + valid, "a=\"1; " + valid + "\"", login.SessionCookie + `="` + sealed + `"`, login.SessionCookie + " =" + sealed,
		login.SessionCookie + "= " + sealed, valid + "; " + valid, valid + "; " + login.SessionCookie, valid + "; " + login.SessionCookie + "=", valid + "\t;a=1", "a=1;\t" + valid,
		valid + "=", valid + ".", "=" + valid, ";" + valid + ";", strings.ToLower(valid), "a=1\r\nCookie: " + valid, valid + "\r\nCookie: " + valid,
		login.SessionCookie + "=" + s.session(-time.Second, -time.Second, ""), login.SessionCookie + "=" + s.session(time.Hour, -time.Second, ""),
		login.SessionCookie + "=" + s.session(time.Hour, time.Hour, "ID"), strings.Replace(valid, "session", "tokens", 1),
	} {
		got := s.same(get("/", "Host: a.io\r\n"+https+"Cookie: "+cookie+"\r\n"))
		if strings.Contains(got, "alice") && strings.Contains(cookie, ","+valid) {
			t.Errorf("%q is a session", cookie)
		}
	}
	r := testtier.Rand(t)
	for range 1000 {
		s.same(get("/", "Host: a.io\r\n"+https+"Cookie: a=1; "+mutate(r, valid)+"; b=2\r\n"))
	}
}

// mutate changes a few characters.
func mutate(r *rand.Rand, text string) string {
	const alphabet = "; ,=\t\"$.+/AQgwZz09-_%:"
	for range 1 + r.IntN(3) {
		at, c := r.IntN(len(text)), alphabet[r.IntN(len(alphabet))]
		switch r.IntN(5) {
		case 0:
			text = text[:at] + text[at+1:]
		case 1:
			text = text[:at] + string(c) + text[at:]
		case 2: // where most of what is read is
			at = min(r.IntN(110), len(text)-1)
			text = text[:at] + string(c) + text[at+1:]
		case 3: // the end of a text in Base64
			text = text[:len(text)-1] + string(c)
		default:
			text = text[:at] + string(c) + text[at+1:]
		}
	}
	return text
}
