package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/must"
)

// issuerKey is a key that tokens are signed with.
type issuerKey struct {
	id      string
	private *ecdsa.PrivateKey
}

func newIssuerKey(t *testing.T, id string) issuerKey {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
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
		Issuers: []appv1.JWTIssuer{{Issuer: "https://id.example.com/", Audiences: []appv1.JWTAudience{"shop"}, Keys: keys}},
	}}}
	return spec
}

// TestKeysOfAConfigMap: an edit of a ConfigMap is live. A key that goes takes no reload. What cannot be used leaves the
// keys that were there before; if there were none, or the ConfigMap is gone, requests get 503. The status names the
// rule.
func TestKeysOfAConfigMap(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t)
	old, next := newIssuerKey(t, "old"), newIssuerKey(t, "next")
	put := func(text string) { r.authorities.Put(map[string][]byte{"staff/jwks": []byte(text)}) }
	const at = ` ConfigMap/staff requests for rules[0] of route "api" `
	const refused, kept = at + "are answered with 503: ", at + "need the keys that were there before: "
	const noJSON = "ConfigMap " + namespace + "/staff: jwks is no JSON Web Key Set: unexpected end of JSON input"
	put("{")
	spec := r.withTokens(appv1.JWTKeys{ConfigMapRef: &appv1.ObjectReference{Name: "staff"}})
	r.start(spec)
	r.expectToken(old.token(t), 503)
	r.expectProblems(refused + noJSON)
	put(keySetOf(old))
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

	for text, problem := range map[string]string{"{": noJSON, `{"keys":[]}`: "ConfigMap " + namespace + "/staff: jwks has no key for signatures"} {
		put(text)
		r.expectProblems(kept + problem)
		r.expectToken(next.token(t), 200)
		r.expectToken(old.token(t), 401)
	}
	r.authorities.Put(map[string][]byte{"staff/jwks": nil})
	r.expectProblems(refused + "ConfigMap " + namespace + "/staff: it does not exist or has no jwks")
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

// publisher is where an issuer publishes its keys.
type publisher struct {
	*httptest.Server
	keys atomic.Value
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	p := &publisher{}
	p.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		keys, ok := p.keys.Load().(string)
		if !ok {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, keys)
	}))
	t.Cleanup(p.Close)
	return p
}

// keepsLettingIn sends requests with a token until the function that it returns is called. All of them must get 200.
func (r *rig) keepsLettingIn(token string) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				client := &http.Client{Transport: &http.Transport{DisableKeepAlives: n%2 == 0}}
				if status, err := r.getWith(client, token); err != nil || status != http.StatusOK {
					r.t.Errorf("request %d: got %d (%v)", n, status, err)
					return
				}
				client.CloseIdleConnections()
			}
		})
	}
	return func() {
		cancel()
		clients.Wait()
	}
}

// TestKeysAtAURL: keys are fetched, and change without a lost request. What a pod has it keeps while the issuer does
// not answer, also if the agent starts anew.
func TestKeysAtAURL(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t)
	issuer := newPublisher(t)
	old, next := newIssuerKey(t, "old"), newIssuerKey(t, "next")
	r.authorities.Put(map[string][]byte{"staff/ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.Certificate().Raw})})
	r.options.LocalKeys = true
	often := func(a *Agent) { a.keys.Pause = func(time.Duration, int) time.Duration { return 5 * time.Millisecond } }
	spec := r.withTokens(appv1.JWTKeys{Remote: &appv1.RemoteJWTKeys{
		URI: issuer.URL + "/keys", CACertificateRefs: []appv1.ObjectReference{{Name: "staff"}}, RefreshInterval: "1m",
	}})

	r.createGateway(spec)
	r.startAgent(often)
	r.startHAProxy()
	r.eventually("the pod is ready, though there are no keys", r.agent.probes.ready)
	r.expectToken(old.token(t), 503)
	at := " URL/" + issuer.URL + `/keys requests for rules[0] of route "api" `
	r.expectProblems(at + "are answered with 503: no keys come from " + issuer.URL + "/keys: the answer has the status 500")
	issuer.keys.Store(keySetOf(old))
	r.expectToken(old.token(t), 200)
	r.expectToken(next.token(t), 401)
	r.expectProblems()

	stop := r.keepsLettingIn(old.token(t))
	issuer.keys.Store(keySetOf(old, next))
	r.expectToken(next.token(t), 200)
	stop()
	stop = r.keepsLettingIn(next.token(t))
	running := r.process()
	issuer.keys.Store(keySetOf(next))
	r.expectToken(old.token(t), 401)
	issuer.keys.Store("{")
	r.expectProblems(at + "need the keys that were there before: no keys come from " + issuer.URL + "/keys: the answer is no JSON Web Key Set")
	r.expectNoReload(running)

	issuer.Close()
	r.expectProblems(at + "need the keys that were there before: no keys come from " + issuer.URL + "/keys: dial: connect: connection refused")
	r.stop()
	r.startAgent(often)
	r.eventually("the pod is ready again", r.agent.probes.ready)
	r.expectReport(1, "")
	r.expectToken(old.token(t), 401)
	r.expectToken(next.token(t), 200)
	stop()
}
