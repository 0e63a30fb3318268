package agent

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"gateway/internal/certificates"
	"gateway/internal/inventory"
	"gateway/internal/journal"
	"gateway/internal/logging"
	"gateway/internal/waf"
)

// Mounts describes the Secrets and ConfigMaps in the agent's container.
type Mounts struct {
	// CertificatesDir has the inventory of gateway-keys, AuthoritiesDir CONFIGMAP/ca.crt, CONFIGMAP/ca.crl, CONFIGMAP/jwks
	// and CONFIGMAP/rules.conf.
	CertificatesDir, AuthoritiesDir string
	// Secrets, ConfigMaps and Users are names of what is mounted, whether it exists or not: Secrets with certificates,
	// ConfigMaps with certificates, keys of tokens or rules, and Secrets with users or API keys.
	Secrets, ConfigMaps, Users []string
	// Keys reports whether gateway-keys runs in this pod, as it does wherever there are Secrets.
	Keys bool
	// KeyServer reports whether gateway-keys has Secrets and ConfigMaps from a key server: the ones that it knows are in
	// its inventory.
	KeyServer bool
}

// HasKeys reports whether gateway-keys runs in this pod.
func (m *Mounts) HasKeys() bool { return len(m.Secrets)+len(m.Users) > 0 || m.Keys || m.KeyServer }

// missing returns why something is not there.
func (m *Mounts) missing() string {
	if m.KeyServer {
		return " has not come from the key server yet"
	}
	return " is not mounted: this pod waits to be replaced by one that mounts it"
}

const (
	// maxReads bounds how often files are read while they are being changed.
	maxReads = 3
	// followInterval is how often the inventory is looked at, and awaitInterval while it lacks something.
	followInterval, awaitInterval = 200 * time.Millisecond, 25 * time.Millisecond
	// silentTime is how long HAProxy waits to start with all certificates of a key server. unknownTime is how long an
	// object may stay unknown before that is a problem.
	silentTime  = 15 * time.Second
	unknownTime = 5 * time.Second
)

// mountReader caches the known state of Secrets and ConfigMaps.
type mountReader struct {
	mounts Mounts
	files  mounted
	shown  journal.Reader[inventory.Entry]
	// status is the status of the inventory; nil: there is none.
	status *inventory.Entry
	// version is what the symlink of AuthoritiesDir showed when its files were read; "" if that is not known.
	version string
	// rules are the rules of ConfigMaps.
	rules map[string]string
	// begin is when this began.
	begin time.Time
	// lacks says that something is awaited of the inventory, and hurry has an element when it begins to be.
	lacks atomic.Bool
	hurry chan struct{}
}

func newMountReader(mounts Mounts) *mountReader {
	r := &mountReader{mounts: mounts, shown: journal.Reader[inventory.Entry]{Path: filepath.Join(mounts.CertificatesDir, inventory.File)}, rules: map[string]string{}, begin: time.Now(), hurry: make(chan struct{}, 1)}
	r.files = mounted{
		hasKeys: mounts.HasKeys(), certificates: map[string]certificateFile{}, users: map[string]map[string]string{}, issuers: map[string][]byte{},
		authorities: map[string]authorityFile{}, keySets: map[string]keySetFile{}, ruleSets: map[string]string{},
		versions: map[string]int{}, plain: map[string]*plain{},
	}
	if r.files.unknown = map[string]time.Time{}; !mounts.KeyServer {
		r.files.only, r.files.unknown = &r.mounts, nil
	}
	r.lacks.Store(true) // all of it
	r.look()
	return r
}

// look reads what may have changed, and reports whether anything has.
func (r *mountReader) look() bool {
	isNew := false
	if r.mounts.HasKeys() {
		isNew = r.readInventory()
	}
	if !r.mounts.KeyServer && len(r.mounts.ConfigMaps) > 0 {
		isNew = r.readConfigMaps(r.mounts.ConfigMaps, false) || isNew
	}
	return isNew
}

// readInventory takes over what changed in the inventory.
func (r *mountReader) readInventory() (isNew bool) {
	left := map[string]bool{} // of the names that were known before, those that are not there any more
	var configMaps []string
	anew, err := r.shown.Changes(func(key string, entry *inventory.Entry) {
		isNew = true
		secret, configMap := inventory.Parse(key)
		delete(r.files.unknown, key)
		switch {
		case key == inventory.Status:
			r.status = entry
		case secret != "":
			left[secret] = true
			r.takeSecret(secret, entry)
		default:
			configMaps = append(configMaps, configMap)
		}
	})
	if err != nil {
		logging.Warningf("What is known of Secrets stays as it is: %v", err)
		return isNew
	}
	if anew {
		for secret := range r.files.certificates {
			if !left[secret] {
				r.takeSecret(secret, nil)
			}
		}
	}
	if len(configMaps) > 0 {
		r.readConfigMaps(configMaps, true)
	}
	return isNew || anew
}

