// Package volume reads and writes directories in kubelet's form for Secrets and ConfigMaps: a symlink changes all files
// at once.
package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"gateway/internal/certificates"
)

// versionPrefix begins the names of the directories that the symlink points to.
const versionPrefix = "..version-"

// Read returns the files of a volume, by their path in it.
func Read(dir string) (map[string][]byte, error) {
	found, volume := map[string][]byte{}, os.DirFS(filepath.Join(dir, certificates.DataLink))
	err := fs.WalkDir(volume, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		found[path], err = fs.ReadFile(volume, path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to read a volume: %w", err)
	}
	return found, nil
}

// Replace makes files, by OBJECT/FILE, the content of a volume, all at once, unless they are its content already. The
// name of an object may have a namespace before it.
func Replace(volume string, files map[string][]byte) error {
	link := filepath.Join(volume, certificates.DataLink)
	current, _ := os.Readlink(link)
	// A process that ended in between may have left something.
	if err := prune(volume, current); err != nil {
		return err
	}
	before, err := Read(volume)
	if err == nil && maps.EqualFunc(before, files, bytes.Equal) {
		return nil
	}
	version, err := os.MkdirTemp(volume, versionPrefix)
	if err == nil {
		err = write(volume, version, files, before)
	}
	next := version + ".next"
	if err == nil {
		err = os.Symlink(filepath.Base(version), next)
	}
	if err == nil {
		err = os.Rename(next, link)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("failed to write a volume: %w", err), prune(volume, current))
	}
	return prune(volume, filepath.Base(version))
}

// write writes files to a version of a volume, and links them at the volume's top. Those that the volume has already
// are the same files: none is ever changed.
func write(volume, version string, files, before map[string][]byte) error {
	for path, content := range files {
		if err := os.MkdirAll(filepath.Join(version, filepath.Dir(path)), 0o700); err != nil {
			return err
		}
		earlier, ok := before[path]
		if ok = ok && bytes.Equal(earlier, content); ok {
			ok = os.Link(filepath.Join(volume, certificates.DataLink, path), filepath.Join(version, path)) == nil
		}
		if !ok {
			if err := os.WriteFile(filepath.Join(version, path), content, 0o600); err != nil {
				return err
			}
		}
		top, _, _ := strings.Cut(path, "/")
		if err := os.Symlink(filepath.Join(certificates.DataLink, top), filepath.Join(volume, top)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// prune removes all versions of a volume except one.
func prune(volume, keep string) error {
	entries, err := os.ReadDir(volume)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), versionPrefix) && entry.Name() != keep {
			err = errors.Join(err, os.RemoveAll(filepath.Join(volume, entry.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("failed to remove an old version of a volume: %w", err)
	}
	return nil
}
