package passwords

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"gateway/internal/certificates"
)

// Keys are API keys: from the SHA-256 of each, in upper case, to the name of its client.
type Keys map[string]string

// clientName matches names of clients: what a header, a map and text of JSON can have as it is.
var clientName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._@-]{0,126}[A-Za-z0-9])?$`)

// ParseKeys reads a file with API keys. A line is the name of a client, a colon, and the SHA-256 of a key in
// hexadecimal. problem is as from Parse.
func ParseKeys(content []byte) (keys Keys, problem string) {
	keys = Keys{}
	problem = certificates.ParseLines(certificates.APIKeysFile, content, "key", "be used", keys.add)
	return keys, problem
}

// add adds the key of a line. It returns the problems of the line, "" if there are none.
func (k Keys) add(line string) string {
	name, text, ok := strings.Cut(line, ":")
	if !ok {
		return "has no colon"
	}
	if !clientName.MatchString(name) {
		return "has a name that is empty, too long, or of other characters than letters, digits and . _ @ - between them"
	}
	sum, err := hex.DecodeString(text)
	if err != nil || len(sum) != sha256.Size {
		return "has no SHA-256 in hexadecimal after its colon"
	}
	if [sha256.Size]byte(sum) == sha256.Sum256(nil) {
		return "has the SHA-256 of an empty key"
	}
	text = strings.ToUpper(text)
	if _, ok := k[text]; ok {
		return "has the key of an earlier line"
	}
	k[text] = name
	return ""
}

// Hash returns the SHA-256 of a key, as Keys have it.
func Hash(key string) string { return fmt.Sprintf("%X", sha256.Sum256([]byte(key))) }
