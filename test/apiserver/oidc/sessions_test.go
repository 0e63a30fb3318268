package oidc

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"gateway/internal/login"
	"gateway/internal/must"
)

const site443 = "https://" + host

// reply is an answer without its body.
type reply struct {
	*http.Response
}

// send sends a request without following redirects.
func (s *loginSite) send(browser *http.Client, method, url string, header http.Header) reply {
	s.t.Helper()
	request := must.Get(http.NewRequestWithContext(s.t.Context(), method, url, nil))(s.t)
	request.Header = header.Clone()
	got, err := withoutRedirects(browser).Do(request)
	must.Do(s.t, err)
	must.Do(s.t, got.Body.Close())
	return reply{got}
}

// expect sends a request for a page that has to get a status.
func (s *loginSite) expect(status int, browser *http.Client, url string) reply {
	s.t.Helper()
	got := s.send(browser, http.MethodGet, url, aPage)
	if got.StatusCode != status {
		s.t.Errorf("%s: got %d instead of %d", url, got.StatusCode, status)
	}
	return got
}

// expectProvider sends a request that has to be sent to the provider, and not to the backend.
func (s *loginSite) expectProvider(browser *http.Client, url string, header http.Header) *url.URL {
	s.t.Helper()
	got := s.send(browser, http.MethodGet, url, header)
	to, err := got.Location()
	if err != nil || got.StatusCode != http.StatusFound || !strings.HasPrefix(to.String(), s.idp.issuer+"/auth?") || len(s.app) > 0 {
		s.t.Fatalf("%s: got %d with %v, and the backend %d requests", url, got.StatusCode, to, len(s.app))
	}
	return to
}

// cookies returns a browser's cookies, by name.
func (s *loginSite) cookies(browser *http.Client) map[string]string {
	all := map[string]string{}
	for _, cookie := range browser.Jar.Cookies(&url.URL{Scheme: "https", Host: host, Path: "/"}) {
		all[cookie.Name] = cookie.Value
	}
	return all
}

// loggedIn returns a browser with a session. dex renews none of the user's others from then on.
func (s *loginSite) loggedIn() *http.Client {
	s.t.Helper()
	browser := s.newBrowser()
	s.get(browser, page, aPage)
	s.expectKilgore("/orders?id=1")
	return browser
}

// put gives a browser a cookie.
func (s *loginSite) put(browser *http.Client, name, value string) {
	browser.Jar.SetCookies(&url.URL{Scheme: "https", Host: host, Path: "/"}, []*http.Cookie{{Name: name, Value: value, Path: "/", Secure: true}})
}

// age gives a browser its session with other times.
func (s *loginSite) age(browser *http.Client, renew, end time.Duration) {
	s.t.Helper()
	text, ok := s.keys.Open(login.ForHAProxy, s.settings.SessionBinding(), s.cookies(browser)[login.SessionCookie])
	session, isSession := login.ParseSession(string(text))
	if !ok || !isSession {
		s.t.Fatalf("the session cannot be read: %q", text)
	}
	session.Renew, session.End = time.Now().Add(renew), time.Now().Add(end)
	s.put(browser, login.SessionCookie, s.keys.Seal(login.ForHAProxy, s.settings.SessionBinding(), []byte(session.Text())))
}

// copyOf returns a browser with the cookies of another one.
func (s *loginSite) copyOf(browser *http.Client) *http.Client {
	other := s.newBrowser()
	for name, value := range s.cookies(browser) {
		s.put(other, name, value)
	}
	return other
}

// testSession: no program is asked about a session. The backend gets no cookie of it, and what clients make up does not
// count.
func (s *loginSite) testSession(browser *http.Client) {
	s.t.Helper()
	before := s.idp.exchanges.Load()
	header := aPage.Clone()
	header.Set("X-Email", "root@example.com")
	header["Gateway-Session"] = []string{"forged"}
	header.Set("X-Requested-With", "XMLHttpRequest")
	s.put(browser, "cart", "7")
	s.put(browser, "abc", "8")
	for range 3 {
		s.send(browser, http.MethodPost, page, header)
		got := s.expectKilgore("/orders?id=1")
		if cookie := strings.Join(got.Header["Cookie"], "|"); cookie != "cart=7; abc=8" && cookie != "abc=8; cart=7" {
			s.t.Errorf("the backend got the cookies %q", cookie)
		}
	}
	if s.idp.exchanges.Load() != before {
		s.t.Error("the provider was asked about a session")
	}
	other := s.copyOf(browser)
	s.put(other, "__Host-gateway-login-12345678", "old")
	s.send(other, http.MethodGet, page, aPage)
	s.expectKilgore("/orders?id=1")
}

