package passwords

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// TestAPIKeys: a key that cannot be used hides no other, and a message has no part of one.
func TestAPIKeys(t *testing.T) {
	t.Parallel()
	one, two, empty := Hash("one"), Hash("two"), Hash("")
	const badName = "has a name that is empty, too long, or of other characters than letters, digits and . _ @ - between them"
	for content, test := range map[string]struct {
		keys    Keys
		problem string
	}{
		"a:" + one: {Keys{one: "a"}, ""},
		"# keys\n\n  a.B_c@d-1:" + strings.ToLower(one) + " \r\na.B_c@d-1:" + two: {Keys{one: "a.B_c@d-1", two: "a.B_c@d-1"}, ""},
		"":      {nil, "api-keys holds no key"},
		"# a\n": {nil, "api-keys holds no key"},
		one:     {nil, "no key in api-keys can be used: line 1 has no colon"},
		"a:" + one + "\nb:" + strings.ToLower(one): {Keys{one: "a"}, "some keys in api-keys cannot be used: line 2 has the key of an earlier line"},
		"a:secret\nb:" + one:                       {Keys{one: "b"}, "some keys in api-keys cannot be used: line 1 has no SHA-256 in hexadecimal after its colon"},
		"a:" + one[1:]:                             {nil, "no key in api-keys can be used: line 1 has no SHA-256 in hexadecimal after its colon"},
		"a:" + one + "  -":                         {nil, "no key in api-keys can be used: line 1 has no SHA-256 in hexadecimal after its colon"},
		"a: " + one:                                {nil, "no key in api-keys can be used: line 1 has no SHA-256 in hexadecimal after its colon"},
		"a:" + empty:                               {nil, "no key in api-keys can be used: line 1 has the SHA-256 of an empty key"},
		":" + one:                                  {nil, "no key in api-keys can be used: line 1 " + badName},
		"a b:" + one:                               {nil, "no key in api-keys can be used: line 1 " + badName},
		"a\x00b:" + one:                            {nil, "no key in api-keys can be used: line 1 " + badName},
		"\"a\":" + one:                             {nil, "no key in api-keys can be used: line 1 " + badName},
		strings.Repeat("a", 129) + ":" + one:       {nil, "no key in api-keys can be used: line 1 " + badName},
		strings.Repeat("a", 128) + ":" + one:       {Keys{one: strings.Repeat("a", 128)}, ""},
		strings.Repeat("a\n", 7):                   {nil, "no key in api-keys can be used: " + lines(5, "line %d has no colon") + ", and 2 more lines"},
	} {
		keys, problem := ParseKeys([]byte(content))
		if !maps.Equal(keys, test.keys) || problem != test.problem {
			t.Errorf("%q: got %v, %q, want %v, %q", content, keys, problem, test.keys, test.problem)
		}
		if strings.Contains(problem, "secret") {
			t.Errorf("the problem %q has a key", problem)
		}
	}
}

func lines(n int, format string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i+1))
	}
	return strings.Join(all, ", ")
}
