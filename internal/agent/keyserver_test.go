package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gateway/internal/certtest"
)

// TestSecretsOfAKeyServer: a listener with a Secret that is new to the pod needs no reload and no new pod. A Secret
// that the server takes back is gone within 2 s. Others stay, also while the server is away.
func TestSecretsOfAKeyServer(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t)
	r.useKeyServer()
	shop, later := r.authority.Issue(t, []string{"shop.example.com"}), r.authority.Issue(t, []string{"later.example.com"})
	r.server.PutPair("shop", shop)
	r.start(r.tlsSpec(r.https("shop", "shop.example.com", "shop")))
	r.expectShown("shop.example.com", shop)
	worker := r.worker()
	stop := r.keepsShowing("shop.example.com")
	r.server.PutPair("later", later)
	generation := r.edit(r.tlsSpec(r.https("shop", "shop.example.com", "shop"), r.https("later", "later.example.com", "later"), r.https("none", "none.example.com", "none")))
	r.expectShown("later.example.com", later)
	r.server.Put(map[string]map[string][]byte{"Secret/none": nil})
	r.expectProblems("none Secret/none it does not exist or has no tls.crt")
	r.expectReport(generation, "")
	again := r.authority.Issue(t, []string{"later.example.com"})
	r.server.PutPair("later", again)
	r.expectShown("later.example.com", again)

	r.server.SetAway(true)
	r.expectShown("later.example.com", again)
	r.stopKeeper()
	r.startKeeper()
	r.expectShown("later.example.com", again)
	r.server.SetAway(false)
	r.server.Put(map[string]map[string][]byte{"Secret/later": nil})
	begin := time.Now()
	r.await("what was taken back is gone", func() bool {
		_, err := r.shown("later.example.com")
		return err != nil
	})
	t.Logf("it took %s", time.Since(begin))
	r.eventually("its key is gone", func() error {
		if _, err := os.Stat(filepath.Join(r.pairsDir, "later", "tls.pem")); err == nil {
			return errors.New("there is a file")
		}
		if strings.Contains(r.haproxy.Worker("show ssl cert"), filepath.Join(r.pairsDir, "later")) {
			return errors.New("HAProxy has it")
		}
		return nil
	})
	stop()
	if r.worker() != worker {
		t.Error("HAProxy was reloaded")
	}
}

// worker returns the process that answers.
func (r *tlsRig) worker() string {
	for line := range strings.Lines(r.haproxy.Worker("show info")) {
		if strings.HasPrefix(line, "Pid:") {
			return line
		}
	}
	r.t.Fatal("HAProxy has no process")
	return ""
}

// TestAPodWaitsForItsKeyServer: a new pod is not ready before it has what there is, and starts with it.
func TestAPodWaitsForItsKeyServer(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t)
	r.useKeyServer()
	shop := r.authority.Issue(t, []string{"shop.example.com"})
	r.server.SetAway(true)
	r.server.PutPair("shop", shop)
	r.startKeeper()
	r.createGateway(r.tlsSpec(r.https("shop", "shop.example.com", "shop")))
	r.startAgent()
	asked := r.server.Connections()
	r.await("the server is asked", func() bool { return r.server.Connections() >= asked+2 })
	if r.agent.probes.started() == nil {
		t.Error("there is a configuration without certificates")
	}
	r.server.SetAway(false)
	r.eventually("there is a configuration", r.agent.probes.started)
	r.startHAProxy()
	r.eventually("the pod is ready", r.agent.probes.ready)
	r.expectShown("shop.example.com", shop)
}

// TestANodeIsRestartedWithoutItsKeyServer: HAProxy starts without the certificates that were in memory, at once, and
// has them once the server is back.
func TestANodeIsRestartedWithoutItsKeyServer(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t)
	r.useKeyServer()
	shop := r.authority.Issue(t, []string{"shop.example.com"})
	r.server.PutPair("shop", shop)
	r.start(r.tlsSpec(r.https("https", "shop.example.com", "shop")))
	r.stop()
	r.haproxy.Stop()
	r.stopKeeper()
	r.pairsDir, r.shownDir, r.keptDirs = t.TempDir(), t.TempDir(), [2]string{t.TempDir(), t.TempDir()}
	r.options.Paths.CertificateDir, r.options.Mounts.CertificatesDir, r.options.Mounts.AuthoritiesDir = r.pairsDir, r.shownDir, t.TempDir()
	r.server.SetAway(true)
	r.startKeeper()
	r.startAgent()
	r.await("HAProxy can start", func() bool { return r.onDisk("ssl crt-list") != nil })
	r.startHAProxy()
	r.expectBody("/", "one")
	r.server.SetAway(false)
	r.expectShown("shop.example.com", shop)
}

// TestWhoWaitsForAKeyServer: a new pod waits for a while. One with a configuration on the disk, which names
// certificates that are gone, does not.
func TestWhoWaitsForAKeyServer(t *testing.T) {
	r, start := newPassRig(t, 1), time.Now()
	r.agent.mounts = newMountReader(Mounts{CertificatesDir: t.TempDir(), KeyServer: true})
	for _, step := range []struct {
		at    time.Duration
		disk  string
		waits bool
	}{{0, "", true}, {silentTime - time.Second, "", true}, {silentTime + time.Second, "", false}, {0, "load-1", false}} {
		r.agent.state.disk.id = step.disk
		if waits := !r.agent.observeInputs(t.Context(), start.Add(step.at)); waits != step.waits || !r.agent.wanted.partial {
			t.Errorf("after %s, with %q on the disk: waits is %t, partial %t", step.at, step.disk, waits, r.agent.wanted.partial)
		}
	}
}

// TestWhatAKeyServerSaysNothingOf becomes a problem of its listener alone.
func TestWhatAKeyServerSaysNothingOf(t *testing.T) {
	r, shown, start := newPassRig(t, 1), newShown(t), time.Now()
	r.addHTTPS(certtest.NewAuthority(t).Issue(t, []string{"one.example.com"}))
	r.agent.mounts = newMountReader(Mounts{CertificatesDir: shown.dir, KeyServer: true})
	for _, step := range []struct {
		at        time.Duration
		unmounted string
		problem   string
	}{{0, "Secret shop/shop", ""}, {unknownTime - time.Second, "Secret shop/shop", ""}, {unknownTime, "", "Secret shop/shop: the key server has not told of it"}} {
		if !r.agent.observeInputs(t.Context(), start.Add(step.at)) {
			t.Fatal("it is not known what is wanted")
		}
		got, problem := &r.agent.inputs.material, ""
		for i := range got.problems {
			problem += got.problems[i].Message
		}
		if got.unmounted != step.unmounted || problem != step.problem {
			t.Errorf("after %s: unmounted %q, problem %q", step.at, got.unmounted, problem)
		}
	}
}
