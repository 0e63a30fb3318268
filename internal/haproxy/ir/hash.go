package ir

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"math/big"
	"strings"
)

// hashSize is the length of a hash in bytes: enough to tell configurations apart.
const hashSize = 8

// Hash identifies everything but the servers, which change on their own. It is the same in every process.
func (c Config) Hash() string {
	t := c.sections()
	// The name of a backend identifies its settings. Contents and lists are named after what is in them, and maps lead to
	// them.
	t.add(fmt.Sprint(c.Backends.Sum()))
	for _, file := range sortedKeys(c.Maps) {
		t.add(file, fmt.Sprint(c.Maps[file].Sum()))
	}
	for _, file := range sortedKeys(c.Certificates) {
		list := c.Certificates[file]
		if t.add(file, fmt.Sprint(list.Lines.Sum())); list.First != nil {
			t.add(list.First.String())
		}
	}
	return t.String()
}

// LoadHash identifies what HAProxy reads when it loads the configuration and can refuse.
func (c Config) LoadHash() string {
	t := c.sections()
	for name, backend := range c.Backends.All() {
		t.add(name, backend.Settings.Options)
	}
	return t.String()
}

func (c Config) sections() *texts {
	t := &texts{Hash: sha256.New()}
	for _, section := range c.Sections {
		t.add(section.Header)
		for _, line := range section.Lines {
			t.add(line.Text)
		}
	}
	for _, files := range []map[string][]byte{c.Files, c.Authorities} {
		for _, name := range sortedKeys(files) {
			t.add(name, string(files[name]))
		}
	}
	return t
}

// ContentName returns a name for a content. Routes of one Gateway may belong to people who do not trust each other, so
// nobody can make a content with the name of another one: with 128 bits, that takes 2^100 tries for one of a hundred
// million contents. The name has nameLength letters and digits: HAProxy compares each condition with it.
func ContentName(content string) string {
	sum := sha256.Sum256([]byte(content))
	digits := new(big.Int).SetBytes(sum[:16]).Text(62)
	return strings.Repeat("0", nameLength-len(digits)) + digits
}

// nameLength is how many digits of base 62 have 128 bits.
const nameLength = 22

// texts hashes texts, each followed by a byte that none of them has.
type texts struct {
	hash.Hash
	buffer []byte
}

func (t *texts) add(texts ...string) {
	for _, text := range texts {
		t.buffer = append(append(t.buffer[:0], text...), 0)
		_, _ = t.Write(t.buffer) // which never fails
	}
}

func (t *texts) String() string { return hex.EncodeToString(t.Sum(nil)[:hashSize]) }

// NewContent returns entries of a map file that belong together, and the name of what is in them, which begins the key
// of each.
func NewContent(file string, entries []MapEntry) (name string, content *Content) {
	var text strings.Builder
	for _, e := range entries {
		text.WriteString(e.Key + " " + e.Value + "\n")
	}
	name = ContentName(text.String())
	for i := range entries {
		entries[i].Key = name + entries[i].Key
	}
	return name, &Content{File: file, Entries: entries}
}
