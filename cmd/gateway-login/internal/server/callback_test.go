package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
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
