package keeper

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"gateway/internal/certificates"
	"gateway/internal/keystream"
	"gateway/internal/volume"
)

// mounts are the Secrets that kubelet mounts.
type mounts struct {
	dir string
	// version is the target of the symlink when they were read, and digests are the digests of what was read. Before the
	// first read, the names come from an earlier process.
	version string
	digests map[string]string
}

func newMounts(dir string, passed map[string]string) *mounts {
	m := &mounts{dir: dir, digests: map[string]string{}}
	for key := range passed {
		m.digests[key] = "not seen yet"
	}
	return m
}

// changes returns the Secrets that changed. At first it returns all, with those that are gone: nobody keeps what they
// have but certificates.
func (m *mounts) changes() (objects []object, ok bool, err error) {
	link := filepath.Join(m.dir, certificates.DataLink)
	version, err := os.Readlink(link)
	if err != nil {
		return nil, false, fmt.Errorf("failed to see what kubelet mounted: %w", err)
	}
	if version == m.version {
		return nil, true, nil
	}
	read, err := volume.Read(m.dir)
	if after, _ := os.Readlink(link); after != version {
		return nil, false, nil // of what kubelet replaced meanwhile, files may be missing
	}
	if err != nil {
		return nil, false, err
	}
	now := map[string]files{}
	for path, content := range read {
		secret, file := filepath.Split(path)
		secret = filepath.Clean(secret)
		if now[secret] == nil {
			now[secret] = files{}
		}
		now[secret][file] = content
	}
	before := m.digests
	m.version, m.digests = version, map[string]string{}
	for _, secret := range slices.Sorted(maps.Keys(now)) {
		key, digest := keystream.Key(keystream.KindSecret, secret), keystream.Digest(now[secret])
		if m.digests[key] = digest; before[key] != digest {
			objects = append(objects, newObject(keystream.Object{Kind: keystream.KindSecret, Name: secret, Digest: digest, Files: now[secret]}))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := m.digests[key]; !ok {
			objects = append(objects, newObject(keystream.Object{Kind: keystream.KindSecret, Name: key[len(keystream.KindSecret)+1:]}))
		}
	}
	return objects, true, nil
}

// changed: kubelet's volumes are looked at now and then.
func (m *mounts) changed() <-chan struct{} { return nil }
