package keeper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"gateway/internal/haproxy/ir"
	"gateway/internal/haproxy/runtime"
	"gateway/internal/inventory"
	"gateway/internal/journal"
	"gateway/internal/keystream"
	"gateway/internal/passwords"
)

const (
	// interval is how often a Keeper looks for changes. kubelet takes up to a minute or so to write one.
	interval = 500 * time.Millisecond
	// waitInterval takes its place while HAProxy does not answer and must be asked or sent something: it is about to
	// start.
	waitInterval = 50 * time.Millisecond
	// askAgain is how long a certificate that HAProxy refused is taken for refused.
	askAgain = time.Minute
	// startTime is more than HAProxy takes from reading its files until it answers.
	startTime = time.Minute
	// askAll bounds the new pairs that HAProxy checks one by one before it may start on them. Of more pairs, HAProxy need
	// not check the ones of which this program is sure. askAtOnce bounds the checks of one look.
	askAll    = 64
	askAtOnce = 256
	// ownDir is the directory in Pairs that has the name of no Secret, and passedFile is the journal in it of the digests
	// of what was passed on in full.
	ownDir     = "_"
	passedFile = ownDir + "/passed"
)

// HAProxy is the proxy beside a Keeper. A Keeper asks it about certificates before it writes the files on which HAProxy
// will start.
type HAProxy interface {
	// Process returns which worker answers.
	Process(ctx context.Context) (runtime.Process, error)
	// CheckCertificate returns nil if HAProxy can use a certificate, and a runtime.RefusedCertificateError if it cannot.
	CheckCertificate(ctx context.Context, pem []byte) error
	// ReplaceCertificate makes it use another certificate in place of the one of a file.
	ReplaceCertificate(ctx context.Context, file string, pem []byte) error
	// ForgetCertificate makes it forget the certificate of a file. It returns runtime.ErrCertificateInUse if it uses it.
	ForgetCertificate(ctx context.Context, file string) error
	// ReplaceMap makes it use these entries of a map. It returns runtime.ErrNoMap if it has none.
	ReplaceMap(ctx context.Context, name string, entries []ir.MapEntry) error
}

// Keeper passes on the content of Secrets. It alone writes its directories, which outlive it: their content at the
// start is what it passed on before.
type Keeper struct {
	// Secrets is where kubelet mounts SECRET/tls.crt and SECRET/tls.key, SECRET/auth, SECRET/api-keys,
	// SECRET/session-keys and SECRET/issuer. If there is a Server, a Keeper keeps there what it has of it, but
	// certificates.
	Secrets string
	// Server has Secrets and ConfigMaps; nil: kubelet mounts them.
	Server *keystream.Client
	// Logins gets SECRET/session-keys, SECRET/client-secret and SECRET/issuer for gateway-login, and Authorities the files
	// of ConfigMaps for the agent, gateway-login and gateway-waf, if there is a Server. Else kubelet mounts them there.
	Logins, Authorities string
	// Pairs gets certificates with their keys in SECRET/tls.pem for HAProxy, the API keys in _/api-keys.map, and the keys
	// of sessions in _/session-keys.map. Certificates gets the inventory for the agent.
	Pairs, Certificates string
	// ConfigDir has HAProxy's configurations. HAProxy forgets a pair whose Secret is gone once they do not name it, and
	// its file goes. "": it stays.
	ConfigDir string
	// Users gets the users of SECRET/auth.
	Users *passwords.Checker
	// HAProxy checks certificates and gets the changes.
	HAProxy HAProxy

	source source
	// shown is the inventory. passed are the digests of what was passed on and is not waiting.
	shown  *journal.Writer[inventory.Entry]
	passed *journal.Writer[string]
	// small are the files of Secrets without their certificates, configMaps the files of ConfigMaps.
	small, configMaps map[string]files
	// waits are pairs that are not passed on, by Secret. from is when they were last looked at, by the wall clock, which
	// may be put back.
	waits map[string]*waiting
	from  time.Time
	// keys are the entries of the maps with keys, by their files.
	keys map[string][]ir.MapEntry
	// gone are Secrets without a certificate whose pairs are not forgotten yet, and forgotAt is when that was last tried.
	gone     map[string]bool
	forgotAt time.Time
	// written are the files in Pairs, by SECRET/FILE, that a worker may not have. untold are those that one which answers
	// does not have.
	written map[string]written
	untold  []string
	// looked is when the last look began, by this process' own clock, and waiting reports whether HAProxy did not answer.
	looked  time.Time
	waiting bool
}

