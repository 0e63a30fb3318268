// Package inventory is how gateway-keys reports Secrets and ConfigMaps to the agent, without keys. In: what
// gateway-keys found in them. Out: entries in a journal, so that the agent reads only what changed.
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

// Status is the key of an entry about all others. Before it is there, the list of entries is not complete.
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

// Entry is the known state of a Secret or ConfigMap. An empty entry means that the object does not exist, or holds
// nothing of use.
type Entry struct {
	// Certificate is the one that HAProxy has or may load; nil: none.
	Certificate *Certificate `json:"certificate,omitempty"`
	// Problem is why the certificate that a Secret holds now cannot be used; "" if it can.
	Problem string `json:"problem,omitempty"`
	// Files are the files with users, API keys or keys of sessions, with their problems; "": none.
	Files map[string]string `json:"files,omitempty"`
	// Issuer is the provider that the secret of a client is for.
	Issuer []byte `json:"issuer,omitempty"`
	// Version is another one for other content of a ConfigMap; "": it does not exist.
	Version string `json:"version,omitempty"`
	// Asks, in Status, reports whether HAProxy must run to check certificates, which are in no entry before.
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
