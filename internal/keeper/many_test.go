package keeper

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/certtest"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/inventory"
	"gateway/internal/keystream"
	"gateway/internal/must"
	"gateway/internal/passwords"
)

// A pod with many Secrets starts on those pairs that HAProxy takes for sure. It is asked about the others once it runs,
// a few at a time.
func TestKeeperOfManySecrets(t *testing.T) {
	r, authority := newRig(t), certtest.NewAuthority(t)
	weak := certtest.Weak(t, nil)
	r.haproxy.down = errors.New("it starts")
	all := map[string][]byte{"weak/tls.crt": weak.Certificate, "weak/tls.key": weak.Key}
	more := func(from, to int) {
		for i := range to - from {
			pair := authority.Issue(t, nil)
			all[fmt.Sprintf("s%d/tls.crt", from+i)], all[fmt.Sprintf("s%d/tls.key", from+i)] = pair.Certificate, pair.Key
		}
		r.secrets.Put(all)
	}
	expect := func(asks bool, certificates, asked int) {
		t.Helper()
		r.look(time.Now())
		found, entries := 0, r.inventory()
		for _, entry := range entries {
			if entry.Certificate != nil {
				found++
			}
		}
		if entries[inventory.Status].Asks != asks || found != certificates || r.haproxy.asked != asked {
			t.Errorf("asks is %t, there are %d certificates, and HAProxy was asked about %d; want %t, %d, %d", entries[inventory.Status].Asks, found, r.haproxy.asked, asks, certificates, asked)
		}
	}
	more(0, askAll)
	expect(true, askAll, 0)
	r.haproxy.down = nil
	r.haproxy.refused[joined(weak)] = "too small"
	expect(false, askAll, 1)
	// A running HAProxy checks all of them.
	more(askAll, askAll+askAtOnce+10)
	expect(false, askAll+askAtOnce, 1+askAtOnce)
	expect(false, askAll+askAtOnce+10, 1+askAtOnce+10)
}

// BenchmarkKeeper measures what a Keeper takes for all pairs of a new pod, and for one more.
func BenchmarkKeeper(b *testing.B) {
	for _, count := range []int{64, 10_000} {
		secrets, authority := certtest.NewVolume(b), certtest.NewAuthority(b)
		objects := make([]keystream.Object, count+1)
		for i := range objects {
			pair := authority.Issue(b, []string{fmt.Sprintf("host-%d.example.com", i)})
			content := files{certificates.CertificateFile: pair.Certificate, certificates.KeyFile: pair.Key}
			objects[i] = keystream.Object{Kind: keystream.KindSecret, Name: fmt.Sprint("secret-", i), Digest: keystream.Digest(content), Files: content}
		}
		var keeper *Keeper
		start := func() {
			keeper = &Keeper{Secrets: secrets.Dir, Pairs: b.TempDir(), Certificates: b.TempDir(), Users: passwords.NewChecker(), HAProxy: &proxy{down: errors.New("it starts"), has: map[string]string{}}}
			must.Do(b, errors.Join(keeper.Look(b.Context(), time.Now()), keeper.pass(b.Context(), all(objects[:count]), true, time.Now())))
		}
		b.Run(fmt.Sprintf("start/%d", count), func(b *testing.B) {
			for b.Loop() {
				start()
			}
		})
		start()
		keeper.HAProxy = &proxy{process: runtime.Process{PID: 1, Started: time.Now().Add(time.Hour).Unix()}, has: map[string]string{}}
		b.Run(fmt.Sprintf("one/%d", count), func(b *testing.B) {
			for b.Loop() {
				for _, content := range []files{objects[count].Files, nil} {
					objects[count].Files = content
					must.Do(b, keeper.pass(b.Context(), all(objects[count:]), true, time.Now()))
				}
				objects[count].Files = files{certificates.CertificateFile: objects[0].Files[certificates.CertificateFile], certificates.KeyFile: objects[0].Files[certificates.KeyFile]}
			}
		})
	}
}

func all(objects []keystream.Object) (checked []object) {
	for _, of := range objects {
		checked = append(checked, newObject(of))
	}
	return checked
}
