// Package inventory is what gateway-keys tells the agent of Secrets and ConfigMaps: no keys. In: what gateway-keys
// found in them. Out: entries in a journal, so that the agent reads only what changed.
package inventory

import (
	"crypto/x509"
	"regexp"
	"slices"
	"strings"
	"time"
)

// File is the name of the journal, in the directory of the agent.
const File = "inventory"

// Status is the key of an entry about all others. Until it is there, nobody knows which there are.
const Status = ""

const (
	secret    = "Secret/"
	configMap = "ConfigMap/"
)

// SecretKey is the key of a Secret's entry.
func SecretKey(name string) string { return secret + name }

// ConfigMapKey is the key of a ConfigMap's entry.
func ConfigMapKey(name string) string { return configMap + name }

// Parse returns whose entry has a key: the name of a Secret, or of a ConfigMap.
func Parse(key string) (secretName, configMapName string) {
	if name, ok := strings.CutPrefix(key, secret); ok {
		return name, ""
	}
	return "", strings.TrimPrefix(key, configMap)
}

// Entry is what is known of a Secret or ConfigMap. An empty one says that it does not exist, or holds nothing of use.
type Entry struct {
	// Certificate is the one that HAProxy has or may load; nil: none.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Problem says why the certificate that a Secret holds now cannot be used; "" if it can.
	Problem string `json:"problem,omitempty"`
	// Files are those with users, API keys or keys of sessions, with what is wrong with them; "": nothing.
	Files map[string]string `json:"files,omitempty"`
	// Issuer is the provider that the secret of a client is for.
	Issuer []byte `json:"issuer,omitempty"`
	// Version is another one for other content of a ConfigMap; "": it does not exist.
	Version string `json:"version,omitempty"`
	// Asks says of Status that HAProxy has to run and be asked about certificates, which are in no entry before.
	Asks bool `json:"asks,omitempty"`
}

// Certificate describes one.
type Certificate struct {
	// Names are the DNS names it is for, in lower case, sorted.
	Names []string `json:"names,omitempty"`
	// KeyType is the type of its key: a listener may show one certificate of each type for a name.
	KeyType   x509.PublicKeyAlgorithm `json:"keyType,omitempty"`
	NotBefore time.Time               `json:"notBefore"`
	NotAfter  time.Time               `json:"notAfter"`
}

// Describe describes a certificate.
func Describe(leaf *x509.Certificate) *Certificate {
	return &Certificate{Names: dnsNames(leaf), KeyType: leaf.PublicKeyAlgorithm, NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter}
}

// namePattern matches DNS names. The author of a certificate may write anything into it.
var namePattern = regexp.MustCompile(`^(\*\.)?[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?(\.[a-z0-9_]([-a-z0-9_]*[a-z0-9_])?)*$`)

const maxNameLength = 253

func dnsNames(certificate *x509.Certificate) []string {
	var names []string
	for _, name := range certificate.DNSNames {
		name = strings.TrimSuffix(strings.ToLower(name), ".")
		if len(name) <= maxNameLength && namePattern.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