// files are the files of an object.
type files = map[string][]byte

// source is where objects come from.
type source interface {
	// changes returns the objects that changed since the last call; at first, the objects that differ from what was passed
	// on. ok: all are known.
	changes() (objects []object, ok bool, err error)
	// changed gets an element when there may be changes before the next look; nil: never.
	changed() <-chan struct{}
}

// Run works until ctx ends. It returns an error if it cannot.
func (k *Keeper) Run(ctx context.Context) error {
	if err := k.open(time.Now()); err != nil {
		return err
	}
	if s, ok := k.source.(*stream); ok {
		ctx, cancel := context.WithCancel(ctx)
		var running sync.WaitGroup
		running.Go(func() { s.run(ctx) })
		defer running.Wait()
		defer cancel()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-k.source.changed():
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

// open reads what an earlier Keeper left.
func (k *Keeper) open(at time.Time) (err error) {
	if k.source != nil {
		return nil
	}
	if err := os.Mkdir(filepath.Join(k.Pairs, ownDir), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("failed to write for HAProxy: %w", err)
	}
	if k.shown, err = journal.Open[inventory.Entry](filepath.Join(k.Certificates, inventory.File)); err != nil {
		return err
	}
	if k.passed, err = journal.Open[string](filepath.Join(k.Pairs, passedFile)); err != nil {
		return err
	}
	k.small, k.configMaps, k.waits = map[string]files{}, map[string]files{}, map[string]*waiting{}
	k.written, k.gone = map[string]written{}, map[string]bool{}
	if err := k.noteEarlier(at); err != nil {
		return err
	}
	if k.Server == nil {
		k.source = newMounts(k.Secrets, k.passed.Values)
		return nil
	}
	have, err := k.openKept()
	if err != nil {
		return err
	}
	k.source = &stream{client: k.Server, wake: make(chan struct{}, 1), have: maps.Clone(have)}
	return nil
}

// Look passes on what changed since the last look, but for certificates that HAProxy must be asked about while it does
// not answer. at is the time for the validity of certificates.
func (k *Keeper) Look(ctx context.Context, at time.Time) error {
	k.waiting, k.looked = false, time.Now()
	if err := k.open(at); err != nil {
		return err
	}
	objects, ok, err := k.source.changes()
	if err != nil {
		return err
	}
	if err := k.pass(ctx, objects, ok, at); err != nil {
		return err
	}
	if err := k.forget(ctx, at); err != nil {
		return err
	}
	return k.tell(ctx, at)
}

// pass passes objects on, and what waits and may wait no more. all reports whether no objects are missing.
func (k *Keeper) pass(ctx context.Context, objects []object, all bool, at time.Time) error {
	c := changes{entries: map[string]*inventory.Entry{}, passed: map[string]*string{}, pairs: map[string][]byte{}}
	if err := k.take(objects, &c); err != nil {
		return err
	}
	k.passPairs(ctx, &c, at)
	if err := k.writePairs(&c, at); err != nil {
		return err
	}
	if err := k.tell(ctx, at); err != nil {
		return err
	}
	// HAProxy's first: the agent has it load what the agent sees.
	status, isKnown := k.shown.Values[inventory.Status]
	if asks := k.asks(); all && (!isKnown || status.Asks && !asks) {
		c.entries[inventory.Status] = &inventory.Entry{Asks: asks}
	}
	c.dropSame(k.shown.Values)
	if err := k.shown.Put(c.entries); err != nil {
		return err
	}
	for _, path := range k.untold {
		c.passed[inventory.SecretKey(filepath.Dir(path))] = nil
	}
	return k.passed.Put(c.passed)
}

// changes are what a look changes.
type changes struct {
	// entries are of the inventory, passed of the digests, and pairs are the files for HAProxy, by SECRET/FILE.
	entries map[string]*inventory.Entry
	passed  map[string]*string
	pairs   map[string][]byte
	// looks are the Secrets whose certificates have to be looked at.
	looks []string
}
