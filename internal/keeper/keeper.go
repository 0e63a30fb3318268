package keeper

import (
	"bytes"
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
	"gateway/internal/logging"
	"gateway/internal/login"
	"gateway/internal/passwords"
	"gateway/internal/volume"
)

const (
	// interval is how often a Keeper looks for changes. kubelet takes up to a minute or so to write one.
	interval = 500 * time.Millisecond
	// waitInterval takes its place while HAProxy is to be asked or told something and does not answer: it is about to
	// start.
	waitInterval = 50 * time.Millisecond
	// askAgain is how long a certificate that HAProxy refused is taken for refused.
	askAgain = time.Minute
	// startTime is more than HAProxy takes from reading its files until it answers.
	startTime = time.Minute
)

// HAProxy is the proxy beside a Keeper. A Keeper asks it about each certificate before it writes the files on which
// HAProxy will start.
type HAProxy interface {
	// Process returns which worker answers.
	Process(ctx context.Context) (runtime.Process, error)
	// CheckCertificate returns nil if HAProxy can use a certificate, and a runtime.RefusedCertificateError if it cannot.
	CheckCertificate(ctx context.Context, pem []byte) error
	// ReplaceCertificate makes it use one in place of that of a file.
	ReplaceCertificate(ctx context.Context, file string, pem []byte) error
	// ReplaceMap makes it use these entries of a map. It returns runtime.ErrNoMap if it has none.
	ReplaceMap(ctx context.Context, name string, entries []ir.MapEntry) error
}

// Keeper passes on the content of Secrets. It alone writes its two directories, which outlive it: their content at the
// start is what it passed on before.
type Keeper struct {
	// Secrets holds SECRET/tls.crt and SECRET/tls.key, SECRET/auth, SECRET/api-keys, SECRET/session-keys and
	// SECRET/issuer.
	Secrets string
	// Pairs gets certificates with their keys in SECRET/tls.pem for HAProxy, the API keys in _/api-keys.map, and the keys
	// of sessions in _/session-keys.map. Certificates gets SECRET/tls.crt and SECRET/problem for the agent,
	// SECRET/issuer, and of the other files empty ones, with SECRET/FILE-problem.
	Pairs, Certificates string
	// Users gets the users of SECRET/auth.
	Users *passwords.Checker
	// HAProxy is asked about them and told of them.
	HAProxy HAProxy

	// version is what Secrets was when it was passed on; from is when that was, by the wall clock, which may be put back,
	// and until is when it has to be looked at again though it is the same; zero: never.
	version     string
	from, until time.Time
	// keys are the entries of the maps with keys, by their files.
	keys map[string][]ir.MapEntry
	// written is when files in Pairs were, by SECRET/FILE: those that a worker may have read before.
	written map[string]time.Time
	// told is the worker that has them.
	told runtime.Process
	// waiting says that HAProxy did not answer.
	waiting bool
}

// contents are the contents of files, by SECRET/FILE.
type contents = map[string][]byte

// Run works until ctx ends. It returns an error if it cannot.
func (k *Keeper) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		if err := k.Look(ctx, time.Now()); err != nil {
			return err
		}
		if k.waiting {
			timer.Reset(waitInterval)
		} else {
			timer.Reset(interval)
		}
	}
}

// Look passes on what changed since the last look, unless HAProxy must be asked about it and does not answer. at is the
// time for the validity of certificates.
func (k *Keeper) Look(ctx context.Context, at time.Time) error {
	k.waiting = false
	if err := k.pass(ctx, at); err != nil {
		return err
	}
	return k.tell(ctx, at)
}

