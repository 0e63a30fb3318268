// Package journal keeps a map in a file, for others to follow. In: changes, which are appended as lines of JSON. Out:
// for a reader, only what changed since it last read. A file that is mostly outdated is replaced by a short one.
package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// spare is how many outdated lines a file may always have.
const spare = 1000

// line is a change: the value that a key has now, nil: none.
type line[T any] struct {
	Key   string `json:"key"`
	Value *T     `json:"value,omitempty"`
}

// Writer changes a map. It alone writes the file.
type Writer[T any] struct {
	// Values is the map. Put alone changes it.
	Values map[string]T

	path  string
	file  *os.File
	lines int
}

// Open returns the map of a file, which is empty if there is no file.
func Open[T any](path string) (*Writer[T], error) {
	w := &Writer[T]{Values: map[string]T{}, path: path}
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("failed to read a journal: %w", err)
	}
	isThere := err == nil
	changes, size, err := parse[T](content)
	if err == nil && isThere && size == len(content) {
		w.lines = len(changes)
		w.file, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read a journal: %w", err)
	}
	for _, change := range changes {
		w.set(change.Key, change.Value)
	}
	return w, nil
}

// Put changes values; nil removes one. An error leaves the values as they were.
func (w *Writer[T]) Put(changes map[string]*T) error {
	if len(changes) == 0 && w.file != nil {
		return nil
	}
	before := make(map[string]*T, len(changes))
	for key, value := range changes {
		if earlier, ok := w.Values[key]; ok {
			before[key] = &earlier
		} else {
			before[key] = nil
		}
		w.set(key, value)
	}
	err := w.write(changes)
	if err != nil {
		for key, value := range before {
			w.set(key, value)
		}
		return fmt.Errorf("failed to write a journal: %w", err)
	}
	return nil
}

func (w *Writer[T]) set(key string, value *T) {
	if value == nil {
		delete(w.Values, key)
		return
	}
	w.Values[key] = *value
}

// write appends changes to the file, or replaces it. A line that was not written to its end would damage the next one,
// so the file is replaced after a failure.
func (w *Writer[T]) write(changes map[string]*T) error {
	if w.file == nil || w.lines+len(changes) > 2*len(w.Values)+spare {
		return w.replace()
	}
	var content []byte
	for key, value := range changes {
		content = appendLine(content, key, value)
	}
	w.lines += len(changes)
	_, err := w.file.Write(content)
	if err != nil {
		err = errors.Join(err, w.file.Close())
		w.file = nil
	}
	return err
}

// replace makes a file that has each value once take the place of the file.
func (w *Writer[T]) replace() error {
	file, err := os.CreateTemp(filepath.Dir(w.path), ".journal-")
	if err != nil {
		return err
	}
	var content []byte
	for key, value := range w.Values {
		content = appendLine(content, key, &value)
	}
	if _, err = file.Write(content); err == nil {
		err = os.Rename(file.Name(), w.path)
	}
	if err != nil {
		return errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	if w.file != nil {
		_ = w.file.Close() // nobody reads it any more
	}
	w.file, w.lines = file, len(w.Values)
	return nil
}

func appendLine[T any](content []byte, key string, value *T) []byte {
	encoded, err := json.Marshal(line[T]{key, value})
	if err != nil {
		panic(err) // a value of ours that is no JSON
	}
	return append(append(content, encoded...), '\n')
}

// parse returns the lines that are complete, and how many bytes they have.
func parse[T any](content []byte) (changes []line[T], size int, err error) {
	for {
		end := bytes.IndexByte(content[size:], '\n')
		if end < 0 {
			return changes, size, nil
		}
		var change line[T]
		if err := json.Unmarshal(content[size:size+end], &change); err != nil {
			return nil, 0, err
		}
		changes, size = append(changes, change), size+end+1
	}
}

// Reader follows a map.
type Reader[T any] struct {
	// Path is the file.
	Path string

	file *os.File
	read int64
}

// Changes returns what changed since it was called last, in order. anew reports whether these are all entries, and
// others are gone. A file that does not exist has no changes.
func (r *Reader[T]) Changes(each func(key string, value *T)) (anew bool, err error) {
	now, err := os.Stat(r.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("failed to see a journal: %w", err)
	}
	if r.file != nil {
		opened, err := r.file.Stat()
		if err == nil && os.SameFile(opened, now) {
			return false, r.next(each)
		}
		_ = r.file.Close() // it was only read
	}
	if r.file, err = os.Open(r.Path); err != nil {
		r.file = nil
		return false, fmt.Errorf("failed to open a journal: %w", err)
	}
	r.read = 0
	return true, r.next(each)
}

// next reads what was appended.
func (r *Reader[T]) next(each func(key string, value *T)) error {
	content, err := io.ReadAll(io.NewSectionReader(r.file, r.read, 1<<62))
	if err != nil {
		return fmt.Errorf("failed to read a journal: %w", err)
	}
	changes, size, err := parse[T](content)
	if err != nil {
		return fmt.Errorf("failed to read a journal: %w", err)
	}
	r.read += int64(size)
	for _, change := range changes {
		each(change.Key, change.Value)
	}
	return nil
}
