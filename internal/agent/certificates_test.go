package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gateway/internal/certtest"
)

// volume is a directory that changes as kubelet changes those of Secrets and ConfigMaps: all files at once, by a symlink.
type volume struct {
	t        *testing.T
	dir      string
	versions int
	files    map[string][]byte
}

func newVolume(t *testing.T) *volume {
	t.Helper()
	v := &volume{t: t, dir: t.TempDir(), files: map[string][]byte{}}
	v.put(nil)
	return v
}

// put changes files, by OBJECT/KEY; those without content are removed.
func (v *volume) put(files map[string][]byte) {
	v.t.Helper()
	for name, content := range files {
		if content == nil {
			delete(v.files, name)
		} else {
			v.files[name] = content
		}
	}
	v.versions++
	version := fmt.Sprintf("..%d", v.versions)
	old, _ := os.Readlink(filepath.Join(v.dir, dataLink))
	mustDo(v.t, os.Mkdir(filepath.Join(v.dir, version), 0o755))
	for name, content := range v.files {
		path := filepath.Join(v.dir, version, name)
		mustDo(v.t, os.MkdirAll(filepath.Dir(path), 0o755))
		mustDo(v.t, os.WriteFile(path, content, 0o600))
	}
	next := filepath.Join(v.dir, dataLink+"_tmp")
	mustDo(v.t, os.Symlink(version, next))
	mustDo(v.t, os.Rename(next, filepath.Join(v.dir, dataLink)))
	for name := range v.files {
		object := filepath.Dir(name)
		if err := os.Symlink(filepath.Join(dataLink, object), filepath.Join(v.dir, object)); err != nil && !os.IsExist(err) {
			v.t.Fatal(err)
		}
	}
	if old != "" {
		mustDo(v.t, os.RemoveAll(filepath.Join(v.dir, old)))
	}
}

func TestMountReader(t *testing.T) {
	authority := certtest.NewAuthority(t)
	one, two := authority.Issue(t, []string{"one.example.com"}), authority.Issue(t, []string{"two.example.com"})
	certificates, authorities := newVolume(t), newVolume(t)
	certificates.put(map[string][]byte{"shop/tls.crt": one.Certificate, "unnamed/tls.crt": one.Certificate})
	r := newMountReader(Mounts{
		CertificatesDir: certificates.dir, AuthoritiesDir: authorities.dir, Secrets: []string{"missing", "shop"}, ConfigMaps: []string{"staff"},
	})
	if len(r.files.certificates) != 2 || r.files.certificates["shop"].names[0] != "one.example.com" ||
		r.files.certificates["missing"].problem != "%s does not exist or has no tls.crt" ||
		r.files.authorities["staff"].problem != "%s does not exist or has no ca.crt" {
		t.Errorf("read %+v", r.files)
	}
	if r.look() {
		t.Error("nothing changed")
	}
	// What does not change by kubelet's symlink is not looked at: kubelet changes files in no other way.
	mustDo(t, os.WriteFile(filepath.Join(certificates.dir, "shop", "tls.crt"), two.Certificate, 0o600))
	if r.look() {
		t.Error("all files were read again")
	}
	certificates.put(map[string][]byte{"shop/tls.crt": two.Certificate})
	if !r.look() || r.files.certificates["shop"].names[0] != "two.example.com" {
		t.Errorf("after a renewal: %+v", r.files)
	}
	authorities.put(map[string][]byte{"staff/ca.crt": authority.PEM})
	if !r.look() || len(r.files.authorities["staff"].pem) == 0 {
		t.Errorf("after the ConfigMap was made: %+v", r.files.authorities)
	}
	certificates.put(map[string][]byte{"shop/tls.crt": nil})
	if !r.look() || r.files.certificates["shop"].problem != "%s does not exist or has no tls.crt" {
		t.Errorf("after the Secret was deleted: %+v", r.files)
	}
	certificates.put(nil)
	if r.look() {
		t.Error("the same content is no change")
	}
}

func TestMountReaderWithoutKubelet(t *testing.T) {
	dir := t.TempDir()
	authority := certtest.NewAuthority(t)
	r := newMountReader(Mounts{CertificatesDir: dir, Secrets: []string{"shop"}})
	mustDo(t, os.Mkdir(filepath.Join(dir, "shop"), 0o755))
	mustDo(t, os.WriteFile(filepath.Join(dir, "shop", "tls.crt"), authority.Issue(t, []string{"a.b"}).Certificate, 0o600))
	if !r.look() || len(r.files.certificates["shop"].names) != 1 {
		t.Errorf("plain files are not read: %+v", r.files)
	}
	if newMountReader(Mounts{}).look() {
		t.Error("where nothing is mounted, something changed")
	}
}
