// Package keyset reads JSON Web Key Sets, the keys that tokens are signed with.
//
// The package is pure.
package keyset

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"gateway/internal/model"
)

// maxKeys is how many keys an issuer may have.
const maxKeys = 32

// jsonWebKey has the fields of a key that count (RFC 7517, RFC 7518).
type jsonWebKey struct {
	ID         string   `json:"kid"`
	Type       string   `json:"kty"`
	Use        string   `json:"use"`
	Operations []string `json:"key_ops"`
	Algorithm  string   `json:"alg"`
	// N and E are an RSA key, Curve, X and Y are an EC key.
	N     string `json:"n"`
	E     string `json:"e"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
	// Private and Secret are what nobody but the issuer may know.
	Private string `json:"d"`
	Secret  string `json:"k"`
}

// Parse returns the keys of a JSON Web Key Set that can verify signatures, sorted by their IDs. The text of an
// error follows the name of the field.
func Parse(text string) ([]model.JWTKey, error) {
	var set struct {
		Keys []jsonWebKey `json:"keys"`
	}
	if err := json.Unmarshal([]byte(text), &set); err != nil {
		return nil, fmt.Errorf("is no JSON Web Key Set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("has %d keys where %d are allowed", len(set.Keys), maxKeys)
	}
	var keys []model.JWTKey
	for i := range set.Keys {
		from := &set.Keys[i]
		if from.Private != "" || from.Secret != "" {
			return nil, fmt.Errorf("has a private key or a secret as keys[%d]: put public keys there, and use this one no more", i)
		}
		if !from.isForSignatures() {
			continue
		}
		key, err := from.usable()
		if err != nil {
			return nil, fmt.Errorf("has the unusable keys[%d], with the kid %q: %w", i, from.ID, err)
		}
		keys = append(keys, key)
	}
	return inOrder(keys)
}

// ParsePublished is Parse for the keys that an issuer publishes. Unusable keys are left out, because nobody
// here can remove them. An error reveals nothing of the content.
func ParsePublished(text string) ([]model.JWTKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal([]byte(text), &set) != nil {
		return nil, errors.New("is no JSON Web Key Set")
	}
	var keys []model.JWTKey
	for _, text := range set.Keys {
		var from jsonWebKey
		if json.Unmarshal(text, &from) != nil {
			continue
		}
		if from.Private != "" || from.Secret != "" {
			return nil, errors.New("has a private key or a secret")
		}
		if key, err := from.usable(); err == nil && from.isForSignatures() {
			keys = append(keys, key)
		}
	}
	if len(keys) > maxKeys {
		return nil, fmt.Errorf("has more than %d keys", maxKeys)
	}
	keys, err := inOrder(keys)
	if err != nil {
		return nil, errors.New("has no key that can be used, or two with one kid")
	}
	return keys, nil
}

// inOrder returns keys sorted by their IDs. There must be at least one, and IDs must be unique.
func inOrder(keys []model.JWTKey) ([]model.JWTKey, error) {
	if len(keys) == 0 {
		return nil, errors.New("has no key for signatures")
	}
	slices.SortFunc(keys, func(a, b model.JWTKey) int { return cmp.Compare(a.ID, b.ID) })
	for i := range keys[1:] {
		if keys[i].ID == keys[i+1].ID {
			return nil, fmt.Errorf("has two keys with the kid %q: each needs one of its own", keys[i].ID)
		}
	}
	return keys, nil
}

// isForSignatures reports whether the key may verify signatures.
func (k *jsonWebKey) isForSignatures() bool {
	return k.Use != "enc" && (k.Use == "sig" || len(k.Operations) == 0 || slices.Contains(k.Operations, "verify"))
}

// usable returns the key with its one algorithm.
func (k *jsonWebKey) usable() (model.JWTKey, error) {
	if k.ID == "" || len(k.ID) > 256 {
		return model.JWTKey{}, errors.New("a kid has 1 to 256 bytes")
	}
	var public crypto.PublicKey
	var algorithm string
	var err error
	switch k.Type {
	case "RSA":
		public, algorithm, err = k.rsa()
	case "EC":
		public, algorithm, err = k.ec()
	default:
		err = fmt.Errorf("the kty %q is not supported: RSA and EC are", k.Type)
	}
	if err != nil {
		return model.JWTKey{}, err
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return model.JWTKey{}, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	return model.JWTKey{ID: k.ID, Algorithm: algorithm, PEM: string(text)}, nil
}

var rsaAlgorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}

func (k *jsonWebKey) rsa() (public crypto.PublicKey, algorithm string, err error) {
	algorithm = cmp.Or(k.Algorithm, rsaAlgorithms[0])
	if !slices.Contains(rsaAlgorithms, algorithm) {
		return nil, "", fmt.Errorf("the alg %q is not supported for RSA: %s are", algorithm, strings.Join(rsaAlgorithms, ", "))
	}
	modulus, err := base64.RawURLEncoding.DecodeString(k.N)
	if err != nil {
		return nil, "", fmt.Errorf("n: %w", err)
	}
	exponent, err := base64.RawURLEncoding.DecodeString(k.E)
	if err != nil {
		return nil, "", fmt.Errorf("e: %w", err)
	}
	n, e := new(big.Int).SetBytes(modulus), new(big.Int).SetBytes(exponent)
	switch {
	case n.BitLen() < 2048 || n.BitLen() > 8192 || n.Bit(0) == 0:
		return nil, "", fmt.Errorf("n has to be odd, of 2048 to 8192 bits, and has %d bits", n.BitLen())
	case e.BitLen() < 2 || e.BitLen() > 31 || e.Bit(0) == 0:
		return nil, "", errors.New("e has to be odd, from 3 to 2147483647")
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}, algorithm, nil
}

// curves are the curves of the algorithms for EC keys.
var curves = map[string]struct {
	curve     elliptic.Curve
	algorithm string
}{"P-256": {elliptic.P256(), "ES256"}, "P-384": {elliptic.P384(), "ES384"}, "P-521": {elliptic.P521(), "ES512"}}

func (k *jsonWebKey) ec() (public crypto.PublicKey, algorithm string, err error) {
	curve, ok := curves[k.Curve]
	if !ok {
		return nil, "", fmt.Errorf("the crv %q is not supported: P-256, P-384 and P-521 are", k.Curve)
	}
	if k.Algorithm != "" && k.Algorithm != curve.algorithm {
		return nil, "", fmt.Errorf("the alg %q does not fit the crv %s, whose alg is %s", k.Algorithm, k.Curve, curve.algorithm)
	}
	x, err := base64.RawURLEncoding.DecodeString(k.X)
	if err != nil {
		return nil, "", fmt.Errorf("x: %w", err)
	}
	y, err := base64.RawURLEncoding.DecodeString(k.Y)
	if err != nil {
		return nil, "", fmt.Errorf("y: %w", err)
	}
	if size := (curve.curve.Params().BitSize + 7) / 8; len(x) != size || len(y) != size {
		return nil, "", fmt.Errorf("x and y have to have %d bytes", size)
	}
	point, err := ecdsa.ParseUncompressedPublicKey(curve.curve, slices.Concat([]byte{4}, x, y))
	if err != nil {
		return nil, "", fmt.Errorf("x and y are no point of %s: %w", k.Curve, err)
	}
	return point, curve.algorithm, nil
}
