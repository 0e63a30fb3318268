package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certtest"
	"gateway/internal/inventory"
	"gateway/internal/journal"
	"gateway/internal/model"
	"gateway/internal/must"
)

// shownTo is the inventory that a test writes in place of gateway-keys.
type shownTo struct {
	t   testing.TB
	dir string
	*journal.Writer[inventory.Entry]
}

func newShown(t testing.TB) shownTo {
	t.Helper()
	dir := t.TempDir()
	w := must.Get(journal.Open[inventory.Entry](filepath.Join(dir, inventory.File)))(t)
	s := shownTo{t, dir, w}
	s.put(map[string]*inventory.Entry{inventory.Status: {}})
	return s
}

func (s shownTo) put(entries map[string]*inventory.Entry) {
	s.t.Helper()
	must.Do(s.t, s.Put(entries))
}

// putPair puts the entry of a good certificate.
func (s shownTo) putPair(secret string, pair certtest.Pair) {
	s.t.Helper()
	s.put(map[string]*inventory.Entry{inventory.SecretKey(secret): {Certificate: inventory.Describe(pair.Leaf)}})
}

func TestMountReader(t *testing.T) {
	authority := certtest.NewAuthority(t)
	one, two := authority.Issue(t, []string{"one.example.com"}), authority.Issue(t, []string{"two.example.com"})
	shown, authorities := newShown(t), certtest.NewVolume(t)
	shown.putPair("shop", one)
	shown.putPair("unnamed", one)
	r := newMountReader(Mounts{
		CertificatesDir: shown.dir, AuthoritiesDir: authorities.Dir, Secrets: []string{"missing", "shop"}, ConfigMaps: []string{"staff"},
	})
	expect := func(secret string, isKnown bool, problem, name string) {
		t.Helper()
		file, ok := r.files.certificate(secret)
		if ok != isKnown || file.problem != problem || (len(file.Names) == 1) != (name != "") || name != "" && file.Names[0] != name {
			t.Errorf("%s was read as %+v, %t", secret, file, ok)
		}
	}
	expect("shop", true, "", "one.example.com")
	expect("missing", true, "it does not exist or has no tls.crt", "")
	expect("unnamed", false, "", "one.example.com")
	if r.files.authorities["staff"].problem != "it does not exist or has no ca.crt" {
		t.Errorf("read %+v", r.files)
	}
	if r.look() {
		t.Error("nothing changed")
	}
	shown.putPair("shop", two)
	if !r.look() {
		t.Error("a renewal was not seen")
	}
	expect("shop", true, "", "two.example.com")
	authorities.Put(map[string][]byte{"staff/ca.crt": authority.PEM})
	if !r.look() || len(r.files.authorities["staff"].pem) == 0 {
		t.Errorf("after the ConfigMap was made: %+v", r.files.authorities)
	}
	// What does not change by kubelet's symlink is not looked at: kubelet changes files in no other way.
	must.Do(t, os.WriteFile(filepath.Join(authorities.Dir, "staff", "ca.crt"), nil, 0o600))
	if r.look() {
		t.Error("all files were read again")
	}
	authorities.Put(nil)
	if r.look() {
		t.Error("the same content is no change")
	}
	shown.put(map[string]*inventory.Entry{inventory.SecretKey("shop"): {}})
	if !r.look() {
		t.Error("a deletion was not seen")
	}
	expect("shop", true, "it does not exist or has no tls.crt", "")
	// A keeper that starts anew may have forgotten all.
	must.Do(t, os.Remove(filepath.Join(shown.dir, inventory.File)))
	newer := must.Get(journal.Open[inventory.Entry](filepath.Join(shown.dir, inventory.File)))(t)
	must.Do(t, newer.Put(nil))
	if !r.look() || len(r.files.certificates) > 0 {
		t.Errorf("after that there are %+v", r.files.certificates)
	}
}

// TestMountReaderOfAKeyServer: objects that gateway-keys has not received are unknown. Its inventory has a version of
// each ConfigMap, so that changes are seen.
func TestMountReaderOfAKeyServer(t *testing.T) {
	authority := certtest.NewAuthority(t)
	shown, authorities := newShown(t), certtest.NewVolume(t)
	r := newMountReader(Mounts{CertificatesDir: shown.dir, AuthoritiesDir: authorities.Dir, KeyServer: true})
	if _, ok := r.files.certificate("shop"); ok || r.files.authorities["staff"].problem != "" {
		t.Errorf("it is known: %+v", r.files)
	}
	if _, ok := r.files.usersOf(model.SecretFile{Secret: "shop", File: "auth"}); ok {
		t.Error("its users are known")
	}
	authorities.Put(map[string][]byte{"staff/ca.crt": authority.PEM})
	shown.putPair("shop", authority.Issue(t, []string{"one.example.com"}))
	shown.put(map[string]*inventory.Entry{
		inventory.SecretKey("users"): {Files: map[string]string{"auth": ""}}, inventory.SecretKey("gone"): {},
		inventory.ConfigMapKey("staff"): {Version: "1"}, inventory.ConfigMapKey("none"): {},
	})
	if !r.look() || r.look() {
		t.Error("it was not read once")
	}
	for secret, want := range map[string]string{"shop": "", "gone": "it does not exist or has no tls.crt", "users": "it does not exist or has no tls.crt"} {
		if file, ok := r.files.certificate(secret); !ok || file.problem != want {
			t.Errorf("%s is %+v, %t", secret, file, ok)
		}
	}
	for secret, want := range map[string]string{"users": "", "shop": "it does not exist or has no auth"} {
		if problem, ok := r.files.usersOf(model.SecretFile{Secret: secret, File: "auth"}); !ok || problem != want {
			t.Errorf("the users of %s: %q, %t", secret, problem, ok)
		}
	}
	if staff, none := r.files.authorities["staff"], r.files.authorities["none"]; len(staff.pem) == 0 || none.problem != "it does not exist or has no ca.crt" {
		t.Errorf("ConfigMaps are %+v", r.files.authorities)
	}
	authorities.Put(map[string][]byte{"staff/ca.crt": nil})
	shown.put(map[string]*inventory.Entry{inventory.ConfigMapKey("staff"): {}})
	if !r.look() || r.files.authorities["staff"].pem != nil {
		t.Errorf("then they are %+v", r.files.authorities)
	}
}

