package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
)

// issuerKey is a key that tokens are signed with.
type issuerKey struct {
	id      string
	private *ecdsa.PrivateKey
}

func newIssuerKey(t *testing.T, id string) issuerKey {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return issuerKey{id, private}
}

var base64URL = base64.RawURLEncoding.EncodeToString

// keySetOf returns the keys as a JSON Web Key Set.
func keySetOf(keys ...issuerKey) string {
	var all []string
	for _, key := range keys {
		point, _ := key.private.PublicKey.Bytes()
		all = append(all, fmt.Sprintf(`{"kid":%q,"kty":"EC","crv":"P-256","x":%q,"y":%q}`, key.id, base64URL(point[1:33]), base64URL(point[33:])))
	}
	return `{"keys":[` + strings.Join(all, ",") + `]}`
}

// token returns a token that is valid for an hour.
func (k issuerKey) token(t *testing.T) string {
	t.Helper()
	text := base64URL(fmt.Appendf(nil, `{"alg":"ES256","kid":%q}`, k.id)) + "." +
		base64URL(fmt.Appendf(nil, `{"iss":"https://id.example.com/","aud":"shop","exp":%d}`, time.Now().Add(time.Hour).Unix()))
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, k.private, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + base64URL(slices.Concat(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))))
}

// getWith returns the status for a request with a token.
func (r *rig) getWith(client *http.Client, token string) (int, error) {
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/api", r.port), http.NoBody)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	return response.StatusCode, response.Body.Close()
}

// expectToken waits for the status of requests with a token.
func (r *rig) expectToken(token string, want int) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("the token gets %d", want), func() error {
		status, err := r.getWith(http.DefaultClient, token)
		if err == nil && status != want {
			err = fmt.Errorf("it gets %d", status)
		}
		return err
	})
}

// withTokens is a spec whose route needs a token of keys that are somewhere.
func (r *rig) withTokens(keys appv1.JWTKeys) appv1.GatewaySpec {
	spec := r.spec("api")
	spec.Routes[0].Rules[0].Filters = []appv1.RuleFilter{{Type: appv1.RuleFilterJWT, JWT: &appv1.JWT{
		Issuer: "https://id.example.com/", Audiences: []appv1.JWTAudience{"shop"}, Keys: keys,
	}}}
	return spec
}

// TestKeysOfAConfigMap: an edit of a ConfigMap is live. A key that goes takes no reload. While the keys cannot be used,
// requests get 503, and the status names the rule.
func TestKeysOfAConfigMap(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t)
	old, next := newIssuerKey(t, "old"), newIssuerKey(t, "next")
	put := func(text string) { r.authorities.Put(map[string][]byte{"staff/jwks": []byte(text)}) }
	put(keySetOf(old))
	spec := r.withTokens(appv1.JWTKeys{ConfigMapRef: &appv1.ObjectReference{Name: "staff"}})
	r.start(spec)
	r.expectToken(old.token(t), 200)
	r.expectToken(next.token(t), 401)
	r.expectProblems()

	put(keySetOf(old, next))
	r.expectToken(next.token(t), 200)
	r.expectToken(old.token(t), 200)
	running := r.process()
	put(keySetOf(next))
	r.expectToken(old.token(t), 401)
	r.expectToken(next.token(t), 200)

	const refused = ` ConfigMap/staff requests for rules[0] of route "api" are answered with 503: `
	put("{")
	r.expectToken(next.token(t), 503)
	r.expectProblems(refused + "jwks of ConfigMap " + namespace + "/staff is no JSON Web Key Set: unexpected end of JSON input")
	r.authorities.Put(map[string][]byte{"staff/jwks": nil})
	r.expectProblems(refused + "ConfigMap " + namespace + "/staff does not exist or has no jwks")
	r.expectToken(next.token(t), 503)
	put(keySetOf(next))
	r.expectToken(next.token(t), 200)
	r.expectProblems()
	r.expectNoReload(running)

	// A ConfigMap that this pod does not mount is for another pod.
	r.edit(r.withTokens(appv1.JWTKeys{ConfigMapRef: &appv1.ObjectReference{Name: "new"}}))
	r.expectToken(next.token(t), 503)
	r.expectReport(1, "ConfigMap "+namespace+"/new is not mounted")
}
