package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gateway/internal/regex"
)

// form is an entry in a form that others can be compared with.
type form struct {
	*Entry
	// conditions are those beside the path, as a text; "": there are none.
	conditions string
	// path is what Path says of the path, headers and query are the conditions.
	path           pattern
	headers, query []pattern
	// hasExpressions reports whether there is an expression among the conditions that is not for one text.
	hasExpressions bool
}

// pattern is what a value is compared with. Nothing is known of an expression that is neither for one text nor open,
// but its beginning.
type pattern struct {
	Condition
	// begin is what all values begin with.
	begin string
	// isOpen reports whether all values match that begin with open.
	open   string
	isOpen bool
}

// newForm returns the form of an entry.
func newForm(entry *Entry) *form {
	f := &form{Entry: entry}
	switch entry.PathType {
	case Exact:
		f.path.begin = decodedPath(entry.Path)
	case Prefix:
		f.path.begin = cmp.Or(decodedPath(strings.TrimSuffix(entry.Path, "/")), "/")
	default:
		f.path = newPattern(Condition{Value: entry.Path, Regex: true})
		f.path.begin = cmp.Or(f.path.begin, "/") // as all paths do
	}
	all := func(conditions []Condition) []pattern {
		patterns := make([]pattern, len(conditions))
		for i := range conditions {
			patterns[i] = newPattern(conditions[i])
			f.hasExpressions = f.hasExpressions || patterns[i].Regex
		}
		return patterns
	}
	f.headers, f.query = all(entry.Headers), all(entry.Query)
	if entry.Method == "" && len(f.headers)+len(f.query) == 0 {
		return f
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%q", entry.Method)
	for _, patterns := range [][]pattern{f.headers, f.query} {
		text.WriteByte(';')
		for i := range patterns {
			fmt.Fprintf(&text, "%q %q %t,", patterns[i].Name, patterns[i].Value, patterns[i].Regex)
		}
	}
	f.conditions = text.String()
	return f
}

// newPattern returns what a condition says of a value. An expression for one text is that text.
func newPattern(condition Condition) pattern {
	p := pattern{Condition: condition, begin: condition.Value}
	if !condition.Regex {
		return p
	}
	expression, err := regex.Parse(condition.Value)
	if err != nil {
		panic(err) // Compile leaves out what does not parse
	}
	if text, ok := expression.Literal(); ok {
		p.Value, p.begin, p.Regex = text, text, false
		return p
	}
	p.begin = expression.Prefix()
	p.open, p.isOpen = expression.Open()
	return p
}

// includes reports whether it is certain that all values which match another pattern match this one.
func (p *pattern) includes(other *pattern) bool {
	switch {
	case p.Regex == other.Regex && p.Value == other.Value:
		return true
	case !p.Regex:
		return false
	case p.isOpen && strings.HasPrefix(other.begin, p.open):
		return true
	}
	return !other.Regex && regexMatches(p.Value, other.Value)
}

// takes reports whether it is certain that all requests which meet another entry meet this one, if they have its
// hostname.
func (f *form) takes(other *form) bool {
	return (f.Method == "" || f.Method == other.Method) && f.takesPath(other) && includeAll(f.headers, other.headers) && includeAll(f.query, other.query)
}

func (f *form) takesPath(other *form) bool {
	isPlain := !strings.Contains(f.Path, "%") // nothing in it is another text where it is decoded
	isOne := other.PathType == Regex && !other.path.Regex
	switch {
	case f.PathType == Regex && other.PathType == Exact:
		return regexMatches(f.Path, other.path.begin)
	case f.PathType == Regex && other.PathType == Prefix:
		return f.path.isOpen && strings.HasPrefix(other.path.begin, f.path.open)
	case f.PathType == Regex:
		return f.path.includes(&other.path)
	case f.PathType == Exact && other.PathType == Regex:
		return isPlain && isOne && other.path.Value == f.Path
	case f.PathType == Exact:
		return other.PathType == Exact && other.Path == f.Path
	case other.PathType == Regex:
		return isPlain && (strings.HasPrefix(other.path.begin, f.Path) || isOne && other.path.Value+"/" == f.Path)
	default:
		return strings.HasPrefix(other.Path+"/", f.Path) // it is no expression
	}
}

// includeAll reports whether each pattern includes one of the same name.
func includeAll(patterns, others []pattern) bool {
	for i := range patterns {
		j := slices.IndexFunc(others, func(other pattern) bool { return other.Name == patterns[i].Name })
		if j < 0 || !patterns[i].includes(&others[j]) {
			return false
		}
	}
	return true
}
