package passwords

import (
	"crypto/sha512"
	"crypto/subtle"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-crypt/x/crypt"
	"golang.org/x/crypto/bcrypt"

	"gateway/internal/certificates"
)

const (
	// maxName is the longest name of a user, in bytes, and maxPassword the longest password.
	maxName, maxPassword = 256, 1024
	// maxCost and maxRounds bound how long it takes to check a password: about a second.
	maxCost, minRounds, defaultRounds, maxRounds = 14, 1000, 5000, 1_000_000
)

// List are the users who may log in. The zero List has none.
type List struct {
	// names are in the order of the file.
	names  []string
	hashes map[string]hash
}

// IsEmpty reports whether nobody may log in.
func (l List) IsEmpty() bool { return len(l.names) == 0 }

// hash is a password's hash in a file.
type hash struct {
	// text is the whole hash, as the file has it.
	text string
	// salt, rounds and sum are of SHA-512; sum is "" for bcrypt.
	salt, sum string
	rounds    int
}

var (
	bcryptHash = regexp.MustCompile(`^\$2[aby]\$([0-9]{2})\$[./A-Za-z0-9]{53}$`)
	sha512Hash = regexp.MustCompile(`^\$6\$(?:rounds=([0-9]{1,9})\$)?([./A-Za-z0-9]{1,16})\$([./A-Za-z0-9]{86})$`)
)

// Parse reads a htpasswd file: lines with a name, a colon and a hash. problem names the lines that cannot be used, by
// their numbers and not their content; "" if all can.
func Parse(content []byte) (list List, problem string) {
	list.hashes = map[string]hash{}
	problem = certificates.ParseLines(certificates.UsersFile, content, "user", "log in", list.add)
	return list, problem
}

// add adds the user of a line. It returns the problems of the line, "" if there are none.
func (l *List) add(line string) string {
	name, text, ok := strings.Cut(line, ":")
	if !ok {
		return "has no colon"
	}
	if !isName(name) {
		return "has a name that is empty, too long or not printable"
	}
	if _, ok := l.hashes[name]; ok {
		return "has a name that an earlier line has"
	}
	h, reason := parseHash(text)
	if reason == "" {
		l.names, l.hashes[name] = append(l.names, name), h
	}
	return reason
}

// isName reports whether a name can be in a header: the backend gets it in one.
func isName(name string) bool {
	return name != "" && len(name) <= maxName && utf8.ValidString(name) && strings.TrimSpace(name) == name && isPrintable(name)
}

// isPrintable reports whether a text has no control characters, as RFC 7617 requires for names and passwords.
func isPrintable(text string) bool { return !strings.ContainsFunc(text, unicode.IsControl) }

func parseHash(text string) (h hash, reason string) {
	const tooLong = "has a hash that takes too long to check"
	if found := bcryptHash.FindStringSubmatch(text); found != nil {
		if _, err := bcrypt.Cost([]byte(text)); err != nil {
			return hash{}, "has a hash that is damaged"
		}
		if cost, _ := strconv.Atoi(found[1]); cost > maxCost {
			return hash{}, tooLong
		}
		return hash{text: text}, ""
	}
	found := sha512Hash.FindStringSubmatch(text)
	if found == nil {
		return hash{}, "has a hash that is neither of bcrypt ($2y$) nor of SHA-512 ($6$)"
	}
	rounds := defaultRounds
	if found[1] != "" {
		rounds, _ = strconv.Atoi(found[1])
	}
	switch {
	case rounds < minRounds:
		return hash{}, "has a hash that is damaged"
	case rounds > maxRounds:
		return hash{}, tooLong
	}
	return hash{text: text, rounds: rounds, salt: found[2], sum: found[3]}, ""
}

// matches reports whether it is the hash of a password. It is slow on purpose.
func (h hash) matches(password string) bool {
	if h.sum == "" {
		return bcrypt.CompareHashAndPassword([]byte(h.text), []byte(password)) == nil
	}
	sum := crypt.KeySHACrypt(sha512.New, []byte(password), []byte(h.salt), h.rounds)
	return subtle.ConstantTimeCompare(sum, []byte(h.sum)) == 1
}
