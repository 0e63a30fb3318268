package regex

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
)

const (
	// maxTranslated is how long a translation may be, in bytes.
	maxTranslated = 4096
	// maxSteps bounds the steps of an expression for a value of MinValue bytes. PCRE gives up after ten millions.
	maxSteps = 8 << 20
)

// Translate returns an expression for PCRE that, compared with one line of several, matches as a whole the same bytes
// as the RE2 expression. It also returns how many steps it takes for a value of MinValue bytes. The result consists of
// letters, digits and the signs of the syntax: everything else is written as \xHH. The error names the mistake in the
// expression.
//
// RE2's own form, as text, does not mean the same to PCRE, which knows more. So it is written anew from the parsed
// expression.
func Translate(text string) (pcre string, steps float64, err error) {
	e, err := Parse(text)
	if err != nil {
		return "", 0, err
	}
	pcre, err = (&writer{}).translate(e.parsed, func() float64 {
		steps = e.Steps(MinValue)
		return steps
	})
	return pcre, steps, err
}

// translate returns an expression for PCRE, with a function for its steps for a value of MinValue bytes. These can be
// counted if no group is repeated too often.
func (w *writer) translate(re *syntax.Regexp, countSteps func() float64) (string, error) {
	if group := longRepeat(re); group != nil {
		return "", fmt.Errorf("in %q a group is repeated any number of times, or more than %d times, which HAProxy cannot match in every length: "+
			"repeat single characters or classes", group, maxGroupRepeat)
	}
	if size := expanded(re); size > maxExpanded {
		return "", fmt.Errorf("it is too large: about %d bytes where %d are allowed, when repetitions are written out", size, maxExpanded)
	}
	if steps := countSteps(); steps > maxSteps {
		return "", fmt.Errorf("it can take %.2g steps to compare it with a value of %d bytes, where %d are allowed: let fewer parts like [a-z]* match the same "+
			"text, one after the other or in several branches", steps, MinValue, maxSteps)
	}
	w.write(re)
	if w.Len() > maxTranslated {
		return "", fmt.Errorf("it is too long: %d bytes where %d are allowed, when classes are written out", w.Len(), maxTranslated)
	}
	return w.String(), nil
}

// maxGroupRepeat is the limit for the repetitions of a group. PCRE has little memory for them, and HAProxy treats its
// failure as "does not match", which would skip a rule that guards.
const maxGroupRepeat = 32

// longRepeat returns an operator that repeats more than a single character too often, nil if there is none.
func longRepeat(re *syntax.Regexp) *syntax.Regexp {
	repeats := re.Op == syntax.OpStar || re.Op == syntax.OpPlus || re.Op == syntax.OpRepeat && (re.Max < 0 || re.Max > maxGroupRepeat)
	if repeats && !isSingle(re.Sub[0]) {
		return re
	}
	for _, sub := range re.Sub {
		if found := longRepeat(sub); found != nil {
			return found
		}
	}
	return nil
}

// isSingle reports whether an expression matches exactly one character.
func isSingle(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune) == 1
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return true
	case syntax.OpCapture:
		return isSingle(re.Sub[0])
	}
	return false
}

// maxExpanded bounds expanded, for each expression; the expressions of a match share PCRE's 64 KiB.
const maxExpanded = 8000

// expanded returns about how many bytes PCRE needs for an expression, in which it writes repetitions out.
func expanded(re *syntax.Regexp) int {
	size := 8
	switch re.Op {
	case syntax.OpLiteral:
		size += 12 * len(re.Rune)
	case syntax.OpCharClass:
		size += 33
	}
	for _, sub := range re.Sub {
		size += expanded(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1) + 1
	}
	return size
}

// Quote returns an expression for PCRE that matches the bytes of s, written like one of Translate.
func Quote(s string) string {
	var b strings.Builder
	for i := range len(s) {
		writeByte(&b, s[i])
	}
	return b.String()
}

// writer writes an expression for PCRE.
type writer struct {
	strings.Builder
	// groups are the groups of the RE2 expression whose texts are kept, with their numbers in the written one, which are
	// set when they are written; nil: no text is kept, only whether a value matches as a whole.
	groups map[int]int
	// last is the number of the last group that was written.
	last int
}

// write writes assertions as groups: PCRE does not take them repeated. Single characters are none: repeated, they
// take PCRE no memory.
func (w *writer) write(re *syntax.Regexp) {
	b := &w.Builder
	switch re.Op {
	case syntax.OpNoMatch:
		b.WriteString("(?!)")
	case syntax.OpEmptyMatch:
		b.WriteString("(?:)")
	case syntax.OpLiteral:
		if len(re.Rune) == 1 {
			writeLiteral(b, re, 0)
			return
		}
		b.WriteString("(?:")
		for i := range re.Rune {
			writeLiteral(b, re, i)
		}
		b.WriteString(")")
	case syntax.OpCharClass:
		writeClass(b, re.Rune)
	case syntax.OpAnyCharNotNL, syntax.OpAnyChar:
		b.WriteString(`[^\x0A]`)
	case syntax.OpBeginLine, syntax.OpBeginText:
		b.WriteString(`(?:(?<=\x0A))`)
	case syntax.OpEndLine, syntax.OpEndText:
		b.WriteString(`(?:(?=\x0A))`)
	case syntax.OpWordBoundary:
		b.WriteString(`(?:\b)`)
	case syntax.OpNoWordBoundary:
		b.WriteString(`(?:\B)`)
	case syntax.OpCapture:
		if _, ok := w.groups[re.Cap]; ok {
			w.writeGroup(re.Cap, re.Sub[0])
			return
		}
		w.write(re.Sub[0])
	default:
		w.writeOperator(re)
	}
}

