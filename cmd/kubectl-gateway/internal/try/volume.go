package try

import (
	"fmt"
	"os"
	"path/filepath"

	"gateway/internal/certificates"
)

// volume is a directory that changes as kubelet changes those of Secrets and ConfigMaps: all files at once, by a
// symlink.
type volume struct {
	dir      string
	versions int
}

// write makes the files those of objects, by name and file.
func (v *volume) write(objects map[string]map[string][]byte) error {
	v.versions++
	version := fmt.Sprintf("..%d", v.versions)
	for name, files := range objects {
		dir := filepath.Join(v.dir, version, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("failed to write %s: %w", name, err)
		}
		for file, content := range files {
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), content, 0o600); err != nil {
				return fmt.Errorf("failed to write %s: %w", name, err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(v.dir, version), 0o700); err != nil {
		return fmt.Errorf("failed to write a volume: %w", err)
	}
	if err := link(version, filepath.Join(v.dir, certificates.DataLink)); err != nil {
		return err
	}
	for name := range objects {
		if err := link(filepath.Join(certificates.DataLink, name), filepath.Join(v.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// link makes a symlink, in place of that which is there.
func link(target, path string) error {
	next := path + "_tmp"
	if err := os.Symlink(target, next); err != nil {
		return fmt.Errorf("failed to write a volume: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("failed to write a volume: %w", err)
	}
	return nil
}
