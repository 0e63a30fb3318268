package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gateway/internal/haproxy/ir"
	"gateway/internal/logging"
)

const (
	dirPrefix = "load-"
	// provenName is a file in a configuration's directory. It proves that HAProxy has run the configuration. It is for
	// the next agent, which knows nothing of this one's. In it is the checksum of all other files.
	provenName = "proven"
	// spareName is a directory that the next configuration is made of.
	spareName = "spare"

	fileMode = 0o640
)

// store keeps configurations on disk: a directory for each, and a symlink to the one that HAProxy starts on. The name
// of a directory is its load id.
type store struct {
	// current is the path of the symlink; the directories are beside it.
	current string
	// serial is the number in the newest load id.
	serial int
	// epoch is when the agent started, in Unix seconds.
	epoch int64
	// clean reports whether there is no configuration but the one that was kept last.
	clean bool
	// proven is the configuration that was last marked as proven.
	proven string
	// served reports whether it is noted that the pod was up to date once.
	served bool
	// newest is the load id of the configuration that was written last, previous the one before, and spare reports whether
	// there is a spare directory: it is the one before.
	newest, previous string
	spare            bool
	// config is what is in the newest one, by files; nil: that is not known.
	config ir.Config
	files  map[string]*storedFile
}

// open returns the id of the configuration that the symlink points to, "" if there is none, and whether HAProxy is
// known to have run it. A configuration that was damaged after HAProxy ran it does not count: the symlink is removed,
// so that HAProxy does not start on it.
func (s *store) open() (id string, proven bool, err error) {
	entries, err := os.ReadDir(filepath.Dir(s.current))
	if err != nil {
		return "", false, fmt.Errorf("failed to read the configuration directory: %w", err)
	}
	_, err = os.Stat(s.servedFile())
	s.served = err == nil
	for _, entry := range entries {
		var serial int
		if _, err := fmt.Sscanf(entry.Name(), dirPrefix+"%d", &serial); err == nil {
			s.serial = max(s.serial, serial)
		}
	}
	id, err = os.Readlink(s.current)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("failed to read the configuration symlink: %w", err)
	}
	if _, err := os.Stat(filepath.Join(s.current, ir.ConfigFile)); err != nil {
		return "", false, nil //nolint:nilerr // a symlink to nothing is no configuration; the next write replaces it
	}
	proven, err = s.isProven(id)
	if err != nil {
		logging.Errorf("The configuration %s on disk is damaged (%v): waiting for the API server to make another one", id, err)
		return "", false, os.Remove(s.current)
	}
	return id, proven, nil
}

// isProven reports whether HAProxy is known to have run a configuration. An error means that the files have changed
// since.
func (s *store) isProven(id string) (bool, error) {
	mark, err := os.ReadFile(filepath.Join(s.dir(id), provenName))
	if err != nil || len(mark) == 0 {
		return false, nil //nolint:nilerr // without the mark, or with one that was only begun, it is not proven
	}
	files, err := s.read(id)
	if err == nil && !bytes.Equal(mark, checksum(files)) {
		err = errors.New("its checksum is another one")
	}
	return err == nil, err
}