// testWithoutSession: browsers are sent to the provider for pages alone, and come back to where they were.
func (s *loginSite) testWithoutSession() {
	s.t.Helper()
	for _, one := range []struct {
		method string
		header http.Header
	}{
		{http.MethodPost, aPage},
		{http.MethodOptions, aPage},
		{http.MethodGet, http.Header{"Accept": {"application/json"}}},
		{http.MethodGet, http.Header{"Accept": {"*/*"}}},
		{http.MethodGet, http.Header{"Accept": {"text/html"}, "X-Requested-With": {"XMLHttpRequest"}}},
		{http.MethodGet, http.Header{"Accept": {"text/html"}, "Sec-Fetch-Mode": {"cors"}}},
		{http.MethodGet, http.Header{"Accept": {"text/html"}, "Sec-Fetch-Mode": {"websocket"}}},
	} {
		got := s.send(s.newBrowser(), one.method, page, one.header)
		if got.StatusCode != http.StatusUnauthorized || got.Header.Get("Location") != "" || len(got.Cookies()) > 0 || len(s.app) > 0 {
			s.t.Errorf("%s with %v: got %d with %v, and the backend %d requests", one.method, one.header, got.StatusCode, got.Header, len(s.app))
		}
	}
	browser := s.newBrowser()
	to := s.expectProvider(browser, page, aPage)
	query := to.Query()
	if query.Get("code_challenge_method") != "S256" || query.Get("code_challenge") == "" || query.Get("nonce") == "" || query.Get("state") == "" ||
		query.Get("redirect_uri") != site443+"/oauth2/callback" || query.Get("scope") != "openid email groups profile offline_access" {
		s.t.Errorf("the browser is sent to %s", to)
	}
	for _, target := range []string{"/a%20b?c=%2F&d", "//evil.example.com/", "/?next=https://evil.example.com"} {
		if got := s.get(s.newBrowser(), site443+target, aPage); got.status != http.StatusOK || got.url != site443+target {
			s.t.Errorf("%s: got %+v", target, got)
		}
		s.expectKilgore(target)
	}
	for range 40 {
		s.expectProvider(browser, page, aPage)
	}
	if n := len(s.cookies(browser)); n > 32 {
		s.t.Errorf("a browser has cookies of %d logins", n)
	}
	s.send(browser, http.MethodGet, site443+"/open", http.Header{})
	<-s.app
}

// testForgedSessions: only what gateway-login sealed for this filter is a session.
func (s *loginSite) testForgedSessions(browser *http.Client) {
	s.t.Helper()
	sealed, tokens := s.cookies(browser)[login.SessionCookie], s.cookies(browser)[login.TokensCookie]
	parts := strings.Split(sealed, ".")
	text := login.Session{End: time.Now().Add(time.Hour), Renew: time.Now().Add(time.Hour), Claims: `[{"groups":["admins"]},"end"]`}.Text()
	foreign, _ := login.ParseKeys([]byte(strings.ReplaceAll(sessionKey, "0", "1")))
	other := s.settings
	other.ClientID = "other"
	expired := login.Session{End: time.Now().Add(-time.Second), Renew: time.Now().Add(-time.Second), Claims: `[{"groups":["admins"]},"end"]`}.Text()
	flipped := []byte(sealed)
	flipped[len(flipped)-9] ^= 1
	for name, forged := range map[string]string{
		"text": text, "nothing": "", "another key": foreign.Seal(login.ForHAProxy, s.settings.SessionBinding(), []byte(text)),
		"the key of tokens": s.keys.Seal(login.ForLogin, s.settings.SessionBinding(), []byte(text)), "the tokens": tokens,
		"another filter": s.keys.Seal(login.ForHAProxy, other.SessionBinding(), []byte(text)), "no binding": s.keys.Seal(login.ForHAProxy, "", []byte(text)),
		"expired": s.keys.Seal(login.ForHAProxy, s.settings.SessionBinding(), []byte(expired)), "flipped": string(flipped),
		"no tag":    parts[0] + "." + parts[1] + ".." + parts[3],
		"short tag": parts[0] + "." + parts[1] + "." + parts[2][:4] + "." + parts[3],
		"no text":   parts[0] + "." + parts[1] + "." + parts[2] + ".",
		"cut":       sealed[:len(sealed)-4], "more": sealed + "AAAA", "lower": strings.ToLower(sealed), "another ID": "AAAAAAAA" + sealed[8:],
		"empty session": s.keys.Seal(login.ForHAProxy, s.settings.SessionBinding(), nil),
		"no end":        s.keys.Seal(login.ForHAProxy, s.settings.SessionBinding(), []byte("never|never||[{},\"end\"]")),
	} {
		header := aPage.Clone()
		header.Set("Cookie", login.SessionCookie+"="+forged)
		if got := s.send(s.newBrowser(), http.MethodGet, page, header); got.StatusCode != http.StatusFound || len(s.app) > 0 {
			s.t.Fatalf("%s: got %d, and the backend %d requests", name, got.StatusCode, len(s.app))
		}
	}
	header := aPage.Clone()
	header.Set("Cookie", login.SessionCookie+"="+sealed+"; "+login.SessionCookie+"="+sealed)
	s.expectProvider(s.newBrowser(), page, header)
	header["Cookie"] = []string{login.SessionCookie + "=" + sealed, "a=b"}
	if got := s.send(s.newBrowser(), http.MethodGet, page, header); got.StatusCode != http.StatusBadRequest || len(s.app) > 0 {
		s.t.Errorf("two headers with cookies: got %d", got.StatusCode)
	}
}

