// Package testtier knows which tests run, and what random tests start from. `make check` and `make test` compile
// without the build tag slow, `make test-all` with it. The tag adds the files *_slow_test.go.
package testtier

import (
	"cmp"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
)

var (
	seed = flag.Uint64("seed", 0, "what random tests start from; 0: another number in each run")
	// chosen is the same for all tests of a run.
	chosen = sync.OnceValue(func() uint64 { return cmp.Or(*seed, rand.Uint64()) })
)

// Seed returns what a random test starts from, which a test that fails names.
func Seed(t testing.TB) uint64 {
	t.Helper()
	t.Logf("to repeat: -seed=%d", chosen())
	return chosen()
}

// Rand returns the random numbers of a test.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(Seed(t), 0))
}
