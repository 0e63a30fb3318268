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
// found good before.
type Keeper struct {
	// Secrets holds SECRET/tls.crt and SECRET/tls.key.
	Secrets string
	// Pairs gets both in SECRET/tls.pem for HAProxy, Certificates SECRET/tls.crt, SECRET/hash and SECRET/problem for the agent.
	Pairs, Certificates string

	// version is what Secrets was when it was passed on.
	version string
}

// contents are those of files, by SECRET/FILE.
type contents map[string][]byte

// Run works until ctx ends. An error says why it cannot.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := k.Look(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Look passes on what changed since it last looked.
func (k *Keeper) Look() error {
	link := filepath.Join(k.Secrets, certificates.DataLink)
	version, err := os.Readlink(link)
	if err != nil {
		return fmt.Errorf("failed to see what kubelet mounted: %w", err)
	}
	if version == k.version {
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
	pairs, shown := sift(now, before)
	// HAProxy's first: the agent has it load what the agent sees.
	if err := replace(k.Pairs, pairs); err != nil {
		return err
	}
	if err := replace(k.Certificates, shown); err != nil {
		return err
	}
	k.version = version
	return nil
}

// sift returns what HAProxy and the agent get of the Secrets now, given what HAProxy had before. Of a Secret that is gone, or that has no
// certificate any more, they get nothing: that is no mistake.
func sift(now, before contents) (pairs, shown contents) {
	pairs, shown = contents{}, contents{}
	for path, certificate := range now {
		secret, file := filepath.Split(path)
		if file != certificates.CertificateFile {
			continue
		}
		joined, problem := certificates.Join(certificate, now[secret+certificates.KeyFile])
		if problem != "" {
			glog.Warningf(problem, "Secret "+filepath.Clean(secret))
			shown[secret+certificates.ProblemFile] = []byte(problem)
			joined = before[secret+certificates.JoinedFile]
		}
		if joined != nil {
			hash := sha256.Sum256(joined)
			pairs[secret+certificates.JoinedFile] = joined
			shown[secret+certificates.CertificateFile] = certificates.Public(joined)
			shown[secret+certificates.HashFile] = []byte(hex.EncodeToString(hash[:]))
		}
	}
	return pairs, shown
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
