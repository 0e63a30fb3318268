package agent

import (
	"bytes"
	"errors"
	"hash/crc32"
	"os"
	"slices"

	"gateway/internal/haproxy/ir"
)

// spareBytes is how much of a file may be empty lines in any case. Otherwise it is a half.
const spareBytes = 4096

// storedFile is a file of the newest configuration. An edit of it empties the lines of what is gone, and adds what is
// new at the end.
type storedFile struct {
	// pieces are where the pieces begin. size is the size of the file, and unused how much of it is empty lines.
	pieces       map[string]int64
	size, unused int64
	// sum tells the lines.
	sum uint64
	// isNew reports whether it is not written yet, and isAlone whether the spare directory has none, or another one.
	// Otherwise, it has the same file, or one of its own, which these patches lead from.
	isNew, isAlone bool
	behind         []patch
}

// patch replaces bytes at an offset in a file.
type patch struct {
	at   int64
	text []byte
}

// changed returns a file after changes, and the patches that lead there.
func (f *storedFile) changed(name string, config, before ir.Config) (*storedFile, []patch) {
	if f != nil {
		patches := f.change(name, config.Pieces(name, before))
		if f.unused <= f.size/2+spareBytes {
			return f, patches
		}
	}
	f = &storedFile{pieces: map[string]int64{}, isNew: true}
	return f, f.change(name, config.Pieces(name, ir.Config{}))
}

func (f *storedFile) change(name string, pieces []ir.Piece) (patches []patch) {
	for _, piece := range pieces {
		if piece.Old != "" {
			patches = append(patches, patch{f.pieces[piece.Key], bytes.Repeat([]byte("\n"), len(piece.Old))})
			delete(f.pieces, piece.Key)
			f.unused += int64(len(piece.Old))
			f.sum -= sumOf(name, []byte(piece.Old))
		}
		if piece.New == "" {
			continue
		}
		if last := len(patches) - 1; last >= 0 && patches[last].at+int64(len(patches[last].text)) == f.size {
			patches[last].text = append(patches[last].text, piece.New...)
		} else {
			patches = append(patches, patch{f.size, []byte(piece.New)})
		}
		f.pieces[piece.Key] = f.size
		f.size += int64(len(piece.New))
		f.sum += sumOf(name, []byte(piece.New))
	}
	return patches
}

// write writes the file in a directory, which was the spare one. newest is where it is as it was before the patches.
func (f *storedFile) write(path, newest string, patches []patch) error {
	isNew, isAlone, all := f.isNew, f.isAlone, slices.Concat(f.behind, patches)
	f.isNew, f.isAlone, f.behind = false, isNew, patches
	switch {
	case isNew:
		f.behind = nil
	case !isAlone && len(all) == 0:
		return nil
	case !isAlone && !isOne(path, newest):
		return patchFile(path, all)
	}
	if err := removeFile(path); err != nil {
		return err
	}
	if !isNew {
		if len(all) == 0 {
			return os.Link(newest, path)
		}
		if err := copyFile(newest, path); err != nil {
			return err
		}
	}
	return patchFile(path, all)
}

// isOne reports whether two paths lead to one file.
func isOne(path, other string) bool {
	a, err := os.Stat(path)
	b, otherErr := os.Stat(other)
	return err == nil && otherErr == nil && os.SameFile(a, b)
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, content, fileMode)
}

// patchFile returns when the patches are on the disk, where they survive a crash of the machine.
func patchFile(path string, patches []patch) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	for i := 0; i < len(patches) && err == nil; i++ {
		_, err = file.WriteAt(patches[i].text, patches[i].at)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumOf tells the lines of a file that are not empty. The sums of two texts add up to the sum of both.
func sumOf(name string, content []byte) (sum uint64) {
	seed := crc32.Checksum([]byte(name), castagnoli)
	for line := range bytes.Lines(content) {
		if len(line) > 1 {
			sum += uint64(crc32.Update(seed, castagnoli, line))
		}
	}
	return sum
}
