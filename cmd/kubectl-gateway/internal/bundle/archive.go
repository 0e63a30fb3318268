package bundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"
)

// Entry is a file of the archive.
type Entry struct {
	Name  string `json:"name"`
	Bytes int    `json:"bytes"`

	content []byte
}

// archive is what the bundle has.
type archive struct {
	*redactor
	entries []Entry
	// missing is what could not be read.
	missing []string
}

// add adds a file. An error is what kept its content from being known.
func (a *archive) add(name string, content []byte, err error) {
	if err != nil {
		a.missing = append(a.missing, fmt.Sprintf("%s: %v", name, err))
		return
	}
	a.entries = append(a.entries, Entry{Name: name, content: content})
}

// write writes the archive, without what may be secret: a file may have what the objects of a later one tell to be so.
func (a *archive) write(out io.Writer, now time.Time) error {
	compressed := gzip.NewWriter(out)
	files := tar.NewWriter(compressed)
	for i := range a.entries {
		entry := &a.entries[i]
		entry.content = a.text(entry.content)
		entry.Bytes = len(entry.content)
		err := files.WriteHeader(&tar.Header{Name: "gateway-bundle/" + entry.Name, Mode: 0o600, Size: int64(entry.Bytes), ModTime: now, Format: tar.FormatPAX})
		if err == nil {
			_, err = files.Write(entry.content)
		}
		if err != nil {
			return fmt.Errorf("failed to write the archive: %w", err)
		}
	}
	return errors.Join(files.Close(), compressed.Close())
}
