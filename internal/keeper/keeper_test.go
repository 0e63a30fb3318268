package keeper

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"testing"
	"time"

	"gateway/internal/certtest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/inventory"
	"gateway/internal/journal"
	"gateway/internal/must"
	"gateway/internal/passwords"
)

// proxy stands for HAProxy.
type proxy struct {
	process runtime.Process
	// down is what it answers if it does not, and refused why it refuses a pair.
	down    error
	refused map[string]string
	// uses is a file whose certificate it uses.
	uses string
	// has are the pairs that it was told of since it started, by file, and asked is how many it was asked about.
	has         map[string]string
	asked, told int
	// keys are the API keys that it was told of; nil: it has no map for them.
	keys map[string]string
}

func (p *proxy) Process(context.Context) (runtime.Process, error) { return p.process, p.down }

func (p *proxy) CheckCertificate(_ context.Context, pem []byte) error {
	p.asked++
	if reason, ok := p.refused[string(pem)]; ok && p.down == nil {
		return &runtime.RefusedCertificateError{Reason: reason}
	}
	return p.down
}

func (p *proxy) ReplaceCertificate(_ context.Context, file string, pem []byte) error {
	p.has[file] = string(pem)
	p.told++
	return p.down
}

func (p *proxy) ForgetCertificate(_ context.Context, file string) error {
	if p.uses == file {
		return runtime.ErrCertificateInUse
	}
	delete(p.has, file)
	return p.down
}

// restart starts a worker at some time.
func (p *proxy) restart(at time.Time) {
	p.process = runtime.Process{PID: p.process.PID + 1, Started: at.Unix()}
	p.has = map[string]string{}
}

func joined(pair certtest.Pair) string { return string(slices.Concat(pair.Certificate, pair.Key)) }

// rig is a Keeper and what kubelet mounts for it.
type rig struct {
	t       *testing.T
	secrets *certtest.Volume
	keeper  *Keeper
	haproxy *proxy
	// kept are pairs of Secrets that are gone.
	kept map[string]certtest.Pair
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, secrets: certtest.NewVolume(t)}
	r.haproxy = &proxy{process: runtime.Process{PID: 7, Started: 1}, refused: map[string]string{}, has: map[string]string{}}
	r.keeper = &Keeper{Secrets: r.secrets.Dir, Pairs: t.TempDir(), Certificates: t.TempDir(), Users: passwords.NewChecker(), HAProxy: r.haproxy}
	return r
}

// expect has the Keeper look now, and compares what HAProxy and the agent find at the top of their volumes: these
// pairs, by their Secrets, and problems.
func (r *rig) expect(pairs map[string]certtest.Pair, problems map[string]string) {
	r.t.Helper()
	r.expectAt(time.Now(), pairs, problems)
}

// expectAt does so at some time.
func (r *rig) expectAt(at time.Time, pairs map[string]certtest.Pair, problems map[string]string) {
	r.t.Helper()
	r.look(at)
	read, shown := files{}, files{}
	for secret, pair := range r.kept {
		read[secret+"/tls.pem"] = []byte(joined(pair))
	}
	for secret, pair := range pairs {
		read[secret+"/tls.pem"] = []byte(joined(pair))
		shown[secret] = []byte(pair.Leaf.NotAfter.String())
	}
	for secret, problem := range problems {
		shown[secret] = append(shown[secret], problem...)
	}
	gotRead, gotShown, entries := files{}, files{}, r.inventory()
	for _, secret := range []string{"a", "b", "c"} {
		if content, err := os.ReadFile(filepath.Join(r.keeper.Pairs, secret, "tls.pem")); err == nil {
			gotRead[secret+"/tls.pem"] = content
		}
		entry := entries[inventory.SecretKey(secret)]
		if entry.Certificate != nil {
			gotShown[secret] = []byte(entry.Certificate.NotAfter.String())
		}
		if entry.Problem != "" {
			gotShown[secret] = append(gotShown[secret], entry.Problem...)
		}
	}
	if !maps.EqualFunc(gotRead, read, slices.Equal) || !maps.EqualFunc(gotShown, shown, slices.Equal) {
		r.t.Errorf("HAProxy has %q, want %q; the agent has %q, want %q", gotRead, read, gotShown, shown)
	}
	if status, ok := entries[inventory.Status]; !ok || status.Asks {
		r.t.Error("whoever waits for it goes on waiting")
	}
}

