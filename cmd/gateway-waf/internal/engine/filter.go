package engine

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/corazawaf/coraza/v3/experimental/plugins"
	"github.com/corazawaf/coraza/v3/experimental/plugins/plugintypes"
	"github.com/wasilibs/go-re2/experimental"
)

// filtered is the name of an operator that finds what rx finds, and captures nothing. It tries an expression only on
// texts that have all characters which a match needs: few have.
const filtered = "filteredRx"

// flags are those with which rx reads expressions.
const flags = "(?sm)"

func init() { plugins.RegisterOperator(filtered, newExpression) }

// maxMemory bounds what RE2 takes for an expression, which hostile texts could fill. All expressions of the Core Rule
// Set together stay below a half of the container's limit. If one does not fit, it is slow.
const maxMemory = 1 << 20

// expression is one with the characters that its matches need.
type expression struct {
	needs []letters
	// fast is by RE2, which takes a fifth of the time for long texts; nil: it does not fit. Of the library's types, only
	// a set has a bound, and reports when it is not enough.
	fast *experimental.Set
	// slow is by Go. RE2 stops at bytes that are no UTF-8, so that it would miss what comes after them.
	slow func() *regexp.Regexp
}

func newExpression(options plugintypes.OperatorOptions) (plugintypes.Operator, error) {
	read := func() (any, error) {
		text := flags + options.Arguments
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil, err
		}
		e := &expression{needs: needsOf(parsed), slow: sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })}
		if e.fast, err = experimental.CompileSetWithOptions([]string{text}, experimental.CompileOptions{MaxMem: maxMemory}); err != nil {
			e.fast = nil
		}
		return e, nil
	}
	found, err := options.Memoizer.Do(filtered+" "+options.Arguments, read)
	if err != nil {
		return nil, err
	}
	return found.(*expression), nil
}

// Evaluate reports whether the expression matches a text.
func (e *expression) Evaluate(_ plugintypes.TransactionState, text string) bool {
	has, isASCII := lettersOf(text)
	if isASCII && !slices.ContainsFunc(e.needs, has.contains) {
		return false
	}
	if e.fast != nil && (isASCII || utf8.ValidString(text)) {
		if found, err := e.fast.FindAllStringWithError(text, 1); err == nil {
			return len(found) > 0
		}
	}
	return e.slow().MatchString(text)
}

// letters is a set of ASCII characters, in which upper case counts as lower.
type letters [2]uint64

func (l *letters) add(c byte) {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	l[c>>6] |= 1 << (c & 63)
}

func (l letters) contains(other letters) bool { return other[0]&^l[0] == 0 && other[1]&^l[1] == 0 }

// lettersOf returns the characters of a text; false: some are not ASCII.
func lettersOf(text string) (l letters, isASCII bool) {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return l, false
		}
		l.add(text[i])
	}
	return l, true
}

// maxNeeds bounds how many sets an expression has.
const maxNeeds = 64

// nothing is what is needed by an expression that may match any text.
var nothing = []letters{{}}

// needsOf returns sets of characters. An ASCII text that an expression matches has all characters of one of them.
func needsOf(e *syntax.Regexp) []letters {
	switch e.Op {
	case syntax.OpNoMatch:
		return nil
	case syntax.OpLiteral:
		all := nothing
		for _, r := range e.Rune {
			all = both(all, needsOfClass([]rune{r, r}, e.Flags&syntax.FoldCase != 0))
		}
		return all
	case syntax.OpCharClass:
		return needsOfClass(e.Rune, false)
	case syntax.OpCapture, syntax.OpPlus:
		return needsOf(e.Sub[0])
	case syntax.OpRepeat:
		if e.Min > 0 {
			return needsOf(e.Sub[0])
		}
	case syntax.OpConcat:
		all := nothing
		for _, sub := range e.Sub {
			all = both(all, needsOf(sub))
		}
		return all
	case syntax.OpAlternate:
		var all []letters
		for _, sub := range e.Sub {
			all = append(all, needsOf(sub)...)
		}
		return least(all)
	}
	return nothing
}

// needsOfClass returns what one character of ranges needs, or one that differs in case.
func needsOfClass(ranges []rune, folds bool) []letters {
	var all []letters
	add := func(r rune) {
		if r < utf8.RuneSelf {
			one := letters{}
			one.add(byte(r))
			all = append(all, one)
		}
	}
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= min(ranges[i+1], unicode.MaxASCII); r++ {
			add(r)
		}
		for r := unicode.SimpleFold(ranges[i]); folds && r != ranges[i]; r = unicode.SimpleFold(r) {
			add(r)
		}
	}
	return least(all)
}

// both returns what a match of two expressions needs, one after the other. If that is too much, what one of them needs
// is enough.
func both(a, b []letters) []letters {
	if len(a)*len(b) > maxNeeds {
		if slices.Contains(b, letters{}) || len(a) <= len(b) && !slices.Contains(a, letters{}) {
			return a
		}
		return b
	}
	all := make([]letters, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			all = append(all, letters{x[0] | y[0], x[1] | y[1]})
		}
	}
	return least(all)
}

// least returns the sets that contain no other one.
func least(all []letters) []letters {
	var kept []letters
	for i, l := range all {
		hasOther := func(other letters) bool { return l != other && l.contains(other) }
		if !slices.ContainsFunc(all, hasOther) && !slices.Contains(all[:i], l) {
			kept = append(kept, l)
		}
	}
	if len(kept) > maxNeeds {
		return nothing
	}
	return kept
}
