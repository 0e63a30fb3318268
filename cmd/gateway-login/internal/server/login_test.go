package server

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gateway/internal/login"
	"gateway/internal/must"
)

// TestLogin: a browser comes back to its page, with a session of the user that the provider knows.
func TestLogin(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, target := range []string{page, "/a%20b?c=%2F&d", "//evil.example.com/", "/?next=https://evil.example.com", "/" + strings.Repeat("a", 1400)} {
			b := w.newBrowser()
			got := b.expect(http.StatusFound, b.begin(target))
			if got.location != "https://"+host+target || len(b.cookies) != 2 {
				t.Errorf("%s: sent to %s, with %v", target, got.location, b.cookies)
			}
			passed := b.expect(http.StatusOK, target)
			if !strings.Contains(passed.session, `"email":"alice@example.com"`) || len(passed.cookies) > 0 {
				t.Errorf("%s: HAProxy is told of %s, and the browser of %v", target, passed.session, passed.cookies)
			}
		}
		for _, target := range []string{"/" + strings.Repeat("a", 4000), "https://evil.example.com/"} {
			b := w.newBrowser()
			if got := b.expect(http.StatusFound, b.begin(target)); got.location != "https://"+host+"/" {
				t.Errorf("from %.100s, the browser comes back to %.100s", target, got.location)
			}
		}
		query := parameters(t, w.newBrowser().expectLogin(page).location)
		for name, want := range map[string]string{"response_type": "code", "client_id": clientID, "redirect_uri": "https://" + host + "/oauth2/callback", "scope": "openid email", "code_challenge_method": "S256"} {
			if query.Get(name) != want {
				t.Errorf("the provider gets %s=%s, want %s", name, query.Get(name), want)
			}
		}
		again := parameters(t, w.newBrowser().expectLogin(page).location)
		for _, name := range []string{"state", "nonce", "code_challenge"} {
			if len(query.Get(name)) < 20 || query.Get(name) == again.Get(name) {
				t.Errorf("%s can be guessed: %s, %s", name, query.Get(name), again.Get(name))
			}
		}
	})
}

func parameters(t *testing.T, location string) url.Values {
	t.Helper()
	to := must.Get(url.Parse(location))(t)
	return to.Query()
}

// expectNone sends a browser back in a way that must not end a login.
func (b *browser) expectNone(name string, status int, callback string) {
	b.t.Helper()
	got := b.expect(status, callback)
	if b.cookies[login.SessionCookie] != "" || got.text == "" {
		b.t.Errorf("%s: got %d (%s), with %v", name, got.status, got.text, b.cookies)
	}
}

// TestCallbacks: only the browser that began a login ends it, with what the provider gave it.
func TestCallbacks(t *testing.T) {
	inWorld(t, func(w *world) {
		b := w.newBrowser()
		callback := b.begin(page)
		w.newBrowser().expectNone("another browser", http.StatusBadRequest, callback)
		mixed := w.newBrowser()
		mixed.begin(page)
		mixed.expectNone("another browser that has begun", http.StatusBadRequest, callback)
		elsewhere := b.copied()
		elsewhere.host = "other.example.com"
		elsewhere.expectNone("another host", http.StatusBadRequest, callback)
		w.settings.ClientID = "other"
		b.copied().expectNone("another client", http.StatusBadRequest, callback)
		w.settings.ClientID = clientID
		planted := b.copied()
		for name := range planted.cookies {
			planted.cookies[name] = "planted"
		}
		planted.expectNone("another cookie of this name", http.StatusBadRequest, callback)
		state := parameters(t, callback).Get("state")
		swapped := []byte(state)
		swapped[len(swapped)-9] ^= 1
		for name, one := range map[string]struct {
			status   int
			callback string
		}{
			"no state":         {http.StatusBadRequest, with(t, callback, "state", "")},
			"a short state":    {http.StatusBadRequest, with(t, callback, "state", state[:4])},
			"a cut state":      {http.StatusBadRequest, with(t, callback, "state", state[:len(state)-1])},
			"a longer state":   {http.StatusBadRequest, with(t, callback, "state", state+"x")},
			"another state":    {http.StatusBadRequest, with(t, callback, "state", string(swapped))},
			"nothing":          {http.StatusBadRequest, "/oauth2/callback"},
			"another provider": {http.StatusBadRequest, with(t, callback, "iss", "https://evil.example.com")},
			"a made-up code":   {http.StatusForbidden, with(t, callback, "code", "forged")},
			"no code":          {http.StatusForbidden, with(t, callback, "code", "")},
			"an error":         {http.StatusForbidden, with(t, callback, "error", "access_denied")},
		} {
			b.copied().expectNone(name, one.status, one.callback)
		}
		if got := b.copied().expect(http.StatusForbidden, with(t, callback, "error", "<script>\nE1129 forged")); strings.ContainsAny(got.text, "<\n") {
			t.Errorf("an error of the provider becomes %q", got.text)
		}
		late := b.copied()
		time.Sleep(loginTime)
		late.expectNone("too late", http.StatusBadRequest, callback)

		b = w.newBrowser()
		callback = with(t, b.begin(page), "iss", issuer)
		before := b.copied()
		b.expect(http.StatusFound, callback)
		before.expectNone("once more", http.StatusForbidden, callback)
		mixed.expectNone("another browser, afterwards", http.StatusBadRequest, callback)
	})
}