// inventory returns what the agent reads.
func (r *rig) inventory() map[string]inventory.Entry {
	r.t.Helper()
	found := must.Get(journal.Open[inventory.Entry](filepath.Join(r.keeper.Certificates, inventory.File)))(r.t)
	return found.Values
}

// restart has another Keeper go on.
func (r *rig) restart() {
	r.keeper = &Keeper{Secrets: r.keeper.Secrets, Pairs: r.keeper.Pairs, Certificates: r.keeper.Certificates, Users: passwords.NewChecker(), HAProxy: r.haproxy}
}

func (r *rig) look(at time.Time) {
	r.t.Helper()
	must.Do(r.t, r.keeper.Look(r.t.Context(), at))
}

// expectNoLook has the Keeper look at some time, and expects that it does nothing.
func (r *rig) expectNoLook(at time.Time) {
	r.t.Helper()
	before, asked := r.inventory(), r.haproxy.asked
	r.look(at)
	if r.haproxy.asked != asked || !reflect.DeepEqual(before, r.inventory()) {
		r.t.Errorf("at %s it did something", at)
	}
}

func TestKeeper(t *testing.T) {
	type pairs = map[string]certtest.Pair
	type problems = map[string]string
	r, authority := newRig(t), certtest.NewAuthority(t)
	a, b, renewed := authority.Issue(t, nil), authority.Issue(t, nil), authority.Issue(t, nil)
	const wrong = "tls.key is not the key of its certificate: private key does not match public key"
	r.expect(nil, nil)

	r.secrets.PutPair("a", a)
	r.secrets.PutPair("b", certtest.Pair{Certificate: b.Certificate, Key: a.Key})
	r.expect(pairs{"a": a}, problems{"b": wrong})
	r.secrets.PutPair("b", b)
	r.expect(pairs{"a": a, "b": b}, nil)

	// What does not fit leaves what was there before; also for a Keeper that starts anew.
	r.secrets.PutPair("a", certtest.Pair{Certificate: renewed.Certificate, Key: b.Key})
	r.expect(pairs{"a": a, "b": b}, problems{"a": wrong})
	r.restart()
	r.expect(pairs{"a": a, "b": b}, problems{"a": wrong})
	r.secrets.PutPair("a", certtest.Pair{Certificate: []byte{}, Key: a.Key})
	r.expect(pairs{"a": a, "b": b}, problems{"a": "tls.crt holds no certificate"})
	r.secrets.PutPair("a", certtest.Pair{Certificate: renewed.Certificate})
	r.expect(pairs{"a": a, "b": b}, problems{"a": "it has no tls.key"})

	// What was put right is used, and what was removed is gone, but for HAProxy, whose configuration may name it still.
	r.secrets.PutPair("a", renewed)
	r.secrets.PutPair("b", certtest.Pair{})
	r.kept = pairs{"b": b}
	r.expect(pairs{"a": renewed}, nil)
	r.secrets.PutPair("b", certtest.Pair{Certificate: renewed.Certificate, Key: b.Key})
	r.expect(pairs{"a": renewed}, problems{"b": wrong})
}

