package keeper

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/golang/glog"

	"gateway/internal/certificates"
)

const (
	// versionPrefix begins the names of the directories that a Keeper's symlinks point to.
	versionPrefix = "..version-"

	// interval is how often a Keeper looks for changes. kubelet takes up to a minute or so to write one.
	interval = 500 * time.Millisecond
)

// Keeper passes on what Secrets hold. It alone writes its two directories, which outlive it: what is there when it starts is what it
// passed on before.
type Keeper struct {
	// Secrets holds SECRET/tls.crt and SECRET/tls.key.
	Secrets string
	// Pairs gets both in SECRET/tls.pem for HAProxy, Certificates SECRET/tls.crt, SECRET/hash and SECRET/problem for the agent.
	Pairs, Certificates string

	// version is what Secrets was when it was passed on; from is when that was, by the wall clock, which may be put back, and until is when it
	// has to be looked at again though it is the same; zero: never.
	version     string
	from, until time.Time
}

// contents are those of files, by SECRET/FILE.
type contents map[string][]byte

// Run works until ctx ends. An error says why it cannot.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := k.Look(time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Look passes on what changed since it last looked. at is the time by which certificates are valid or not.
func (k *Keeper) Look(at time.Time) error {
	link := filepath.Join(k.Secrets, certificates.DataLink)
	version, err := os.Readlink(link)
	if err != nil {
		return fmt.Errorf("failed to see what kubelet mounted: %w", err)
	}
	if version == k.version && !at.Before(k.from) && (k.until.IsZero() || at.Before(k.until)) {
		return nil
	}
	now, err := read(link)
	if after, _ := os.Readlink(link); after != version {
		return nil // of what kubelet replaced meanwhile, files may be missing
	}
	if err != nil {
		return err
	}
	before, err := read(filepath.Join(k.Pairs, certificates.DataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	pairs, shown, until := sift(now, before, at)
	// HAProxy's first: the agent has it load what the agent sees.
	if err := replace(k.Pairs, pairs); err != nil {
		return err
	}
	if err := replace(k.Certificates, shown); err != nil {
		return err
	}
	k.version, k.from, k.until = version, at.Round(0), until
	return nil
}

// sift returns what HAProxy and the agent get of the Secrets now, given what HAProxy had before, and when time alone changes that, zero: never.
// Of a Secret that is gone, or that has no certificate any more, they get nothing: that is no mistake.
func sift(now, before contents, at time.Time) (pairs, shown contents, until time.Time) {
	pairs, shown = contents{}, contents{}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		secret, file := filepath.Split(path)
		if file != certificates.CertificateFile {
			continue
		}
		earlier := before[secret+certificates.JoinedFile]
		joined, problem := certificates.Join(now[path], now[secret+certificates.KeyFile])
		if problem == "" {
			var changes time.Time
			if problem, changes = compareTimes(joined, earlier, at); until.IsZero() || !changes.IsZero() && changes.Before(until) {
				until = changes
			}
		}
		if problem != "" {
			glog.Warningf(problem, "Secret "+filepath.Clean(secret))
			shown[secret+certificates.ProblemFile] = []byte(problem)
			joined = earlier
		}
		if joined != nil {
			hash := sha256.Sum256(joined)
			pairs[secret+certificates.JoinedFile] = joined
			shown[secret+certificates.CertificateFile] = certificates.Public(joined)
			shown[secret+certificates.HashFile] = []byte(hex.EncodeToString(hash[:]))
		}
	}
	return pairs, shown, until
}

// compareTimes says why a pair cannot be used at a time at which the earlier one can, with a %s for the Secret, "" otherwise; and when the
// pair's own time changes that, zero: never.
func compareTimes(joined, earlier []byte, at time.Time) (problem string, until time.Time) {
	problem, until = checkTime(joined, at)
	if worse, _ := checkTime(earlier, at); worse != "" {
		problem = ""
	}
	return problem, until
}

// checkTime is CheckTime for the certificate of a pair.
func checkTime(joined []byte, at time.Time) (problem string, until time.Time) {
	chain, problem := certificates.Parse(certificates.Public(joined))
	if problem != "" {
		return problem, time.Time{}
	}
	return certificates.CheckTime(chain[0].NotBefore, chain[0].NotAfter, at)
}

// read returns the files that a volume's symlink leads to.
func read(link string) (contents, error) {
	found, volume := contents{}, os.DirFS(link)
	err := fs.WalkDir(volume, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		found[path], err = fs.ReadFile(volume, path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("failed to read certificates: %w", err)
	}
	return found, nil
}

// replace makes files the content of a volume, all at once, unless they are it already.
func replace(volume string, files contents) error {
	link := filepath.Join(volume, certificates.DataLink)
	current, _ := os.Readlink(link)
	// One that ended in between may have left something.
	if err := prune(volume, current); err != nil {
		return err
	}
	if before, err := read(link); err == nil && maps.EqualFunc(before, files, bytes.Equal) {
		return nil
	}
	version, err := os.MkdirTemp(volume, versionPrefix)
	if err == nil {
		err = write(volume, version, files)
	}
	next := version + ".next"
	if err == nil {
		err = os.Symlink(filepath.Base(version), next)
	}
	if err == nil {
		err = os.Rename(next, link)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("failed to write certificates: %w", err), prune(volume, current))
	}
	return prune(volume, filepath.Base(version))
}

// write puts files into a version of a volume, and makes them to be found at the volume's top.
func write(volume, version string, files contents) error {
	for path, content := range files {
		secret := filepath.Dir(path)
		if err := os.MkdirAll(filepath.Join(version, secret), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(version, path), content, 0o600); err != nil {
			return err
		}
		if err := os.Symlink(filepath.Join(certificates.DataLink, secret), filepath.Join(volume, secret)); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// prune removes all versions of a volume but one.
func prune(volume, keep string) error {
	entries, err := os.ReadDir(volume)
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), versionPrefix) && entry.Name() != keep {
			err = errors.Join(err, os.RemoveAll(filepath.Join(volume, entry.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("failed to remove old certificates: %w", err)
	}
	return nil
}
