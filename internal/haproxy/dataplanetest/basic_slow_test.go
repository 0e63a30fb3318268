//go:build slow

package dataplanetest_test

import (
	"slices"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"gateway/internal/must"
)

// TestTimeTellsNoUsers: an answer takes as long for a user that there is, with a wrong password, as for one that there
// is not.
func TestTimeTellsNoUsers(t *testing.T) {
	t.Parallel()
	g := startBasic(t)
	hash := must.Get(bcrypt.GenerateFromPassword([]byte("secret"), 8))(t)
	g.put([]byte("alice:" + string(hash)))
	times := map[string][]time.Duration{}
	for range 25 {
		for _, user := range []string{"alice", "mallory"} {
			began := time.Now()
			g.expect(401, "/a", credentials(user+":wrong"))
			times[user] = append(times[user], time.Since(began))
		}
	}
	// Other work makes some answers slower, and none faster.
	known, unknown := slices.Min(times["alice"]), slices.Min(times["mallory"])
	if difference := max(known-unknown, unknown-known); difference > known/2 {
		t.Errorf("a known user takes %v, an unknown one %v", known, unknown)
	}
}
