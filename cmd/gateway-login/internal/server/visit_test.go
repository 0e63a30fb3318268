package server

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gateway/internal/login"
	"gateway/internal/must"
)

// TestVisits: only browsers that ask for a page are sent to the provider, and nobody is over plain HTTP.
func TestVisits(t *testing.T) {
	inWorld(t, func(w *world) {
		for name, one := range map[string]struct {
			status  int
			changes []string
		}{
			"a page":          {http.StatusFound, nil},
			"HEAD":            {http.StatusFound, []string{"X-Forwarded-Method", "HEAD"}},
			"an old browser":  {http.StatusFound, []string{"Sec-Fetch-Mode", "", "Sec-Fetch-Site", ""}},
			"from elsewhere":  {http.StatusFound, []string{"Sec-Fetch-Site", "cross-site"}},
			"POST":            {http.StatusUnauthorized, []string{"X-Forwarded-Method", "POST"}},
			"OPTIONS":         {http.StatusUnauthorized, []string{"X-Forwarded-Method", "OPTIONS"}},
			"a script":        {http.StatusUnauthorized, []string{"Accept", "application/json"}},
			"no Accept":       {http.StatusUnauthorized, []string{"Accept", ""}},
			"an old script":   {http.StatusUnauthorized, []string{"X-Requested-With", "XMLHttpRequest"}},
			"fetch":           {http.StatusUnauthorized, []string{"Sec-Fetch-Mode", "cors"}},
			"plain HTTP":      {http.StatusForbidden, []string{"X-Forwarded-Proto", "http"}},
			"no scheme":       {http.StatusForbidden, []string{"X-Forwarded-Proto", ""}},
			"plain, a script": {http.StatusForbidden, []string{"X-Forwarded-Proto", "http", "Accept", "application/json"}},
		} {
			got := w.newBrowser().expect(one.status, page, one.changes...)
			if (len(got.cookies) > 0) != (one.status == http.StatusFound) || one.status != http.StatusFound && got.text == "" {
				t.Errorf("%s: got %d with %v: %s", name, got.status, got.cookies, got.text)
			}
		}
		for _, uri := range []string{"", "orders", "https//x", "\x00"} {
			w.newBrowser().expect(http.StatusServiceUnavailable, uri)
		}
		for _, host := range []string{"", "a b", "evil.example.com/x", "shop@evil.example.com", "a:b", "[::1", "a\\b"} {
			(&browser{w, host, map[string]string{}}).expect(http.StatusServiceUnavailable, page)
		}
		for host, want := range map[string]string{"shop.example.com:443": "https://shop.example.com", "shop.example.com:8443": "https://shop.example.com:8443", "[2001:db8::1]": "https://[2001:db8::1]"} {
			got := (&browser{w, host, map[string]string{}}).expectLogin(page)
			if to := with(t, got.location); !strings.Contains(to, "redirect_uri="+strings.NewReplacer(":", "%3A", "/", "%2F", "[", "%5B", "]", "%5D").Replace(want+"/oauth2/callback")+"&") {
				t.Errorf("%s: sent to %s", host, to)
			}
		}
	})
}

// TestCookies: no script, no other site and no plain request gets cookies, and another host has none.
func TestCookies(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.newBrowser()
		got := b.expectLogin(page)
		login, session := slices.Collect(maps.Values(got.cookies)), b.expect(http.StatusFound, b.begin(page))
		for _, cookie := range append(login, slices.Collect(maps.Values(session.cookies))...) {
			if !strings.HasPrefix(cookie.Name, "__Host-gateway-") || !cookie.Secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" {
				t.Errorf("got the cookie %v", cookie)
			}
		}
	})
}

