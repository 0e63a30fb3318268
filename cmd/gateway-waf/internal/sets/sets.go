// Package sets keeps the rules of ConfigMaps as kubelet mounts them. In: a volume that kubelet changes. Out: verdicts.
package sets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"gateway/cmd/gateway-waf/internal/engine"
	"gateway/internal/certificates"
	"gateway/internal/logging"
	"gateway/internal/volume"
	"gateway/internal/waf"
)

// interval is how often Sets look for changes. kubelet takes up to a minute or so to write one, gateway-keys no time.
const interval = 100 * time.Millisecond

// Sets are the Core Rule Set alone, and with the rules of each ConfigMap.
type Sets struct {
	// dir has CONFIGMAP/rules.conf; "": nobody has rules. version is what its symlink showed when it was read.
	dir, version string
	// contents are those that Look saw last.
	contents map[string]string
	// engines are by the name of the ConfigMap; "": the Core Rule Set alone. Look alone changes them.
	engines atomic.Pointer[map[string]*engine.Engine]
}

// New has the Core Rule Set, and reads the rules in a directory; "": there are none.
func New(dir string, plain *engine.Engine) (*Sets, error) {
	s := &Sets{dir: dir}
	s.engines.Store(&map[string]*engine.Engine{"": plain})
	err := s.Look()
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil // gateway-keys, which writes them in place of kubelet, may start later
	}
	return s, err
}

// Judge returns the verdict about a request. An error means that there is no verdict, as while the rules of a
// ConfigMap could never be used.
func (s *Sets) Judge(settings waf.Settings, request *engine.Request) (engine.Verdict, error) {
	e := (*s.engines.Load())[settings.Rules]
	if e == nil {
		return engine.Verdict{}, fmt.Errorf("the rules of ConfigMap %s cannot be used", settings.Rules)
	}
	return e.Judge(settings, request)
}

// Run looks for changes until ctx ends.
func (s *Sets) Run(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.Look(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			logging.Warningf("Rules stay as they are: %v", err)
		}
	}
}

// Look takes over what has changed. Rules that cannot be used, or are gone, leave the last good ones in use.
func (s *Sets) Look() error {
	if s.dir == "" {
		return nil
	}
	link := filepath.Join(s.dir, certificates.DataLink)
	version, err := os.Readlink(link)
	if err != nil {
		return fmt.Errorf("failed to see what kubelet mounted: %w", err)
	}
	if version == s.version {
		return nil
	}
	files, err := volume.Read(s.dir)
	if after, _ := os.Readlink(link); after != version {
		return nil // of what kubelet replaced meanwhile, files may be missing
	}
	if err != nil {
		return err
	}
	contents := map[string]string{}
	for path, content := range files {
		if name, file := filepath.Split(path); file == waf.RulesFile {
			contents[filepath.Clean(name)] = string(content)
		}
	}
	s.take(contents)
	s.version, s.contents = version, contents
	return nil
}

// take replaces the engines of those ConfigMaps that have changed.
func (s *Sets) take(contents map[string]string) {
	now := maps.Clone(*s.engines.Load())
	var old []*engine.Engine
	sets := waf.ParseRuleSets(contents)
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		before, isKnown := s.contents[name]
		if isKnown && before == contents[name] && now[name] != nil {
			continue
		}
		e, err := read(sets[name])
		if err != nil {
			logging.Warningf("ConfigMap %s: %v: %s", name, err, consequence(now[name]))
			continue
		}
		logging.Infof("Using the rules of ConfigMap %s", name)
		if now[name] != nil {
			old = append(old, now[name])
		}
		now[name] = e
	}
	s.engines.Store(&now)
	for _, e := range old {
		e.Close()
	}
}

func read(set waf.RuleSet) (*engine.Engine, error) {
	if set.Problem != "" {
		return nil, errors.New(set.Problem)
	}
	e, err := engine.New(set.Directives...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", waf.RulesFile, err)
	}
	return e, nil
}

// consequence describes what happens to requests whose rules cannot be used.
func consequence(before *engine.Engine) string {
	if before == nil {
		return "requests that need these rules get 503"
	}
	return "the rules that were there before go on"
}