// testOtherRules: claims are checked by rule, another client's session is none, and a token goes to whom it should.
func (s *loginSite) testOtherRules(browser *http.Client) {
	s.t.Helper()
	s.expect(http.StatusForbidden, browser, site443+"/admin")
	if to := s.expectProvider(s.copyOf(browser), site443+"/other", aPage); to.Query().Get("client_id") != "other" {
		s.t.Errorf("sent to %s", to)
	}
	s.expect(http.StatusOK, s.loggedIn(), site443+"/token")
	got := s.expectKilgore("/token")
	if strings.Count(got.Header.Get("Authorization"), ".") != 2 || !strings.HasPrefix(got.Header.Get("Authorization"), "Bearer eyJ") {
		s.t.Errorf("the backend got %q", got.Header["Authorization"])
	}
	header := aPage.Clone()
	header.Set("Authorization", "Basic abc")
	s.send(browser, http.MethodGet, page, header)
	if got := s.expectKilgore("/orders?id=1"); got.Header.Get("Authorization") != "Basic abc" {
		s.t.Errorf("the backend got %q", got.Header["Authorization"])
	}
}

// testCallbacks: only the browser that began a login can end it, once.
func (s *loginSite) testCallbacks() {
	s.t.Helper()
	const callback = site443 + "/oauth2/callback"
	browser := s.newBrowser()
	back := s.code(browser, page)
	if got := s.expect(http.StatusBadRequest, s.newBrowser(), back); len(got.Cookies()) > 0 {
		s.t.Errorf("another browser got %v", got.Cookies())
	}
	mixed := s.newBrowser()
	s.code(mixed, page)
	s.expect(http.StatusBadRequest, mixed, back) // it began another login
	for _, query := range []string{"", "?state=", "?state=abc", "?code=abc", "?error=access_denied"} {
		s.expect(http.StatusBadRequest, browser, callback+query)
	}
	parsed := must.Get(url.Parse(back))(s.t)
	query := parsed.Query()
	state := query.Get("state")
	s.expect(http.StatusBadRequest, s.copyOf(browser), callback+"?code="+query.Get("code")+"&state="+state+"x")
	s.expect(http.StatusBadRequest, s.copyOf(browser), callback+"?code="+query.Get("code")+"&state="+state+"&iss=https://evil.example.com")
	s.expect(http.StatusForbidden, s.copyOf(browser), callback+"?code=forged&state="+state)
	s.expect(http.StatusForbidden, s.copyOf(browser), callback+"?error=access_denied&state="+state)

	before := s.copyOf(browser)
	got := s.expect(http.StatusFound, browser, back)
	if got.Header.Get("Location") != page || got.Header.Get("Cache-Control") != "no-store" {
		s.t.Errorf("after the login: got %v", got.Header)
	}
	for _, cookie := range got.Cookies() {
		if cookie.Domain != "" || cookie.Path != "/" || !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode {
			s.t.Errorf("got the cookie %v", cookie)
		}
	}
	if to := s.expect(http.StatusFound, browser, back).Header.Get("Location"); to != page { // once more
		s.t.Errorf("with a session, the browser is sent to %s", to)
	}
	s.expect(http.StatusForbidden, before, back) // with the cookie of the login: the provider takes a code once
	s.expect(http.StatusOK, browser, page)
	s.expectKilgore("/orders?id=1")
}

