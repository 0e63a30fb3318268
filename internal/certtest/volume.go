package certtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"gateway/internal/must"
)

// Volume is a directory that changes as kubelet changes volumes of Secrets and ConfigMaps: all files at once, by a
// symlink.
type Volume struct {
	// Dir is where it is.
	Dir string

	t        testing.TB
	versions int
	files    map[string][]byte
}

// dataLink is the name of the symlink.
const dataLink = "..data"

// NewVolume makes an empty one.
func NewVolume(t testing.TB) *Volume {
	t.Helper()
	v := &Volume{t: t, Dir: t.TempDir(), files: map[string][]byte{}}
	v.Put(nil)
	return v
}

// Put changes files, by OBJECT/KEY; those without content are removed.
func (v *Volume) Put(files map[string][]byte) {
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
	old, _ := os.Readlink(filepath.Join(v.Dir, dataLink))
	must.Do(v.t, os.Mkdir(filepath.Join(v.Dir, version), 0o755)) //nolint:gosec // as kubelet makes it
	for name, content := range v.files {
		path := filepath.Join(v.Dir, version, name)
		must.Do(v.t, os.MkdirAll(filepath.Dir(path), 0o755)) //nolint:gosec // as kubelet makes it
		must.Do(v.t, os.WriteFile(path, content, 0o600))
	}
	next := filepath.Join(v.Dir, dataLink+"_tmp")
	must.Do(v.t, os.Symlink(version, next))
	must.Do(v.t, os.Rename(next, filepath.Join(v.Dir, dataLink)))
	for name := range v.files {
		object := filepath.Dir(name)
		if err := os.Symlink(filepath.Join(dataLink, object), filepath.Join(v.Dir, object)); !errors.Is(err, fs.ErrExist) {
			must.Do(v.t, err)
		}
	}
	if old != "" {
		must.Do(v.t, os.RemoveAll(filepath.Join(v.Dir, old)))
	}
}

// PutPair changes the files of a Secret.
func (v *Volume) PutPair(secret string, pair Pair) {
	v.t.Helper()
	v.Put(map[string][]byte{secret + "/tls.crt": pair.Certificate, secret + "/tls.key": pair.Key})
}
