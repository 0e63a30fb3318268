package keeper

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/certtest"
)

// rig is a Keeper and what kubelet mounts for it.
type rig struct {
	t       *testing.T
	secrets *certtest.Volume
	keeper  *Keeper
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, secrets: certtest.NewVolume(t)}
	r.keeper = &Keeper{Secrets: r.secrets.Dir, Pairs: t.TempDir(), Certificates: t.TempDir()}
	return r
}

// expect has the Keeper look now, and compares what HAProxy and the agent find at the top of their volumes: these pairs, by their Secrets,
// and problems.
func (r *rig) expect(pairs map[string]certtest.Pair, problems map[string]string) {
	r.t.Helper()
	r.expectAt(time.Now(), pairs, problems)
}

// expectAt does so at some time.
func (r *rig) expectAt(at time.Time, pairs map[string]certtest.Pair, problems map[string]string) {
	r.t.Helper()
	if err := r.keeper.Look(at); err != nil {
		r.t.Fatal(err)
	}
	joined, shown := contents{}, contents{}
	for secret, pair := range pairs {
		joined[secret+"/tls.pem"] = slices.Concat(pair.Certificate, pair.Key)
		shown[secret+"/tls.crt"] = pair.Certificate
		shown[secret+"/hash"] = fmt.Appendf(nil, "%x", sha256.Sum256(joined[secret+"/tls.pem"]))
	}
	for secret, problem := range problems {
		shown[secret+"/problem"] = []byte(problem)
	}
	for volume, want := range map[string]contents{r.keeper.Pairs: joined, r.keeper.Certificates: shown} {
		got := contents{}
		for _, secret := range []string{"a", "b", "c"} {
			for _, file := range []string{"tls.pem", "tls.crt", "tls.key", "hash", "problem"} {
				if content, err := os.ReadFile(filepath.Join(volume, secret, file)); err == nil {
					got[secret+"/"+file] = content
				}
			}
		}
		if !maps.EqualFunc(got, want, slices.Equal) {
			r.t.Errorf("%s holds %q, want %q", volume, got, want)
		}
		if _, err := os.Readlink(filepath.Join(volume, certificates.DataLink)); err != nil {
			r.t.Errorf("whoever waits for it goes on waiting: %v", err)
		}
	}
}

// expectNoLook has the Keeper look at some time, and expects that it sees nothing to do: else it removes what is left over.
func (r *rig) expectNoLook(at time.Time) {
	r.t.Helper()
	left := filepath.Join(r.keeper.Pairs, versionPrefix+"left")
	if err := errors.Join(os.Mkdir(left, 0o700), r.keeper.Look(at), os.Remove(left)); err != nil {
		r.t.Errorf("at %s it did something: %v", at, err)
	}
}

