package server

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"gateway/internal/login"
)

// TestSessionEnds: a session ends with its token, and is renewed before.
func TestSessionEnds(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of the test's clock
	for name, one := range map[string]struct {
		token      string
		change     func(p *idp)
		end, renew time.Duration
		has        string
	}{
		"as it is":                      {"", func(*idp) {}, time.Hour, 55 * time.Minute, ""},
		"a short one":                   {"", func(p *idp) { p.claims["exp"] = start.Add(8 * time.Minute).Unix() }, 8 * time.Minute, 6 * time.Minute, ""},
		"without a refresh token":       {"", func(p *idp) { p.tokens["refresh_token"] = nil }, time.Hour, time.Hour, ""},
		"the ID token":                  {"ID", func(*idp) {}, time.Hour, 55 * time.Minute, "ey"},
		"the access token":              {"Access", func(*idp) {}, time.Hour, 55 * time.Minute, accessToken},
		"a short access token":          {"Access", func(p *idp) { p.tokens["expires_in"] = 600 }, 10 * time.Minute, 7*time.Minute + 30*time.Second, accessToken},
		"a long access token":           {"Access", func(p *idp) { p.tokens["expires_in"] = 7200 }, time.Hour, 55 * time.Minute, accessToken},
		"an access token without end":   {"Access", func(p *idp) { p.tokens["expires_in"] = nil }, time.Hour, 55 * time.Minute, accessToken},
		"a short access token, unused":  {"", func(p *idp) { p.tokens["expires_in"] = 600 }, time.Hour, 55 * time.Minute, ""},
		"a token that no header can be": {"Access", func(p *idp) { p.tokens["access_token"] = "a\r\nb" }, 0, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.settings.Token = one.token
				one.change(w.idp)
				b := w.newBrowser()
				callback := b.begin(page)
				if one.end == 0 {
					b.expectNone(name, http.StatusServiceUnavailable, callback)
					return
				}
				b.expect(http.StatusFound, callback)
				got := b.session()
				if !got.End.Equal(start.Add(one.end)) || !got.Renew.Equal(start.Add(one.renew)) || !strings.HasPrefix(got.Token, one.has) || (got.Token == "") != (one.has == "") {
					t.Errorf("got %+v", got)
				}
			})
		})
	}
}

// TestRenewal: a session is renewed before it ends, and after, also for scripts, by the same user alone.
func TestRenewal(t *testing.T) {
	somebody := func(p *idp) { p.claims["sub"] = "mallory" }
	silent := func(p *idp) { p.tokens["id_token"] = nil }
	for name, one := range map[string]struct {
		change func(p *idp)
		// early and late are what a script gets before and after the session ends, and isNew reports whether with a new one.
		early, late int
		isNew       bool
	}{
		"as it is":                {func(*idp) {}, http.StatusOK, http.StatusOK, true},
		"no ID token":             {silent, http.StatusOK, http.StatusOK, true},
		"another user":            {somebody, http.StatusOK, http.StatusUnauthorized, false},
		"no such token":           {func(p *idp) { clear(p.users) }, http.StatusOK, http.StatusUnauthorized, false},
		"another issuer":          {func(p *idp) { p.claims["iss"] = "https://evil.example.com" }, http.StatusOK, http.StatusServiceUnavailable, false},
		"another party":           {func(p *idp) { p.claims["azp"] = "other" }, http.StatusOK, http.StatusServiceUnavailable, false},
		"a provider that fails":   {func(p *idp) { p.status, p.text = http.StatusInternalServerError, "{}" }, http.StatusOK, http.StatusServiceUnavailable, false},
		"a provider that is down": {func(p *idp) { p.isDown[tokenPath] = true }, http.StatusOK, http.StatusServiceUnavailable, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				for _, end := range []struct {
					after time.Duration
					want  int
				}{{56 * time.Minute, one.early}, {61 * time.Minute, one.late}} {
					b := w.newBrowser()
					b.logIn()
					before := b.session()
					time.Sleep(end.after)
					w.idp.change(func() { one.change(w.idp) })
					got := b.expect(end.want, page, "Accept", "application/json", "X-Forwarded-Method", "POST")
					if (len(got.cookies) == 2) != one.isNew || (b.session().End.Sub(before.End) == end.after) != one.isNew {
						t.Errorf("after %s: got %v, and the session %v", end.after, got.cookies, b.session())
					}
					w.idp.change(func() {
						w.idp.status, w.idp.isDown = 0, map[string]bool{}
						clear(w.idp.claims)
						clear(w.idp.tokens)
					})
				}
			})
		})
	}
}

// TestSilentRenewal: where the provider issues no ID token, the claims of the session go on to which the tokens belong,
// and of no other.
func TestSilentRenewal(t *testing.T) {
	inWorld(t, func(w *world) {
		w.settings.Token = "ID"
		b, other := w.newBrowser(), w.newBrowser()
		b.logIn()
		before := b.session()
		w.idp.change(func() { w.idp.claims["email"] = "root@example.com" })
		other.logIn()
		w.idp.change(func() { w.idp.tokens["id_token"] = nil })
		time.Sleep(59 * time.Minute)
		b.expect(http.StatusOK, page)
		if got := b.session(); got.Claims != before.Claims || got.Token != before.Token || !got.End.Equal(before.End.Add(59*time.Minute)) {
			t.Errorf("got %+v", got)
		}
		w.idp.change(func() { w.idp.tokens["expires_in"] = nil })
		time.Sleep(59 * time.Minute)
		b.expect(http.StatusOK, page)
		if got := time.Until(b.session().End); got != defaultLife {
			t.Errorf("a session of which nobody says when it ends has %s", got)
		}
		w.idp.change(func() {
			clear(w.idp.tokens)
			clear(w.idp.claims)
		})
		time.Sleep(2 * time.Hour)
		b.expect(http.StatusOK, page)
		w.idp.change(func() { w.idp.tokens["id_token"] = nil })
		time.Sleep(2 * time.Hour)
		b.cookies[login.SessionCookie] = other.cookies[login.SessionCookie]
		b.expectLogin(page)
		delete(other.cookies, login.SessionCookie)
		other.expectLogin(page)
	})
}