// The agent learns whether there are users, and which lines are wrong. A Secret may have a certificate, too.
func TestKeeperPassesUsersOn(t *testing.T) {
	r := newRig(t)
	const hash = "$2y$05$abcdefghijklmnopqrstuuFZzbDcRlnBCcPz2jBLQyQZMKYcLHWWy"
	expect := func(users, want string) {
		t.Helper()
		r.look(time.Now())
		problem, ok := r.inventory()[inventory.SecretKey("a")].Files["auth"]
		if ok != (users != "none") || problem != want {
			t.Errorf("the agent has %t, %q, want %q, %q", ok, problem, users, want)
		}
		if _, err := os.Stat(filepath.Join(r.keeper.Pairs, "a", "auth")); err == nil {
			t.Error("HAProxy has users")
		}
	}
	put := func(content string) { r.secrets.Put(map[string][]byte{"a/auth": []byte(content)}) }
	expect("none", "")
	put("alice:" + hash)
	expect("", "")
	put("alice:" + hash + "\nbob:secret")
	expect("", "some users in auth cannot log in: line 2 has a hash that is neither of bcrypt ($2y$) nor of SHA-512 ($6$)")
	put("alice")
	expect("", "no user in auth can log in: line 1 has no colon")
	r.secrets.Put(map[string][]byte{"a/auth": nil})
	expect("none", "")
	// HAProxy need not answer for users.
	r.haproxy.down = errors.New("not yet")
	put("alice:" + hash)
	expect("", "")
}

// A certificate that HAProxy refuses is nowhere, with what HAProxy says, and leaves what was there before; so it is for
// all others.
func TestKeeperAsksHAProxy(t *testing.T) {
	type pairs = map[string]certtest.Pair
	type problems = map[string]string
	r, authority, at := newRig(t), certtest.NewAuthority(t), time.Now()
	a, b, renewed := authority.Issue(t, nil), authority.Issue(t, nil), authority.Issue(t, nil)
	r.haproxy.refused[joined(b)] = "100% too small"
	r.secrets.PutPair("a", a)
	r.secrets.PutPair("b", b)
	r.expectAt(at, pairs{"a": a}, problems{"b": "HAProxy refuses the certificate: 100% too small"})
	r.secrets.PutPair("a", b)
	r.secrets.PutPair("b", renewed)
	r.expectAt(at, pairs{"a": a, "b": renewed}, problems{"a": "HAProxy refuses the certificate: 100% too small"})
	// It is asked again, but not all the time; about what it has taken, never.
	r.expectNoLook(at.Add(askAgain - time.Second))
	asked := r.haproxy.asked
	clear(r.haproxy.refused)
	r.expectAt(at.Add(askAgain), pairs{"a": b, "b": renewed}, nil)
	if r.haproxy.asked != asked+1 {
		t.Errorf("it was asked %d times", r.haproxy.asked-asked)
	}
}

// While HAProxy does not answer, what it has taken before stays. A pod that starts waits; what it need not be asked
// about does not.
func TestKeeperWaitsForHAProxy(t *testing.T) {
	type pairs = map[string]certtest.Pair
	r, authority := newRig(t), certtest.NewAuthority(t)
	a, renewed := authority.Issue(t, nil), authority.Issue(t, nil)
	r.haproxy.down = errors.New("not yet")
	r.expect(nil, nil)
	r.keeper.Certificates = t.TempDir()
	r.restart()
	r.secrets.PutPair("a", a)
	r.look(time.Now())
	if !r.inventory()[inventory.Status].Asks || !r.keeper.waiting {
		t.Errorf("waiting is %t, and the agent does not wait", r.keeper.waiting)
	}
	r.haproxy.down = nil
	r.expect(pairs{"a": a}, nil)
	r.haproxy.down = errors.New("no more")
	r.secrets.PutPair("a", renewed)
	r.expect(pairs{"a": a}, nil)
	r.secrets.PutPair("a", certtest.Pair{Certificate: renewed.Certificate})
	r.expect(pairs{"a": a}, map[string]string{"a": "it has no tls.key"})
}

