package dataplanetest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gateway/internal/haproxy/render/rendertest"
)

// Two issuers whose keys have one ID.
const (
	staff    = "https://staff.example.com/"
	partners = "https://partners.example.com"
)

const issuersWorld = `
spec:
  listeners: [{name: http, port: 80, protocol: HTTP}]
  routes:
    - name: closed
      rules:
        - filters: [{type: JWT, jwt: {issuers: [STAFF, PARTNERS], claimsToHeaders: [{claim: sub, header: X-User}, {claim: iss, header: X-Issuer}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /staff}}]
          filters: [{type: JWT, jwt: {issuers: [STAFF]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /unknown}}]
          filters: [{type: JWT, jwt: {issuers: [STAFF, {issuer: "https://partners.example.com", audiences: [api], keys: {configMapRef: {name: none}}}]}}]
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /limited}}]
          filters:
            - {type: JWT, jwt: {issuers: [STAFF, PARTNERS]}}
            - {type: RateLimit, rateLimit: {limits: [{requests: 1, unit: Hour, key: {type: Claim, name: sub}}]}}
          backendRefs: [{name: web, port: 80}]
        - matches: [{path: {value: /shadow}}]
          filters: [{type: JWT, jwt: {issuers: [STAFF, PARTNERS], claimsToHeaders: [{claim: sub, header: X-User}]}}]
          shadow: [JWT]
          backendRefs: [{name: web, port: 80}]
backends: [{service: web, port: 80, servers: ["127.0.0.1:1"]}]
`

// issuerToken returns a token with these claims, signed by a key whose ID the token calls ES256.
func issuerToken(t *testing.T, key, payload string) string {
	t.Helper()
	return issuerKeys()[key].sign(t, "ES256", `{"alg":"ES256","kid":"ES256"}`, payload)
}

func startIssuers(t *testing.T) *gateway {
	t.Helper()
	issuer := func(name, audience, key string) string {
		jwk := strings.Replace(keySet(key), `"kid":"other"`, `"kid":"ES256"`, 1)
		return fmt.Sprintf(`{issuer: "%s", audiences: [%s], keys: {inline: '%s'}}`, name, audience, jwk)
	}
	return startGateway(t, rendertest.Parse(t, strings.NewReplacer("STAFF", issuer(staff, "shop", "ES256"), "PARTNERS", issuer(partners, "api", "other")).Replace(issuersWorld)))
}

// TestJWTIssuers: a token is of the issuer that it names, whose key has signed it, for an audience of that issuer.
func TestJWTIssuers(t *testing.T) {
	t.Parallel()
	c := newClient(t, startIssuers(t).ports[80])
	for _, test := range []struct{ issuer, audience, key string }{{staff, "shop", "ES256"}, {partners, "api", "other"}} {
		for _, issuer := range []any{staff, partners, nil, "", "https://other.example.com/", staff + "\x00", staff + "\n", "HTTPS://STAFF.example.com/", 5, true, []string{test.issuer}, map[string]any{test.issuer: test.issuer}, map[string]any{"iss": test.issuer}, strings.Repeat("i", 7000)} {
			for _, audience := range []string{"shop", "api"} {
				token := issuerToken(t, test.key, claims(map[string]any{"iss": issuer, "aud": audience}))
				got, isRight := c.send(with("/", "Bearer "+token)), issuer == test.issuer && audience == test.audience
				if (got.Status == 200) != isRight || !isRight && (got.Status != 401 || got.Header.Get("WWW-Authenticate") != `Bearer error="invalid_token"`) {
					t.Errorf("the issuer %.40q for %s, signed as %s: got %d with %q", issuer, audience, test.issuer, got.Status, got.Header)
				}
				if isRight && !strings.Contains(got.Body, "X-Issuer: "+test.issuer+"\r\n") {
					t.Errorf("the backend got\n%s", got.Body)
				}
			}
		}
	}
}

