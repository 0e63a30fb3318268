package proxypod

import "testing"

func TestAboutAnother(t *testing.T) {
	for message, want := range map[string]bool{
		AboutGeneration(6, "too big"):           true,
		AboutGeneration(7, "too big"):           false,
		AboutGeneration(77, "generation 7: no"): true,
		"HAProxy does not answer":               false,
		"generation six: too big":               false,
		"generation 6 is too big":               false,
		"":                                      false,
	} {
		if got := AboutAnother(7, message); got != want {
			t.Errorf("%q is about another generation than 7: %t, want %t", message, got, want)
		}
	}
}