// Each worker of HAProxy that may not have read a written file gets its content, and no other worker does.
func TestKeeperTellsHAProxy(t *testing.T) {
	r, authority, at := newRig(t), certtest.NewAuthority(t), time.Unix(2_000_000_000, 0)
	first, renewed := authority.Issue(t, nil, certtest.Valid(at.Add(-time.Hour), at.Add(time.Hour))), authority.Issue(t, nil, certtest.Valid(at.Add(-time.Hour), at.Add(time.Hour)))
	file := filepath.Join(r.keeper.Pairs, "a", "tls.pem")
	expect := func(what string, want ...certtest.Pair) {
		t.Helper()
		if len(want) != len(r.haproxy.has) || len(want) > 0 && r.haproxy.has[file] != joined(want[0]) {
			t.Errorf("%s: it was told of %d", what, len(r.haproxy.has))
		}
	}
	r.secrets.PutPair("a", first)
	r.look(at)
	expect("the first", first)
	at = at.Add(time.Hour / 2)
	r.look(at)
	r.haproxy.restart(at)
	r.look(at)
	expect("one that has read it")
	r.secrets.PutPair("a", renewed)
	r.look(at)
	expect("a renewal", renewed)
	// Workers that have it do not get it again.
	told := r.haproxy.told
	for _, other := range []string{"b", "c"} {
		r.secrets.PutPair(other, first)
		r.look(at)
	}
	if r.haproxy.told != told+2 {
		t.Errorf("it was told of %d, want the 2 that are new", r.haproxy.told-told)
	}
	r.secrets.PutPair("b", certtest.Pair{})
	r.secrets.PutPair("c", certtest.Pair{})
	r.look(at)
	must.Do(t, errors.Join(os.RemoveAll(filepath.Join(r.keeper.Pairs, "b")), os.RemoveAll(filepath.Join(r.keeper.Pairs, "c"))))
	// A Keeper that starts does not know what was told.
	clear(r.haproxy.has)
	r.restart()
	r.look(at.Add(time.Second))
	expect("a renewal, by the next Keeper", renewed)
	// It began to read before that, and answers later.
	r.haproxy.restart(at)
	r.haproxy.down = errors.New("it starts")
	r.look(at.Add(2 * time.Second))
	r.haproxy.down = nil
	clear(r.haproxy.has)
	r.look(at.Add(2 * time.Second))
	expect("one that may have read the old one", renewed)
	r.haproxy.restart(at.Add(time.Second))
	r.look(at.Add(2 * time.Second))
	expect("one that has read the new one")
}

