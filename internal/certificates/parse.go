package certificates

import (
	"bytes"
	"cmp"
	"crypto"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// CertificateFile is the key of a Secret that holds a certificate, and the name of its file.
	CertificateFile = "tls.crt"
	// KeyFile is the same for the certificate's private key.
	KeyFile = "tls.key"
	// AuthorityFile is the key of a ConfigMap that holds certificates of authorities, and the name of its file.
	AuthorityFile = "ca.crt"

	// JoinedFile is the name of the file with a certificate and its key, which HAProxy so reads at once.
	JoinedFile = "tls.pem"

	// UsersFile is the key of a Secret that holds users and hashes of their passwords, and the name of its file. The
	// agent has an empty one in its place, if any of the users can log in.
	UsersFile = "auth"
	// APIKeysFile is the same for names of clients and hashes of their keys.
	APIKeysFile = "api-keys"
	// SessionKeysFile is the same for keys of sessions.
	SessionKeysFile = "session-keys"
	// ClientSecretFile is beside it. Providers know a client by it; neither HAProxy nor gateway-keys has it.
	ClientSecretFile = "client-secret"
	// IssuerFile is beside it, too. It names the provider that the client's secret is for.
	IssuerFile = "issuer"
	// APIKeysMap is the file for HAProxy with all of these, in a directory that has the name of no Secret.
	APIKeysMap = "_/api-keys.map"
	// SessionKeysMap is the same for keys of sessions.
	SessionKeysMap = "_/session-keys.map"

	// DataLink is the symlink that kubelet swaps when it changes the files of a volume, all at once; so does a Keeper.
	DataLink = "..data"

	// Block is the type of a certificate's PEM block.
	Block = "CERTIFICATE"
	// minRSABits is what OpenSSL's default security level asks for.
	minRSABits = 2048
)

// Parse reads a tls.crt: the certificate, then those that lead to an authority. problem is why nobody can use it.
func Parse(content []byte) (chain []*x509.Certificate, problem string) {
	chain, problem = ParseChain(content, CertificateFile)
	if problem != "" {
		return nil, problem
	}
	if key, ok := chain[0].PublicKey.(*rsa.PublicKey); ok && key.N.BitLen() < minRSABits {
		return nil, fmt.Sprintf("the certificate has an RSA key of %d bits: it takes %d", key.N.BitLen(), minRSABits)
	}
	return chain, ""
}

// CheckTime returns why a certificate that is valid from notBefore to notAfter cannot be used now, ""
// if it can. It also returns when that changes, zero: never.
func CheckTime(notBefore, notAfter, now time.Time) (problem string, until time.Time) {
	// In the second of notAfter it can be used still (RFC 5280, section 4.1.2.5).
	expiry := notAfter.Add(time.Second)
	switch {
	case now.Before(notBefore):
		return "the certificate is not valid before " + FormatTime(notBefore), notBefore
	case !now.Before(expiry):
		return "the certificate expired on " + FormatTime(notAfter), time.Time{}
	}
	return "", expiry
}

// FormatTime writes a time for users.
func FormatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// ParseChain returns all certificates of a file, at least one, or what is wrong with it in the object that
// has the file.
func ParseChain(content []byte, name string) (chain []*x509.Certificate, problem string) {
	if problem := misplaced(content, name); problem != "" {
		return nil, problem
	}
	others := ""
	for rest := content; ; {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		switch {
		case block == nil && len(chain) == 0:
			return nil, name + " holds no certificate" + cmp.Or(others, encodingOf(content))
		case block == nil && bytes.Contains(rest, []byte(begin)):
			return nil, fmt.Sprintf("what follows certificate %d in %s is damaged", len(chain), name)
		case block == nil:
			return chain, ""
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return nil, name + " holds a private key, which belongs in tls.key alone"
		case block.Type == "TRUSTED "+Block, block.Type == "X509 "+Block: // OpenSSL's own
			return nil, fmt.Sprintf("certificate %d in %s has the PEM type %s, not %s: convert it with openssl x509", len(chain)+1, name, block.Type, Block)
		case block.Type != Block:
			others = cmp.Or(others, remedies[block.Type])
			continue
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Sprintf("certificate %d in %s cannot be read: %s", len(chain)+1, name, err.Error())
		}
		chain = append(chain, certificate)
	}
}

// begin is what a block begins with.
const begin = "-----BEGIN "