// TestSecrets: without what the Secret has to have, nobody gets in, and nobody is asked. Sessions go on.
func TestSecrets(t *testing.T) {
	inWorld(t, func(w *world) {
		b, begun := w.newBrowser(), w.newBrowser()
		b.logIn()
		time.Sleep(59 * time.Minute)
		callback := begun.begin(page)
		synctest.Wait()
		metadata, tokens := w.idp.count(metadataPath), w.idp.count(tokenPath)
		for _, one := range []struct {
			file, wrong string
			session     int
		}{
			{"session-keys", "", http.StatusServiceUnavailable}, {"session-keys", "# none\n", http.StatusServiceUnavailable},
			{"client-secret", "", http.StatusOK},
			{"issuer", "", http.StatusOK}, {"issuer", "https://other.example.com", http.StatusOK}, {"issuer", issuer + "/", http.StatusOK},
		} {
			path := filepath.Join(w.Secrets, "login", one.file)
			before := must.Get(os.ReadFile(path))(t)
			must.Do(t, os.Remove(path))
			if one.wrong != "" {
				must.Do(t, os.WriteFile(path, []byte(one.wrong), 0o600))
			}
			w.newBrowser().expect(http.StatusServiceUnavailable, page)
			begun.copied().expect(http.StatusServiceUnavailable, callback)
			b.copied().expect(one.session, page)
			must.Do(t, os.WriteFile(path, before, 0o600))
			time.Sleep(failedTime)
		}
		if w.idp.count(metadataPath) != metadata || w.idp.count(tokenPath) != tokens {
			t.Error("the provider was asked")
		}
		begun.expect(http.StatusFound, callback)
		b.expect(http.StatusOK, page)
		asked := w.idp.count(metadataPath)
		must.Do(t, os.Remove(filepath.Join(w.Authorities, "cas", "ca.crt")))
		w.newBrowser().expect(http.StatusServiceUnavailable, page)
		if w.idp.count(metadataPath) != asked {
			t.Error("the provider was asked without CA certificates")
		}
	})
}

// TestForgedSessions: only what was sealed for this filter is a session, as long as it lasts, and alone.
func TestForgedSessions(t *testing.T) {
	inWorld(t, func(w *world) {
		live := login.Session{End: time.Now().Add(time.Hour), Renew: time.Now().Add(time.Hour), Claims: `[{"sub":"root"},"end"]`}
		ended := live
		ended.End = time.Now()
		other, token, foreign := w.settings, w.settings, strings.ReplaceAll(key, "0", "1")
		other.ClientID, token.Token = "other", "ID"
		foreignKeys, _ := login.ParseKeys([]byte(foreign))
		seal := func(keys login.Keys, purpose login.Purpose, settings login.Settings, session login.Session) string {
			return keys.Seal(purpose, settings.SessionBinding(), []byte(session.Text()))
		}
		for name, one := range map[string]struct {
			status int
			sealed string
		}{
			"the session":    {http.StatusOK, seal(w.keys, login.ForHAProxy, w.settings, live)},
			"ended":          {http.StatusFound, seal(w.keys, login.ForHAProxy, w.settings, ended)},
			"another client": {http.StatusFound, seal(w.keys, login.ForHAProxy, other, live)},
			"another token":  {http.StatusFound, seal(w.keys, login.ForHAProxy, token, live)},
			"another key":    {http.StatusFound, seal(foreignKeys, login.ForHAProxy, w.settings, live)},
			"another use":    {http.StatusFound, seal(w.keys, login.ForLogin, w.settings, live)},
			"no times":       {http.StatusFound, w.keys.Seal(login.ForHAProxy, w.settings.SessionBinding(), []byte("a|b||[]"))},
			"a text":         {http.StatusFound, live.Text()},
		} {
			b := w.newBrowser()
			b.cookies[login.SessionCookie] = one.sealed
			if got := b.get(page); got.status != one.status {
				t.Errorf("%s: got %d instead of %d", name, got.status, one.status)
			}
		}
		sealed := login.SessionCookie + "=" + seal(w.keys, login.ForHAProxy, w.settings, live)
		w.newBrowser().expect(http.StatusFound, page, "Cookie", sealed+"; "+sealed)
	})
}