// writeGroup writes a group whose text is kept.
func (w *writer) writeGroup(group int, re *syntax.Regexp) {
	w.last++
	w.groups[group] = w.last
	w.WriteString("(")
	w.write(re)
	w.WriteString(")")
}

// writeOperator writes what consists of other expressions.
func (w *writer) writeOperator(re *syntax.Regexp) {
	b := &w.Builder
	b.WriteString("(?:")
	for i := 0; i < len(re.Sub); i++ {
		if re.Op == syntax.OpAlternate && i > 0 {
			b.WriteString("|")
		}
		if n := isSearch(re.Sub[i:]); n > 0 && re.Op == syntax.OpConcat && w.groups == nil {
			b.WriteString(`(?>[^\x0A]*?`)
			for _, sub := range re.Sub[i+1 : i+1+n] {
				w.write(sub)
			}
			b.WriteString(")")
			i += n
			continue
		}
		w.write(re.Sub[i])
	}
	switch re.Op {
	case syntax.OpStar:
		b.WriteString("*")
	case syntax.OpPlus:
		b.WriteString("+")
	case syntax.OpQuest:
		b.WriteString("?")
	case syntax.OpRepeat:
		fmt.Fprintf(b, "{%d,", re.Min)
		if re.Max >= 0 {
			fmt.Fprint(b, re.Max)
		}
		b.WriteString("}")
	default: // OpConcat, OpAlternate: the group is all
	}
	if w.groups != nil && re.Flags&syntax.NonGreedy != 0 && re.Op != syntax.OpConcat && re.Op != syntax.OpAlternate {
		b.WriteString("?")
	}
	b.WriteString(")")
}

// writeLiteral writes a character of a literal.
func writeLiteral(b *strings.Builder, re *syntax.Regexp, i int) {
	switch all := cases(re, i); {
	case len(all) > 2:
		writeClass(b, all)
	case all[0] > 0xff:
		b.WriteString("(?!)")
	default:
		writeByte(b, byte(all[0]))
	}
}

// cases returns what a character of a literal matches, which may be in any case: pairs of first and last character.
func cases(re *syntax.Regexp, i int) []rune {
	first := re.Rune[i]
	all := []rune{first, first}
	if re.Flags&syntax.FoldCase != 0 {
		for r := unicode.SimpleFold(first); r != first; r = unicode.SimpleFold(r) {
			all = append(all, r, r)
		}
	}
	return all
}

// writeClass writes the bytes of a class, given as pairs of first and last character.
func writeClass(b *strings.Builder, ranges []rune) {
	var class strings.Builder
	add := func(first, last rune) {
		if first > last {
			return
		}
		writeByte(&class, byte(first))
		if first < last {
			class.WriteString("-")
			writeByte(&class, byte(last))
		}
	}
	for i := 0; i < len(ranges); i += 2 {
		first, last := ranges[i], min(ranges[i+1], 0xff)
		// A line break never is in what is compared, but after it.
		if first <= '\n' && '\n' <= last {
			add(first, '\n'-1)
			first = '\n' + 1
		}
		add(first, last)
	}
	if class.Len() == 0 {
		b.WriteString("(?!)")
		return
	}
	b.WriteString("[" + class.String() + "]")
}

func writeByte(b *strings.Builder, c byte) {
	if isLetter(rune(c)) || '0' <= c && c <= '9' {
		b.WriteByte(c)
		return
	}
	fmt.Fprintf(b, `\x%02X`, c)
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// isSearch returns how many expressions a sequence has between two that match anything, like .*[0-9]x.* does, if each
// of them always matches the same number of characters; 0 otherwise. The first place where they match is as good as
// any, because what follows may be anything. So PCRE need not come back to it, which it would do for every place of
// every search before.
func isSearch(sequence []*syntax.Regexp) int {
	if !isAnything(sequence[0]) {
		return 0
	}
	n := slices.IndexFunc(sequence[1:], func(re *syntax.Regexp) bool { return re.Op != syntax.OpLiteral && !isSingle(re) })
	if n < 0 || !isAnything(sequence[1+n]) {
		return 0
	}
	return n
}

// isAnything reports whether an expression matches any text.
func isAnything(re *syntax.Regexp) bool {
	return re.Op == syntax.OpStar && (re.Sub[0].Op == syntax.OpAnyChar || re.Sub[0].Op == syntax.OpAnyCharNotNL)
}
