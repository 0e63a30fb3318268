package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"gateway/internal/must"
)

const (
	issuer, clientID, clientSecret = "https://id.example.com", "shop", "of the client"

	metadataPath, keysPath, authPath, tokenPath, endPath = "/.well-known/openid-configuration", "/keys", "/auth", "/token", "/end"
)

// idp is an OpenID provider that programs reach without a network.
type idp struct {
	mu sync.Mutex
	// metadata, claims and tokens replace members of the provider's metadata, of ID tokens and of the token endpoint's
	// answers; nil removes a member. The token endpoint answers with status and text if status is set.
	metadata, claims, tokens map[string]any
	status                   int
	text                     string
	// texts are answers with the status 404, by path, and slow is how long tokens take.
	texts map[string]string
	slow  time.Duration
	// hangs and isDown are the paths where nobody gets an answer, and where connections break.
	hangs, isDown map[string]bool
	// sign makes a token of claims.
	sign func(claims []byte) string
	// isBasic reports whether the last client was in the header.
	isBasic bool

	// asked counts questions by path. issued counts issued tokens. codes has the parameters of each login by its code,
	// and users the user of each refresh token, which works once.
	asked  map[string]int
	issued int
	codes  map[string]url.Values
	users  map[string]string
}

// signingKey signs for all providers, and foreignKey for none.
var signingKey, foreignKey = sync.OnceValue(newKey), sync.OnceValue(newKey)

func newKey() *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return key
}

// signBy returns a function that signs claims.
func signBy(t *testing.T, algorithm jose.SignatureAlgorithm, key any) func([]byte) string {
	t.Helper()
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: jose.JSONWebKey{Key: key, KeyID: "first"}}, nil))(t)
	return func(claims []byte) string {
		signed, err := signer.Sign(claims)
		if err != nil {
			panic(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			panic(err)
		}
		return token
	}
}

func newIDP(t *testing.T) *idp {
	t.Helper()
	return &idp{
		sign: signBy(t, jose.ES256, signingKey()), metadata: map[string]any{}, claims: map[string]any{}, tokens: map[string]any{},
		hangs: map[string]bool{}, isDown: map[string]bool{}, asked: map[string]int{}, texts: map[string]string{}, codes: map[string]url.Values{}, users: map[string]string{},
	}
}

// RoundTrip answers a question.
func (p *idp) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked[r.URL.Path]++
	switch {
	case p.hangs[r.URL.Path]:
		p.mu.Unlock()
		<-r.Context().Done()
		p.mu.Lock()
		return nil, r.Context().Err()
	case p.isDown[r.URL.Path]:
		return nil, io.ErrUnexpectedEOF
	}
	w := httptest.NewRecorder()
	if text := p.texts[r.URL.Path]; text != "" {
		http.Error(w, text, http.StatusNotFound)
		return w.Result(), nil
	}
	switch r.URL.Path {
	case metadataPath:
		p.write(w, http.StatusOK, map[string]any{
			"issuer": issuer, "authorization_endpoint": issuer + authPath, "token_endpoint": issuer + tokenPath, "jwks_uri": issuer + keysPath,
			"end_session_endpoint": issuer + endPath, "id_token_signing_alg_values_supported": []string{"ES256"},
		}, p.metadata)
	case keysPath:
		public := jose.JSONWebKey{Key: signingKey().Public(), KeyID: "first", Algorithm: "ES256", Use: "sig"}
		p.write(w, http.StatusOK, map[string]any{"keys": []any{public}}, nil)
	case tokenPath:
		p.mu.Unlock()
		time.Sleep(p.slow)
		p.mu.Lock()
		p.answer(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
	return w.Result(), nil
}

func (p *idp) write(w http.ResponseWriter, status int, content, changes map[string]any) {
	maps.Copy(content, changes)
	maps.DeleteFunc(content, func(_ string, value any) bool { return value == nil })
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(content)
}

// answer issues tokens for a code or a refresh token.
func (p *idp) answer(w http.ResponseWriter, r *http.Request) {
	if p.status != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(p.status)
		_, _ = io.WriteString(w, p.text)
		return
	}
	id, secret, isBasic := r.BasicAuth()
	if p.isBasic = isBasic; !isBasic {
		id, secret = r.FormValue("client_id"), url.QueryEscape(r.FormValue("client_secret"))
	}
	refuse := func(code string) { p.write(w, http.StatusBadRequest, map[string]any{"error": code}, nil) }
	if id != clientID || secret != url.QueryEscape(clientSecret) {
		refuse("invalid_client")
		return
	}
	user, nonce := p.users[r.FormValue("refresh_token")], ""
	if r.FormValue("grant_type") == "authorization_code" {
		begun := p.codes[r.FormValue("code")]
		delete(p.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if begun == nil || begun.Get("redirect_uri") != r.FormValue("redirect_uri") || begun.Get("code_challenge") != encode(sum[:]) {
			refuse("invalid_grant")
			return
		}
		user, nonce = "alice", begun.Get("nonce")
	}
	if user == "" {
		refuse("invalid_grant")
		return
	}
	delete(p.users, r.FormValue("refresh_token"))
	p.issued++
	refresh, isText := p.tokens["refresh_token"].(string)
	if !isText {
		refresh = "refresh-" + rand.Text()
	}
	p.users[refresh] = user
	claims := map[string]any{"iss": issuer, "aud": clientID, "sub": user, "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(), "email": user + "@example.com"}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	maps.Copy(claims, p.claims)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	payload, err := json.Marshal(claims)
	if err != nil {
		panic(err)
	}
	p.write(w, http.StatusOK, map[string]any{
		"access_token": accessToken, "token_type": "Bearer", "expires_in": 3600, "refresh_token": refresh, "id_token": p.sign(payload),
	}, p.tokens)
}

// accessToken is the same for all users.
const accessToken = "access"

// logIn is what a user does there who is sent to it. It returns where the browser goes then.
func (p *idp) logIn(t *testing.T, location string) string {
	t.Helper()
	to := must.Get(url.Parse(location))(t)
	if to.Scheme+"://"+to.Host+to.Path != issuer+authPath {
		t.Fatalf("a browser that has to log in is sent to %s", location)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	code := rand.Text()
	p.codes[code] = to.Query()
	return to.Query().Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {to.Query().Get("state")}}.Encode()
}

// count returns how often a path was asked.
func (p *idp) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

// change changes the provider.
func (p *idp) change(how func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	how()
}

// hang lets nobody have an answer of these paths, and of no others.
func (p *idp) hang(paths ...string) {
	p.change(func() {
		p.hangs = map[string]bool{}
		for _, path := range paths {
			p.hangs[path] = true
		}
	})
}

func encode(text []byte) string { return base64.RawURLEncoding.EncodeToString(text) }
