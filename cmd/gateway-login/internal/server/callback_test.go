package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gateway/internal/login"
)

// TestIssuerOfAnswers: a provider that promises to name itself has to do so, also in errors (RFC 9207).
func TestIssuerOfAnswers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.idp.metadata["authorization_response_iss_parameter_supported"] = true
		b := w.newBrowser()
		callback := b.begin(page)
		b.copied().expectNone("nobody", http.StatusBadRequest, callback)
		b.copied().expectNone("nobody, with an error", http.StatusBadRequest, with(t, callback, "code", "", "error", "access_denied"))
		b.copied().expectNone("another provider", http.StatusBadRequest, with(t, callback, "iss", "https://evil.example.com"))
		b.copied().expectNone("the provider, with an error", http.StatusForbidden, with(t, callback, "iss", issuer, "error", "access_denied"))
		b.expect(http.StatusFound, with(t, callback, "iss", issuer))
	})
}

// TestTries: a login that has begun is good for few codes.
func TestTries(t *testing.T) {
	inWorld(t, func(w *world) {
		b, other := w.newBrowser(), w.newBrowser()
		callback, honest := b.begin(page), other.begin(page)
		for range maxTries {
			b.copied().expectNone("a made-up code", http.StatusForbidden, with(t, callback, "code", "forged"))
		}
		b.copied().expectNone("one more", http.StatusBadRequest, with(t, callback, "code", "forged"))
		b.expectNone("the code", http.StatusBadRequest, callback)
		other.expect(http.StatusFound, honest)
		if n := w.idp.count(tokenPath); n != maxTries+1 {
			t.Errorf("the provider was asked %d times", n)
		}
		for _, until := range []time.Time{time.Now(), time.Now().Add(loginTime)} {
			last := state{Cookie: "last", Until: time.Now().Add(loginTime)}
			for range 2 * maxTries {
				w.tries.add(last, time.Now())
			}
			for range 2 * maxRenewals {
				w.tries.add(state{Cookie: random(), Until: until}, time.Now())
			}
			if len(w.tries.all) > maxRenewals || until.Equal(time.Now()) && w.tries.add(last, time.Now()) {
				t.Errorf("%d logins are remembered", len(w.tries.all))
			}
		}
	})
}

// TestManyTabs: each tab of a browser ends at its page, however many log in, and their cookies stay small.
func TestManyTabs(t *testing.T) {
	inWorld(t, func(w *world) {
		target := func(i int) string { return "/board-" + strings.Repeat("a", 1400) + strings.Repeat("b", i) }
		b, callbacks := w.newBrowser(), []string{}
		for i := range maxLogins {
			callbacks = append(callbacks, b.begin(target(i)))
		}
		size := 0
		for name, value := range b.cookies {
			size += len("; ") + len(name) + len("=") + len(value)
		}
		if len(b.cookies) != maxLogins || size > 3000 || len(callbacks[0]) > 2500 {
			t.Errorf("%d tabs: %d cookies of %d bytes, and they come back with %d bytes", maxLogins, len(b.cookies), size, len(callbacks[0]))
		}
		for i := len(callbacks) - 1; i >= 0; i-- {
			// Every other one ends at the same time as those before, without the session that they get.
			at := b
			if i%2 == 0 {
				at = b.copied()
				delete(at.cookies, login.SessionCookie)
			}
			if got := at.expect(http.StatusFound, callbacks[i]); got.location != "https://"+host+target(i) {
				t.Errorf("tab %d ends at %.100s", i, got.location)
			}
		}

		b = w.newBrowser()
		first := b.begin(page)
		for range maxLogins {
			time.Sleep(time.Second)
			b.begin("/")
		}
		b.copied().expectNone("the oldest of many", http.StatusBadRequest, first)
		b.expect(http.StatusFound, b.begin("/"))
		if got := b.expect(http.StatusFound, first); got.location != "https://"+host+page || len(got.cookies) > 0 {
			t.Errorf("with a session, the oldest of many ends at %s, with %v", got.location, got.cookies)
		}
		b.expect(http.StatusBadRequest, with(t, first, "state", "forged"))
		time.Sleep(2 * time.Hour)
		b.expect(http.StatusBadRequest, first)
	})
}

// TestLog: of what providers answer, the log has a status and an error code.
func TestLog(t *testing.T) {
	const secret = "INTERNAL\nE1129 00:00:00.000000 1 main.go:1] FORGED"
	for name, one := range map[string]struct {
		want   string
		change func(p *idp)
	}{
		"an error":         {"failed to get tokens: the answer has the status 500 (error)", func(p *idp) { p.status, p.text = 500, secret }},
		"a code":           {"the answer has the status 401 (invalid_client)", func(p *idp) { p.status, p.text = 401, `{"error":"invalid_client","error_description":"INTERNAL"}` }},
		"a refusal":        {"the provider refuses it: invalid_grant", func(p *idp) { p.status, p.text = 400, `{"error":"invalid_grant","error_description":"INTERNAL"}` }},
		"another code":     {"the provider refuses it: error", func(p *idp) { p.status, p.text = 400, `{"error":"INTERNAL\nFORGED"}` }},
		"no JSON":          {"failed to get tokens: the answer cannot be used", func(p *idp) { p.status, p.text = 200, secret }},
		"no connection":    {"failed to get tokens: the answer cannot be used", func(p *idp) { p.isDown[tokenPath] = true }},
		"no answer":        {"failed to get tokens: there was no answer in time", func(p *idp) { p.hang(tokenPath) }},
		"no keys":          {"the ID token is not valid: the keys of the provider cannot be fetched", func(p *idp) { p.texts[keysPath] = secret }},
		"no metadata":      {"failed to get the metadata of provider https://id.example.com: the answer has the status 404", func(p *idp) { p.texts[metadataPath] = secret }},
		"another provider": {"they are those of another issuer", func(p *idp) { p.metadata["issuer"] = "https://INTERNAL" }},
		"another issuer":   {"it is of another issuer (iss)", func(p *idp) { p.claims["iss"] = secret }},
		"another audience": {"it is not for this client (aud)", func(p *idp) { p.claims["aud"] = secret }},
		"an old token":     {"it has expired (exp)", func(p *idp) { p.claims["exp"] = 1 }},
		"an early token":   {"its time has not come (nbf)", func(p *idp) { p.claims["nbf"] = 9999999999 }},
		"another key":      {"no key of the provider has signed it", func(p *idp) { p.sign = signBy(t, jose.ES256, foreignKey()) }},
		"no token":         {"it is no token with a signature", func(p *idp) { p.tokens["id_token"] = secret }},
		"a claim":          {"a claim cannot be used: it has the character U+0001", func(p *idp) { p.claims[secret] = "\x01" }},
		"a time":           {"the ID token has a time that is no number (exp)", func(p *idp) { p.claims["exp"] = "9999999999" }},
		"a type":           {"the ID token is not valid: the answer cannot be used", func(p *idp) { p.claims["exp"] = secret }},
	} {
		logged := capture(t, func() {
			inWorld(t, func(w *world) {
				one.change(w.idp)
				b := w.newBrowser()
				if got := b.get(page); got.status == http.StatusFound {
					callback, _ := strings.CutPrefix(w.idp.logIn(t, got.location), "https://"+host)
					b.get(callback)
				}
			})
		})
		if !strings.Contains(logged, one.want) || strings.Contains(logged, "INTERNAL") || strings.Contains(logged, "FORGED") {
			t.Errorf("%s: the log has\n%s, want %s", name, logged, one.want)
		}
	}
}
