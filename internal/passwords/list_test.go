package passwords

import (
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"gateway/internal/must"
)

// sha512OfSecret is what openssl passwd -6 -salt abcdefgh secret prints.
const sha512OfSecret = "$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG."

// bcryptOf returns the hash of a password, as cheap as there is one.
func bcryptOf(t *testing.T, password string) string {
	t.Helper()
	h := must.Get(bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost))(t)
	return string(h)
}

func TestParse(t *testing.T) {
	t.Parallel()
	good := bcryptOf(t, "secret")
	const neither = " has a hash that is neither of bcrypt ($2y$) nor of SHA-512 ($6$)"
	tests := map[string]struct {
		content string
		users   int
		problem string
	}{
		"both kinds, a comment, an empty line, and lines of Windows": {"# users\r\n\r\na:" + good + "\r\nb:" + sha512OfSecret + "\r\n", 2, ""},
		"what htpasswd and PHP call it":                              {"a:$2y$" + good[4:] + "\nb:$2b$" + good[4:], 2, ""},
		"nothing":                                                    {"\n# a:b\n", 0, "auth holds no user"},
		"a password":                                                 {"a:" + good + "\nb:secret", 1, "some users in auth cannot log in: line 2" + neither},
		"other kinds":                                                {"a:$apr1$x$y\nb:{SHA}abc\nc:$5$x$y\n", 0, "no user in auth can log in: line 1" + neither + ", line 2" + neither + ", line 3" + neither},
		"no colon":                                                   {"secret\n" + "b:" + good, 1, "some users in auth cannot log in: line 1 has no colon"},
		"no name":                                                    {":" + good, 0, "no user in auth can log in: line 1 has a name that is empty, too long or not printable"},
		"a name twice":                                               {"a:" + good + "\na:" + sha512OfSecret, 1, "some users in auth cannot log in: line 2 has a name that an earlier line has"},
		"a name for a header":                                        {"a\x01b:" + good, 0, "no user in auth can log in: line 1 has a name that is empty, too long or not printable"},
		"dear bcrypt":                                                {"a:$2y$15" + good[6:], 0, "no user in auth can log in: line 1 has a hash that takes too long to check"},
		"impossible bcrypt":                                          {"a:$2y$03" + good[6:], 0, "no user in auth can log in: line 1 has a hash that is damaged"},
		"short bcrypt":                                               {"a:" + good[:59], 0, "no user in auth can log in: line 1" + neither},
		"dear SHA-512":                                               {"a:$6$rounds=1000001" + sha512OfSecret[2:], 0, "no user in auth can log in: line 1 has a hash that takes too long to check"},
		"cheap SHA-512":                                              {"a:$6$rounds=999" + sha512OfSecret[2:], 0, "no user in auth can log in: line 1 has a hash that is damaged"},
		"many":                                                       {strings.Repeat("x\n", 7) + "a:" + good, 1, "some users in auth cannot log in: " + strings.TrimSuffix(strings.Join([]string{"line 1", "line 2", "line 3", "line 4", "line 5 "}, " has no colon, "), " ") + " has no colon, and 2 more lines"},
	}
	for name, test := range tests {
		list, problem := Parse([]byte(test.content))
		if len(list.names) != test.users || list.IsEmpty() != (test.users == 0) || problem != test.problem {
			t.Errorf("%s: got %d users, %q, want %d, %q", name, len(list.names), problem, test.users, test.problem)
		}
		if strings.Contains(problem, "secret") || strings.Contains(problem, good[7:]) {
			t.Errorf("%s: the message tells a password: %s", name, problem)
		}
	}
}

// The hashes are of openssl passwd -6, and of the specification of SHA-crypt.
func TestMatches(t *testing.T) {
	t.Parallel()
	for text, password := range map[string]string{
		sha512OfSecret: "secret",
		"$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1":                    "Hello world!",
		"$6$rounds=10000$saltstringsaltst$OW1/O6BYHV6BcXZu8QVeXbDWra3Oeqh0sbHbbMCVNSnCM/UrjmM0Dp8vOuZeHBy/YTBmSK6H9qs/y3RnOaw5v.": "Hello world!",
		"$6$rounds=1400$anotherlongsalts$POfYwTEok97VWcjxIiSOjiykti.o/pQs.wPvMxQ6Fm7I6IoYN3CmLs66x9t0oSwbtEW7o7UmJEiDwGqd8p4ur1":  "a very much longer text to encrypt.  This one even stretches over morethan one line.",
		bcryptOf(t, "secret"):              "secret",
		"$2y$" + bcryptOf(t, "secret")[4:]: "secret",
	} {
		h, problem := parseHash(text)
		if problem != "" || !h.matches(password) {
			t.Errorf("%s does not match %q: %q", text, password, problem)
		}
		for _, other := range []string{"", password + "x", strings.ToUpper(password)} {
			if h.matches(other) {
				t.Errorf("%s matches %q", text, other)
			}
		}
	}
}
