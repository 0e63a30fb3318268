package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/inventory"
)

const (
	noReason = "does not exist or has no tls.crt"
	refused  = ": HAProxy refuses the certificate: "
	misfit   = refused + "inconsistencies between private key and certificate loaded"
	noKeyOf  = " is not the key of its certificate: private key does not match public key"
	goesOn   = noKeyOf + "; what it held before goes on"
)

// The certificates that are good are shown, whatever there is beside them; what is not is named, with its reason.
func TestABadCertificateDisablesThatCertificateAlone(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "good", "missing", "expired", "wrong", "mismatched", "keyless", "garbage", "refused")
	shop := []string{"shop.example.com"}
	good := r.authority.Issue(t, shop)
	r.put("good", good)
	r.put("expired", r.authority.Issue(t, shop, certtest.Valid(time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour))))
	r.put("wrong", r.authority.Issue(t, []string{"a.org"}))
	mismatched := r.authority.Issue(t, shop)
	mismatched.Key = r.authority.Issue(t, shop).Key
	r.put("mismatched", mismatched)
	keyless := r.authority.Issue(t, shop)
	keyless.Key = nil
	r.put("keyless", keyless)
	r.put("garbage", certtest.Pair{Certificate: []byte("hello"), Key: good.Key})
	r.put("refused", certtest.Refused())
	r.start(r.tlsSpec(
		r.https("shop", "shop.example.com", "missing", "expired", "wrong", "mismatched", "keyless", "garbage", "refused", "good"),
		r.https("none", "none.example.com", "missing"),
	))
	r.expectShown("shop.example.com", good)
	r.must(r.getTLS(r.client("shop.example.com"), "shop.example.com"))
	r.expectBody("/", "one")
	r.expectReport(1, "")
	r.expectProblems(
		"none Secret/missing "+noReason,
		"shop Secret/expired expired on "+time.Now().Add(-24*time.Hour).UTC().Format("2006-01-02"),
		"shop Secret/garbage holds no certificate",
		"shop Secret/keyless Secret shop/keyless: it has no tls.key",
		"shop Secret/mismatched Secret shop/mismatched: tls.key"+noKeyOf,
		"shop Secret/missing "+noReason,
		"shop Secret/refused Secret shop/refused"+misfit,
		"shop Secret/wrong is not for shop.example.com: it is for a.org",
	)

	// Whatever else is edited becomes live beside them, and what is put right is used.
	spec := r.tlsSpec(r.https("shop", "shop.example.com", "mismatched", "good"), r.https("none", "none.example.com", "missing"))
	r.createService("more")
	spec.Routes = append(spec.Routes, r.spec("api", "more").Routes[1])
	generation := r.edit(spec)
	r.expectReport(generation, "")
	none := r.authority.Issue(t, []string{"none.example.com"})
	r.put("missing", none)
	r.expectShown("none.example.com", none)
	mismatched = r.authority.Issue(t, shop)
	r.put("mismatched", mismatched)
	r.expectProblems()
	r.expectShown("shop.example.com", mismatched)
}

func TestRSAAndECDSACertificatesOfOneName(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "rsa", "ecdsa")
	names := []string{"*.example.com"}
	rsa, ecdsa := r.authority.Issue(t, names, certtest.RSA(t, 2048)), r.authority.Issue(t, names)
	r.put("rsa", rsa)
	r.put("ecdsa", ecdsa)
	r.start(r.tlsSpec(r.https("https", "*.example.com", "rsa", "ecdsa")))
	r.expectShown("a.example.com", rsa, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256)
	r.expectShown("a.example.com", ecdsa, tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256)
	r.expectProblems()
}

func TestARenewalLosesNoRequest(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	names := []string{"shop.example.com"}
	r.put("shop", r.authority.Issue(t, names))
	r.start(r.tlsSpec(r.https("https", "", "shop")))
	// One client keeps its connection, the other makes a new one for each request.
	var requests atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 2 {
		client := r.client("shop.example.com")
		clients.Go(func() {
			for ctx.Err() == nil {
				requests.Add(1)
				if err := r.getTLS(client, "shop.example.com"); err != nil {
					t.Errorf("a request failed: %v", err)
				}
				if i == 1 {
					client.CloseIdleConnections()
				}
			}
		})
	}
	running := r.process()
	for range 3 {
		renewed := r.authority.Issue(t, names)
		r.put("shop", renewed)
		r.expectShown("shop.example.com", renewed)
	}
	cancel()
	clients.Wait()
	t.Logf("%d requests", requests.Load())
	r.expectProblems()
	r.expectNoReload(running)
}

