package passwords

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/turns"
)

const (
	// keepTime is how long a password that was right need not be hashed again, and maxKept how many there are of those.
	keepTime = 5 * time.Minute
	maxKept  = 4096
	// maxHashing is how many passwords are hashed at a time, and maxWaiting how many wait for it. Namespaces take turns,
	// and in each its clients.
	maxHashing, maxWaiting = 2, 64
)

// Checker answers questions about passwords. Hashing is slow, so it hashes a right password only once in a while. In
// between, it recognises the password by a keyed digest of the password, its user and its hash. So an edit of the hash
// counts at once.
type Checker struct {
	key   [32]byte
	turns *turns.Queue
	// now and matches are other functions in tests.
	now     func() time.Time
	matches func(h hash, password string) bool

	mu     sync.Mutex
	lists  map[string]List
	checks map[digest]*check
}

// digest identifies a hash, a user and a password.
type digest [sha256.Size]byte

// check is the result for a password, or a check in progress.
type check struct {
	// done is closed when the verdict is there.
	done    chan struct{}
	verdict int
	// until is when a right password has to be hashed again; zero: it is being hashed.
	until time.Time
}

// NewChecker returns a Checker without lists, which answers 503 to everything.
func NewChecker() *Checker {
	c := &Checker{
		turns: turns.New(maxHashing, maxHashing, maxWaiting), now: time.Now, matches: hash.matches, checks: map[digest]*check{},
	}
	_, _ = rand.Read(c.key[:]) // which never fails
	return c
}

// Set makes these the lists, by the names of their Secrets.
func (c *Checker) Set(lists map[string]List) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists = lists
}

// Serve answers questions until ctx ends. It returns an error if it cannot.
func (c *Checker) Serve(ctx context.Context, listener net.Listener) error {
	server := http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("failed to answer questions about users: %w", err)
	}
	return nil
}

// ServeHTTP answers a question: 200 if the user may log in, 401 if not, 503 if that is unknown.
func (c *Checker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parameters, header := r.URL.Query(), w.Header()
	header.Set("Cache-Control", "no-store")
	c.mu.Lock()
	list := c.lists[parameters.Get(ir.SecretParameter)]
	c.mu.Unlock()
	user, status := "", http.StatusServiceUnavailable
	if !list.IsEmpty() {
		user, status = c.verdict(list, r)
	}
	switch status {
	case http.StatusOK:
		header.Set(ir.ClientHeader, user)
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", `Basic realm="`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(parameters.Get(ir.RealmParameter))+`"`)
	}
	w.WriteHeader(status)
}

// verdict returns the user of a question, and the status of its answer.
func (c *Checker) verdict(list List, r *http.Request) (user string, status int) {
	user, password, ok := r.BasicAuth()
	if !ok || len(r.Header["Authorization"]) != 1 || !isName(user) || len(password) > maxPassword || !isPrintable(password) {
		return "", http.StatusUnauthorized
	}
	h, known := list.hashes[user]
	if !known {
		h = c.standIn(list, user)
	}
	return user, c.check(h, known, user, password, turns.Client{Team: r.Header.Get(ir.TeamHeader), Name: r.Header.Get(ir.RoomHeader)})
}

// standIn returns a hash of the list for an unknown user, always the same one, so that unknown users take as long as
// known ones.
func (c *Checker) standIn(list List, user string) hash {
	sum := c.digest("", user, "")
	return list.hashes[list.names[binary.BigEndian.Uint64(sum[:8])%uint64(len(list.names))]]
}

// check returns the status for a password of a client. Concurrent questions about the same password share the answer.
func (c *Checker) check(h hash, known bool, user, password string, client turns.Client) int {
	id := c.digest(h.text, user, password)
	c.mu.Lock()
	one := c.checks[id]
	if one != nil && (one.until.IsZero() || c.now().Before(one.until)) {
		c.mu.Unlock()
		<-one.done
		return one.verdict
	}
	one = &check{done: make(chan struct{})}
	c.makeRoom()
	c.checks[id] = one
	c.mu.Unlock()

	verdict := http.StatusServiceUnavailable
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if one.verdict = verdict; verdict == http.StatusOK {
			one.until = c.now().Add(keepTime)
		} else {
			delete(c.checks, id)
		}
		close(one.done)
	}()
	verdict = c.hash(h, known, password, client)
	return verdict
}

// hash returns the status for a password of a client, by its hash.
func (c *Checker) hash(h hash, known bool, password string, client turns.Client) int {
	if !c.turns.Enter(context.Background(), client) {
		return http.StatusServiceUnavailable
	}
	defer c.turns.Leave(client)
	if c.matches(h, password) && known {
		return http.StatusOK
	}
	return http.StatusUnauthorized
}

// makeRoom forgets passwords if there are too many: expired ones, or else any. Those that are being hashed stay.
func (c *Checker) makeRoom() {
	if len(c.checks) < maxKept {
		return
	}
	now := c.now()
	for id, one := range c.checks {
		if !one.until.IsZero() && !now.Before(one.until) {
			delete(c.checks, id)
		}
	}
	for id, one := range c.checks {
		if len(c.checks) < maxKept {
			return
		}
		if !one.until.IsZero() {
			delete(c.checks, id)
		}
	}
}

// digest returns the digest of a hash, a user and a password. It reveals nothing without the key.
func (c *Checker) digest(texts ...string) digest {
	mac := hmac.New(sha256.New, c.key[:])
	for _, text := range texts {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(text)))
		mac.Write(size[:])
		mac.Write([]byte(text))
	}
	return digest(mac.Sum(nil))
}
