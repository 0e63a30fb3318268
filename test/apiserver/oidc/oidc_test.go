// Package oidc does what the how-to about OpenID Connect says, with oauth2-proxy, an OpenID provider, the built agent
// and a real HAProxy.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oauth2-proxy/mockoidc"

	"gateway/internal/must"
	"gateway/test/internal/testenv"
)

const (
	namespace = "shop"
	host      = "shop.example.com"
	page      = "https://" + host + "/orders?id=1"
	soon      = 30 * time.Second
)

var server *testenv.Server

func TestMain(m *testing.M) { testenv.Main(m, &server, true) }

// alice and bob have accounts at the provider.
var (
	alice = &mockoidc.MockUser{Subject: "alice", Email: "alice@example.com", EmailVerified: true}
	bob   = &mockoidc.MockUser{Subject: "bob", Email: "bob@example.com", EmailVerified: true}
)

// TestLogin: who has logged in gets through, as the user that the provider knows. All others are sent to the provider.
func TestLogin(t *testing.T) {
	s := startSite(t)
	browser := s.newBrowser()
	s.provider.QueueUser(alice)
	if got := s.get(browser, page, nil); got.status != http.StatusOK || got.url != page {
		t.Fatalf("after the login: got %+v", got)
	}
	s.expectUser(alice)
	s.provider.QueueUser(bob)
	s.get(s.newBrowser(), page, nil)
	s.expectUser(bob)

	s.testSpoofedUser(browser)
	s.testForgedCookie(browser)
	if got := s.get(s.newBrowser(), page, http.Header{"Accept": {"application/json"}}); got.status != http.StatusUnauthorized || len(s.app) > 0 {
		t.Errorf("a script without a session: got %+v, and the backend %d requests", got, len(s.app))
	}
	s.testRenewal(browser)
	s.get(withoutRedirects(browser), "https://"+host+"/oauth2/sign_out", nil)
	s.expectLogin(browser, nil)

	s.proxy.Kill()
	if got := s.get(browser, page, nil); got.status != http.StatusServiceUnavailable || len(s.app) > 0 {
		t.Errorf("without oauth2-proxy: got %+v, and the backend %d requests", got, len(s.app))
	}
}

// testSpoofedUser: no name that a client makes up reaches the backend, or opens it.
func (s *site) testSpoofedUser(browser *http.Client) {
	s.t.Helper()
	spoofed := http.Header{"X-Auth-Request-User": {"root", "bob"}, "X_Auth_Request_User": {"root"}, "X-Auth-Request-Email": {"root@example.com"}}
	s.get(browser, page, spoofed)
	s.expectUser(alice)
	s.expectLogin(s.newBrowser(), spoofed)
}

// testForgedCookie: a cookie that oauth2-proxy did not make, or made for somebody else's session in part, is none.
func (s *site) testForgedCookie(browser *http.Client) {
	s.t.Helper()
	session := s.session(browser)
	for _, forged := range []string{"root", "", strings.ToLower(session), session[:len(session)-4] + "AAA=", session[4:]} {
		s.expectLogin(s.newBrowser(), http.Header{"Cookie": {"_oauth2_proxy=" + forged}})
	}
	s.get(s.newBrowser(), page, http.Header{"Cookie": {"_oauth2_proxy=" + session}})
	s.expectUser(alice)
}

// testRenewal: oauth2-proxy asks the provider about an old session, and the client gets another cookie with the
// backend's answer.
func (s *site) testRenewal(browser *http.Client) {
	s.t.Helper()
	before := s.session(browser)
	testenv.Eventually(s.t, soon, "another cookie", func(context.Context) error {
		got := s.get(browser, page, nil)
		s.expectUser(alice)
		if got.cookie == "" || s.session(browser) == before {
			return errors.New("there is none")
		}
		for _, want := range []string{"Secure", "HttpOnly"} {
			if !strings.Contains(got.cookie, want) {
				return fmt.Errorf("%s is not %s", got.cookie, want)
			}
		}
		return nil
	})
	s.get(browser, page, nil)
	s.expectUser(alice)
}

// session returns the cookie with the session.
func (s *site) session(browser *http.Client) string {
	s.t.Helper()
	for _, cookie := range browser.Jar.Cookies(&url.URL{Scheme: "https", Host: host, Path: "/"}) {
		if cookie.Name == "_oauth2_proxy" {
			return cookie.Value
		}
	}
	s.t.Fatal("there is no session")
	return ""
}

// answer is what a browser gets in the end.
type answer struct {
	status                int
	url, location, cookie string
}

func (s *site) get(browser *http.Client, url string, header http.Header) answer {
	s.t.Helper()
	request := must.Get(http.NewRequestWithContext(s.t.Context(), http.MethodGet, url, nil))(s.t)
	maps.Copy(request.Header, header)
	got, err := browser.Do(request)
	must.Do(s.t, err)
	must.Do(s.t, got.Body.Close())
	return answer{got.StatusCode, got.Request.URL.String(), got.Header.Get("Location"), got.Header.Get("Set-Cookie")}
}

// withoutRedirects is the browser as long as it does not go where it is sent.
func withoutRedirects(browser *http.Client) *http.Client {
	still := *browser
	still.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &still
}

// expectLogin sends a request that has to be sent to the provider, and not to the backend.
func (s *site) expectLogin(browser *http.Client, header http.Header) {
	s.t.Helper()
	got := s.get(withoutRedirects(browser), page, header)
	if got.status != http.StatusFound || !strings.HasPrefix(got.location, s.provider.AuthorizationEndpoint()) || len(s.app) > 0 {
		s.t.Errorf("%v: got %+v, and the backend %d requests", header, got, len(s.app))
	}
}

// expectUser looks at the one request that the backend has got: it is of the user and of nobody else.
func (s *site) expectUser(user *mockoidc.MockUser) {
	s.t.Helper()
	if len(s.app) != 1 {
		s.t.Fatalf("the backend got %d requests", len(s.app))
	}
	got := <-s.app
	if got.RequestURI != "/orders?id=1" {
		s.t.Errorf("the backend got %s", got.RequestURI)
	}
	users := map[string]string{"X-Auth-Request-User": user.Subject, "X-Auth-Request-Email": user.Email}
	for name, values := range got.Header {
		if value, is := users[name]; is && (len(values) != 1 || values[0] != value) || !is && strings.HasPrefix(strings.ReplaceAll(strings.ToLower(name), "_", "-"), "x-auth") {
			s.t.Errorf("the backend got %s: %q", name, values)
		}
		delete(users, name)
	}
	if len(users) > 0 {
		s.t.Errorf("the backend did not get %v", users)
	}
}