// takeSecret takes over an entry; nil: there is none.
func (r *mountReader) takeSecret(secret string, entry *inventory.Entry) {
	r.files.versions[secret]++
	if entry == nil {
		delete(r.files.certificates, secret)
		delete(r.files.users, secret)
		delete(r.files.issuers, secret)
		return
	}
	file := certificateFile{problem: entry.Problem}
	switch {
	case entry.Certificate != nil:
		file = certificateFile{Certificate: *entry.Certificate, outdated: entry.Problem}
	case entry.Problem == "":
		file.problem = missing(certificates.CertificateFile)
	}
	r.files.certificates[secret], r.files.users[secret], r.files.issuers[secret] = file, entry.Files, entry.Issuer
}

// follow calls changed when there may be something new in the inventory, until ctx ends.
func (r *mountReader) follow(ctx context.Context, changed func()) {
	if !r.mounts.HasKeys() {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	var before os.FileInfo
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.hurry:
		case <-timer.C:
		}
		if timer.Reset(followInterval); r.lacks.Load() {
			timer.Reset(awaitInterval)
		}
		now, err := os.Stat(r.shown.Path)
		if err == nil && (before == nil || now.Size() != before.Size() || !os.SameFile(now, before)) {
			before = now
			changed()
		}
	}
}

// await notes whether something is awaited of the inventory.
func (r *mountReader) await(lacks bool) {
	if before := r.lacks.Swap(lacks); before || !lacks {
		return
	}
	select {
	case r.hurry <- struct{}{}:
	default:
	}
}

// readConfigMaps reads ConfigMaps if they may have changed, and reports whether they have. told makes it read them in
// any case. Key sets that cannot be read keep their earlier keys.
func (r *mountReader) readConfigMaps(names []string, told bool) (isNew bool) {
	version := r.link()
	if !told && version != "" && version == r.version {
		return false
	}
	for range maxReads {
		for _, name := range names {
			isNew = r.readConfigMap(name) || isNew
		}
		r.version = version
		// If a file was replaced meanwhile, the old one may be gone and the new one not seen.
		if version = r.link(); version == r.version {
			break
		}
		r.version = ""
	}
	problems := ruleSetProblems(slices.Collect(maps.Keys(r.files.authorities)), func(name string) ([]byte, string) {
		content, ok := r.rules[name]
		if !ok {
			return nil, missing(waf.RulesFile)
		}
		return []byte(content), ""
	})
	isNew = isNew || !maps.Equal(problems, r.files.ruleSets)
	r.files.ruleSets = problems
	return isNew
}

// link returns the state of AuthoritiesDir, "" if it cannot be read.
func (r *mountReader) link() string {
	target, err := os.Readlink(filepath.Join(r.mounts.AuthoritiesDir, certificates.DataLink))
	if err != nil {
		return ""
	}
	return target
}

// readConfigMap reads a ConfigMap, and reports whether it is another one.
func (r *mountReader) readConfigMap(name string) bool {
	authority, keySet := r.authority(name), readKeySet(r.mounts.AuthoritiesDir, name, r.files.keySets[name])
	before, rules := r.files.authorities[name], r.rules[name]
	isNew := !reflect.DeepEqual(before, authority) || !reflect.DeepEqual(r.files.keySets[name], keySet)
	r.files.authorities[name], r.files.keySets[name] = authority, keySet
	if content, problem := readMounted(r.mounts.AuthoritiesDir, name, waf.RulesFile); problem == "" {
		r.rules[name] = string(content)
	} else {
		delete(r.rules, name)
	}
	return isNew || rules != r.rules[name]
}

// authority reads the authority of a ConfigMap.
func (r *mountReader) authority(configMap string) authorityFile {
	content, problem := readMounted(r.mounts.AuthoritiesDir, configMap, certificates.AuthorityFile)
	if problem != "" {
		return authorityFile{problem: problem}
	}
	revocations, err := os.ReadFile(filepath.Join(r.mounts.AuthoritiesDir, configMap, certificates.RevocationsFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return authorityFile{problem: "failed to read " + certificates.RevocationsFile + ": " + err.Error()}
	}
	return parseAuthority(content, revocations)
}

// isAwaited reports whether gateway-keys has not yet passed on its certificates.
func (r *mountReader) isAwaited() bool {
	return r.mounts.HasKeys() && (r.status == nil || r.status.Asks)
}

// isSilent reports whether HAProxy need not start yet, as gateway-keys may soon have everything from its key server.
func (r *mountReader) isSilent(now time.Time) bool {
	return r.mounts.KeyServer && r.status == nil && now.Sub(r.begin) < silentTime
}

// readMounted returns the content of a file, or the problems of its Secret or ConfigMap.
func readMounted(dir, name, key string) (content []byte, problem string) {
	content, err := os.ReadFile(filepath.Join(dir, name, key))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "it does not exist or has no " + key
	case err != nil:
		return nil, "failed to read " + key + ": " + err.Error()
	}
	return content, ""
}
