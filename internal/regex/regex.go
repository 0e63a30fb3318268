// Package regex is about regular expressions. Users write RE2, and HAProxy runs PCRE.
//
// An expression is parsed as RE2, and written anew in syntax that means the same in both. What it can take to compare a
// value with it is bounded in advance. Characters are bytes.
package regex

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

// MinValue is the length in bytes up to which a value may be compared with any expression.
const MinValue = 1024

// re2 is RE2's syntax without its classes of Unicode: no byte is such a character, and Go takes long to read them.
const re2 = syntax.Perl &^ syntax.UnicodeGroups

// With Go 1.26.8, some expressions that ignore case and name characters of Unicode took long to read. No byte is such a
// character.
var (
	ignoresCase  = regexp.MustCompile(`\(\?[A-Za-z-]*i`)
	namesUnicode = regexp.MustCompile(`\\x\{0*[1-9A-Fa-f][0-9A-Fa-f]{2}`)
)

// Expression is a regular expression of a user.
type Expression struct {
	text   string
	parsed *syntax.Regexp
}

// Parse reads an expression. It returns an error that names the mistake. A valid expression may still take too long:
// Translate reports that.
func Parse(text string) (Expression, error) {
	if ignoresCase.MatchString(text) && namesUnicode.MatchString(text) {
		return Expression{}, errors.New(`with (?i), there can be no character above \xFF, which no byte is`)
	}
	parsed, err := syntax.Parse(text, re2)
	var parse *syntax.Error
	if errors.As(err, &parse) {
		return Expression{}, fmt.Errorf("%s: %q", parse.Code, parse.Expr)
	}
	return Expression{text, parsed}, err
}

// String returns the expression in RE2's syntax. Unlike what was parsed, it may stand within another one: it does not
// end within \Q.
func (e Expression) String() string { return e.parsed.String() }

// Matches reports whether the expression matches a value as a whole: the longest match is all of it. It compiles the
// user's text: to write a parsed class as text takes long, as Go folds every character of it.
func (e Expression) Matches(value string) bool {
	var characters strings.Builder
	for i := range len(value) {
		characters.WriteRune(rune(value[i]))
	}
	compiled := regexp.MustCompile(e.text)
	compiled.Longest()
	match := compiled.FindStringIndex(characters.String())
	return match != nil && match[1]-match[0] == characters.Len()
}

// Steps returns how many steps PCRE takes at most to compare a value of a length with the expression.
func (e Expression) Steps(length int) float64 {
	return (&meter{length: float64(length)}).measure(e.parsed)
}

// Prefix returns the common beginning of all texts that the expression matches.
func (e Expression) Prefix() string {
	prefix := ""
	for _, part := range append([]*syntax.Regexp{e.parsed}, e.parsed.Sub...) {
		switch {
		case part == e.parsed && part.Op == syntax.OpConcat, part.Op == syntax.OpBeginText:
		case part.Op == syntax.OpLiteral && part.Flags&syntax.FoldCase == 0:
			prefix += string(part.Rune)
		default:
			return prefix
		}
	}
	return prefix
}

// Literal returns the one text that the expression matches, false if there are others, or it is not certain.
func (e Expression) Literal() (string, bool) { return literal(parts(e.parsed)) }

// Open returns the beginning of the texts that the expression matches, and whether these are all that begin so.
func (e Expression) Open() (string, bool) {
	all := parts(e.parsed)
	last := len(all) - 1
	if last < 0 || all[last].Op != syntax.OpStar {
		return "", false
	}
	if of := all[last].Sub[0].Op; of != syntax.OpAnyChar && of != syntax.OpAnyCharNotNL {
		return "", false
	}
	return literal(all[:last])
}

// parts returns what the texts of an expression consist of, one after the other. Those that are matched as a whole need
// no anchors at their ends.
func parts(e *syntax.Regexp) []*syntax.Regexp {
	all := flat(e)
	if len(all) > 0 && all[0].Op == syntax.OpBeginText {
		all = all[1:]
	}
	if last := len(all) - 1; last >= 0 && all[last].Op == syntax.OpEndText {
		all = all[:last]
	}
	return all
}

func flat(e *syntax.Regexp) []*syntax.Regexp {
	switch e.Op { //nolint:exhaustive // all others are parts themselves
	case syntax.OpConcat, syntax.OpCapture:
		var all []*syntax.Regexp
		for _, sub := range e.Sub {
			all = append(all, flat(sub)...)
		}
		return all
	case syntax.OpEmptyMatch:
		return nil
	}
	return []*syntax.Regexp{e}
}

// literal returns the text that parts consist of, false if there may be others. Above ASCII, a byte has other bytes as
// text.
func literal(parts []*syntax.Regexp) (string, bool) {
	text := ""
	for _, part := range parts {
		if part.Op != syntax.OpLiteral || part.Flags&syntax.FoldCase != 0 {
			return "", false
		}
		text += string(part.Rune)
	}
	return text, !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}
