package ingress

import (
	"fmt"
	"slices"
	"strings"
)

// Subject is the object that a Note is about.
type Subject struct{ Kind, Namespace, Name string }

func (s Subject) String() string { return s.Namespace + "/" + s.Name + " " + s.Kind }

// Note tells what is lost or changed of an object, and what to do about it.
type Note struct {
	Object Subject
	Text   string
	// Refused reports whether it is what the owner of the Gateway does not allow.
	Refused bool
}

func (n Note) String() string { return n.Object.String() + ": " + n.Text }

// Closes reports whether paths answer 503 because of what is lost.
func (n Note) Closes() bool { return strings.HasSuffix(n.Text, Answered) }

// SortNotes sorts notes by object.
func SortNotes(all []Note) {
	slices.SortStableFunc(all, func(a, b Note) int { return strings.Compare(a.Object.String(), b.Object.String()) })
}

// notes are a list without duplicates.
type notes struct {
	all  []Note
	seen map[Note]bool
}

func (n *notes) note(object Subject, format string, args ...any) {
	n.add(Note{Object: object, Text: fmt.Sprintf(format, args...)})
}

// refuse notes what the owner of the Gateway does not allow.
func (n *notes) refuse(object Subject, format string, args ...any) {
	n.add(Note{object, fmt.Sprintf(format, args...), true})
}

func (n *notes) add(note Note) {
	if n.seen == nil {
		n.seen = map[Note]bool{}
	}
	if !n.seen[note] {
		n.all, n.seen[note] = append(n.all, note), true
	}
}

// Target is an object that requests come by. Without kind and name, it is every object of the namespace; without a
// namespace, every object.
type Target struct{ Kind, Namespace, Name string }

func (t Target) String() string {
	switch {
	case t.Kind != "":
		return fmt.Sprintf("%s %s", t.Kind, strings.TrimPrefix(t.Namespace+"/"+t.Name, "/"))
	case t.Namespace != "":
		return "all of namespace " + t.Namespace
	}
	return "all namespaces"
}

// The consequences for requests if an access rule is lost.
const (
	Answered   = "Its paths answer 503"
	LetThrough = "Requests are let through"
)

// closings are the objects whose requests get 503 because an access rule is lost.
type closings struct {
	open []string
	// opened are the names in open that were asked for.
	opened map[string]bool
	closed map[Target]bool
}

// isOpen reports whether the user allows to lose what has a name.
func (c *closings) isOpen(name string) bool {
	c.opened[name] = slices.Contains(c.open, name)
	return c.opened[name]
}

// unused returns the annotations and keys that the user allows to lose, and that close nothing.
func (c *closings) unused() []string {
	isObject := func(name string) bool { return strings.Count(name, "/") > 1 }
	return slices.DeleteFunc(slices.Clone(c.open), func(name string) bool { return isObject(name) || c.opened[name] })
}

// close closes targets for a lost rule with a name, unless the user allows to lose it. It returns what happens to
// requests.
func (c *closings) close(name string, targets ...Target) string {
	if c.isOpen(name) {
		return LetThrough
	}
	for _, t := range targets {
		c.closed[t] = true
	}
	return Answered
}

// isClosed reports whether requests that come by an object get 503.
func (c *closings) isClosed(kind, namespace, name string) bool {
	return c.closed[Target{kind, namespace, name}] || c.closed[Target{Namespace: namespace}] || c.closed[Target{}]
}