// A renewal that nobody may use yet, or any more, does not take the place of one that everybody may.
func TestKeeperWaitsForACertificateToBeValid(t *testing.T) {
	type pairs = map[string]certtest.Pair
	type problems = map[string]string
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	hour := func(n int) time.Time { return start.Add(time.Duration(n) * time.Hour) }
	r, authority := newRig(t), certtest.NewAuthority(t)
	issue := func(from, to int) certtest.Pair { return authority.Issue(t, nil, certtest.Valid(hour(from), hour(to))) }
	old, good, later, soon, last := issue(-9, -1), issue(-5, 5), issue(2, 9), issue(1, 9), issue(7, 8)
	// It is the first certificate that counts, not those that lead to an authority.
	good.Certificate = slices.Concat(good.Certificate, authority.PEM)
	later.Certificate = slices.Concat(later.Certificate, authority.PEM)
	const expired, early = "the certificate expired on 2026-06-01 11:00:00 UTC", "the certificate is not valid before 2026-06-01 "

	// Without an earlier one it is passed on: the agent says what is wrong with it.
	r.secrets.PutPair("a", old)
	r.expectAt(start, pairs{"a": old}, nil)
	r.secrets.PutPair("a", good)
	r.expectAt(start, pairs{"a": good}, nil)
	r.secrets.PutPair("a", old)
	r.expectAt(start, pairs{"a": good}, problems{"a": expired})
	r.restart()
	r.expectAt(start, pairs{"a": good}, problems{"a": expired})

	// Time alone puts the new ones into their places, each at its own; until then nothing is done.
	r.secrets.PutPair("b", good)
	r.secrets.PutPair("c", good)
	r.expectAt(start, pairs{"a": good, "b": good, "c": good}, problems{"a": expired})
	r.secrets.PutPair("a", later)
	r.secrets.PutPair("b", soon)
	r.secrets.PutPair("c", old)
	r.expectAt(start, pairs{"a": good, "b": good, "c": good}, problems{"a": early + "14:00:00 UTC", "b": early + "13:00:00 UTC", "c": expired})
	r.expectNoLook(hour(1).Add(-time.Second))
	r.expectAt(hour(1), pairs{"a": good, "b": soon, "c": good}, problems{"a": early + "14:00:00 UTC", "c": expired})
	r.expectNoLook(hour(2).Add(-time.Second))
	r.expectAt(hour(2), pairs{"a": later, "b": soon, "c": good}, problems{"c": expired})
	r.expectNoLook(hour(9))
	r.secrets.PutPair("c", later)
	r.expectAt(hour(9), pairs{"a": later, "b": soon, "c": later}, nil)

	// Nor does an earlier one that is no better stay.
	r.secrets.PutPair("a", old)
	r.expectAt(hour(10), pairs{"a": old, "b": soon, "c": later}, nil)
	r.expectNoLook(hour(99))
	r.secrets.PutPair("a", last)
	r.expectAt(hour(6), pairs{"a": last, "b": soon, "c": later}, nil)
}

// A clock that is ahead makes certificates expire. Once it is put back, they are used.
func TestKeeperLooksAgainWhenTheClockIsPutBack(t *testing.T) {
	type pairs = map[string]certtest.Pair
	start := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	hour := func(n int) time.Time { return start.Add(time.Duration(n) * time.Hour) }
	r, authority := newRig(t), certtest.NewAuthority(t)
	long, renewed := authority.Issue(t, nil, certtest.Valid(hour(-9), hour(99))), authority.Issue(t, nil, certtest.Valid(hour(-1), hour(9)))
	r.secrets.PutPair("a", long)
	r.expectAt(start, pairs{"a": long}, nil)
	r.secrets.PutPair("a", renewed)
	r.expectAt(hour(10), pairs{"a": long}, map[string]string{"a": "the certificate expired on 2026-06-01 21:00:00 UTC"})
	r.expectAt(start.Add(time.Second), pairs{"a": renewed}, nil)
	r.expectNoLook(start.Add(2 * time.Second))
}

// kubelet replaces all files while they are read: a certificate of before and a key of after are no pair.
func TestKeeperReadsOneVersion(t *testing.T) {
	r, authority := newRig(t), certtest.NewAuthority(t)
	a, b, renewed := authority.Issue(t, nil), authority.Issue(t, nil), authority.Issue(t, nil)
	r.secrets.PutPair("a", a)
	r.secrets.PutPair("b", b)
	r.expect(map[string]certtest.Pair{"a": a, "b": b}, nil)
	// The read of the first file waits until somebody writes it.
	r.secrets.Put(nil)
	first := filepath.Join(r.secrets.Dir, "a", "tls.crt")
	must.Do(t, errors.Join(os.Remove(first), syscall.Mkfifo(first, 0o600)))
	looked := make(chan error)
	go func() { looked <- r.keeper.Look(t.Context(), time.Now()) }()
	pipe := must.Get(os.OpenFile(first, os.O_WRONLY, 0))(t)
	r.secrets.PutPair("a", renewed)
	must.Do(t, errors.Join(pipe.Close(), <-looked))
	if problem := r.inventory()[inventory.SecretKey("a")].Problem; problem != "" {
		t.Errorf("a certificate of before with a key of after is a problem: %s", problem)
	}
	r.expect(map[string]certtest.Pair{"a": renewed, "b": b}, nil)
}
