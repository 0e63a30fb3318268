// Package keystream is the protocol by which proxy pods get Secrets and ConfigMaps from gateway-key-server, and the
// pods' side of it.
//
// A pod sends a Request to Path, with a token for Audience. The answer is a stream of Lines. Each object that the
// pod's Gateway names, and that differs from what the pod has, has a Line; then comes one with Synced, then one for
// each change. So an object that no Line was about is unknown, or as the pod has it. The server ends a stream after
// some minutes. The pod asks again then, which is how tokens are checked again.
package keystream

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
	"time"
)

const (
	// Path is where pods ask.
	Path = "/v1/objects"
	// Audience is whom tokens of pods are for. Nobody else takes such a token, and the server takes no other.
	Audience = "keys.app.example.com"
	// PingInterval is how often the server sends a Line at least.
	PingInterval = 10 * time.Second
	// MaxLine is how long a Line may be. An object of 1 MiB, the largest that the API server stores, takes 1.4 MiB.
	MaxLine = 2 << 20

	// KindSecret is a kind of objects.
	KindSecret = "Secret"
	// KindConfigMap is the other one.
	KindConfigMap = "ConfigMap"
)

// Request is what a pod asks with.
type Request struct {
	// Have are the digests of what the pod has, by KIND/NAME; "": the pod knows that there is no such object.
	Have map[string]string `json:"have"`
}

// Line is what the server says at once: something about an object, or Synced, or Ping.
type Line struct {
	Kind string `json:"kind,omitempty"`
	// Name is the object's name in the pod: its own, or its name in the namespace of the Gateway.
	Name string `json:"name,omitempty"`
	// Digest is the digest of Files.
	Digest string `json:"digest,omitempty"`
	// Files are the content. None: there is no such object, or the Gateway may not have it.
	Files map[string][]byte `json:"files,omitempty"`
	// Synced reports whether the pod has received all differences.
	Synced bool `json:"synced,omitempty"`
	// Ping shows that the server is alive.
	Ping bool `json:"ping,omitempty"`
}

// Object is a Secret or ConfigMap, as a pod gets it.
type Object struct {
	Kind, Name, Digest string
	// Files are the content; nil: there is no such object, or the Gateway may not have it.
	Files map[string][]byte
}

// Key returns how a Request names an object.
func Key(kind, name string) string { return kind + "/" + name }

// Digest returns the digest of files; "" of none.
func Digest(files map[string][]byte) string {
	if len(files) == 0 {
		return ""
	}
	hash := sha256.New()
	var length [8]byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for _, part := range [][]byte{[]byte(name), files[name]} {
			binary.BigEndian.PutUint64(length[:], uint64(len(part)))
			hash.Write(length[:])
			hash.Write(part)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}
