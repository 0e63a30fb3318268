package ir

import "testing"

func TestQuote(t *testing.T) {
	tests := map[string]struct{ in, special, want string }{
		"what the schema allows in a path":     {"/a!$&'()*+,;=:@%7E-._~", InMap, "/a!$&'()*+,;=:@%7E-._~"},
		"what the schema allows in a name":     {"api-v2.x_1", InConfig, "api-v2.x_1"},
		"white space and controls in a map":    {"a b\tc\nd\re\x00f\x7f", InMap, "a%20b%09c%0Ad%0De%00f%7F"},
		"white space and controls in the file": {"a b\n", InConfig, "a%20b%0A"},
		"quotes, escapes, comments, variables": {`"'\#$HOME`, InConfig, "%22%27%5C%23%24HOME"},
		"what is not ASCII":                    {"é", InMap, "%C3%A9"},
		"the empty string":                     {"", InConfig, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Quote(test.in, test.special); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