// read returns the files of a configuration, without the mark.
func (s *store) read(id string) (map[string][]byte, error) {
	entries, err := os.ReadDir(s.dir(id))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), provenName) {
			continue
		}
		if files[entry.Name()], err = os.ReadFile(filepath.Join(s.dir(id), entry.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// checksum tells the content of files.
func checksum(files map[string][]byte) []byte {
	var sum uint64
	for name, content := range files {
		sum += sumOf(name, content)
	}
	return markOf(sum)
}

func markOf(sum uint64) []byte { return fmt.Appendf(nil, "%016x\n", sum) }

// nextID returns a load id that no configuration had before, of this agent or another. So HAProxy proves what it runs
// by naming it.
func (s *store) nextID() string {
	s.serial++
	return fmt.Sprintf("%s%06d-%x", dirPrefix, s.serial, s.epoch)
}

// write puts a configuration on disk, for good, without making it the current one. load is the content of LoadFile.
// whole means that all of it is written, and otherwise only what differs from the configuration before. That one stays
// as it is: the directory of the one before it is brought up to date, and gets the load id as its name. proven means
// that HAProxy is sure to accept it. After an error nothing is left over: the disk may be full.
func (s *store) write(id string, config ir.Config, load []byte, whole, proven bool) error {
	s.clean = false
	names := config.FileNames()
	whole = whole || s.files == nil || !config.IsPatchOf(s.config)
	for name := range s.files {
		whole = whole || !slices.Contains(names, name)
	}
	err := s.makeDir(id, whole)
	if err == nil {
		err = s.fill(id, names, config, load, proven)
	}
	if err != nil {
		s.files = nil
		return errors.Join(err, os.RemoveAll(s.dir(id)))
	}
	if s.previous = s.newest; whole {
		s.previous = "" // it may have files that are not in use any more
	}
	s.newest, s.config = id, config
	if proven {
		s.proven = id
	}
	return nil
}

// makeDir makes the directory of a configuration, of the spare one if that is of use.
func (s *store) makeDir(id string, whole bool) error {
	if whole {
		s.files, s.config, s.spare = map[string]*storedFile{}, ir.Config{}, false
		// It may have files that are not in use any more, and takes room on the disk.
		if err := os.RemoveAll(s.dir(spareName)); err != nil {
			return fmt.Errorf("failed to remove the spare directory: %w", err)
		}
	} else if s.spare {
		s.spare = false
		if err := os.Rename(s.dir(spareName), s.dir(id)); err != nil {
			return fmt.Errorf("failed to use the spare directory: %w", err)
		}
		return removeFile(filepath.Join(s.dir(id), provenName))
	}
	for _, file := range s.files {
		file.isAlone, file.behind = true, nil
	}
	if err := os.Mkdir(s.dir(id), 0o750); err != nil {
		return fmt.Errorf("failed to make a configuration directory: %w", err)
	}
	return nil
}

// fill writes the files of a configuration, all at once: a busy disk takes about as long for many as for one.
func (s *store) fill(id string, names []string, config ir.Config, load []byte, proven bool) error {
	var writing sync.WaitGroup
	errs, sum := make([]error, len(names)+1), sumOf(ir.LoadFile, load)
	for i, name := range names {
		file, patches := s.files[name].changed(name, config, s.config)
		s.files[name] = file
		sum += file.sum
		writing.Go(func() {
			if err := file.write(filepath.Join(s.dir(id), name), filepath.Join(s.dir(s.newest), name), patches); err != nil {
				errs[i] = fmt.Errorf("failed to write %s: %w", name, err)
			}
		})
	}
	writing.Go(func() { errs[len(names)] = writeFile(filepath.Join(s.dir(id), ir.LoadFile), load) })
	writing.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if proven {
		if err := writeFile(filepath.Join(s.dir(id), provenName), markOf(sum)); err != nil {
			return fmt.Errorf("failed to mark a configuration: %w", err)
		}
	}
	return syncDir(s.dir(id))
}

// point makes a configuration the current one. A reader sees all of the old or all of the new one, unless it opens
// files before and after the swap.
func (s *store) point(id string) error {
	next := s.current + ".next"
	if err := removeFile(next); err != nil {
		return fmt.Errorf("failed to remove an old symlink: %w", err)
	}
	if err := os.Symlink(id, next); err != nil {
		return fmt.Errorf("failed to make the configuration symlink: %w", err)
	}
	if err := os.Rename(next, s.current); err != nil {
		return fmt.Errorf("failed to swap the configuration symlink: %w", err)
	}
	return syncDir(filepath.Dir(s.current))
}

// prove notes that HAProxy has run a configuration.
func (s *store) prove(id string) error {
	if s.proven == id {
		return nil
	}
	files, err := s.read(id)
	mark := filepath.Join(s.dir(id), provenName)
	if err == nil {
		err = writeFile(mark+".next", checksum(files))
	}
	if err == nil {
		err = os.Rename(mark+".next", mark)
	}
	if err != nil {
		return fmt.Errorf("failed to mark a configuration: %w", err)
	}
	s.proven = id
	return nil
}

// serve notes for the next agent that the pod was once up to date.
func (s *store) serve() error {
	if s.served {
		return nil
	}
	if err := writeFile(s.servedFile(), nil); err != nil {
		return fmt.Errorf("failed to note that the pod serves: %w", err)
	}
	s.served = true
	return nil
}

func (s *store) servedFile() string { return filepath.Join(filepath.Dir(s.current), "served") }

// prune removes every configuration except one and the symlink's, which may differ after a failed swap. The one before
// becomes the spare one.
func (s *store) prune(keep string) error {
	if s.clean {
		return nil
	}
	s.clean = true
	dir := filepath.Dir(s.current)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("failed to read the configuration directory: %w", err)
	}
	current, _ := os.Readlink(s.current)
	for _, entry := range entries {
		name := entry.Name()
		isOld := strings.HasPrefix(name, dirPrefix) && name != keep && name != current || name == spareName && !s.spare
		if !entry.IsDir() || !isOld {
			continue
		}
		if name == s.previous && keep == s.newest && s.files != nil {
			err = os.Rename(s.dir(name), s.dir(spareName))
			s.spare = err == nil
		} else {
			err = os.RemoveAll(s.dir(name))
		}
		if err != nil {
			return fmt.Errorf("failed to remove an old configuration: %w", err)
		}
	}
	return nil
}

func (s *store) dir(id string) string { return filepath.Join(filepath.Dir(s.current), id) }

// writeFile returns when the content is on the disk, where it survives a crash of the machine. The mark may get lost.
func writeFile(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil && filepath.Base(path) != provenName {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// removeFile removes a file if it is there.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("failed to open a directory: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("failed to sync a directory: %w", err)
	}
	return nil
}
