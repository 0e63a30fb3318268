package ir

import (
	"bytes"
	"maps"
	"strings"

	"gateway/internal/tree"
)

// Piece is a part of a file: lines that come and go together.
type Piece struct {
	// Key tells it from the others of the file.
	Key string
	// Old and New are its text before and now; "": there is none.
	Old, New string
}

// Pieces returns the pieces of a file in which a configuration differs from another one. Those in which it differs from
// none are the file.
func (c Config) Pieces(file string, before Config) []Piece {
	entries, isMap := c.Maps[file]
	list, isList := c.Certificates[file]
	whole, earlier := c.whole(file), before.whole(file)
	switch {
	case whole != nil || earlier != nil:
		if bytes.Equal(whole, earlier) {
			return nil
		}
		return differing(string(earlier), string(whole))
	case file == ConfigFile:
		var pieces []Piece
		if !isSame(c.Sections, before.Sections) {
			pieces = differing(before.sectionLines(), c.sectionLines())
		}
		return append(pieces, changed(before.Backends, c.Backends, backendText)...)
	case file == ConditionsFile:
		if c.Lists == before.Lists {
			return nil
		}
		return differing(entryLines(ConditionEntries(before.Lists)), entryLines(ConditionEntries(c.Lists)))
	case isMap:
		return changed(before.Maps[file], entries, func(key, value string) string { return key + " " + value + "\n" })
	case isList:
		earlier := before.Certificates[file]
		return append(differing(earlier.firstLine(), list.firstLine()),
			changed(earlier.Lines, list.Lines, func(line string, _ *CertificateLine) string { return line + "\n" })...)
	}
	return changed(before.Contents, c.Contents, func(_ string, content *Content) string {
		if content.File != file {
			return ""
		}
		return entryLines(content.Entries)
	})
}

// IsPatchOf reports whether a configuration's files are another one's without the Old of its Pieces, and with the New
// at the end.
func (c Config) IsPatchOf(before Config) bool {
	for name, list := range c.Certificates {
		if list.First != nil && list.firstLine() != before.Certificates[name].firstLine() {
			return false
		}
	}
	return isSame(c.Sections, before.Sections) && maps.EqualFunc(c.Files, before.Files, bytes.Equal)
}

// isSame reports whether two slices are one.
func isSame(a, b []Section) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// differing returns the piece that is the only one, or the first one, of a file.
func differing(before, now string) []Piece {
	if before == now {
		return nil
	}
	return []Piece{{Old: before, New: now}}
}

// changed returns the pieces that are made of what changed in a map.
func changed[V comparable](before, now tree.Map[V], text func(key string, value V) string) (pieces []Piece) {
	for change := range tree.Changes(before, now) {
		p := Piece{Key: change.Key}
		if change.Had {
			p.Old = text(change.Key, change.Old)
		}
		if change.Has {
			p.New = text(change.Key, change.New)
		}
		if p.Old != p.New {
			pieces = append(pieces, p)
		}
	}
	return pieces
}

// Content returns the content of a file.
func (c Config) Content(file string) []byte {
	var b bytes.Buffer
	for _, piece := range c.Pieces(file, Config{}) {
		b.WriteString(piece.New)
	}
	return b.Bytes()
}

// AllFiles returns the content of every file but LoadFile, by name.
func (c Config) AllFiles() map[string][]byte {
	files := map[string][]byte{}
	for _, name := range c.FileNames() {
		files[name] = c.Content(name)
	}
	return files
}

// whole returns the content of a file that is one piece.
func (c Config) whole(file string) []byte {
	if content, ok := c.Files[file]; ok {
		return content
	}
	return c.Authorities[file]
}

// sectionLines are the lines of haproxy.cfg but for the backends, which follow.
func (c Config) sectionLines() string {
	var b strings.Builder
	for i, section := range c.Sections {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(section.Header + "\n")
		for _, line := range section.Lines {
			b.WriteString("    " + line.Text + "\n")
		}
	}
	return b.String()
}

func (l CertificateList) firstLine() string {
	if l.First == nil {
		return ""
	}
	return l.First.String() + "\n"
}

// entryLines returns the lines of entries in a map file.
func entryLines(entries []MapEntry) string {
	var b strings.Builder
	for _, entry := range entries {
		b.WriteString(entry.Key + " " + entry.Value + "\n")
	}
	return b.String()
}
