package agent

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gateway/internal/certtest"
	"gateway/internal/inventory"
	"gateway/internal/journal"
	"gateway/internal/proxyconfig"
)

// A certificate that HAProxy refuses is in no configuration: no reload meanwhile is refused, whoever restarts.
func TestARefusedCertificateIsNeverLoaded(t *testing.T) {
	r := newTLSRig(t, "good", "bad")
	good := r.authority.Issue(t, []string{"good.example.com"})
	r.put("good", good)
	r.put("bad", certtest.Refused())
	refusals := metric(t, "gateway_agent_load_failures_total")
	spec := r.tlsSpec(r.https("good", "good.example.com", "good"), r.https("bad", "bad.example.com", "bad"))
	r.start(spec)
	problem := "bad Secret/bad Secret shop/bad" + misfit
	r.expectProblems(problem)
	stop := r.keepsShowing("good.example.com")
	r.addMore(spec)
	r.stop()
	r.stopKeeper()
	r.startKeeper()
	r.startAgent()
	r.expectProxyConfig("the next agent has it loaded", func(c proxyconfig.Config) bool { return c.Live.Generation() == r.gateway().Generation })
	r.expectProblems(problem)
	stop()
	r.haproxy.Stop()
	r.startHAProxy()
	r.expectShown("good.example.com", good)
	if got := metric(t, "gateway_agent_load_failures_total"); got != refusals {
		t.Errorf("HAProxy refused %v loads", got-refusals)
	}
}

// A renewal that meets a reload is used by the worker that comes out of it, too.
func TestARenewalDuringAReload(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	names := []string{"shop.example.com"}
	r.put("shop", r.authority.Issue(t, names))
	spec := r.tlsSpec(r.https("https", "shop.example.com", "shop"))
	r.start(spec)
	stop := r.keepsShowing("shop.example.com")
	services := []string{"api"}
	for i := range 6 {
		renewed := r.authority.Issue(t, names)
		r.put("shop", renewed)
		for range i {
			services = append(services, "s"+string(rune('a'+len(services))))
			spec.Routes = r.reloading(services...).Routes
			r.edit(spec)
		}
		r.expectReport(r.gateway().Generation, "")
		r.expectShown("shop.example.com", renewed)
		r.expectShown("shop.example.com", renewed)
	}
	stop()
}

// A certificate that comes later, goes, or is for other names takes no reload either, but at a port without any.
func TestCertificatesComeAndGo(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop", "later", "wild")
	shop := r.authority.Issue(t, []string{"shop.example.com"})
	r.put("shop", shop)
	r.put("wild", r.authority.Issue(t, []string{"*.example.com"}))
	spec := r.tlsSpec(r.https("shop", "shop.example.com", "shop"), r.https("later", "later.example.com", "later"), r.https("wild", "*.example.com", "wild"))
	r.start(spec)
	r.expectProblems("later Secret/later " + noReason)
	running, stop := r.process(), r.keepsShowing("shop.example.com")
	later := r.authority.Issue(t, []string{"later.example.com"})
	r.put("later", later)
	r.expectShown("later.example.com", later)
	r.expectProblems()
	r.must(r.getTLS(r.client("later.example.com"), "later.example.com"))
	// One for a name that the listener has not is none, so its line goes; what comes for it brings the line back.
	r.put("later", r.authority.Issue(t, []string{"else.example.com"}))
	r.expectProblems("later Secret/later is not for later.example.com: it is for else.example.com")
	r.eventually("its listener gets no requests", func() error {
		if err := r.getTLS(r.client("later.example.com"), "later.example.com"); err == nil || !strings.Contains(err.Error(), "got 421 ") {
			return fmt.Errorf("got %w", err)
		}
		return nil
	})
	later = r.authority.Issue(t, []string{"later.example.com", "*.example.org"})
	r.put("later", later)
	r.expectShown("later.example.com", later)
	r.expectNoReload(running)
	// Its listener gets another hostname.
	spec.Listeners[2].Hostname = "*.example.org"
	r.expectReport(r.edit(spec), "")
	r.expectShown("b.example.org", later)
	stop()
	// HAProxy starts on the same.
	show := "show ssl crt-list " + filepath.Join(r.options.Paths.ConfigDir, fmt.Sprintf("certificates-%d.list", r.httpsPort))
	ran := r.haproxy.Worker(show)
	r.haproxy.Stop()
	r.startHAProxy()
	r.expectShown("b.example.org", later)
	if again := r.haproxy.Worker(show); !slices.Equal(slices.Sorted(strings.Lines(again)), slices.Sorted(strings.Lines(ran))) {
		t.Errorf("it starts on %s, and ran %s", again, ran)
	}
	r.expectProblems()
}

// While HAProxy is away, the Secret is deleted that its configuration has the only certificate of.
func TestHAProxyStartsThoughASecretIsGone(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	r.put("shop", r.authority.Issue(t, []string{"shop.example.com"}))
	r.start(r.tlsSpec(r.https("https", "shop.example.com", "shop")))
	r.expectProblems()
	r.haproxy.Stop()
	r.secrets.PutPair("shop", certtest.Pair{})
	r.eventually("the agent has seen that", func() error {
		shown, err := journal.Open[inventory.Entry](filepath.Join(r.shownDir, inventory.File))
		if err == nil && shown.Values[inventory.SecretKey("shop")].Certificate != nil {
			err = errors.New("it has the certificate")
		}
		return err
	})
	r.startHAProxy()
	r.expectProblems("https Secret/shop " + noReason)
	r.await("the port is closed", func() bool {
		_, err := r.shown("shop.example.com")
		return err != nil
	})
}

// After a restart of the node, what was in memory is gone, and HAProxy's configuration, which names certificates, is
// not.
func TestAPodThatLostWhatWasInMemory(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	shop := r.authority.Issue(t, []string{"shop.example.com"})
	r.put("shop", shop)
	r.start(r.tlsSpec(r.https("https", "shop.example.com", "shop")))
	r.stop()
	r.haproxy.Stop()
	r.stopKeeper()
	r.pairsDir, r.shownDir = t.TempDir(), t.TempDir()
	r.options.Paths.CertificateDir, r.options.Mounts.CertificatesDir = r.pairsDir, r.shownDir
	r.startKeeper()
	r.startAgent()
	r.await("HAProxy can start", func() bool { return r.onDisk("ssl crt-list") != nil })
	r.startHAProxy()
	r.expectShown("shop.example.com", shop)
	r.expectProblems()
	r.expectReport(1, "")
}