func (k *Keeper) pass(ctx context.Context, at time.Time) error {
	link := filepath.Join(k.Secrets, certificates.DataLink)
	version, err := os.Readlink(link)
	if err != nil {
		return fmt.Errorf("failed to see what kubelet mounted: %w", err)
	}
	if version == k.version && !at.Before(k.from) && (k.until.IsZero() || at.Before(k.until)) {
		return nil
	}
	now, err := volume.Read(k.Secrets)
	if after, _ := os.Readlink(link); after != version {
		return nil // of what kubelet replaced meanwhile, files may be missing
	}
	if err != nil {
		return err
	}
	problems, keys := k.passUsers(now) // which HAProxy need not be asked about
	before, err := volume.Read(k.Pairs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	known, err := volume.Read(k.Certificates)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	pairs, shown, until, err := k.sift(ctx, now, before, known, at)
	if err != nil {
		logging.V(1).Infof("Certificates wait until HAProxy can be asked about them: %v", err)
		k.waiting = true
		return nil
	}
	maps.Copy(shown, problems)
	for file, entries := range keys {
		if len(entries) > 0 || before[file] != nil {
			pairs[file] = mapFile(entries)
		}
	}
	// HAProxy's first: the agent has it load what the agent sees.
	if err := volume.Replace(k.Pairs, pairs); err != nil {
		return err
	}
	k.keys = keys
	k.note(pairs, before, at)
	if err := k.tell(ctx, at); err != nil {
		return err
	}
	if err := volume.Replace(k.Certificates, shown); err != nil {
		return err
	}
	k.version, k.from, k.until = version, at.Round(0), until
	return nil
}

// passUsers passes on the users of Secrets. It returns the agent's files: which Secrets have any, and problems. keys
// are the entries of the maps for HAProxy.
func (k *Keeper) passUsers(now contents) (shown contents, keys map[string][]ir.MapEntry) {
	lists, shown := map[string]passwords.List{}, contents{}
	keys = map[string][]ir.MapEntry{certificates.APIKeysMap: nil, certificates.SessionKeysMap: nil}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		directory, file := filepath.Split(path)
		secret, problem, isEmpty := filepath.Clean(directory), "", false
		switch file {
		case certificates.UsersFile:
			lists[secret], problem = passwords.Parse(now[path])
			isEmpty = lists[secret].IsEmpty()
		case certificates.APIKeysFile:
			var found passwords.Keys
			found, problem = passwords.ParseKeys(now[path])
			keys[certificates.APIKeysMap] = append(keys[certificates.APIKeysMap], keyEntries(secret, found)...)
			isEmpty = len(found) == 0
		case certificates.SessionKeysFile:
			var found login.Keys
			found, problem = login.ParseKeys(now[path])
			for _, key := range found {
				keys[certificates.SessionKeysMap] = append(keys[certificates.SessionKeysMap], ir.MapEntry{Key: key.ID + "/" + secret, Value: key.HAProxyKey()})
			}
			isEmpty = len(found) == 0
		case certificates.IssuerFile:
			shown[path] = now[path]
			continue
		default:
			continue
		}
		if problem != "" {
			logging.Warningf(problem, "Secret "+secret)
			shown[path+certificates.ProblemSuffix] = []byte(problem)
		}
		if !isEmpty {
			shown[path] = nil
		}
	}
	k.Users.Set(lists)
	return shown, keys
}

// keyEntries returns the entries for the API keys of a Secret: see ir.Paths.APIKeysMap.
func keyEntries(secret string, keys passwords.Keys) []ir.MapEntry {
	if len(keys) == 0 {
		return nil
	}
	entries := []ir.MapEntry{{Key: secret, Value: "1"}}
	for _, hash := range slices.Sorted(maps.Keys(keys)) {
		entries = append(entries, ir.MapEntry{Key: hash + "/" + secret, Value: keys[hash]})
	}
	return entries
}

// mapFile returns the file of a map.
func mapFile(entries []ir.MapEntry) []byte {
	var b bytes.Buffer
	for _, entry := range entries {
		b.WriteString(entry.Key + " " + entry.Value + "\n")
	}
	return b.Bytes()
}