// TestSwappedCode: a code is good for the login that it was issued for alone.
func TestSwappedCode(t *testing.T) {
	inWorld(t, func(w *world) {
		alice, mallory := w.newBrowser(), w.newBrowser()
		callback, stolen := mallory.begin(page), parameters(t, alice.begin(page)).Get("code")
		mallory.expectNone("a stolen code", http.StatusForbidden, with(t, callback, "code", stolen))
	})
}

// TestClient: a provider is verified by the CAs that the filter names, or by those that Mozilla trusts, and gets the
// client's secret in the way that it asks for.
func TestClient(t *testing.T) {
	for name, one := range map[string]struct {
		methods []string
		isBasic bool
	}{
		"nothing said": {nil, true},
		"both":         {[]string{"client_secret_post", "client_secret_basic"}, true},
		"parameters":   {[]string{"client_secret_post"}, false},
	} {
		inWorld(t, func(w *world) {
			if one.methods != nil {
				w.idp.metadata["token_endpoint_auth_methods_supported"] = one.methods
			}
			w.newBrowser().logIn()
			if w.idp.isBasic != one.isBasic {
				t.Errorf("%s: the provider gets the client in the header: %v", name, w.idp.isBasic)
			}
			if w.authorities != "of the provider\n" {
				t.Errorf("the provider is verified by %.50s", w.authorities)
			}
			w.settings.Authorities = nil
			w.newBrowser().logIn()
			if strings.Contains(w.authorities, "of the provider") || !strings.Contains(w.authorities, "BEGIN CERTIFICATE") {
				t.Errorf("without CAs of its own, the provider is verified by %.50s", w.authorities)
			}
		})
	}
}

func now(d time.Duration) int64 { return time.Now().Add(d).Unix() }

