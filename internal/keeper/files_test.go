package keeper

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/certtest"
	"gateway/internal/inventory"
	"gateway/internal/must"
)

// The agent has HAProxy load what the agent sees.
func TestKeeperWritesForHAProxyFirst(t *testing.T) {
	r, authority := newRig(t), certtest.NewAuthority(t)
	r.secrets.PutPair("a", authority.Issue(t, nil))
	r.keeper.Certificates = "/nowhere"
	if err := r.keeper.Look(t.Context(), time.Now()); err == nil {
		t.Error("no error")
	}
	if _, err := os.Stat(filepath.Join(r.keeper.Pairs, "a", "tls.pem")); err != nil {
		t.Errorf("HAProxy's are not there yet: %v", err)
	}
}

// A file with the same content is not written again: HAProxy would load it.
func TestKeeperWritesWhatChanged(t *testing.T) {
	r, authority := newRig(t), certtest.NewAuthority(t)
	a := map[string]certtest.Pair{"a": authority.Issue(t, nil)}
	r.secrets.PutPair("a", a["a"])
	r.expect(a, nil)
	written := func() (all []os.FileInfo) {
		for _, path := range []string{filepath.Join(r.keeper.Pairs, "a", certificates.JoinedFile), filepath.Join(r.keeper.Certificates, inventory.File)} {
			info := must.Get(os.Stat(path))(t)
			all = append(all, info)
		}
		return all
	}
	before := written()
	expectSame := func(what string) {
		t.Helper()
		for i, info := range written() {
			if !os.SameFile(info, before[i]) || info.Size() != before[i].Size() {
				t.Errorf("%s: %s was written again", what, info.Name())
			}
		}
	}
	r.secrets.Put(nil)
	r.expect(a, nil)
	expectSame("the same content")
	r.secrets.PutPair("b", authority.Issue(t, nil))
	r.look(time.Now())
	before[1] = written()[1]
	expectSame("another Secret")
	r.restart()
	r.look(time.Now().Add(2 * startTime))
	expectSame("the next Keeper")
	if len(r.haproxy.has) != 2 {
		t.Errorf("HAProxy was told of %d, want each once", len(r.haproxy.has))
	}
}

// A half-written file is removed, no key reaches the agent, and nobody else may read one.
func TestKeeperKeepsKeysToHAProxy(t *testing.T) {
	r, authority := newRig(t), certtest.NewAuthority(t)
	// A process that ended in between left this.
	left := filepath.Join(r.keeper.Pairs, newFile)
	must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(left), 0o700), os.WriteFile(left, authority.Issue(t, nil).Key, 0o600)))
	for range 3 {
		r.secrets.PutPair("a", authority.Issue(t, nil))
		r.secrets.PutPair("b", authority.Issue(t, nil))
		must.Do(t, r.keeper.Look(t.Context(), time.Now()))
	}
	var keys int
	for _, volume := range []string{r.keeper.Pairs, r.keeper.Certificates} {
		must.Do(t, filepath.WalkDir(volume, func(path string, entry fs.DirEntry, err error) error {
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
		}))
	}
	if keys != 2 {
		t.Errorf("there are %d keys, want those of now", keys)
	}
}

func TestKeeperSaysWhyItCannotWork(t *testing.T) {
	r, broken, authority := newRig(t), certtest.NewVolume(t), certtest.NewAuthority(t)
	r.secrets.PutPair("a", authority.Issue(t, nil))
	broken.PutPair("a", authority.Issue(t, nil))
	file, taken, damaged := filepath.Join(broken.Dir, "a", "tls.crt"), t.TempDir(), t.TempDir()
	must.Do(t, errors.Join(os.Remove(file), os.Symlink("tls.crt", file), os.MkdirAll(filepath.Join(taken, "a", "tls.pem"), 0o700),
		os.WriteFile(filepath.Join(damaged, inventory.File), []byte("no\n"), 0o600)))
	for _, test := range []struct {
		spoil func(k *Keeper)
		want  string
	}{
		{func(k *Keeper) { k.Secrets = "/nowhere" }, "failed to see what kubelet mounted"},
		{func(k *Keeper) { k.Secrets = broken.Dir }, "failed to read a volume: open a/tls.crt"},
		{func(k *Keeper) { k.Pairs = taken }, "failed to write for HAProxy: rename"},
		{func(k *Keeper) { k.Pairs = "/nowhere/pairs" }, "failed to write for HAProxy: mkdir"},
		{func(k *Keeper) { k.Certificates = "/nowhere" }, "failed to write a journal: open /nowhere"},
		{func(k *Keeper) { k.Certificates = damaged }, "failed to read a journal"},
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

// TestKeeperForgetsKeys: the key of a Secret that is gone goes, once neither HAProxy nor a configuration on the disk
// uses it. So it does by the next Keeper.
func TestKeeperForgetsKeys(t *testing.T) {
	r, authority, at := newRig(t), certtest.NewAuthority(t), time.Now()
	dir := t.TempDir()
	file := filepath.Join(r.keeper.Pairs, "a", "tls.pem")
	configure := func(content string) {
		t.Helper()
		path := filepath.Join(dir, "load-1", "certificates-443.list")
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(content+"\n"), 0o600)))
	}
	expect := func(what string, isThere bool) {
		t.Helper()
		at = at.Add(2 * forgetInterval)
		r.look(at)
		if _, err := os.Stat(file); (err == nil) != isThere {
			t.Errorf("%s: %v, there is %t", what, err, isThere)
		}
	}
	r.secrets.PutPair("a", authority.Issue(t, nil))
	r.secrets.PutPair("b", authority.Issue(t, nil))
	r.look(at)
	r.secrets.PutPair("a", certtest.Pair{})
	expect("a Keeper that knows no configurations", true)
	r.restart()
	r.keeper.ConfigDir = dir
	expect("no configuration yet", true)
	configure(file + " a.example.com")
	expect("one that names it", true)
	configure("/pairs/b/tls.pem b.example.com")
	r.haproxy.uses = file
	expect("a HAProxy that uses it", true)
	r.haproxy.uses, r.haproxy.down = "", errors.New("it starts")
	expect("a HAProxy that does not answer", true)
	r.haproxy.down = nil
	expect("one that does not use it", false)
	if _, err := os.Stat(filepath.Join(r.keeper.Pairs, "b", "tls.pem")); err != nil {
		t.Errorf("the other one is gone: %v", err)
	}
	r.secrets.PutPair("a", authority.Issue(t, nil))
	expect("a new one", true)
}