func TestKeeper(t *testing.T) {
	type pairs = map[string]certtest.Pair
	type problems = map[string]string
	r, authority := newRig(t), certtest.NewAuthority(t)
	a, b, renewed := authority.Issue(t, nil), authority.Issue(t, nil), authority.Issue(t, nil)
	const wrong = "tls.key of %s is not the key of its certificate: private key does not match public key"
	r.expect(nil, nil)

	r.secrets.PutPair("a", a)
	r.secrets.PutPair("b", certtest.Pair{Certificate: b.Certificate, Key: a.Key})
	r.expect(pairs{"a": a}, problems{"b": wrong})
	r.secrets.PutPair("b", b)
	r.expect(pairs{"a": a, "b": b}, nil)

	// What does not fit leaves what was there before; also for a Keeper that starts anew.
	r.secrets.PutPair("a", certtest.Pair{Certificate: renewed.Certificate, Key: b.Key})
	r.expect(pairs{"a": a, "b": b}, problems{"a": wrong})
	r.keeper.version = ""
	r.expect(pairs{"a": a, "b": b}, problems{"a": wrong})
	r.secrets.PutPair("a", certtest.Pair{Certificate: []byte{}, Key: a.Key})
	r.expect(pairs{"a": a, "b": b}, problems{"a": "tls.crt of %s holds no certificate"})
	r.secrets.PutPair("a", certtest.Pair{Certificate: renewed.Certificate})
	r.expect(pairs{"a": a, "b": b}, problems{"a": "%s has no tls.key"})

	// What was put right is used, and what was removed is gone.
	r.secrets.PutPair("a", renewed)
	r.secrets.PutPair("b", certtest.Pair{})
	r.expect(pairs{"a": renewed}, nil)
	r.secrets.PutPair("b", certtest.Pair{Certificate: renewed.Certificate, Key: b.Key})
	r.expect(pairs{"a": renewed}, problems{"b": wrong})
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
	const expired, early = "the certificate of %s expired on 2026-06-01 11:00:00 UTC", "the certificate of %s is not valid before 2026-06-01 "

	// Without an earlier one it is passed on: the agent says what is wrong with it.
	r.secrets.PutPair("a", old)
	r.expectAt(start, pairs{"a": old}, nil)
	r.secrets.PutPair("a", good)
	r.expectAt(start, pairs{"a": good}, nil)
	r.secrets.PutPair("a", old)
	r.expectAt(start, pairs{"a": good}, problems{"a": expired})
	r.keeper.version = ""
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
	r.expectAt(hour(10), pairs{"a": long}, map[string]string{"a": "the certificate of %s expired on 2026-06-01 21:00:00 UTC"})
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
	if err := errors.Join(os.Remove(first), syscall.Mkfifo(first, 0o600)); err != nil {
		t.Fatal(err)
	}
	looked := make(chan error)
	go func() { looked <- r.keeper.Look(time.Now()) }()
	pipe, err := os.OpenFile(first, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.secrets.PutPair("a", renewed)
	if err := errors.Join(pipe.Close(), <-looked); err != nil {
		t.Fatal(err)
	}
	if problem, err := os.ReadFile(filepath.Join(r.keeper.Certificates, "a", "problem")); err == nil {
		t.Errorf("a certificate of before with a key of after is a problem: %s", problem)
	}
	r.expect(map[string]certtest.Pair{"a": renewed, "b": b}, nil)
}

// The agent has HAProxy load what the agent sees.
func TestKeeperWritesForHAProxyFirst(t *testing.T) {
	r, authority := newRig(t), certtest.NewAuthority(t)
	r.secrets.PutPair("a", authority.Issue(t, nil))
	r.keeper.Certificates = "/nowhere"
	if err := r.keeper.Look(time.Now()); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(filepath.Join(r.keeper.Pairs, "a", "tls.pem")); err != nil {
		t.Errorf("HAProxy's are not there yet: %v", err)
	}
}

// What is the same is not written again: HAProxy would be made to load it.
func TestKeeperWritesWhatChanged(t *testing.T) {
	r, authority := newRig(t), certtest.NewAuthority(t)
	a := map[string]certtest.Pair{"a": authority.Issue(t, nil)}
	r.secrets.PutPair("a", a["a"])
	r.expect(a, nil)
	links := func() string {
		pairs, _ := os.Readlink(filepath.Join(r.keeper.Pairs, certificates.DataLink))
		shown, _ := os.Readlink(filepath.Join(r.keeper.Certificates, certificates.DataLink))
		return pairs + " " + shown
	}
	before := links()
	r.secrets.Put(nil)
	r.expect(a, nil)
	if after := links(); after != before {
		t.Errorf("it was %s, and is %s", before, after)
	}
}

// Old versions go, no key reaches the agent, and nobody else may read one.
func TestKeeperKeepsKeysToHAProxy(t *testing.T) {
	r, authority := newRig(t), certtest.NewAuthority(t)
	// One that ended in between left this.
	left := filepath.Join(r.keeper.Pairs, versionPrefix+"left", "a")
	if err := errors.Join(os.MkdirAll(left, 0o700), os.WriteFile(filepath.Join(left, "tls.pem"), authority.Issue(t, nil).Key, 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		r.secrets.PutPair("a", authority.Issue(t, nil))
		r.secrets.PutPair("b", authority.Issue(t, nil))
		if err := r.keeper.Look(time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	var keys int
	for _, volume := range []string{r.keeper.Pairs, r.keeper.Certificates} {
		err := filepath.WalkDir(volume, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			if strings.Contains(string(content), "PRIVATE KEY") {
				keys++
				if volume != r.keeper.Pairs {
					t.Errorf("%s holds a key", path)
				}
			}
			if info, err := entry.Info(); err != nil || info.Mode() != 0o600 {
				t.Errorf("%s has mode %s: %v", path, info.Mode(), err)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if keys != 2 {
		t.Errorf("there are %d keys, want those of now", keys)
	}
}

func TestKeeperSaysWhyItCannotWork(t *testing.T) {
	r, broken, authority := newRig(t), certtest.NewVolume(t), certtest.NewAuthority(t)
	r.secrets.PutPair("a", authority.Issue(t, nil))
	broken.PutPair("a", authority.Issue(t, nil))
	file, taken := filepath.Join(broken.Dir, "a", "tls.crt"), t.TempDir()
	if err := errors.Join(os.Remove(file), os.Symlink("tls.crt", file), os.Mkdir(filepath.Join(taken, certificates.DataLink), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		spoil func(k *Keeper)
		want  string
	}{
		{func(k *Keeper) { k.Secrets = "/nowhere" }, "failed to see what kubelet mounted"},
		{func(k *Keeper) { k.Secrets = broken.Dir }, "failed to read certificates: open a/tls.crt"},
		{func(k *Keeper) { k.Pairs = broken.Dir }, "failed to read certificates: open a/tls.crt"},
		{func(k *Keeper) { k.Pairs = taken }, "failed to write certificates: rename"},
		{func(k *Keeper) { k.Pairs = "/nowhere" }, "failed to remove old certificates: open /nowhere"},
		{func(k *Keeper) { k.Certificates = "/nowhere" }, "failed to remove old certificates: open /nowhere"},
	} {
		spoilt := *r.keeper
		test.spoil(&spoilt)
		if err := spoilt.Run(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.keeper.Run(ended); err != nil {
		t.Errorf("asked to stop: %v", err)
	}
}

func BenchmarkKeeper(b *testing.B) {
	for _, count := range []int{1, 100} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			secrets, authority := certtest.NewVolume(b), certtest.NewAuthority(b)
			for i := range count {
				secrets.PutPair(fmt.Sprint("secret-", i), authority.Issue(b, nil))
			}
			keeper := Keeper{Secrets: secrets.Dir, Pairs: b.TempDir(), Certificates: b.TempDir()}
			for b.Loop() {
				keeper.version = ""
				if err := keeper.Look(time.Now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