// A key that does not fit is never loaded: what the Secret held before goes on. What was renewed beside it is used.
func TestARenewalWithTheWrongKey(t *testing.T) {
	r := newTLSRig(t, "one", "two")
	one, two := r.authority.Issue(t, []string{"one.example.com"}), r.authority.Issue(t, []string{"two.example.com"})
	r.put("one", one)
	r.put("two", two)
	r.start(r.tlsSpec(r.https("one", "one.example.com", "one"), r.https("two", "two.example.com", "two")))
	r.expectShown("one.example.com", one)
	stop := r.keepsShowing("two.example.com")

	refusals := metric(t, "gateway_agent_load_failures_total")
	one, renewed := r.authority.Issue(t, []string{"one.example.com"}), r.authority.Issue(t, []string{"two.example.com"})
	r.put("two", certtest.Pair{Certificate: renewed.Certificate, Key: one.Key})
	r.put("one", one)
	r.expectShown("one.example.com", one)
	r.expectShown("two.example.com", two)
	r.expectProblems("two Secret/two Secret shop/two: tls.key" + goesOn)
	r.expectReport(1, "")
	// The key alone is put right.
	r.put("two", renewed)
	r.expectShown("two.example.com", renewed)
	r.expectProblems()
	stop()
	if got := metric(t, "gateway_agent_load_failures_total"); got != refusals {
		t.Errorf("HAProxy refused %v loads", got-refusals)
	}
}

// Nor is one that has expired, as when somebody puts an old Secret back.
func TestARenewalThatHasExpired(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	names := []string{"shop.example.com"}
	good, expired := r.authority.Issue(t, names), r.authority.Issue(t, names, certtest.Valid(time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)))
	r.put("shop", good)
	r.start(r.tlsSpec(r.https("https", "shop.example.com", "shop")))
	stop := r.keepsShowing("shop.example.com")
	r.put("shop", expired)
	r.expectProblems("https Secret/shop Secret shop/shop: the certificate expired on " + expired.Leaf.NotAfter.Format("2006-01-02 15:04:05") +
		" UTC; what it held before goes on")
	r.expectReport(1, "")
	r.expectShown("shop.example.com", good)
	stop()
}

// A certificate that is not valid yet waits until it is, without another change of the Secret.
func TestARenewalThatIsEarly(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	names := []string{"shop.example.com"}
	r.put("shop", r.authority.Issue(t, names))
	r.start(r.tlsSpec(r.https("https", "shop.example.com", "shop")))
	stop := r.keepsShowing("shop.example.com")
	early := r.authority.Issue(t, names, certtest.Valid(time.Now().Add(5*time.Second), time.Now().Add(time.Hour)))
	r.secrets.PutPair("shop", early)
	r.expectProblems("https Secret/shop Secret shop/shop: the certificate is not valid before " + early.Leaf.NotBefore.Format("2006-01-02 15:04:05") +
		" UTC; what it held before goes on")
	r.expectShown("shop.example.com", early)
	r.expectProblems()
	stop()
}

// Of a key of a kind that Go does not know, HAProxy alone can tell that it does not fit; also when nothing but the key
// changes.
func TestAKeyThatHAProxyAloneRefuses(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "good", "refused")
	good, refused := r.authority.Issue(t, []string{"good.example.com"}), certtest.Refused()
	mended := certtest.Pair{Certificate: refused.Certificate, Key: certtest.RefusedCertificatesKey()}
	r.put("good", good)
	r.put("refused", mended)
	spec := r.tlsSpec(r.https("good", "good.example.com", "good"), r.https("refused", "refused.example.com", "refused"))
	r.start(spec)
	r.expectProblems()
	r.put("refused", refused)
	r.expectProblems("refused Secret/refused Secret shop/refused" + misfit + "; what it held before goes on")
	r.addMore(spec)
	r.expectShown("good.example.com", good)
	r.put("refused", mended)
	r.expectProblems()
}

