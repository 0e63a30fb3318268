package keeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/inventory"
	"gateway/internal/keystream/keystreamtest"
	"gateway/internal/passwords"
)

// streamRig is a Keeper that has Secrets from a key server.
type streamRig struct {
	*rig
	server *keystreamtest.Server
	stop   func()
}

func newStreamRig(t *testing.T) *streamRig {
	t.Helper()
	r := &streamRig{rig: newRig(t), server: keystreamtest.New(t)}
	r.keeper = &Keeper{
		Secrets: t.TempDir(), Logins: t.TempDir(), Authorities: t.TempDir(), Pairs: r.keeper.Pairs, Certificates: r.keeper.Certificates,
		Users: passwords.NewChecker(), HAProxy: r.haproxy, Server: r.server.Client,
	}
	return r
}

// start starts the Keeper, or the next one in its place.
func (r *streamRig) start() {
	r.t.Helper()
	if r.stop != nil {
		r.stop()
	}
	before := r.keeper
	r.keeper = &Keeper{
		Secrets: before.Secrets, Logins: before.Logins, Authorities: before.Authorities, Pairs: before.Pairs, Certificates: before.Certificates,
		Users: passwords.NewChecker(), HAProxy: r.haproxy, Server: r.server.Client,
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.keeper.Run(ctx) }()
	r.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
		r.stop = nil
	}
	r.t.Cleanup(func() {
		if r.stop != nil {
			r.stop()
		}
	})
}

// eventually waits until check returns nil.
func (r *streamRig) eventually(what string, check func() error) {
	r.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// expectEntry waits for an entry: whether there is one, and a certificate.
func (r *streamRig) expectEntry(key string, isKnown, hasCertificate bool) {
	r.t.Helper()
	r.eventually(key, func() error {
		entry, ok := r.inventory()[key]
		if ok != isKnown || (entry.Certificate != nil) != hasCertificate {
			return fmt.Errorf("known %t, %+v", ok, entry)
		}
		return nil
	})
}

// expectFile waits until a file has some content; "": it is not there.
func (r *streamRig) expectFile(dir, path, want string) {
	r.t.Helper()
	r.eventually(path, func() error {
		got, err := os.ReadFile(filepath.Join(dir, path))
		if string(got) != want || want == "" && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("it is %q (%w)", got, err)
		}
		return nil
	})
}

// TestKeeperOfAKeyServer: objects are passed on as the server sends them, and removed as it takes them back. Objects
// that it has not sent are unknown.
func TestKeeperOfAKeyServer(t *testing.T) {
	r, authority := newStreamRig(t), certtest.NewAuthority(t)
	pair, login := authority.Issue(t, nil), map[string][]byte{"session-keys": []byte("k1:x"), "client-secret": []byte("s"), "issuer": []byte("https://idp")}
	r.server.PutPair("shop", pair)
	r.start()
	r.expectEntry(inventory.SecretKey("shop"), true, true)
	r.expectEntry(inventory.Status, true, false)
	r.expectFile(r.keeper.Pairs, "shop/tls.pem", joined(pair))
	r.expectEntry(inventory.SecretKey("other"), false, false)
	r.server.Put(map[string]map[string][]byte{
		"Secret/other": nil, "Secret/login": login, "Secret/users": {"auth": []byte("alice:x")}, "ConfigMap/staff": {"ca.crt": authority.PEM}, "ConfigMap/none": nil,
	})
	r.expectEntry(inventory.ConfigMapKey("staff"), true, false)
	for _, key := range []string{inventory.SecretKey("other"), inventory.ConfigMapKey("none")} {
		r.expectEntry(key, true, false)
	}
	r.expectFile(r.keeper.Authorities, "staff/ca.crt", string(authority.PEM))
	r.expectFile(r.keeper.Logins, "login/client-secret", "s")
	r.expectFile(r.keeper.Logins, "users/auth", "")
	r.expectFile(r.keeper.Secrets, "users/auth", "alice:x")
	r.server.Put(map[string]map[string][]byte{"Secret/shop": nil, "ConfigMap/staff": nil})
	r.expectEntry(inventory.SecretKey("shop"), true, false)
	r.expectFile(r.keeper.Authorities, "staff/ca.crt", "")
}

// TestKeeperWithoutItsKeyServer: while it is away, everything stays, also for the next Keeper; what was taken back
// meanwhile goes once it is back. A new pod knows nothing.
func TestKeeperWithoutItsKeyServer(t *testing.T) {
	r, authority := newStreamRig(t), certtest.NewAuthority(t)
	one, two := authority.Issue(t, nil), authority.Issue(t, nil)
	r.server.PutPair("one", one)
	r.server.PutPair("two", two)
	r.server.Put(map[string]map[string][]byte{"Secret/users": {"api-keys": []byte("shop:" + passwords.Hash("one"))}, "ConfigMap/staff": {"ca.crt": authority.PEM}})
	r.start()
	r.expectEntry(inventory.SecretKey("users"), true, false)
	r.server.SetAway(true)
	asked := r.server.Connections()
	r.eventually("the server is asked again", func() error {
		if r.server.Connections() == asked {
			return errors.New("it is not")
		}
		return nil
	})
	r.start()
	r.eventually("the next Keeper asks", func() error {
		if r.server.Connections() < asked+2 {
			return errors.New("it does not")
		}
		return nil
	})
	for _, secret := range []string{"one", "two"} {
		r.expectEntry(inventory.SecretKey(secret), true, true)
	}
	r.expectFile(r.keeper.Pairs, "_/api-keys.map", "users 1\n"+passwords.Hash("one")+"/users shop\n")
	r.expectFile(r.keeper.Authorities, "staff/ca.crt", string(authority.PEM))
	r.server.Put(map[string]map[string][]byte{"Secret/two": nil})
	r.server.SetAway(false)
	r.expectEntry(inventory.SecretKey("two"), true, false)
	r.expectEntry(inventory.SecretKey("one"), true, true)

	r.stop()
	fresh := newStreamRig(t)
	fresh.server.SetAway(true)
	fresh.start()
	fresh.eventually("the server is asked", func() error {
		if fresh.server.Connections() < 2 {
			return errors.New("it is not")
		}
		return nil
	})
	fresh.expectEntry(inventory.Status, false, false)
}
