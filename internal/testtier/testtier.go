// Package testtier knows which tests run. `make check` and `make test` compile without the build tag slow, `make test-all` with it. The
// tag adds the files *_slow_test.go, random seeds, and the limits on times that depend on the machine.
package testtier

import (
	"cmp"
	"math/rand/v2"
	"testing"
	"time"
)

// Bound compares a time that depends on the machine with its limit. It prints both. With the tag slow, more than the limit fails the test.
func Bound(t testing.TB, what string, got, limit time.Duration) {
	t.Helper()
	report := t.Logf
	if All && got > limit {
		report = t.Errorf
	}
	report("%s: %v, at most %v", what, got.Round(time.Millisecond), limit)
}

// Seed returns what random tests start from: the value of their flag -seed, or, if that is 0, a fixed one. With the tag slow it is another
// one each time.
func Seed(flag uint64) uint64 {
	fixed := uint64(1)
	if All {
		fixed = rand.Uint64()
	}
	return cmp.Or(flag, fixed)
}
