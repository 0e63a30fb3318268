package regex_test

import (
	"testing"

	"gateway/internal/must"
	"gateway/internal/regex"
)

// TestParts: expressions for one text, and for all texts with one beginning, are distinguished from all others.
func TestParts(t *testing.T) {
	for _, test := range []struct {
		expression, literal, open string
		isLiteral, isOpen         bool
	}{
		{"abc", "abc", "", true, false},
		{"^a(b)c$", "abc", "", true, false},
		{`\Qa.b\E`, "a.b", "", true, false},
		{"", "", "", true, false},
		{".*", "", "", false, true},
		{"/api/.*", "", "/api/", false, true},
		{"^/api(/)(.*)$", "", "/api/", false, true},
		{`(?s)/a.*`, "", "/a", false, true},
		{"/api/.+", "", "", false, false},
		{"/a.*b", "", "", false, false},
		{"(?i)abc", "", "", false, false},
		{"(?i)/a.*", "", "", false, false},
		{"a|b", "", "", false, false},
		{"(?m)^a", "", "", false, false},
		{"a^b", "", "", false, false},
		{"a+", "", "", false, false},
		{"(/api/.*)?", "", "", false, false},
		{`/\xE4`, "", "", false, false},
	} {
		e := must.Get(regex.Parse(test.expression))(t)
		if text, is := e.Literal(); is != test.isLiteral || is && text != test.literal {
			t.Errorf("%q: literal %q, %v", test.expression, text, is)
		}
		if text, is := e.Open(); is != test.isOpen || is && text != test.open {
			t.Errorf("%q: open %q, %v", test.expression, text, is)
		}
	}
}
