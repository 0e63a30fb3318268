package server

import (
	"encoding/base64"
	"flag"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gateway/internal/login"
	"gateway/internal/must"
)

const (
	host = "shop.example.com"
	page = "/orders?id=1"
	key  = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
)

// world is a server with its Secrets, and the provider that it asks.
type world struct {
	*Server

	t        *testing.T
	idp      *idp
	settings login.Settings
	keys     login.Keys
	// authorities are the CA certificates by which the provider was asked last.
	authorities string
}

// inWorld runs a test. Its clock does not wait.
func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, idp: newIDP(t), Server: &Server{Secrets: t.TempDir(), Authorities: t.TempDir()},
			settings: login.Settings{
				Issuer: issuer, ClientID: clientID, Secret: "login", Authorities: []string{"cas"}, Scopes: []string{"email"}, Path: "/oauth2", LoggedOutPath: "/goodbye",
			},
		}
		w.providers.NewClient = func(authorities string) *http.Client {
			w.authorities = authorities
			return &http.Client{Transport: w.idp, Timeout: 10 * time.Second}
		}
		w.put("session-keys", key)
		w.put("client-secret", clientSecret+"\n")
		w.put("issuer", issuer+"\n")
		must.Do(t, os.Mkdir(filepath.Join(w.Authorities, "cas"), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(w.Authorities, "cas", "ca.crt"), []byte("of the provider"), 0o600))
		test(w)
		time.Sleep(time.Minute) // until what began in the background has ended
	})
}

// put edits a key of the Secret.
func (w *world) put(name, content string) {
	w.t.Helper()
	dir := filepath.Join(w.Secrets, w.settings.Secret)
	must.Do(w.t, os.MkdirAll(dir, 0o700))
	must.Do(w.t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	if name == "session-keys" {
		w.keys, _ = login.ParseKeys([]byte(content))
	}
}

// browser asks for pages of a host, as HAProxy passes them on.
type browser struct {
	*world

	host    string
	cookies map[string]string
}

func (w *world) newBrowser() *browser { return &browser{w, host, map[string]string{}} }

// copied is a browser with the same cookies.
func (b *browser) copied() *browser { return &browser{b.world, b.host, maps.Clone(b.cookies)} }

// reply is an answer.
type reply struct {
	status         int
	location, text string
	// header has more of it, and session is for HAProxy.
	header  http.Header
	session string
	cookies map[string]*http.Cookie
}

// get asks for a page. Changes are names and values of headers of the question; "": without it.
func (b *browser) get(target string, changes ...string) reply {
	b.t.Helper()
	r := httptest.NewRequest(http.MethodGet, b.settings.Question(), nil)
	r.Host = b.host
	for name, value := range map[string]string{
		"X-Forwarded-Proto": "https", "X-Forwarded-Method": http.MethodGet, "X-Forwarded-Uri": target, "Accept": "text/html,*/*", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "none",
	} {
		r.Header.Set(name, value)
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for i := 0; i < len(changes); i += 2 {
		r.Header.Del(changes[i])
		if changes[i+1] != "" {
			r.Header.Set(changes[i], changes[i+1])
		}
	}
	w := httptest.NewRecorder()
	b.ServeHTTP(w, r)
	got := reply{status: w.Code, location: w.Header().Get("Location"), text: strings.TrimSpace(w.Body.String()), header: w.Header(), cookies: map[string]*http.Cookie{}}
	session := must.Get(base64.StdEncoding.DecodeString(w.Header().Get(login.SessionHeader)))(b.t)
	got.session = string(session)
	for _, cookie := range w.Result().Cookies() {
		if got.cookies[cookie.Name] != nil {
			b.t.Errorf("the cookie %s is set twice", cookie.Name)
		}
		got.cookies[cookie.Name] = cookie
		if b.cookies[cookie.Name] = cookie.Value; cookie.MaxAge < 0 {
			delete(b.cookies, cookie.Name)
		}
	}
	return got
}

// expect is get for what has to have a status. Redirects go somewhere, and nothing else does. Only what passes has a
// session.
func (b *browser) expect(status int, target string, changes ...string) reply {
	b.t.Helper()
	got := b.get(target, changes...)
	switch {
	case got.status != status:
		b.t.Errorf("%.100s: got %d (%s %.100s) instead of %d", target, got.status, got.text, got.location, status)
	case (got.location != "") != (status == http.StatusFound), (got.session != "") != (status == http.StatusOK), got.header.Get("Cache-Control") != "no-store":
		b.t.Errorf("%s: got %d with %v", target, status, got.header)
	}
	return got
}

// begin begins a login, and ends it at the provider. It returns the path that the browser comes back to.
func (b *browser) begin(target string) (callback string) {
	b.t.Helper()
	back := b.idp.logIn(b.t, b.expect(http.StatusFound, target).location)
	callback, ok := strings.CutPrefix(back, "https://"+b.host)
	if !ok || !strings.HasPrefix(callback, b.settings.Path+login.CallbackPath+"?") {
		b.t.Fatalf("the browser comes back to %s", back)
	}
	return callback
}

// logIn gives a browser a session, which is good for a page.
func (b *browser) logIn() {
	b.t.Helper()
	if got := b.expect(http.StatusFound, b.begin(page)); got.location != "https://"+b.host+page {
		b.t.Fatalf("after the login, the browser is sent to %s", got.location)
	}
	b.expect(http.StatusOK, page)
}

// expectLogin expects that the browser has to log in.
func (b *browser) expectLogin(target string) reply {
	b.t.Helper()
	got := b.expect(http.StatusFound, target)
	if !strings.HasPrefix(got.location, issuer+authPath+"?") {
		b.t.Errorf("%s: sent to %s", target, got.location)
	}
	return got
}

// with returns a path with other parameters; "": without it.
func with(t *testing.T, target string, changes ...string) string {
	t.Helper()
	parsed := must.Get(url.Parse(target))(t)
	query := parsed.Query()
	for i := 0; i < len(changes); i += 2 {
		query.Del(changes[i])
		if changes[i+1] != "" {
			query.Set(changes[i], changes[i+1])
		}
	}
	return parsed.Path + "?" + query.Encode()
}

// session returns the session in the browser's cookie.
func (b *browser) session() login.Session {
	b.t.Helper()
	text, ok := b.keys.Open(login.ForHAProxy, b.settings.SessionBinding(), b.cookies[login.SessionCookie])
	session, isSession := login.ParseSession(string(text))
	if !ok || !isSession {
		b.t.Fatalf("the session cannot be read: %q", text)
	}
	return session
}

// capture returns what is logged.
func capture(t *testing.T, do func()) string {
	t.Helper()
	must.Do(t, flag.Set("logtostderr", "true"))
	file := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	before := os.Stderr
	os.Stderr = file
	do()
	os.Stderr = before
	logged := must.Get(os.ReadFile(file.Name()))(t)
	must.Do(t, file.Close())
	return string(logged)
}