// testTabs: each tab ends at its page, in any order, and no browser has more cookies than a request may have.
func (s *loginSite) testTabs() {
	s.t.Helper()
	browser := s.newBrowser()
	var pages, backs []string
	for i := range 20 {
		pages = append(pages, fmt.Sprintf("%s/board-%d?q=%s", site443, i, strings.Repeat("a", 1400)))
		backs = append(backs, s.code(browser, pages[i]))
	}
	for i := len(pages) - 1; i >= 0; i-- {
		if to := s.expect(http.StatusFound, browser, backs[i]).Header.Get("Location"); to != pages[i] {
			s.t.Errorf("tab %d ends at %s", i, to)
		}
	}
	s.expect(http.StatusOK, browser, page)
	s.expectKilgore("/orders?id=1")
}

// code logs in at the provider to see a page, and returns where it sends the browser back to.
func (s *loginSite) code(browser *http.Client, page string) string {
	s.t.Helper()
	at, to := *browser, s.expectProvider(browser, page, aPage).String()
	at.CheckRedirect = func(request *http.Request, _ []*http.Request) error {
		if to = request.URL.String(); strings.HasPrefix(to, site443) {
			return http.ErrUseLastResponse
		}
		return nil
	}
	s.get(&at, to, aPage)
	if !strings.HasPrefix(to, site443+"/oauth2/callback?") {
		s.t.Fatalf("the provider sends the browser to %s", to)
	}
	return to
}

// testRenewal: a session is renewed before it ends, and after, also for scripts.
func (s *loginSite) testRenewal() {
	s.t.Helper()
	browser := s.loggedIn()
	for name, times := range map[string][2]time.Duration{"before its end": {-time.Second, time.Minute}, "after its end": {-time.Hour, -time.Minute}} {
		s.age(browser, times[0], times[1])
		before := s.cookies(browser)
		got := s.send(browser, http.MethodPost, page, http.Header{"Accept": {"application/json"}})
		if got.StatusCode != http.StatusOK || len(got.Cookies()) != 2 || s.cookies(browser)[login.SessionCookie] == before[login.SessionCookie] {
			s.t.Errorf("%s: got %d with %v", name, got.StatusCode, got.Cookies())
		}
		s.expectKilgore("/orders?id=1")
		if got := s.expect(http.StatusOK, browser, page); len(got.Cookies()) > 0 {
			s.t.Errorf("%s: got %v once more", name, got.Cookies())
		}
		s.expectKilgore("/orders?id=1")
	}
}

// testSilentRenewal: where the provider issues no ID token with new tokens, the claims of the session go on. Those of a
// session that has ended do not go on by the tokens of another one.
func (s *loginSite) testSilentRenewal() {
	s.t.Helper()
	browser := s.loggedIn()
	s.idp.isSilent.Store(true)
	defer s.idp.isSilent.Store(false)
	for range 2 {
		s.age(browser, -time.Hour, -time.Minute)
		s.expect(http.StatusOK, browser, page)
		s.expectKilgore("/orders?id=1")
	}
	ended := login.Session{End: time.Now().Add(-time.Minute), Renew: time.Now().Add(-time.Hour), Claims: `[{"groups":["admins"],"sub":"root"},"end"]`}
	s.put(browser, login.SessionCookie, s.keys.Seal(login.ForHAProxy, s.settings.SessionBinding(), []byte(ended.Text())))
	s.expectProvider(browser, page, aPage)
}

