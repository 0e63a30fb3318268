package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	appv1 "gateway/api/app/v1"
	"gateway/internal/certificates"
	"gateway/internal/certtest"
)

func TestMountReader(t *testing.T) {
	authority := certtest.NewAuthority(t)
	one, two := authority.Issue(t, []string{"one.example.com"}), authority.Issue(t, []string{"two.example.com"})
	shown, authorities := certtest.NewVolume(t), certtest.NewVolume(t)
	shown.Put(map[string][]byte{"shop/tls.crt": one.Certificate, "unnamed/tls.crt": one.Certificate})
	r := newMountReader(Mounts{
		CertificatesDir: shown.Dir, AuthoritiesDir: authorities.Dir, Secrets: []string{"missing", "shop"}, ConfigMaps: []string{"staff"},
	})
	if len(r.files.certificates) != 2 || r.files.certificates["shop"].names[0] != "one.example.com" ||
		r.files.certificates["missing"].problem != "it does not exist or has no tls.crt" ||
		r.files.authorities["staff"].problem != "it does not exist or has no ca.crt" {
		t.Errorf("read %+v", r.files)
	}
	if r.look() {
		t.Error("nothing changed")
	}
	// What does not change by kubelet's symlink is not looked at: kubelet changes files in no other way.
	mustDo(t, os.WriteFile(filepath.Join(shown.Dir, "shop", "tls.crt"), two.Certificate, 0o600))
	if r.look() {
		t.Error("all files were read again")
	}
	shown.Put(map[string][]byte{"shop/tls.crt": two.Certificate})
	if !r.look() || r.files.certificates["shop"].names[0] != "two.example.com" {
		t.Errorf("after a renewal: %+v", r.files)
	}
	authorities.Put(map[string][]byte{"staff/ca.crt": authority.PEM})
	if !r.look() || len(r.files.authorities["staff"].pem) == 0 {
		t.Errorf("after the ConfigMap was made: %+v", r.files.authorities)
	}
	shown.Put(map[string][]byte{"shop/tls.crt": nil})
	if !r.look() || r.files.certificates["shop"].problem != "it does not exist or has no tls.crt" {
		t.Errorf("after the Secret was deleted: %+v", r.files)
	}
	shown.Put(nil)
	if r.look() {
		t.Error("the same content is no change")
	}
}

// What is wrong with what a Secret holds now is told beside what it held before, or in its place.
func TestMountReaderOfWhatTheKeeperWrites(t *testing.T) {
	one := certtest.NewAuthority(t).Issue(t, []string{"one.example.com"})
	volume := certtest.NewVolume(t)
	volume.Put(map[string][]byte{
		"good/tls.crt":  one.Certificate,
		"older/tls.crt": one.Certificate, "older/problem": []byte("it has no tls.key"),
		"bad/problem": []byte("it has no tls.key"),
	})
	r := newMountReader(Mounts{CertificatesDir: volume.Dir, Secrets: []string{"good", "older", "bad"}})
	for secret, want := range map[string]certificateFile{
		"good": {}, "older": {outdated: "it has no tls.key"}, "bad": {problem: "it has no tls.key"},
	} {
		got := r.files.certificates[secret]
		if got.outdated != want.outdated || got.problem != want.problem || (len(got.names) == 1) != (secret != "bad") {
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
	for _, found := range []string{"nothing", "..version-1"} {
		if !r.agent.observeInputs(t.Context(), time.Now()) || !r.agent.wanted.partial || len(r.agent.inputs.material.problems) > 0 {
			t.Errorf("with %s in the volume, partial is %t, and problems are %v", found, r.agent.wanted.partial, r.agent.inputs.material.problems)
		}
		mustDo(t, os.MkdirAll(filepath.Join(dir, "..version-1"), 0o700))
	}
	mustDo(t, os.Symlink("..version-1", filepath.Join(dir, certificates.DataLink)))
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
	volume := certtest.NewVolume(r.t)
	volume.Put(map[string][]byte{"shop/tls.crt": pair.Certificate})
	r.agent.mounts = newMountReader(Mounts{CertificatesDir: volume.Dir, Secrets: []string{"shop"}})
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