// A key was broken, and HAProxy starts anew: on what the Secret held before.
func TestHAProxyStartsThoughAKeyWasBroken(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "good", "broken")
	good, broken := r.authority.Issue(t, []string{"good.example.com"}), r.authority.Issue(t, []string{"broken.example.com"})
	r.put("good", good)
	r.put("broken", broken)
	r.start(r.tlsSpec(r.https("good", "good.example.com", "good"), r.https("broken", "broken.example.com", "broken")))
	r.expectProblems()
	r.put("broken", certtest.Pair{Certificate: broken.Certificate, Key: good.Key})
	r.haproxy.Stop()
	r.startHAProxy()
	r.expectShown("good.example.com", good)
	r.expectShown("broken.example.com", broken)
	r.expectProblems("broken Secret/broken Secret shop/broken: tls.key" + goesOn)
	r.expectReport(1, "")
	r.expectBody("/", "one")
}

// While HAProxy is away, a certificate that it refuses comes for one that it has, and one that it takes for another. It
// starts on what it had.
func TestHAProxyStartsThoughItRefusesACertificate(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "good", "other")
	good, other := r.authority.Issue(t, []string{"good.example.com"}), r.authority.Issue(t, []string{"other.example.com"})
	r.put("good", good)
	r.put("other", other)
	r.start(r.tlsSpec(r.https("good", "good.example.com", "good"), r.https("other", "other.example.com", "other")))
	r.expectProblems()
	r.haproxy.Stop()
	good = r.authority.Issue(t, []string{"good.example.com"})
	r.put("good", good)
	r.put("other", certtest.Weak(t, []string{"other.example.com"}))
	r.startHAProxy()
	r.expectShown("good.example.com", good)
	r.expectShown("other.example.com", other)
	r.expectProblems("other Secret/other Secret shop/other" + refused + "unable to load chain certificate into SSL Context: ca key too small; what it held before goes on")
	r.expectReport(1, "")
	r.expectBody("/", "one")
}

// Retries for a Service take a reload, which reads all keys again, however many there are. One was broken meanwhile,
// and nothing is lost.
func TestAReloadThoughAKeyWasBroken(t *testing.T) {
	t.Parallel()
	for _, count := range []int{2, 40} {
		t.Run(strconv.Itoa(count), func(t *testing.T) {
			var secrets []string
			for i := range count {
				secrets = append(secrets, fmt.Sprintf("secret-%02d", i))
			}
			r := newTLSRig(t, secrets...)
			var listeners []appv1.Listener
			var broken certtest.Pair
			for _, secret := range secrets {
				broken = r.authority.Issue(t, []string{secret + ".example.com"})
				r.put(secret, broken)
				listeners = append(listeners, r.https(secret, secret+".example.com", secret))
			}
			spec := r.tlsSpec(listeners...)
			r.start(spec)
			r.expectProblems()
			first, last := secrets[0], secrets[count-1]
			stopFirst, stopLast := r.keepsShowing(first+".example.com"), r.keepsShowing(last+".example.com")
			r.put(last, certtest.Pair{Certificate: broken.Certificate, Key: r.authority.Issue(t, nil).Key})
			r.addMore(spec)
			r.expectProblems(last + " Secret/" + last + " Secret shop/" + last + ": tls.key" + goesOn)
			stopFirst()
			stopLast()
		})
	}
}

func TestACertificateThatExpiresIsLeftOut(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "short", "long")
	names := []string{"shop.example.com"}
	soon := time.Now().Add(3 * time.Second).Truncate(time.Second)
	long := r.authority.Issue(t, names)
	r.put("short", r.authority.Issue(t, names, certtest.Valid(time.Now().Add(-time.Hour), soon)))
	r.put("long", long)
	r.start(r.tlsSpec(r.https("https", "shop.example.com", "short", "long")))
	r.expectProblems("https Secret/short expired on " + soon.UTC().Format("2006-01-02 15:04:05"))
	r.expectShown("shop.example.com", long)
	if now := time.Now(); now.Before(soon) {
		t.Errorf("it was left out at %s, before it expired at %s", now, soon)
	}
}