// TestForeignTokens: tokens open for the filter alone that they were sealed for, and do not stand for a login.
func TestForeignTokens(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.newBrowser()
		b.logIn()
		time.Sleep(2 * time.Hour)
		for _, change := range []func(s *login.Settings){
			func(s *login.Settings) { s.ClientID = "other" },
			func(s *login.Settings) { s.Issuer = "https://other.example.com" },
		} {
			before := w.settings
			change(&w.settings)
			if got := b.copied().get(page, "Accept", "application/json"); got.status != http.StatusUnauthorized {
				t.Errorf("a session of another filter is renewed: got %d", got.status)
			}
			w.settings = before
		}
		w.put("session-keys", strings.ReplaceAll(key, "0", "1"))
		b.copied().expectLogin(page)
		w.put("session-keys", strings.ReplaceAll(key, "0", "1")+key)
		b.expect(http.StatusOK, page)
	})
}

// TestTabs: tabs that renew a session at once all go on, though the provider takes a refresh token once.
func TestTabs(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.newBrowser()
		b.logIn()
		time.Sleep(2 * time.Hour)
		issued := w.idp.issued
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() { b.copied().expect(http.StatusOK, page, "Accept", "application/json") })
		}
		wait.Wait()
		late, stranger := b.copied(), b.copied()
		late.expect(http.StatusOK, page)
		stranger.host = "other.example.com"
		stranger.expect(http.StatusFound, page)
		if w.idp.issued != issued+1 {
			t.Errorf("the provider issued tokens %d times", w.idp.issued-issued)
		}
		w.settings.Token = "ID"
		b.copied().expect(http.StatusFound, page)
		w.settings.Token = ""
		time.Sleep(renewedTime)
		b.copied().expectLogin(page)
	})
}

// TestManyUsers: users who renew their sessions at once do not get each other's.
func TestManyUsers(t *testing.T) {
	inWorld(t, func(w *world) {
		alice, bob := w.newBrowser(), w.newBrowser()
		alice.logIn()
		w.idp.change(func() { w.idp.claims["sub"], w.idp.claims["email"] = "bob", "bob@example.com" })
		bob.logIn()
		w.idp.change(func() { clear(w.idp.claims) })
		time.Sleep(2 * time.Hour)
		alice.expect(http.StatusOK, page)
		w.idp.change(func() { w.idp.claims["sub"], w.idp.claims["email"] = "bob", "bob@example.com" })
		if got := bob.expect(http.StatusOK, page); !strings.Contains(got.session, "bob@") || !strings.Contains(alice.session().Claims, "alice@") {
			t.Errorf("Bob has the session %s, and Alice %s", got.session, alice.session().Claims)
		}
	})
}

// TestFailures: a provider that fails is not asked for each request. Who has nothing to renew a session with does not
// ask at all.
func TestFailures(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.newBrowser()
		b.logIn()
		time.Sleep(2 * time.Hour)
		w.idp.change(func() { w.idp.isDown[tokenPath] = true })
		asked := w.idp.count(tokenPath)
		for range 3 {
			b.expect(http.StatusServiceUnavailable, page)
		}
		w.idp.change(func() { clear(w.idp.isDown) })
		b.expect(http.StatusServiceUnavailable, page)
		if n := w.idp.count(tokenPath) - asked; n != 1 {
			t.Errorf("the provider was asked %d times", n)
		}
		time.Sleep(failedTime)
		b.expect(http.StatusOK, page)

		w.idp.change(func() { w.idp.tokens["refresh_token"] = nil })
		b = w.newBrowser()
		b.logIn()
		time.Sleep(2 * time.Hour)
		asked = w.idp.count(tokenPath)
		b.expectLogin(page)
		if w.idp.count(tokenPath) != asked {
			t.Error("the provider was asked without a token")
		}
	})
}

// TestLargeTokens: without room for them, a session loses the ID token first, then its renewals, and then is none.
func TestLargeTokens(t *testing.T) {
	inWorld(t, func(w *world) {
		w.idp.tokens["refresh_token"] = strings.Repeat("r", 2000)
		w.idp.claims["padding"] = strings.Repeat("p", 1000)
		b := w.newBrowser()
		b.logIn()
		time.Sleep(2 * time.Hour)
		b.expect(http.StatusOK, page)
		if got := b.expect(http.StatusFound, "/oauth2/logout"); strings.Contains(got.location, "id_token_hint") {
			t.Errorf("sent to %s", got.location)
		}
		w.idp.tokens["refresh_token"] = strings.Repeat("r", 4000)
		b.logIn()
		if b.cookies[login.TokensCookie] != "" {
			t.Error("a browser got a cookie that it cannot keep")
		}
	})
}

// TestPanic: a renewal that panics fails, and everything else goes on.
func TestPanic(t *testing.T) {
	var all renewals
	one, _ := all.join([32]byte{}, time.Now())
	logged := capture(t, func() { all.run(one, func() (answer, error) { panic("found") }) })
	if <-one.done; one.err == nil || one.until.IsZero() || !strings.Contains(logged, "Panic: found") {
		t.Errorf("got %v, and the log has %s", one.err, logged)
	}
}
