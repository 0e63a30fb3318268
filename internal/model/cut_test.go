package model

import "testing"

func TestCut(t *testing.T) {
	for _, test := range []struct {
		text, want string
		size       int
	}{
		{"short", "short", 5},
		{"longer", "lo...", 5},
		{"aäö", "aäö", 5},
		{"aääää", "a...", 5},
		{"aääää", "aä...", 6},
	} {
		if got := Cut(test.text, test.size); got != test.want {
			t.Errorf("%q at %d is %q, want %q", test.text, test.size, got, test.want)
		}
	}
}
