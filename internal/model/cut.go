package model

import (
	"fmt"
	"strings"
)

// MaxMessage is the most bytes of a message of a condition or an event. Schemas take more of a condition, but people
// read it in a terminal, and events take 1,024.
const MaxMessage = 1000

// MaxName is the most bytes of the name of an object, or a URL, in what a proxy reports of it.
const MaxName = 253

// Cut shortens a text to a number of bytes.
func Cut(text string, size int) string {
	const end = "..."
	if len(text) <= size {
		return text
	}
	return strings.ToValidUTF8(text[:size-len(end)], "") + end
}

// MaxNamed is how many listeners or hostnames the message of a route names.
const MaxNamed = 6

// Some names the first of some names, and how many more there are: a message is read by people.
func Some(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