// remedies are what to do about another block in place of a certificate, by its type.
var remedies = map[string]string{
	"CERTIFICATE REQUEST":     " but a request for one: put the certificate there that was issued",
	"NEW CERTIFICATE REQUEST": " but a request for one: put the certificate there that was issued",
	"PKCS7":                   " but PKCS7: convert it with openssl pkcs7 -print_certs",
	"PUBLIC KEY":              " but a public key: put the certificate there that was issued for it",
}

// encodingOf returns what to do about a certificate that is not PEM.
func encodingOf(content []byte) string {
	if _, err := x509.ParseCertificate(content); err != nil {
		return ""
	}
	return " in PEM but one in DER: convert it with openssl x509 -inform der"
}

// misplaced returns the problems of the first block of a file that does not begin on a line of its own; "": none. PEM
// is read neither there nor in the block before.
func misplaced(content []byte, name string) (problem string) {
	for i, n := 0, 1; ; n++ {
		next := bytes.Index(content[i:], []byte(begin))
		if next < 0 {
			return ""
		}
		if i += next; i > 0 && content[i-1] != '\n' {
			return fmt.Sprintf("block %d in %s does not begin on a new line: put a line break before its -----BEGIN", n, name)
		}
		i += len(begin)
	}
}

// Pair is a certificate with its key.
type Pair struct {
	// Joined is the content of JoinedFile: the certificates and the key, without the text around them.
	Joined []byte
	// Leaf is the first certificate.
	Leaf *x509.Certificate
	// Sure reports whether HAProxy takes it for sure. It may refuse others.
	Sure bool
}

// Join returns the pair of a tls.crt and its tls.key. If they do not fit, problem says so. Keys of a type that OpenSSL
// may know and Go does not are taken to fit.
func Join(certificate, key []byte) (pair Pair, problem string) {
	chain, problem := Parse(certificate)
	if problem != "" {
		return Pair{}, problem
	}
	block := privateKey(key)
	switch {
	case len(key) == 0:
		return Pair{}, "it has no " + KeyFile
	case block == nil:
		return Pair{}, cmp.Or(misplaced(key, KeyFile), KeyFile+" holds no private key")
	case strings.HasPrefix(block.Type, "ENCRYPTED") || len(block.Headers) > 0:
		return Pair{}, KeyFile + " is encrypted: decrypt it with openssl pkey"
	}
	public, private := Encode(chain), pem.EncodeToMemory(block)
	pair = Pair{Joined: slices.Concat(public, private), Leaf: chain[0]}
	if chain[0].PublicKeyAlgorithm == x509.UnknownPublicKeyAlgorithm {
		return pair, ""
	}
	signer, isUsual := parseKey(block)
	if signer == nil {
		return Pair{}, KeyFile + " holds a private key that cannot be read"
	}
	if !isFor(signer, chain[0]) {
		if _, err := tls.X509KeyPair(public, private); err != nil {
			return Pair{}, mismatch(chain, private, err)
		}
	}
	pair.Sure = isUsual && len(pair.Joined) <= sureSize && !slices.ContainsFunc(chain, func(c *x509.Certificate) bool { return !isSure(c) })
	return pair, ""
}

// isFor reports whether a key belongs to a certificate.
func isFor(signer crypto.Signer, certificate *x509.Certificate) bool {
	public, ok := signer.Public().(interface {
		Equal(other crypto.PublicKey) bool
	})
	return ok && public.Equal(certificate.PublicKey)
}

// mismatch says why a key does not fit.
func mismatch(chain []*x509.Certificate, private []byte, err error) string {
	if n := ownerOf(chain, private); n > 0 {
		return fmt.Sprintf("%s begins with another certificate than that of %s, which is certificate %d: put it first, and after it each one that signed the one before",
			CertificateFile, KeyFile, n+1)
	}
	return KeyFile + " is not the key of its certificate: " + strings.TrimPrefix(err.Error(), "tls: ")
}

// ownerOf returns the index of the certificate for a private key, -1 if there is none.
func ownerOf(chain []*x509.Certificate, private []byte) int {
	return slices.IndexFunc(chain, func(certificate *x509.Certificate) bool {
		_, err := tls.X509KeyPair(Encode([]*x509.Certificate{certificate}), private)
		return err == nil
	})
}

// privateKey returns the first private key of a file, nil if there is none.
func privateKey(content []byte) *pem.Block {
	for {
		var block *pem.Block
		if block, content = pem.Decode(content); block == nil || strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return block
		}
	}
}

// Encode returns certificates in PEM.
func Encode(chain []*x509.Certificate) []byte {
	var encoded []byte
	for _, certificate := range chain {
		encoded = append(encoded, pem.EncodeToMemory(&pem.Block{Type: Block, Bytes: certificate.Raw})...)
	}
	return encoded
}
