package keeper

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/inventory"
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

// TestKeeperPassesAPIKeysOn: HAProxy has the API keys of all Secrets, in a file when it starts and at once when it
// runs. The agent has none, and learns of problems.
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
	// A worker that starts with it has read the file, or gets the keys.
	r.haproxy.keys = map[string]string{}
	r.haproxy.restart(at)
	expect("a 1\n"+one+"/a shop\n", "a", "1", one+"/a", "shop")
	r.secrets.Put(map[string][]byte{"a/api-keys": []byte("shop:" + two), "b/api-keys": []byte("bank:" + one + "\nbank"), "c/api-keys": {}})
	order := "a 1\n" + two + "/a shop\nb 1\n" + one + "/b bank\n"
	expect(order, "a", "1", two+"/a", "shop", "b", "1", one+"/b", "bank")
	for secret, want := range map[string]string{"a": "", "b": "some keys in api-keys cannot be used: line 2 has no colon", "c": "api-keys holds no key"} {
		if got, ok := r.inventory()[inventory.SecretKey(secret)].Files["api-keys"]; !ok || got != want {
			t.Errorf("for the agent, %s has %t, %q, want %q", secret, ok, got, want)
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