func TestAListenerWithoutItsAuthorityIsNotServed(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	r.put("shop", r.authority.Issue(t, []string{"shop.example.com"}))
	https := r.https("https", "shop.example.com", "shop")
	https.TLS.ClientValidation = &appv1.ClientValidation{CACertificateRefs: []appv1.ObjectReference{{Name: "staff"}}}
	r.start(r.tlsSpec(https))
	r.expectReport(1, "")
	r.expectProblems("https ConfigMap/staff does not exist or has no ca.crt")
	if _, err := r.shown("shop.example.com"); err == nil {
		t.Error("clients are let in unchecked")
	}
	r.authorities.Put(map[string][]byte{"staff/ca.crt": r.authority.PEM})
	r.expectProblems()
	employee := r.authority.Issue(t, nil)
	key, err := tls.X509KeyPair(employee.Certificate, employee.Key)
	r.must(err)
	client := &tls.Config{RootCAs: r.authority.Pool(), ServerName: "shop.example.com", Certificates: []tls.Certificate{key}}
	r.eventually("an employee is let in", func() error {
		connection, err := tls.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", r.httpsPort), client)
		if err == nil {
			err = connection.Close()
		}
		return err
	})
}

// A Secret that the Gateway names since the pod was made is not mounted: the pod cannot run all of the generation, and
// does not say so.
func TestWhatIsNotMountedKeepsAGenerationFromBeingReported(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	shop := r.authority.Issue(t, []string{"shop.example.com"})
	r.put("shop", shop)
	spec := r.tlsSpec(r.https("https", "shop.example.com", "shop"))
	r.start(spec)
	r.expectReport(1, "")
	spec.Listeners = append(spec.Listeners, r.https("new", "new.example.com", "new"))
	spec.Routes[0].Rules[0].Matches[0].Path.Value = "/moved"
	generation := r.edit(spec)
	r.expectReport(1, fmt.Sprintf("AwaitingReplacement generation %d: Secret shop/new is not mounted: ", generation))
	r.expectProblems()
	// HAProxy runs the part that it can run.
	r.expectBody("/moved", "one")
	r.expectShown("shop.example.com", shop)
	spec.Listeners = spec.Listeners[:2]
	r.expectReport(r.edit(spec), "")
}

// The agent's files, and what it writes, hold no key.
func TestTheAgentHoldsNoKey(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "shop")
	shop := r.authority.Issue(t, []string{"shop.example.com"})
	// Somebody pasted the key into the certificate's field, and missed a line.
	body := bytes.Split(shop.Key, []byte("\n"))[1]
	r.put("shop", certtest.Pair{Certificate: slices.Concat([]byte("-----BEGIN PRIVATE KEY-----\n"), body, []byte("\n"), shop.Certificate), Key: shop.Key})
	r.start(r.tlsSpec(r.https("https", "shop.example.com", "shop")))
	r.expectShown("shop.example.com", shop)
	certificates := 0
	for _, dir := range []string{filepath.Dir(r.options.Paths.ConfigDir), r.shownDir, r.authorities.Dir} {
		r.must(filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			content, err := os.ReadFile(path)
			if bytes.Contains(content, []byte("PRIVATE KEY")) || bytes.Contains(content, body) || strings.HasSuffix(path, ".key") {
				t.Errorf("%s holds a key", path)
			}
			if bytes.Contains(content, []byte(`"shop.example.com"`)) && filepath.Base(path) == inventory.File {
				certificates++
			}
			return err
		}))
	}
	if certificates == 0 {
		t.Error("the certificate is in no file that was looked at")
	}
}

// A key that was broken behind one certificate keeps no new one away, and is not blamed on it.
func TestABrokenKeyKeepsNoNewCertificateAway(t *testing.T) {
	t.Parallel()
	r := newTLSRig(t, "old", "new")
	old, fresh := r.authority.Issue(t, []string{"old.example.com"}), r.authority.Issue(t, []string{"new.example.com"})
	r.put("old", old)
	r.put("new", fresh)
	r.start(r.tlsSpec(r.https("old", "old.example.com", "old")))
	r.expectShown("old.example.com", old)
	stop := r.keepsShowing("old.example.com")
	r.put("old", certtest.Pair{Certificate: old.Certificate, Key: fresh.Key})
	generation := r.edit(r.tlsSpec(r.https("old", "old.example.com", "old"), r.https("new", "new.example.com", "new")))
	r.expectShown("new.example.com", fresh)
	r.expectReport(generation, "")
	r.expectProblems("old Secret/old Secret shop/old: tls.key" + goesOn)
	stop()
	r.put("old", old)
	r.expectProblems()
}
