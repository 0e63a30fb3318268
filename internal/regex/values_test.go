package regex

import (
	"regexp"
	"slices"
	"testing"

	"gateway/internal/must"
	"gateway/internal/testtier"
)

// TestFits compares with texts that are tried: an expression of one way that none of them meets does not fit.
func TestFits(t *testing.T) {
	t.Parallel()
	plain := func(c byte) bool { return c == 'a' || c == 'C' || c == '3' }
	values := NewValues(plain, func(c byte) bool { return c == 0xc3 || c == 0xa4 })
	const longest = 6
	parts := []string{"a", "C", "3", "%C3", "%A4"}
	texts := []string{""}
	for i := 0; i < len(texts); i++ {
		for _, part := range parts {
			if text := texts[i] + part; len(text) <= longest {
				texts = append(texts, text)
			}
		}
	}
	random := testtier.Rand(t)
	pieces := []string{"a", "C", "3", "A", "4", "%", "[^%]", "[%C]", ".", "[b-z]", "x"}
	for range 500 {
		text := ""
		for range 1 + random.IntN(longest) {
			text += pieces[random.IntN(len(pieces))]
		}
		expression := must.Get(Parse(text))(t)
		met := slices.ContainsFunc(texts, regexp.MustCompile(`\A(?:`+text+`)\z`).MatchString)
		if fits := expression.Fits(values); fits != met {
			t.Errorf("%s: fits %t, and texts meet it: %t", text, fits, met)
		}
	}
}
