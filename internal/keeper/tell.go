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

// written is a file for HAProxy: when it was written, and the worker that was told of it or has read it.
type written struct {
	at   time.Time
	told runtime.Process
}

// slack is how long after a look at the clock a file has its name at the latest.
const slack = 100 * time.Millisecond

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
		now := at.Add(time.Since(k.looked) + slack) // long after the look, if there are many
		if err == nil {
			err = os.Chtimes(next, now, now) // for a Keeper that comes later
		}
		if err == nil {
			err = os.Rename(next, file)
		}
		if err != nil {
			return fmt.Errorf("failed to write for HAProxy: %w", err)
		}
		k.written[path] = written{at: now}
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
			k.written[path] = written{at: info.ModTime()}
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
	maps.DeleteFunc(k.written, func(_ string, w written) bool {
		return w.told != (runtime.Process{}) && at.Sub(w.at) > startTime
	})
	k.untold = nil
	if len(k.written) == 0 {
		return nil
	}
	process, err := k.HAProxy.Process(ctx)
	if err != nil {
		k.waiting = true
		return nil //nolint:nilerr // it reads them when it starts
	}
	for path, w := range k.written {
		if w.told == process {
			continue
		}
		if process.Started > w.at.Unix() {
			k.written[path] = written{w.at, process}
			continue
		}
		k.untold = append(k.untold, path)
	}
	slices.Sort(k.untold)
	for len(k.untold) > 0 {
		path := k.untold[0]
		err := k.replace(ctx, path)
		if err != nil {
			logging.Warningf("HAProxy does not use %s: %v", path, err)
		}
		if err != nil && !errors.As(err, new(*runtime.RefusedCertificateError)) {
			k.waiting = true
			return nil
		}
		k.written[path], k.untold = written{k.written[path].at, process}, k.untold[1:]
	}
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
