package passwords

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/turns"
)

// rig is a Checker with a clock of its own, for the Secret users. hashed has the hash for each password that was
// hashed.
type rig struct {
	*Checker
	t      *testing.T
	at     time.Time
	mu     sync.Mutex
	hashed []string
}

func newRig(t *testing.T, lines ...string) *rig {
	t.Helper()
	r := &rig{t: t, Checker: NewChecker(), at: time.Now()}
	r.now = func() time.Time { return r.at }
	r.matches = func(h hash, password string) bool {
		r.mu.Lock()
		r.hashed = append(r.hashed, h.text)
		r.mu.Unlock()
		return h.matches(password)
	}
	r.put(lines...)
	return r
}

// put edits the Secret.
func (r *rig) put(lines ...string) {
	list, _ := Parse([]byte(strings.Join(lines, "\n")))
	r.Set(map[string]List{"users": list})
}

func basic(userAndPassword string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(userAndPassword))
}

// ask asks about values of Authorization.
func (r *rig) ask(values ...string) *httptest.ResponseRecorder {
	return r.askAt("users", values...)
}

func (r *rig) askAt(secret string, values ...string) *httptest.ResponseRecorder {
	return r.question("users/10.0.0.1", secret, values...)
}

func (r *rig) askFrom(room string, values ...string) *httptest.ResponseRecorder {
	return r.question(room, "users", values...)
}

func (r *rig) question(room, secret string, values ...string) *httptest.ResponseRecorder {
	query := url.Values{"secret": {secret}, "realm": {`a "b" \c`}}
	question := httptest.NewRequest(http.MethodGet, "/?"+query.Encode(), http.NoBody)
	question.Header.Set(ir.RoomHeader, room)
	for _, value := range values {
		question.Header.Add("Authorization", value)
	}
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, question)
	return answer
}

// expect asks, and compares the status and how many passwords were hashed for it.
func (r *rig) expect(status, hashed int, values ...string) {
	r.t.Helper()
	r.hashed = nil
	answer := r.ask(values...)
	if answer.Code != status || len(r.hashed) != hashed {
		r.t.Errorf("%q: got %d after %d hashes, want %d after %d", values, answer.Code, len(r.hashed), status, hashed)
	}
	if got := answer.Header().Get("WWW-Authenticate"); (got == `Basic realm="a \"b\" \\c"`) != (status == 401) {
		r.t.Errorf("%q: got %d with the challenge %q", values, status, got)
	}
	if got := answer.Header().Get(ir.ClientHeader); (got != "") != (status == 200) {
		r.t.Errorf("%q: got %d with the user %q", values, status, got)
	}
}

func TestQuestions(t *testing.T) {
	t.Parallel()
	r := newRig(t, "alice:"+bcryptOf(t, "secret"), "bob:"+sha512OfSecret, "böb:"+bcryptOf(t, "pass:wörd"))
	r.expect(200, 1, basic("alice:secret"))
	r.expect(200, 1, basic("bob:secret"))
	r.expect(200, 1, basic("böb:pass:wörd"))
	r.expect(200, 0, "bASIC "+strings.TrimPrefix(basic("böb:pass:wörd"), "Basic "))
	r.expect(401, 1, basic("alice:Secret"))
	r.expect(401, 1, basic("alice:"))
	r.expect(401, 1, basic("Alice:secret"))
	r.expect(401, 1, basic("mallory:secret"))
	// A header without user and password takes no work.
	long := strings.Repeat("a", maxPassword+1)
	for _, value := range []string{
		"", "Basic", "Basic ", "Basic ::", "Bearer abc", basic("alice"), basic(":secret"), basic("alice:secret\x00"), basic("alice:" + long),
		basic(long + ":secret"), basic("alice:secret") + ", " + basic("bob:secret"), "Basic alice:secret", basic("alice:secret") + "=",
	} {
		r.expect(401, 0, value)
	}
	r.expect(401, 0)
	r.expect(401, 0, basic("alice:secret"), basic("alice:secret"))
	r.expect(401, 0, basic("alice:secret"), "Bearer abc")
}

// TestUsersOfNobody: without users, nobody can say.
func TestUsersOfNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t, "# nobody")
	r.expect(503, 0, basic("alice:secret"))
	r.put("alice:" + bcryptOf(t, "secret"))
	for _, secret := range []string{"", "other", "users/"} {
		if got := r.askAt(secret, basic("alice:secret")); got.Code != 503 {
			t.Errorf("users of %q: got %d", secret, got.Code)
		}
	}
	r.expect(200, 1, basic("alice:secret"))
	r.Set(nil)
	r.expect(503, 0, basic("alice:secret"))
}

// TestUnknownUsersTakeAsLong: a user that there is not is compared with a hash of those there are, always the same.
func TestUnknownUsersTakeAsLong(t *testing.T) {
	t.Parallel()
	cheap, dear := bcryptOf(t, "secret"), sha512OfSecret
	r := newRig(t, "alice:"+cheap, "bob:"+dear)
	seen := map[string]bool{}
	for i := range 100 {
		name := fmt.Sprint("user", i)
		r.expect(401, 1, basic(name+":secret"))
		first := slices.Clone(r.hashed)
		r.expect(401, 1, basic(name+":secret"))
		if !slices.Equal(first, r.hashed) {
			t.Fatalf("%s takes as long as two users", name)
		}
		seen[first[0]] = true
	}
	if !seen[cheap] || !seen[dear] {
		t.Errorf("users that there are not take as long as some of those there are: %d of 2", len(seen))
	}
}

