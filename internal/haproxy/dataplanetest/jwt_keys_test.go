package dataplanetest_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gateway/internal/must"
)

// issuerKey is a key that tokens are signed with.
type issuerKey struct {
	id, algorithm string
	private       crypto.Signer
}

// issuerKeys are one for each algorithm, named like it, and one more.
var issuerKeys = sync.OnceValue(func() map[string]issuerKey {
	keys := map[string]issuerKey{}
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	for _, algorithm := range []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"} {
		keys[algorithm] = issuerKey{algorithm, algorithm, private}
	}
	for algorithm, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		key, generateErr := ecdsa.GenerateKey(curve, rand.Reader)
		keys[algorithm] = issuerKey{algorithm, algorithm, key}
		err = errors.Join(err, generateErr)
	}
	other, generateErr := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	keys["other"] = issuerKey{"other", "ES256", other}
	if err := errors.Join(err, generateErr); err != nil {
		panic(err)
	}
	return keys
})

// jwk returns the public key as a JSON Web Key.
func (k issuerKey) jwk() map[string]any {
	switch public := k.private.Public().(type) {
	case *rsa.PublicKey:
		return map[string]any{"kid": k.id, "kty": "RSA", "alg": k.algorithm, "use": "sig", "n": encode(public.N.Bytes()), "e": encode(big.NewInt(int64(public.E)).Bytes())}
	case *ecdsa.PublicKey:
		point, _ := public.Bytes()
		half := (len(point) - 1) / 2
		return map[string]any{"kid": k.id, "kty": "EC", "crv": public.Curve.Params().Name, "x": encode(point[1 : 1+half]), "y": encode(point[1+half:])}
	}
	return nil
}

// keySet returns a JSON Web Key Set of keys by their names.
func keySet(names ...string) string {
	var all []map[string]any
	for _, name := range names {
		all = append(all, issuerKeys()[name].jwk())
	}
	text, _ := json.Marshal(map[string]any{"keys": all})
	return string(text)
}

func encode(bytes []byte) string { return base64.RawURLEncoding.EncodeToString(bytes) }

// sign returns a token with a header and payload of JSON, signed as an algorithm demands.
func (k issuerKey) sign(t testing.TB, algorithm, header, payload string) string {
	t.Helper()
	text := encode([]byte(header)) + "." + encode([]byte(payload))
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[algorithm[2:]]
	h := hash.New()
	_, _ = h.Write([]byte(text))
	digest := h.Sum(nil)
	var signature []byte
	var err error
	switch private := k.private.(type) {
	case *rsa.PrivateKey:
		if strings.HasPrefix(algorithm, "PS") {
			signature, err = rsa.SignPSS(rand.Reader, private, hash, digest, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			signature, err = rsa.SignPKCS1v15(rand.Reader, private, hash, digest)
		}
	case *ecdsa.PrivateKey:
		r, s, signErr := ecdsa.Sign(rand.Reader, private, digest)
		size := (private.Curve.Params().BitSize + 7) / 8
		signature, err = slices.Concat(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))), signErr
	}
	if err != nil {
		t.Fatal(err)
	}
	return text + "." + encode(signature)
}

// claims returns the claims of a valid token, with some replaced; nil leaves a claim out.
func claims(others map[string]any) string {
	all := map[string]any{"iss": "https://id.example.com/", "aud": "shop", "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	for name, value := range others {
		all[name] = value
		if value == nil {
			delete(all, name)
		}
	}
	text, _ := json.Marshal(all)
	return string(text)
}

// token returns a valid token of a key with other claims.
func token(t testing.TB, key string, others map[string]any) string {
	t.Helper()
	k := issuerKeys()[key]
	return k.sign(t, k.algorithm, `{"alg":"`+k.algorithm+`","kid":"`+k.id+`","typ":"JWT"}`, claims(others))
}

// symmetric returns a token that is signed by HMAC with what everybody knows of a key.
func symmetric(t testing.TB, key, header string) string {
	t.Helper()
	der := must.Get(x509.MarshalPKIXPublicKey(issuerKeys()[key].private.Public()))(t)
	mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	text := encode([]byte(header)) + "." + encode([]byte(claims(nil)))
	_, _ = mac.Write([]byte(text))
	return text + "." + encode(mac.Sum(nil))
}

// edwards returns a token that is signed by Ed25519.
func edwards(t testing.TB, header string) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text := encode([]byte(header)) + "." + encode([]byte(claims(nil)))
	return text + "." + encode(ed25519.Sign(private, []byte(text)))
}
