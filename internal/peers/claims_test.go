package peers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/haproxy/haproxytest"
	"gateway/internal/must"
)

// TestPodsCountClaimsTogether: pods add up the requests of a user by a claim, apart from other users' requests.
func TestPodsCountClaimsTogether(t *testing.T) {
	t.Parallel()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	point := must.Get(key.PublicKey.Bytes())(t)
	encode := base64.RawURLEncoding.EncodeToString
	keys := fmt.Sprintf(`{"keys":[{"kid":"a","kty":"EC","crv":"P-256","x":%q,"y":%q}]}`, encode(point[1:33]), encode(point[33:]))
	tokenOf := func(user string) http.Header {
		text := encode([]byte(`{"alg":"ES256","kid":"a"}`)) + "." +
			encode(fmt.Appendf(nil, `{"iss":"https://id.example.com/","aud":"shop","sub":%q,"exp":%d}`, user, time.Now().Add(time.Hour).Unix()))
		digest := sha256.Sum256([]byte(text))
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		if err != nil {
			t.Fatal(err)
		}
		signature := slices.Concat(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32)))
		return http.Header{"Authorization": {"Bearer " + text + "." + encode(signature)}}
	}
	port := int(haproxytest.FreePort(t))
	limit := appv1.RequestLimit{Requests: 2, Unit: appv1.RateLimitHour, Key: &appv1.RateLimitKey{Type: appv1.RateLimitClaim, Name: "sub"}}
	jwt := appv1.RuleFilter{Type: appv1.RuleFilterJWT, JWT: &appv1.JWT{
		Issuers: []appv1.JWTIssuer{{Issuer: "https://id.example.com/", Audiences: []appv1.JWTAudience{"shop"}, Keys: appv1.JWTKeys{Inline: keys}}},
	}}
	a, b := startPod(t, 1, port, limit, jwt), startPod(t, 2, port, limit, jwt)
	meet(a, b)
	expect := func(p *testPod, user string, want int) {
		t.Helper()
		if got := p.getWith(tokenOf(user)); got != want {
			t.Errorf("%s: %s got %d, want %d", p.Name, user, got, want)
		}
	}
	expect(a, "ann", http.StatusOK)
	b.sees("hour", a, 1)
	expect(b, "ann", http.StatusOK)
	expect(b, "ann", http.StatusTooManyRequests)
	a.sees("hour", b, 1)
	expect(a, "ann", http.StatusTooManyRequests)
	expect(a, "ben", http.StatusOK)
	expect(b, "ben", http.StatusOK)
}
