package convert

import (
	"fmt"
	"slices"
)

// Note describes what is lost or changed of an object, and what to do about it.
type Note struct {
	// Object is namespace, name and kind.
	Object string
	Text   string
}

func (n Note) String() string { return n.Object + ": " + n.Text }

// notes are a list without duplicates.
type notes struct {
	all []Note
}

func (n *notes) note(object, format string, args ...any) {
	note := Note{Object: object, Text: fmt.Sprintf(format, args...)}
	if !slices.Contains(n.all, note) {
		n.all = append(n.all, note)
	}
}
