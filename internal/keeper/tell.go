package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/inventory"
	"gateway/internal/logging"
)

// newFile is where files are written before they get their names.
const newFile = ownDir + "/new"

// writePairs writes files for HAProxy, each at once.
func (k *Keeper) writePairs(c *changes, at time.Time) error {
	for _, path := range slices.Sorted(maps.Keys(c.pairs)) {
		next, file := filepath.Join(k.Pairs, newFile), filepath.Join(k.Pairs, path)
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		if err == nil {
			err = os.WriteFile(next, c.pairs[path], 0o600)
		}
		if err == nil {
			err = os.Chtimes(next, at, at) // for a Keeper that comes later
		}
		if err == nil {
			err = os.Rename(next, file)
		}
		if err != nil {
			return fmt.Errorf("failed to write for HAProxy: %w", err)
		}
		k.written[path], k.told = at, runtime.Process{}
	}
	return nil
}

// noteEarlier notes what an earlier Keeper wrote and HAProxy may not have. It removes what was not written to its end.
func (k *Keeper) noteEarlier(at time.Time) error {
	if err := os.Remove(filepath.Join(k.Pairs, newFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("failed to write for HAProxy: %w", err)
	}
	err := fs.WalkDir(os.DirFS(k.Pairs), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || path == passedFile {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		secret := filepath.Dir(path)
		if entry := k.shown.Values[inventory.SecretKey(secret)]; secret != ownDir && entry.Certificate == nil {
			k.gone[secret] = true
		}
		_, isTold := k.passed.Values[inventory.SecretKey(secret)]
		if since := at.Sub(info.ModTime()); !isTold || since < startTime {
			k.written[path] = info.ModTime()
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("failed to read what was written for HAProxy: %w", err)
	}
	return nil
}

// tell makes HAProxy use files that it may not have read: a worker reads files when it starts, and one that is starting
// may have read the earlier ones.
func (k *Keeper) tell(ctx context.Context, at time.Time) error {
	if k.told != (runtime.Process{}) {
		maps.DeleteFunc(k.written, func(_ string, written time.Time) bool { return at.Sub(written) > startTime })
	}
	k.untold = false
	if len(k.written) == 0 {
		return nil
	}
	process, err := k.HAProxy.Process(ctx)
	if err != nil {
		k.waiting = true
		return nil //nolint:nilerr // it reads them when it starts
	}
	if process == k.told {
		return nil
	}
	for _, path := range slices.Sorted(maps.Keys(k.written)) {
		if process.Started > k.written[path].Unix() {
			continue
		}
		if err := k.replace(ctx, path); err != nil {
			logging.Warningf("HAProxy does not use %s yet: %v", path, err)
			k.waiting, k.untold = true, true
			return nil
		}
	}
	k.told = process
	return nil
}

// replace makes HAProxy use what a file has now. A worker without a map of keys needs none, and the next one reads the
// file.
func (k *Keeper) replace(ctx context.Context, path string) error {
	paths, name := ir.Paths{CertificateDir: k.Pairs}, ""
	switch path {
	case certificates.APIKeysMap:
		name = paths.APIKeysMap()
	case certificates.SessionKeysMap:
		name = paths.SessionKeysMap()
	default:
		content, err := os.ReadFile(filepath.Join(k.Pairs, path))
		if err != nil {
			return fmt.Errorf("failed to read what was written for HAProxy: %w", err)
		}
		return k.HAProxy.ReplaceCertificate(ctx, filepath.Join(k.Pairs, path), content)
	}
	err := k.HAProxy.ReplaceMap(ctx, name, k.keys[path])
	if errors.Is(err, runtime.ErrNoMap) {
		return nil
	}
	return err
}
