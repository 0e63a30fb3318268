package ir

import (
	"strconv"
	"strings"
	"time"
)

// HandshakeTimeout is how long a TLS handshake may take. Then each connection that was begun by the options of a
// listener is made, or closed.
const HandshakeTimeout = 10 * time.Second

// Demands are what a listener demands of a TLS connection.
type Demands struct {
	// MinVersion is TLSv1.2 or TLSv1.3.
	MinVersion string
	// Authority is the file with the CAs that clients' certificates are verified by; "": clients are not asked.
	Authority string
	// Required reports whether a client must have a certificate.
	Required bool
}

// AreMetBy reports whether every connection that meets other demands meets these.
func (d Demands) AreMetBy(other Demands) bool {
	return d.MinVersion <= other.MinVersion && (d.Authority == "" || d.Authority == other.Authority && (other.Required || !d.Required))
}

// NameKey returns the key in NamesFile of a server name, or a wildcard of one label, of a port. AnyName is for those
// that have no other.
func NameKey(port int32, name string) string {
	return Quote(strconv.Itoa(int(port))+"/"+name, InMap)
}

// AnyName stands for all server names.
const AnyName = "*"

// NameKeys returns the keys in NamesFile by which HAProxy looks up a server name, from its own on.
func NameKeys(key string) []string {
	keys := []string{key}
	port, name, _ := strings.Cut(key, "/")
	if first, rest, ok := strings.Cut(name, "."); ok && first != AnyName {
		keys = append(keys, port+"/"+AnyName+"."+rest)
	}
	if name != AnyName {
		keys = append(keys, port+"/"+AnyName)
	}
	return keys
}

// The first field of a value in HostsFile is the name of a listener, its identity if it terminates TLS, and the name in
// FiltersFile of what happens to its requests before a rule is chosen.
const listenerMark = "/"

// ListenerField returns that field. Without the latter two, it has no more than the name.
func ListenerField(name, identity, prerouting string) string {
	return strings.TrimRight(strings.Join([]string{name, identity, prerouting}, listenerMark), listenerMark)
}

// IdentityIn returns the identity in a value of HostsFile, "" if there is none.
func IdentityIn(value string) string {
	listener, _, _ := strings.Cut(value, "|")
	_, rest, _ := strings.Cut(listener, listenerMark)
	identity, _, _ := strings.Cut(rest, listenerMark)
	return identity
}
