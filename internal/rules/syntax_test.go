package rules

import (
	"regexp"
	"testing"
)

// TestSyntax: names and values of headers are those that the schema of our own kind admits.
func TestSyntax(t *testing.T) {
	names := regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$`)
	values := regexp.MustCompile(`^[!-~]([ -~]*[!-~])?$`)
	signs := []string{"", "a", "Z", "0", "9", "_", ".", "-", " ", "~", "!", "\t", "\x7f", "\x00", "é", "\xff", "@", "[", "`", "{", "/", ":"}
	for _, first := range signs {
		for _, second := range signs {
			for _, third := range signs {
				text := first + second + third
				if got, want := isHeaderName(text), names.MatchString(text); got != want {
					t.Errorf("%q is the name of a header: got %t", text, got)
				}
				if got, want := isHeaderText(text), values.MatchString(text); got != want {
					t.Errorf("%q is the value of a header: got %t", text, got)
				}
			}
		}
	}
	for name, want := range map[string]bool{"X-A": true, "Host": false, "content_LENGTH": false, "Proxy.Connection": false, "X-Host": true, "T-E": true} {
		if got := mayChange(name); got != want {
			t.Errorf("%s may be changed: got %t", name, got)
		}
	}
}
