package keeper

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/passwords"
)

func (p *proxy) ReplaceMap(_ context.Context, name string, entries []ir.MapEntry) error {
	switch {
	case p.down != nil:
		return p.down
	case p.keys == nil:
		return runtime.ErrNoMap
	}
	p.keys = map[string]string{"": name}
	for _, entry := range entries {
		p.keys[entry.Key] = entry.Value
	}
	return nil
}

// TestKeeperPassesAPIKeysOn: HAProxy has those of all Secrets, in a file when it starts and at once when it runs. The
// agent has none, and learns what is wrong.
func TestKeeperPassesAPIKeysOn(t *testing.T) {
	r, at := newRig(t), time.Unix(100, 0)
	file := filepath.Join(r.keeper.Pairs, "_", "api-keys.map")
	expect := func(content string, wants ...string) {
		t.Helper()
		r.look(at)
		want := map[string]string{"": "opt@" + file}
		for i := 0; i < len(wants); i += 2 {
			want[wants[i]] = wants[i+1]
		}
		if r.haproxy.keys != nil && !maps.Equal(r.haproxy.keys, want) {
			t.Errorf("HAProxy has %v, want %v", r.haproxy.keys, want)
		}
		if got, err := os.ReadFile(file); err != nil && (content != "none" || !errors.Is(err, os.ErrNotExist)) || err == nil && string(got) != content {
			t.Errorf("the file has %q, want %q (%v)", got, content, err)
		}
	}
	one, two := passwords.Hash("one"), passwords.Hash("two")
	r.secrets.Put(map[string][]byte{"a/auth": []byte("alice:x")})
	expect("none")
	// A worker that has no map needs none.
	r.secrets.Put(map[string][]byte{"a/api-keys": []byte("shop:" + one)})
	expect("a 1\n" + one + "/a shop\n")
	if r.keeper.waiting {
		t.Error("it waits for a worker to have a map")
	}
	// One that starts with it has read the file, or is told.
	r.haproxy.keys = map[string]string{}
	r.haproxy.restart(at)
	expect("a 1\n"+one+"/a shop\n", "a", "1", one+"/a", "shop")
	r.secrets.Put(map[string][]byte{"a/api-keys": []byte("shop:" + two), "b/api-keys": []byte("bank:" + one + "\nbank"), "c/api-keys": {}})
	order := "a 1\n" + two + "/a shop\nb 1\n" + one + "/b bank\n"
	expect(order, "a", "1", two+"/a", "shop", "b", "1", one+"/b", "bank")
	for path, want := range map[string]string{
		"a/api-keys": "", "b/api-keys": "", "b/api-keys-problem": "some keys in api-keys cannot be used: line 2 has no colon", "c/api-keys-problem": "api-keys holds no key",
	} {
		if got, err := os.ReadFile(filepath.Join(r.keeper.Certificates, path)); err != nil || string(got) != want {
			t.Errorf("for the agent, %s holds %q, want %q (%v)", path, got, want, err)
		}
	}
	// While HAProxy does not answer, the file has what is new.
	r.haproxy.down = errors.New("connection refused")
	r.secrets.Put(map[string][]byte{"a/api-keys": nil, "b/api-keys": []byte("bank:" + two)})
	r.look(at)
	r.haproxy.down = nil
	expect("b 1\n"+two+"/b bank\n", "b", "1", two+"/b", "bank")
	r.secrets.Put(map[string][]byte{"b/api-keys": nil})
	expect("")
}

// The pairs of other Secrets stay the same files.
func TestKeeperLinksWhatStays(t *testing.T) {
	r, authority := newRig(t), certtest.NewAuthority(t)
	all := map[string]certtest.Pair{"a": authority.Issue(t, nil)}
	r.secrets.PutPair("a", all["a"])
	r.expect(all, nil)
	file := func() os.FileInfo {
		info, err := os.Stat(filepath.Join(r.keeper.Pairs, "a", certificates.JoinedFile))
		if err != nil {
			t.Fatal(err)
		}
		return info
	}
	same := file()
	all["b"] = authority.Issue(t, nil)
	r.secrets.PutPair("b", all["b"])
	if r.expect(all, nil); !os.SameFile(same, file()) {
		t.Error("the pair of another Secret was written again")
	}
}
