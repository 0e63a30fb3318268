package keyset

import (
	"strings"
	"testing"
)

const (
	ecKey  = `{"kid":"a","kty":"EC","crv":"P-256","x":"RRBtXB3hOAbYDKm7UnEt_Zr_-ey4whvVOryn3jLg5sQ","y":"MZaSEzCbFdKWdDDLEMNp9n0FRHPpuRWZCM1COgAwcC4"}`
	rsaKey = `{"kid":"b","kty":"RSA","n":"w9hW8uZ00TYSY6sDJIs5NMGuz6Bzoz7xxuehB5-wFQqeyLh3V6B_EjN0dXwycp1aLhNfxyUPiieA3d1KFBEGISmwfit0qZPFRBQjNnNCKcedYVYEHF-FP8Urt4KOEEB-hvgjmxRSxkDkUm0sZPlcGoUw_Q9qtDYfu1chDQQYZhPTYdux9UPW_QbOFbcl-lCU0xRlhxJd0nchxC9KZUwxuRJaoZHSwAgbpsqTPZaQPRZaHEDuyFscG6h2CUuAGe_8k0sFC17CCq41pu9RADirpvn_RFXhXfC1JP6lwMDdIWx09FmVApGYFbGyKwpaAoOmnfPhuXbS1CGzOSZFj8xd6Q","e":"AQAB"}`
)

// TestKeySets: a key set is used as a whole or not at all, but for the keys that are not for signatures.
func TestKeySets(t *testing.T) {
	with := func(key, old, replacement string) string { return strings.Replace(key, old, replacement, 1) }
	for name, test := range map[string]struct {
		keys []string
		want string // the IDs and algorithms, or what is in the error
	}{
		"EC":                     {[]string{ecKey}, "a ES256"},
		"both, sorted":           {[]string{rsaKey, ecKey}, "a ES256, b RS256"},
		"RSA for PS512":          {[]string{with(rsaKey, `"kid"`, `"alg":"PS512","kid"`)}, "b PS512"},
		"EC with alg":            {[]string{with(ecKey, `"kid"`, `"alg":"ES256","kid"`)}, "a ES256"},
		"one for encryption":     {[]string{with(rsaKey, `"kid"`, `"use":"enc","alg":"RSA-OAEP","kid"`), ecKey}, "a ES256"},
		"one that may not":       {[]string{with(rsaKey, `"kid"`, `"key_ops":["encrypt"],"kid"`), ecKey}, "a ES256"},
		"one that may":           {[]string{with(rsaKey, `"kid"`, `"key_ops":["verify"],"kid"`)}, "b RS256"},
		"none":                   {nil, "has no key for signatures"},
		"none for signatures":    {[]string{with(rsaKey, `"kid"`, `"use":"enc","kid"`)}, "has no key for signatures"},
		"no JSON":                {[]string{"{"}, "is no JSON Web Key Set"},
		"a private key":          {[]string{with(ecKey, `"kid"`, `"d":"AAAA","kid"`)}, "has a private key or a secret as keys[0]"},
		"a secret":               {[]string{ecKey, `{"kid":"s","kty":"oct","k":"AAAA"}`}, "has a private key or a secret as keys[1]"},
		"a secret without k":     {[]string{`{"kid":"s","kty":"oct"}`}, `with the kid "s": the kty "oct" is not supported: RSA and EC are`},
		"EdDSA":                  {[]string{`{"kid":"e","kty":"OKP","crv":"Ed25519","x":"AAAA"}`}, `the kty "OKP" is not supported`},
		"HS256 for RSA":          {[]string{with(rsaKey, `"kid"`, `"alg":"HS256","kid"`)}, `the alg "HS256" is not supported for RSA`},
		"none for RSA":           {[]string{with(rsaKey, `"kid"`, `"alg":"none","kid"`)}, `the alg "none" is not supported for RSA`},
		"ES384 for P-256":        {[]string{with(ecKey, `"kid"`, `"alg":"ES384","kid"`)}, `the alg "ES384" does not fit the crv P-256, whose alg is ES256`},
		"another curve":          {[]string{with(ecKey, "P-256", "secp256k1")}, `the crv "secp256k1" is not supported`},
		"a point off the curve":  {[]string{with(ecKey, `"x":"RR`, `"x":"RS`)}, "x and y are no point of P-256"},
		"a short coordinate":     {[]string{with(ecKey, `"x":"RRBt`, `"x":"`)}, "x and y have to have 32 bytes"},
		"a bad coordinate":       {[]string{with(ecKey, `"x":"R`, `"x":"+`)}, "x: illegal base64"},
		"a small modulus":        {[]string{`{"kid":"b","kty":"RSA","n":"AQAB","e":"AQAB"}`}, "n has to be odd, of 2048 to 8192 bits, and has 17 bits"},
		"an exponent of 1":       {[]string{with(rsaKey, `"AQAB"`, `"AQ"`)}, "e has to be odd, from 3"},
		"a large exponent":       {[]string{with(rsaKey, `"AQAB"`, `"AQAAAAAB"`)}, "e has to be odd, from 3"},
		"no kid":                 {[]string{with(ecKey, `"kid":"a",`, "")}, "a kid has 1 to 256 bytes"},
		"a kid twice":            {[]string{ecKey, with(rsaKey, `"b"`, `"a"`)}, `has two keys with the kid "a"`},
		"a kid that is a number": {[]string{with(ecKey, `"a"`, "5")}, "is no JSON Web Key Set"},
		"more than 32":           {strings.Split(strings.Repeat(ecKey+"\n", 33)[:33*(len(ecKey)+1)-1], "\n"), "has 33 keys where 32 are allowed"},
	} {
		keys, err := Parse(`{"keys":[` + strings.Join(test.keys, ",") + `]}`)
		var all []string
		for _, key := range keys {
			all = append(all, key.ID+" "+key.Algorithm)
		}
		got := strings.Join(all, ", ")
		if err != nil {
			got = err.Error()
		}
		if (err == nil) != (len(keys) > 0) || err == nil && got != test.want || !strings.Contains(got, test.want) {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