// TestJWTIssuerMixUp: nothing that the sender writes has a token verified by the key of another issuer.
func TestJWTIssuerMixUp(t *testing.T) {
	t.Parallel()
	c := newClient(t, startIssuers(t).ports[80])
	rest := fmt.Sprintf(`"aud":["shop","api"],"sub":"alice","exp":%d}`, time.Now().Add(time.Hour).Unix())
	for _, test := range []struct {
		name, key, payload string
		want               int
	}{
		{"its own issuer", "ES256", `{"iss":"` + staff + `",`, 200},
		{"slashes with escapes", "ES256", `{"iss":"https:\/\/staff.example.com\/",`, 200},
		{"other escapes", "ES256", `{"iss":"\u0068ttps://staff.example.com/",`, 200},
		{"space around it", "ES256", ` { "iss" : "` + staff + `" , `, 200},
		{"the other one first", "ES256", `{"iss":"` + partners + `","iss":"` + staff + `",`, 401},
		{"the other one first, signed by that", "other", `{"iss":"` + staff + `","iss":"` + partners + `",`, 401},
		{"the other one by an escaped name", "ES256", `{"\u0069ss":"` + partners + `","iss":"` + staff + `",`, 401},
		{"the other one within another claim", "ES256", `{"a":{"iss":"` + partners + `"},"iss":"` + staff + `",`, 200},
		{"within another claim only", "ES256", `{"a":{"iss":"` + staff + `"},`, 401},
		{"within a list only", "ES256", `{"a":["iss","` + staff + `"],`, 401},
		{"within a text only", "ES256", `{"a":"\",\"iss\":\"` + staff + `\",\"",`, 401},
		{"both", "ES256", `{"iss":"` + staff + ` ` + partners + `",`, 401},
		{"a list of both", "ES256", `{"iss":["` + staff + `","` + partners + `"],`, 401},
	} {
		if got := c.send(with("/", "Bearer "+issuerToken(t, test.key, test.payload+rest))); got.Status != test.want {
			t.Errorf("%s: got %d, want %d", test.name, got.Status, test.want)
		}
	}
	payload := claims(map[string]any{"iss": partners, "aud": "api"})
	for header, key := range map[string]string{
		`{"alg":"none","kid":"ES256"}`: "other", `{"alg":"HS256","kid":"ES256"}`: "other", `{"alg":"ES256","kid":"other"}`: "other",
		`{"alg":"ES256","kid":"ES256"}`: "ES256", `{"alg":"ES256","kid":"ES256","iss":"` + staff + `"}`: "ES256",
	} {
		if got := c.send(with("/", "Bearer "+issuerKeys()[key].sign(t, "ES256", header, payload))); got.Status != 401 {
			t.Errorf("%s: got %d", header, got.Status)
		}
	}
}

// TestJWTIssuersBesideOthers: one whose keys are not known stops no other, users of two are two, and shadow shows none.
func TestJWTIssuersBesideOthers(t *testing.T) {
	t.Parallel()
	c := newClient(t, startIssuers(t).ports[80])
	ofStaff := "Bearer " + issuerToken(t, "ES256", claims(map[string]any{"iss": staff}))
	ofPartner := "Bearer " + issuerToken(t, "other", claims(map[string]any{"iss": partners, "aud": "api"}))
	mixed := "Bearer " + issuerToken(t, "other", claims(map[string]any{"iss": staff}))
	for _, test := range []struct {
		request string
		want    int
	}{
		{get("x", "/unknown"), 401},
		{with("/unknown", ofStaff), 200},
		{with("/unknown", ofPartner), 503},
		{with("/unknown", mixed), 401},
		{with("/staff", ofStaff), 200},
		{with("/staff", ofPartner), 401},
		{with("/limited", ofStaff), 200},
		{with("/limited", ofPartner), 200},
		{with("/limited", ofStaff), 429},
		{with("/limited", ofPartner), 429},
		{with("/shadow", ofStaff), 200},
	} {
		if got := c.send(test.request); got.Status != test.want {
			t.Errorf("%.60q: got %d, want %d", test.request, got.Status, test.want)
		}
	}
	if got := c.send(with("/shadow", mixed, "X-User: root")); got.Status != 200 || strings.Contains(got.Body, "X-User") {
		t.Errorf("in shadow, the backend got\n%s", got.Body)
	}
}