// sift returns the files for HAProxy and the agent, given the earlier ones, and when time alone changes them, zero:
// never. For a Secret that is gone, or that has no certificate any more, the agent gets nothing: that is no mistake.
// HAProxy's file stays, because a configuration may still name it. An error means that HAProxy did not answer.
func (k *Keeper) sift(ctx context.Context, now, before, known contents, at time.Time) (pairs, shown contents, until time.Time, err error) {
	pairs, shown = maps.Clone(before), contents{}
	if pairs == nil {
		pairs = contents{}
	}
	changesAt := func(t time.Time) {
		if until.IsZero() || !t.IsZero() && t.Before(until) {
			until = t
		}
	}
	for _, path := range slices.Sorted(maps.Keys(now)) {
		secret, file := filepath.Split(path)
		if file != certificates.CertificateFile {
			continue
		}
		var earlier []byte
		if known[path] != nil {
			earlier = before[secret+certificates.JoinedFile]
		}
		joined, problem := certificates.Join(now[path], now[secret+certificates.KeyFile])
		if problem == "" {
			var changes time.Time
			problem, changes = compareTimes(joined, earlier, at)
			changesAt(changes)
		}
		if problem == "" && !bytes.Equal(joined, before[secret+certificates.JoinedFile]) {
			if problem, err = k.ask(ctx, joined); err != nil {
				return nil, nil, time.Time{}, err
			}
			if problem != "" {
				changesAt(at.Add(askAgain))
			}
		}
		if problem != "" {
			logging.Warningf(problem, "Secret "+filepath.Clean(secret))
			shown[secret+certificates.ProblemFile] = []byte(problem)
			joined = earlier
		}
		if joined != nil {
			pairs[secret+certificates.JoinedFile] = joined
			shown[secret+certificates.CertificateFile] = certificates.Public(joined)
		}
	}
	return pairs, shown, until, nil
}

// ask returns why HAProxy cannot use a pair, "" if it can.
func (k *Keeper) ask(ctx context.Context, joined []byte) (problem string, err error) {
	err = k.HAProxy.CheckCertificate(ctx, joined)
	var refused *runtime.RefusedCertificateError
	if errors.As(err, &refused) {
		return "HAProxy refuses the certificate: " + refused.Reason, nil
	}
	return "", err
}

// note notes which files of Pairs were written. For those of an earlier Keeper, the time is not known.
func (k *Keeper) note(pairs, before contents, at time.Time) {
	first := k.written == nil
	if first {
		k.written = map[string]time.Time{}
	}
	for path, content := range pairs {
		if first || !bytes.Equal(content, before[path]) {
			k.written[path], k.told = at, runtime.Process{}
		}
	}
}

// tell makes HAProxy use files that it may not have read: a worker reads files when it starts, and one that is starting
// may have read the earlier ones.
func (k *Keeper) tell(ctx context.Context, at time.Time) error {
	if k.told != (runtime.Process{}) {
		maps.DeleteFunc(k.written, func(_ string, written time.Time) bool { return at.Sub(written) > startTime })
	}
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
	pairs, err := volume.Read(k.Pairs)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(k.written)) {
		if process.Started > k.written[path].Unix() {
			continue
		}
		if err := k.replace(ctx, path, pairs[path]); err != nil {
			logging.Warningf("HAProxy does not use %s yet: %v", path, err)
			k.waiting = true
			return nil
		}
	}
	k.told = process
	return nil
}

// replace makes HAProxy use what a file has now. A worker without a map of keys needs none, and the next one
// reads the file.
func (k *Keeper) replace(ctx context.Context, path string, content []byte) error {
	paths, name := ir.Paths{CertificateDir: k.Pairs}, ""
	switch path {
	case certificates.APIKeysMap:
		name = paths.APIKeysMap()
	case certificates.SessionKeysMap:
		name = paths.SessionKeysMap()
	default:
		return k.HAProxy.ReplaceCertificate(ctx, filepath.Join(k.Pairs, path), content)
	}
	err := k.HAProxy.ReplaceMap(ctx, name, k.keys[path])
	if errors.Is(err, runtime.ErrNoMap) {
		return nil
	}
	return err
}

// compareTimes returns why a pair cannot be used at a time at which the earlier one can, ""
// otherwise. It also returns when the pair's own time changes that, zero: never.
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