// TestRightPasswordsAreKept: for some time, and no longer than they are right.
func TestRightPasswordsAreKept(t *testing.T) {
	t.Parallel()
	alice, bob := "alice:"+bcryptOf(t, "secret"), "bob:"+bcryptOf(t, "secret")
	r := newRig(t, alice, bob)
	r.expect(200, 1, basic("alice:secret"))
	r.expect(200, 0, basic("alice:secret"))
	r.expect(401, 1, basic("alice:wrong"))
	r.expect(401, 1, basic("alice:wrong"))
	r.expect(200, 1, basic("bob:secret"))
	// An edit of others changes nothing, one of the password counts at once; as does another user's with the same hash.
	r.put(alice, "carol:"+strings.TrimPrefix(alice, "alice:"))
	r.expect(200, 0, basic("alice:secret"))
	r.expect(200, 1, basic("carol:secret"))
	r.expect(401, 1, basic("bob:secret"))
	r.put("alice:" + bcryptOf(t, "other"))
	r.expect(401, 1, basic("alice:secret"))
	r.put(alice)
	r.at = r.at.Add(keepTime)
	r.expect(200, 1, basic("alice:secret"))
	r.expect(200, 0, basic("alice:secret"))
}

// TestKeptPasswordsAreBounded: however many there are.
func TestKeptPasswordsAreBounded(t *testing.T) {
	t.Parallel()
	lines := make([]string, maxKept+100)
	for i := range lines {
		lines[i] = fmt.Sprintf("user%d:%s", i, sha512OfSecret)
	}
	r := newRig(t, lines...)
	r.matches = func(_ hash, password string) bool { return password == "secret" }
	for i := range lines {
		if got := r.ask(basic(fmt.Sprintf("user%d:secret", i))); got.Code != 200 {
			t.Fatalf("got %d", got.Code)
		}
		r.ask(basic(fmt.Sprintf("user%d:wrong", i)))
		if len(r.checks) > maxKept {
			t.Fatalf("%d are kept", len(r.checks))
		}
	}
	// Expired entries make room first.
	r.at = r.at.Add(keepTime)
	for i := range lines {
		r.ask(basic(fmt.Sprintf("user%d:secret", i)))
	}
	for _, one := range r.checks {
		if !r.at.Before(one.until) {
			t.Fatal("one is kept whose time is over")
		}
	}
}

// TestHashingIsBounded: so many at a time, so many that wait, and no others. Those who ask the same share one, and a
// password that is kept takes none. However many passwords of one client wait, another client has its turn.
func TestHashingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, "alice:"+sha512OfSecret, "bob:"+sha512OfSecret)
		r.expect(200, 1, basic("alice:secret"))
		var running, most, calls atomic.Int32
		release := make(chan struct{})
		r.matches = func(_ hash, password string) bool {
			calls.Add(1)
			if now := running.Add(1); now > most.Load() {
				most.Store(now)
			}
			<-release
			running.Add(-1)
			return password == "secret"
		}
		answers := make(chan int, 1000)
		ask := func(userAndPassword string) {
			go func() { answers <- r.ask(basic(userAndPassword)).Code }()
			synctest.Wait()
		}
		for range 100 {
			ask("bob:secret")
		}
		for i := range maxHashing + maxWaiting - 1 {
			ask(fmt.Sprint("bob:", i))
		}
		if got := r.ask(basic("bob:one too many")); got.Code != 503 {
			t.Errorf("got %d while too many wait", got.Code)
		}
		if got := r.ask(basic("alice:secret")); got.Code != 200 {
			t.Errorf("got %d for a password that is kept", got.Code)
		}
		other := make(chan int, 1)
		go func() { other <- r.askFrom("users/10.0.0.2", basic("carol:secret")).Code }()
		synctest.Wait()
		if got := <-answers; got != 503 {
			t.Errorf("got %d for the last of those that wait", got)
		}
		for range maxHashing {
			release <- struct{}{}
			synctest.Wait()
		}
		release <- struct{}{}
		release <- struct{}{}
		if got := <-other; got != 401 {
			t.Errorf("another client got %d", got)
		}
		close(release)
		got := map[int]int{}
		for range 100 + maxHashing + maxWaiting - 2 {
			got[<-answers]++
		}
		if got[200] != 100 || got[401] != maxHashing+maxWaiting-2 || most.Load() != maxHashing || calls.Load() != maxHashing+maxWaiting {
			t.Errorf("got %v, %d at a time, %d in all", got, most.Load(), calls.Load())
		}
	})
}

// TestAFaultIsNoAnswer: nor does it hold up those who ask the same.
func TestAFaultIsNoAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t, "alice:"+sha512OfSecret)
	r.matches = func(hash, string) bool { panic("broken") }
	func() {
		defer func() { _ = recover() }()
		r.ask(basic("alice:secret"))
	}()
	r.matches = hash.matches
	r.hashed = nil
	if got := r.ask(basic("alice:secret")); got.Code != 200 {
		t.Errorf("got %d", got.Code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range maxHashing {
		if !r.turns.Enter(ctx, turns.Client{}) {
			t.Error("a fault has kept its turn")
		}
	}
}