// testTwoTabs: tabs that renew a session at once all go on, though the provider takes a refresh token once.
func (s *loginSite) testTwoTabs() {
	s.t.Helper()
	browser := s.loggedIn()
	s.age(browser, -time.Hour, -time.Minute)
	before := s.idp.exchanges.Load()
	var wait sync.WaitGroup
	failed := make(chan string, 20)
	tabs := make([]*http.Client, 8)
	for i := range tabs {
		tabs[i] = s.copyOf(browser)
		wait.Go(func() {
			if got := s.send(tabs[i], http.MethodGet, page, http.Header{"Accept": {"application/json"}}); got.StatusCode != http.StatusOK || len(got.Cookies()) != 2 {
				failed <- fmt.Sprint(got.StatusCode, got.Cookies())
			}
		})
	}
	wait.Wait()
	close(failed)
	for text := range failed {
		s.t.Errorf("a tab got %s", text)
	}
	if n := s.idp.exchanges.Load() - before; n != 1 {
		s.t.Errorf("the provider was asked %d times", n)
	}
	for range tabs {
		<-s.app
	}
	// A tab of the session before that comes to a pod that does not know of it has a refresh token that is not valid any
	// more. It goes on until its end.
	late := s.loggedIn()
	s.loggedIn()
	s.age(late, -time.Second, time.Minute)
	if got := s.expect(http.StatusOK, late, page); len(got.Cookies()) > 0 {
		s.t.Errorf("a session that cannot be renewed got %v", got.Cookies())
	}
	s.expectKilgore("/orders?id=1")
	s.age(late, -time.Hour, -time.Second)
	s.expectProvider(late, page, aPage)
}

// testKeys: the first key seals, all open, and a key that is gone opens nothing. No pod is asked.
func (s *loginSite) testKeys() {
	s.t.Helper()
	browser := s.loggedIn()
	next := strings.ReplaceAll(sessionKey, "0", "f")
	for _, step := range []struct {
		keys  string
		valid bool
	}{{next + sessionKey, true}, {next, false}, {sessionKey, true}} {
		s.putKeys(step.keys)
		s.eventuallyHas(step.keys)
		if step.valid {
			s.expect(http.StatusOK, browser, page)
			s.expectKilgore("/orders?id=1")
		} else {
			s.expectProvider(s.copyOf(browser), page, aPage)
		}
	}
}

// testLogout: the browser loses the session, and comes back from the provider to a page of the site. No other site can
// log it out.
func (s *loginSite) testLogout() {
	s.t.Helper()
	browser := s.loggedIn()
	for name, value := range map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "https://evil.example.com", "Referer": "https://evil.example.com/"} {
		header := aPage.Clone()
		header.Set(name, value)
		if got := s.send(browser, http.MethodGet, site443+"/oauth2/logout", header); got.StatusCode != http.StatusForbidden || len(got.Cookies()) > 0 {
			s.t.Errorf("a logout by another site (%s): got %d with %v", name, got.StatusCode, got.Cookies())
		}
	}
	got := s.expect(http.StatusFound, browser, site443+"/oauth2/logout")
	if to := got.Header.Get("Location"); to != site443+"/open" {
		s.t.Errorf("after the logout: sent to %s", to)
	}
	if left := s.cookies(browser); len(left) > 0 {
		s.t.Errorf("after the logout: the browser has %v", left)
	}
	s.expectProvider(browser, page, aPage)
}

// testProviderDown: sessions go on until they end, and nobody else gets through.
func (s *loginSite) testProviderDown() {
	s.t.Helper()
	browser := s.loggedIn()
	s.idp.isDown.Store(true)
	defer s.idp.isDown.Store(false)
	s.expect(http.StatusOK, browser, page)
	s.expectKilgore("/orders?id=1")
	s.age(browser, -time.Second, time.Minute)
	s.expect(http.StatusOK, browser, page)
	s.expectKilgore("/orders?id=1")
	ended := s.copyOf(browser)
	s.age(ended, -time.Hour, -time.Minute)
	s.expect(http.StatusServiceUnavailable, ended, page)
	if len(s.app) > 0 {
		s.t.Error("the backend got a request")
	}
}

// testProgramDown: without gateway-login, sessions go on, and all others get 503.
func (s *loginSite) testProgramDown() {
	s.t.Helper()
	browser := s.loggedIn()
	s.age(browser, time.Hour, time.Hour)
	s.program.Kill()
	s.expect(http.StatusOK, browser, page)
	s.expectKilgore("/orders?id=1")
	s.expect(http.StatusServiceUnavailable, s.newBrowser(), page)
	s.age(browser, -time.Second, time.Minute)
	s.expect(http.StatusOK, browser, page)
	s.expectKilgore("/orders?id=1")
	s.age(browser, -time.Hour, -time.Second)
	s.expect(http.StatusServiceUnavailable, browser, page)
	if len(s.app) > 0 {
		s.t.Error("the backend got a request")
	}
}