// TestTokens: what the provider issues is checked before there is a session.
func TestTokens(t *testing.T) {
	for name, one := range map[string]struct {
		status int
		change func(p *idp)
	}{
		"as it is":             {http.StatusFound, func(*idp) {}},
		"several audiences":    {http.StatusFound, func(p *idp) { p.claims["aud"], p.claims["azp"] = []string{"other", clientID}, clientID }},
		"another issuer":       {http.StatusServiceUnavailable, func(p *idp) { p.claims["iss"] = "https://evil.example.com" }},
		"no issuer":            {http.StatusServiceUnavailable, func(p *idp) { p.claims["iss"] = nil }},
		"another audience":     {http.StatusServiceUnavailable, func(p *idp) { p.claims["aud"] = "other" }},
		"no audience":          {http.StatusServiceUnavailable, func(p *idp) { p.claims["aud"] = nil }},
		"another party":        {http.StatusServiceUnavailable, func(p *idp) { p.claims["aud"], p.claims["azp"] = []string{clientID, "other"}, "other" }},
		"a party that is none": {http.StatusServiceUnavailable, func(p *idp) { p.claims["azp"] = 1 }},
		"expired":              {http.StatusServiceUnavailable, func(p *idp) { p.claims["exp"] = now(-time.Second) }},
		"no end":               {http.StatusServiceUnavailable, func(p *idp) { p.claims["exp"] = nil }},
		"not yet":              {http.StatusServiceUnavailable, func(p *idp) { p.claims["nbf"] = now(10 * time.Minute) }},
		"another nonce":        {http.StatusForbidden, func(p *idp) { p.claims["nonce"] = "forged" }},
		"no nonce":             {http.StatusForbidden, func(p *idp) { p.claims["nonce"] = nil }},
		"its access token":     {http.StatusFound, func(p *idp) { p.claims["at_hash"] = "oFYf1knNtrqnhAVfBRuteQ" }},
		"another access token": {http.StatusServiceUnavailable, func(p *idp) { p.claims["at_hash"] = "AAAAAAAAAAAAAAAAAAAAAA" }},
		"no ID token":          {http.StatusServiceUnavailable, func(p *idp) { p.tokens["id_token"] = nil }},
		"no user":              {http.StatusServiceUnavailable, func(p *idp) { p.claims["sub"] = nil }},
		"an empty user":        {http.StatusServiceUnavailable, func(p *idp) { p.claims["sub"] = "" }},
		"an end as text":       {http.StatusServiceUnavailable, func(p *idp) { p.claims["exp"] = "9999999999" }},
		"a beginning as text":  {http.StatusServiceUnavailable, func(p *idp) { p.claims["nbf"] = "1" }},
		"a birth as text":      {http.StatusServiceUnavailable, func(p *idp) { p.claims["iat"] = "1" }},
		"no access token":      {http.StatusServiceUnavailable, func(p *idp) { p.tokens["access_token"] = nil }},
		"a list as ID token":   {http.StatusServiceUnavailable, func(p *idp) { p.tokens["id_token"] = []int{} }},
		"no signature": {http.StatusServiceUnavailable, func(p *idp) {
			p.sign = func(claims []byte) string { return "eyJhbGciOiJub25lIn0." + encode(claims) + "." }
		}},
		"another key":            {http.StatusServiceUnavailable, func(p *idp) { p.sign = signBy(t, jose.ES256, foreignKey()) }},
		"the client's secret":    {http.StatusServiceUnavailable, func(p *idp) { p.sign = signBy(t, jose.HS256, []byte(strings.Repeat(clientSecret, 4))) }},
		"metadata of others":     {http.StatusServiceUnavailable, func(p *idp) { p.metadata["issuer"] = "https://evil.example.com" }},
		"codes in the clear":     {http.StatusServiceUnavailable, func(p *idp) { p.metadata["token_endpoint"] = "http://id.example.com/token" }},
		"logins in the clear":    {http.StatusServiceUnavailable, func(p *idp) { p.metadata["authorization_endpoint"] = "http://id.example.com/auth" }},
		"keys in the clear":      {http.StatusServiceUnavailable, func(p *idp) { p.metadata["jwks_uri"] = "http://id.example.com/keys" }},
		"no keys":                {http.StatusServiceUnavailable, func(p *idp) { p.metadata["jwks_uri"] = nil }},
		"no place for codes":     {http.StatusServiceUnavailable, func(p *idp) { p.metadata["token_endpoint"] = nil }},
		"keys that are down":     {http.StatusServiceUnavailable, func(p *idp) { p.isDown[keysPath] = true }},
		"an error":               {http.StatusServiceUnavailable, func(p *idp) { p.status, p.text = http.StatusInternalServerError, "{}" }},
		"too many requests":      {http.StatusServiceUnavailable, func(p *idp) { p.status, p.text = http.StatusTooManyRequests, "{}" }},
		"a client that is none":  {http.StatusServiceUnavailable, func(p *idp) { p.status, p.text = http.StatusUnauthorized, `{"error":"invalid_client"}` }},
		"an unauthorized client": {http.StatusServiceUnavailable, func(p *idp) { p.status, p.text = http.StatusBadRequest, `{"error":"unauthorized_client"}` }},
		"a claim for HAProxy":    {http.StatusServiceUnavailable, func(p *idp) { p.claims["name"] = "\x01true" }},
		"many claims":            {http.StatusForbidden, func(p *idp) { p.claims["groups"] = strings.Repeat("a", 4000) }},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				one.change(w.idp)
				b := w.newBrowser()
				got := b.get(page)
				if got.status == http.StatusFound {
					got = b.get(strings.TrimPrefix(w.idp.logIn(t, got.location), "https://"+host))
				}
				if got.status != one.status || (b.cookies[login.SessionCookie] != "") != (one.status == http.StatusFound) {
					t.Errorf("got %d (%s) instead of %d, with %v", got.status, got.text, one.status, b.cookies)
				}
			})
		})
	}
}