// TestLogout: a browser loses its session, and comes back from the provider to a page of the site.
func TestLogout(t *testing.T) {
	inWorld(t, func(w *world) {
		const logout = "/oauth2/logout"
		for name, one := range map[string]struct {
			end  any
			want []string
		}{
			"a provider that logs out": {issuer + endPath + "?a=b", []string{issuer + endPath + "?a=b&client_id=shop&id_token_hint=ey", "&post_logout_redirect_uri=https%3A%2F%2Fshop.example.com%2Fgoodbye"}},
			"another one":              {nil, []string{"https://shop.example.com/goodbye"}},
			"one in the clear":         {"http://id.example.com/end", []string{"https://shop.example.com/goodbye"}},
			"a script":                 {"javascript:alert(1)", []string{"https://shop.example.com/goodbye"}},
		} {
			w.idp.change(func() { w.idp.metadata["end_session_endpoint"] = one.end })
			time.Sleep(time.Hour) // until the metadata are old
			w.newBrowser().expectLogin(page)
			synctest.Wait()
			b := w.newBrowser()
			b.logIn()
			got := b.expect(http.StatusFound, logout)
			for _, part := range one.want {
				if !strings.Contains(got.location, part) {
					t.Errorf("%s: sent to %s, want %s", name, got.location, part)
				}
			}
			if len(b.cookies) > 0 || !strings.HasPrefix(got.location, one.want[0]) {
				t.Errorf("%s: sent to %s, with %v left", name, got.location, b.cookies)
			}
			b.expectLogin(page)
		}
		b := w.newBrowser()
		b.logIn()
		b.expect(http.StatusForbidden, logout, "X-Forwarded-Proto", "http")
		b.expect(http.StatusOK, page)
		w.idp.change(func() { w.idp.isDown[metadataPath] = true })
		time.Sleep(time.Hour)
		b.expect(http.StatusFound, logout)
		if len(b.cookies) > 0 {
			t.Errorf("while the provider is down: the browser has %v", b.cookies)
		}
	})
}

// TestLogoutBySites: only a page of the site, or the user, logs a browser out.
func TestLogoutBySites(t *testing.T) {
	const here, evil = "https://" + host, "https://evil.example.com"
	inWorld(t, func(w *world) {
		b := w.newBrowser()
		b.logIn()
		for name, one := range map[string]struct {
			status  int
			changes []string
		}{
			"the user":                 {http.StatusFound, nil},
			"a page":                   {http.StatusFound, []string{"Sec-Fetch-Site", "same-origin", "Referer", here + "/a"}},
			"a form":                   {http.StatusFound, []string{"Sec-Fetch-Site", "same-origin", "Origin", here, "X-Forwarded-Method", "POST"}},
			"an old browser":           {http.StatusFound, []string{"Sec-Fetch-Site", "", "Referer", "https://SHOP.example.com:443/a"}},
			"a script":                 {http.StatusFound, []string{"Sec-Fetch-Site", ""}},
			"another site":             {http.StatusForbidden, []string{"Sec-Fetch-Site", "cross-site"}},
			"a sibling":                {http.StatusForbidden, []string{"Sec-Fetch-Site", "same-site"}},
			"a form of another site":   {http.StatusForbidden, []string{"Sec-Fetch-Site", "", "Origin", evil, "X-Forwarded-Method", "POST"}},
			"a form of nobody":         {http.StatusForbidden, []string{"Sec-Fetch-Site", "", "Origin", "null"}},
			"a link of another site":   {http.StatusForbidden, []string{"Sec-Fetch-Site", "", "Referer", evil + "/" + here}},
			"a name that begins alike": {http.StatusForbidden, []string{"Sec-Fetch-Site", "", "Referer", here + ".evil.example.com/"}},
			"a user of that name":      {http.StatusForbidden, []string{"Sec-Fetch-Site", "", "Referer", here + "@evil.example.com/"}},
			"another port":             {http.StatusForbidden, []string{"Sec-Fetch-Site", "", "Referer", here + ":8443/"}},
			"plain HTTP":               {http.StatusForbidden, []string{"Sec-Fetch-Site", "", "Referer", "http://" + host + "/"}},
			"no URL":                   {http.StatusForbidden, []string{"Sec-Fetch-Site", "", "Referer", "%"}},
		} {
			other := b.copied()
			got := other.expect(one.status, "/oauth2/logout", one.changes...)
			if isOut := len(other.cookies) == 0; isOut != (one.status == http.StatusFound) {
				t.Errorf("%s: got %d, and the browser has %v", name, got.status, other.cookies)
			}
		}
	})
}