// A problem of a Secret's newest content is reported beside the usable earlier content, or in its place.
func TestMountReaderOfWhatTheKeeperWrites(t *testing.T) {
	one, shown := inventory.Describe(certtest.NewAuthority(t).Issue(t, []string{"one.example.com"}).Leaf), newShown(t)
	shown.put(map[string]*inventory.Entry{
		"Secret/good": {Certificate: one}, "Secret/older": {Certificate: one, Problem: "it has no tls.key"}, "Secret/bad": {Problem: "it has no tls.key"},
	})
	r := newMountReader(Mounts{CertificatesDir: shown.dir, Secrets: []string{"good", "older", "bad"}})
	for secret, want := range map[string]certificateFile{
		"good": {}, "older": {outdated: "it has no tls.key"}, "bad": {problem: "it has no tls.key"},
	} {
		got := r.files.certificates[secret]
		if got.outdated != want.outdated || got.problem != want.problem || (len(got.Names) == 1) != (secret != "bad") {
			t.Errorf("%s was read as %+v", secret, got)
		}
	}
}

// Before the keeper has looked at the Secrets for the first time, nothing is known of them: a pod is not ready without.
func TestTheFirstCertificatesAreAwaited(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mounts := Mounts{CertificatesDir: dir, Secrets: []string{"shop"}}
	r := newPassRig(t, 1)
	r.agent.mounts = newMountReader(mounts)
	shown := shownTo{t: t}
	shown.Writer = must.Get(journal.Open[inventory.Entry](filepath.Join(dir, inventory.File)))(t)
	for _, found := range []*inventory.Entry{nil, {Asks: true}} {
		if found != nil {
			shown.put(map[string]*inventory.Entry{inventory.Status: found})
		}
		if !r.agent.observeInputs(t.Context(), time.Now()) || !r.agent.wanted.partial || len(r.agent.inputs.material.problems) > 0 {
			t.Errorf("with %+v, partial is %t, and problems are %v", found, r.agent.wanted.partial, r.agent.inputs.material.problems)
		}
	}
	shown.put(map[string]*inventory.Entry{inventory.Status: {}})
	if !r.agent.observeInputs(t.Context(), time.Now()) || r.agent.wanted.partial {
		t.Error("the agent still waits")
	}
	if newMountReader(Mounts{}).isAwaited() || newMountReader(Mounts{}).look() {
		t.Error("where nothing is mounted, something is awaited, or changed")
	}
}

// addHTTPS adds a listener, "https", and mounts its certificate.
func (r *passRig) addHTTPS(pair certtest.Pair) {
	r.t.Helper()
	shown := newShown(r.t)
	shown.putPair("shop", pair)
	r.agent.mounts = newMountReader(Mounts{CertificatesDir: shown.dir, Secrets: []string{"shop"}})
	r.gatewaySeen.Spec.Listeners = append(r.gatewaySeen.Spec.Listeners, appv1.Listener{
		Name: "https", Port: 443, Protocol: appv1.ProtocolHTTPS,
		TLS: &appv1.ListenerTLS{CertificateRefs: []appv1.ObjectReference{{Name: "shop"}}},
	})
	r.gatewaySeen.Generation++
	r.put(r.agent.watch.gateways, r.gatewaySeen)
}

// A clock that is ahead makes a certificate expire. Once it is put back, the certificate is.
func TestACertificateComesBackWithTheClock(t *testing.T) {
	t.Parallel()
	r, start := newPassRig(t, 1), time.Now()
	r.addHTTPS(certtest.NewAuthority(t).Issue(t, []string{"one.example.com"}, certtest.Valid(start.Add(-time.Hour), start.Add(time.Hour))))
	for _, step := range []struct {
		clock time.Duration
		want  int
	}{{0, 1}, {2 * time.Hour, 0}, {time.Second, 1}, {2 * time.Second, 1}} {
		if !r.agent.observeInputs(t.Context(), start.Add(step.clock)) || len(r.agent.inputs.material.certificates["https"]) != step.want {
			t.Errorf("at %s: %+v, want %d certificates", step.clock, r.agent.inputs.material.certificates, step.want)
		}
	}
}

// TestFollow: the inventory is looked at often while it lacks something, and at once when it begins to.
func TestFollow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := newMountReader(Mounts{CertificatesDir: dir, KeyServer: true})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		changed, content := make(chan struct{}), []byte{}
		go r.follow(ctx, func() { changed <- struct{}{} })
		seen := func() time.Duration {
			content = append(content, '\n')
			must.Do(t, os.WriteFile(filepath.Join(dir, inventory.File), content, 0o600))
			begin := time.Now()
			<-changed
			return time.Since(begin)
		}
		synctest.Wait()
		if took := seen(); took > awaitInterval {
			t.Errorf("what a new agent awaits was seen after %v", took)
		}
		r.await(false)
		seen()
		if took := seen(); took != followInterval {
			t.Errorf("what nobody awaits was seen after %v", took)
		}
		synctest.Wait()
		r.await(true)
		if took := seen() + seen(); took > awaitInterval {
			t.Errorf("what is awaited was seen after %v", took)
		}
	})
}
