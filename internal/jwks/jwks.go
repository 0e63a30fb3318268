// Package jwks fetches the keys with which issuers sign tokens, periodically, and keeps them on the disk. Authors of
// Gateways choose what is fetched. So it is a GET over verified TLS without credentials, refused addresses are not
// contacted (remote.go), and no error reveals anything of an answer.
package jwks

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gateway/internal/keyset"
	"gateway/internal/logging"
	"gateway/internal/model"
)

const (
	// firstRetry is how long after a failure a source is asked again. It doubles with each failure, up to the interval.
	firstRetry = 5 * time.Second
	maxDoubled = 10
)

// Set is the state of a source, as far as known.
type Set struct {
	// Keys are the keys that were fetched last.
	Keys []model.JWTKey
	// Problem is why they are not those that the source has now; "": they are, as far as is known.
	Problem string
}

// Fetcher fetches the keys of sources. New makes one.
type Fetcher struct {
	// Pause returns how long to wait until the next fetch, after so many failures in a row.
	Pause func(interval time.Duration, failures int) time.Duration

	dir string
	// local lets keys come from this machine.
	local   bool
	changed func()

	mu      sync.Mutex
	sources map[model.KeySource]*fetched
	// isNew reports whether sets changed since they were looked at last.
	isNew bool
}

// fetched is a source and its last answer.
type fetched struct {
	Set
	authorities string
	body        string
	// tried reports whether it was asked once, or is not asked.
	tried bool
	stop  context.CancelFunc
}

// New returns a Fetcher that keeps what it fetches in a directory, and calls changed when there is something new. local
// lets it fetch from this machine.
func New(dir string, local bool, changed func()) *Fetcher {
	return &Fetcher{Pause: pause, dir: dir, local: local, changed: changed, sources: map[model.KeySource]*fetched{}}
}

// Want fetches exactly these sources until ctx ends, each with the CA certificates (PEM) for its server. A source
// without CA certificates is not contacted. The keys on the disk are known when it returns.
func (f *Fetcher) Want(ctx context.Context, wanted map[model.KeySource]string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := map[string]bool{}
	for from := range wanted {
		kept[f.file(from)] = true
	}
	for from, known := range f.sources {
		if authorities, ok := wanted[from]; ok && authorities == known.authorities {
			continue
		}
		known.stop()
		delete(f.sources, from)
	}
	for from, authorities := range wanted {
		if f.sources[from] == nil {
			f.sources[from] = f.start(ctx, from, authorities)
		}
	}
	files, _ := filepath.Glob(filepath.Join(f.dir, "*.json")) // the pattern is a good one
	for _, file := range files {
		if !kept[file] {
			_ = os.Remove(file) // it is tried again the next time
		}
	}
}

// Sets returns the state of the sources, and whether it is new.
func (f *Fetcher) Sets() (sets map[model.KeySource]Set, isNew bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	isNew, f.isNew = f.isNew, false
	sets = make(map[model.KeySource]Set, len(f.sources))
	for from, known := range f.sources {
		sets[from] = known.Set
	}
	return sets, isNew
}

// IsAwaited reports whether a source has no known keys and was not contacted yet.
func (f *Fetcher) IsAwaited() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, known := range f.sources {
		if !known.tried && len(known.Keys) == 0 {
			return true
		}
	}
	return false
}

// start reads a source's keys from the disk, and begins to fetch them.
func (f *Fetcher) start(ctx context.Context, from model.KeySource, authorities string) *fetched {
	known := &fetched{authorities: authorities, tried: authorities == "", stop: func() {}}
	if body, err := f.read(from); err == nil {
		if known.Keys, err = keyset.ParsePublished(string(body)); err == nil {
			known.body = string(body)
		}
	}
	if len(known.Keys) == 0 {
		known.Problem = "they were not fetched yet"
	}
	f.isNew = true
	if authorities != "" {
		ctx, known.stop = context.WithCancel(ctx)
		go f.follow(ctx, from, known)
	}
	return known
}

// follow fetches a source until ctx ends.
func (f *Fetcher) follow(ctx context.Context, from model.KeySource, known *fetched) {
	c := newClient(known.authorities, f.local)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for failures := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		got, err := c.fetch(ctx, from.URL)
		if ctx.Err() != nil {
			return
		}
		if failures++; f.take(from, known, got.body, err) {
			if failures = 0; got.body != nil {
				c.etag = got.etag // the source need not send these keys again
			}
		}
		timer.Reset(f.Pause(from.Interval, failures))
	}
}

// take stores an answer, and reports whether it is a good one. Nil means that it has not changed.
func (f *Fetcher) take(from model.KeySource, known *fetched, body []byte, err error) bool {
	f.mu.Lock()
	keys := known.Keys
	if err == nil && body != nil {
		if keys, err = keyset.ParsePublished(string(body)); err != nil {
			err = fmt.Errorf("the answer %w", err)
		}
	}
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	isNew := problem != known.Problem || !known.tried
	if known.Problem, known.tried = problem, true; err == nil && body != nil && string(body) != known.body {
		known.Keys, known.body, isNew = keys, string(body), true
		if err := f.keep(from, body); err != nil {
			logging.Errorf("Keys of %s are not on the disk: %v", from.URL, err)
		}
	}
	f.isNew = f.isNew || isNew
	f.mu.Unlock()
	if isNew {
		if problem != "" {
			logging.Warningf("No keys come from %s: %s", from.URL, problem)
		}
		f.changed()
	}
	return err == nil
}

// keep writes keys to the disk.
func (f *Fetcher) keep(from model.KeySource, body []byte) error {
	if err := os.MkdirAll(f.dir, 0o750); err != nil {
		return err
	}
	next := strings.TrimSuffix(f.file(from), ".json") + ".next"
	if err := os.WriteFile(next, body, 0o600); err != nil {
		return err
	}
	return os.Rename(next, f.file(from))
}

// read reads keys from the disk. A source that is another one in its CA certificates or interval alone begins with the
// keys of the one before.
func (f *Fetcher) read(from model.KeySource) ([]byte, error) {
	own := f.file(from)
	if body, err := os.ReadFile(own); err == nil {
		return body, nil
	}
	prefix, _, _ := strings.Cut(own, "-")
	others, err := filepath.Glob(prefix + "-*.json")
	if err != nil || len(others) == 0 {
		return nil, os.ErrNotExist
	}
	return os.ReadFile(others[0])
}

// file returns the path of the file that has the keys of a source: hashes of its URL, and of what else it is.
func (f *Fetcher) file(from model.KeySource) string {
	other := sha256.Sum256(fmt.Appendf(nil, "%s %s", from.Interval, from.Authorities))
	return filepath.Join(f.dir, fmt.Sprintf("%x-%x.json", sha256.Sum256([]byte(from.URL)), other))
}

// pause is up to a tenth longer or shorter than the interval, so that not all pods fetch at once.
func pause(interval time.Duration, failures int) time.Duration {
	if failures > 0 {
		interval = min(interval, firstRetry<<min(failures-1, maxDoubled))
	}
	return interval*9/10 + rand.N(interval/5) //nolint:gosec // nobody gains by knowing it
}
