package certificates

import (
	"bytes"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"unicode"

	"gateway/internal/certtest"
)

// parameters are what openssl ecparam puts before a key.
const parameters = "-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"

// glued is files without a line break between them.
func glued(files ...[]byte) []byte {
	for i := range files {
		files[i] = bytes.TrimSpace(files[i])
	}
	return bytes.Join(files, nil)
}

// FuzzJoin: the problem of any two files is one line that names the Secret once, and the agent gets only certificates.
func FuzzJoin(f *testing.F) {
	one, unknown := certtest.Fixed(), certtest.Refused()
	f.Add(one.Certificate, one.Key)
	f.Add(slices.Concat(one.Key[:len(one.Key)-9], one.Certificate), one.Key)
	f.Add(unknown.Certificate, unknown.Key)
	f.Add(one.Certificate, []byte("%s-----BEGIN %n PRIVATE KEY-----\n\n-----END %n PRIVATE KEY-----\n"))
	f.Add(one.Certificate, []byte("-----BEGIN \x1b[31m\r PRIVATE KEY-----\nA: b\n\n-----END \x1b[31m\r PRIVATE KEY-----\n"))
	f.Add([]byte("%d"), one.Key)
	f.Add(glued(one.Certificate, one.Certificate), one.Key)
	f.Add(one.Certificate, glued([]byte(parameters), one.Key))
	f.Fuzz(func(t *testing.T, certificate, key []byte) {
		pair, problem := Join(certificate, key)
		joined := pair.Joined
		if strings.ContainsFunc(problem, unicode.IsControl) {
			t.Errorf("it is told as %q", problem)
		}
		if problem != "" {
			return
		}
		chain, problem := ParseChain(public(joined), CertificateFile)
		if problem != "" || !bytes.Equal(public(joined), Encode(chain)) || !bytes.HasPrefix(joined, Encode(chain)) {
			t.Errorf("the agent gets %q of %q: %s", public(joined), joined, problem)
		}
	})
}

// public returns the certificates of a JoinedFile without the key.
func public(joined []byte) []byte {
	var all []byte
	for {
		var block *pem.Block
		if block, joined = pem.Decode(joined); block == nil {
			return all
		}
		if block.Type == Block {
			all = append(all, pem.EncodeToMemory(block)...)
		}
	}
}

// FuzzParseChain: a ca.crt, which may be anything, is either told to be wrong or read as what it is.
func FuzzParseChain(f *testing.F) {
	pair := certtest.Fixed()
	f.Add(pair.Certificate)
	f.Add(pair.Key)
	f.Add(slices.Concat(pair.Certificate, pair.Key))
	f.Add(slices.Concat(pair.Certificate, []byte("-----BEGIN CERTIFICATE-----\n%s%n\n")))
	f.Add(slices.Concat([]byte("text %d\n"), pair.Certificate, pair.Certificate[:100]))
	f.Add(pem.EncodeToMemory(&pem.Block{Type: Block, Bytes: []byte("%!s")}))
	f.Fuzz(func(t *testing.T, content []byte) {
		chain, problem := ParseChain(content, AuthorityFile)
		if strings.ContainsFunc(problem, unicode.IsControl) {
			t.Errorf("the problem is told as %q", problem)
		}
		if problem != "" {
			return
		}
		kept := Encode(chain)
		again, problem := ParseChain(kept, AuthorityFile)
		if problem != "" || len(again) != len(chain) || bytes.Contains(kept, []byte("PRIVATE")) {
			t.Errorf("of %d authorities %d are kept: %s", len(chain), len(again), problem)
		}
		if rest := bytes.TrimSpace(content); !bytes.Contains(rest, []byte("-----BEGIN "+Block)) {
			t.Errorf("%q holds an authority", rest)
		}
	})
}
