package login

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"gateway/internal/certificates"
)

const (
	// secretSize is the size of a key in a Secret, and keySize the size of the keys derived from it for AES-256, in
	// bytes.
	secretSize, keySize = 32, 32
	// idSize, nonceSize and tagSize are the sizes of the parts of a sealed text, in bytes.
	idSize, nonceSize, tagSize = 6, 12, 16
)

// Purpose is what a sealed text is for. Each has keys of its own.
type Purpose string

const (
	// ForHAProxy is what HAProxy decrypts, too.
	ForHAProxy Purpose = "session"
	// ForLogin is what gateway-login alone decrypts.
	ForLogin Purpose = "login"
)

// Key is one of the keys of a Secret.
type Key struct {
	// ID names the key that seals a text, and reveals nothing of the key.
	ID      string
	derived map[Purpose][]byte
}

// Keys are the keys of a Secret. The first seals, and all open.
type Keys []Key

// ParseKeys reads a file with keys: lines of 64 hexadecimal digits. problem names the lines that cannot be used, "" if
// all can.
func ParseKeys(content []byte) (keys Keys, problem string) {
	problem = certificates.ParseLines(certificates.SessionKeysFile, content, "key", "be used", func(line string) string {
		secret, err := hex.DecodeString(line)
		if err != nil || len(secret) != secretSize {
			return fmt.Sprintf("has not %d hexadecimal digits", 2*secretSize)
		}
		key := newKey(secret)
		if slices.ContainsFunc(keys, func(other Key) bool { return other.ID == key.ID }) {
			return "has the key of an earlier line"
		}
		keys = append(keys, key)
		return ""
	})
	return keys, problem
}

func newKey(secret []byte) Key {
	key := Key{ID: base64.StdEncoding.EncodeToString(derive(secret, "id", idSize)), derived: map[Purpose][]byte{}}
	for _, purpose := range []Purpose{ForHAProxy, ForLogin} {
		key.derived[purpose] = derive(secret, string(purpose), keySize)
	}
	return key
}

// derive returns a key that does not tell others of the same secret.
func derive(secret []byte, purpose string, size int) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, "gateway "+purpose, size)
	if err != nil {
		panic(err) // of sizes that HKDF does not have
	}
	return key
}

// HAProxyKey returns the key that HAProxy has, in Base64.
func (k Key) HAProxyKey() string { return base64.StdEncoding.EncodeToString(k.derived[ForHAProxy]) }

// Seal encrypts a text, and binds it to another one: it opens with that alone. The parts are in Base64, with dots
// between them, and have places that HAProxy knows: the key's ID, nonce, tag and ciphertext. Keys have at least one.
func (k Keys) Seal(purpose Purpose, binding string, text []byte) string {
	nonce := make([]byte, nonceSize)
	_, _ = rand.Read(nonce) // which never fails
	sealed := k[0].cipher(purpose).Seal(nil, nonce, text, []byte(binding))
	encode, end := base64.StdEncoding.EncodeToString, len(sealed)-tagSize
	return strings.Join([]string{k[0].ID, encode(nonce), encode(sealed[end:]), encode(sealed[:end])}, ".")
}

// Open decrypts a text.
func (k Keys) Open(purpose Purpose, binding, sealed string) (text []byte, ok bool) {
	parts := strings.Split(sealed, ".")
	if len(parts) != 4 || strings.ContainsAny(sealed, "\r\n") {
		return nil, false
	}
	var decoded [3][]byte
	for i := range decoded {
		var err error
		if decoded[i], err = base64.StdEncoding.Strict().DecodeString(parts[i+1]); err != nil {
			return nil, false
		}
	}
	if len(decoded[0]) != nonceSize || len(decoded[1]) != tagSize {
		return nil, false
	}
	for _, key := range k {
		if key.ID != parts[0] {
			continue
		}
		text, err := key.cipher(purpose).Open(nil, decoded[0], append(decoded[2], decoded[1]...), []byte(binding))
		return text, err == nil
	}
	return nil, false
}

func (k Key) cipher(purpose Purpose) cipher.AEAD {
	block, err := aes.NewCipher(k.derived[purpose])
	if err != nil {
		panic(err) // of another size
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic(err)
	}
	return aead
}
