package regex

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// Replacement replaces the beginning of a text, as far as an expression matches it, as Go's ReplaceAllString does.
// HAProxy finds it in a map whose values have \1 and so on for groups of the key.
//
// What a substitution has besides groups are lines before the text, each a group of its own. So replacements with
// groups in the same places have the same value, and one key can be for all of them.
type Replacement struct {
	// Expression is PCRE's for the lines, the text and the end of its line. Value is what the text becomes.
	Expression, Value string
	// Lines come before the text.
	Lines []string
	// Longest is how long a text may be, in bytes.
	Longest int
}

const (
	// maxGroups is how many groups HAProxy knows beside the whole match.
	maxGroups = 9
	// maxUses is how many groups a substitution may have, each as often as it is there.
	maxUses = 10
	// maxReplaced is how long a text may become, in bytes: HAProxy keeps it in one buffer.
	maxReplaced = 12000
	// maxLongerSteps bounds the steps for texts that are longer than MinValue.
	maxLongerSteps = 1 << 20
)

// longerTexts are how long texts may be where expressions take few steps.
var longerTexts = []int{8192, 4096, 2048}

// NewReplacement returns the replacement of what an RE2 expression matches. In the substitution, \1 to \9 are groups of
// the expression, and \0 is all that it matches. The error names the mistake.
func NewReplacement(pattern, substitution string) (Replacement, error) {
	e, err := Parse(pattern)
	if err != nil {
		return Replacement{}, fmt.Errorf("pattern is invalid: %w", err)
	}
	if !beginsText(e.parsed) {
		return Replacement{}, errors.New("pattern must begin with ^: HAProxy replaces one match, at the beginning")
	}
	parts, err := splitSubstitution(substitution, e.parsed)
	if err != nil {
		return Replacement{}, err
	}
	w := writer{groups: map[int]int{}}
	uses := 0
	for _, p := range parts {
		if p.isGroup {
			w.groups[p.group], uses = 0, uses+1
		}
	}
	// The last group is for the rest after the match.
	lines := maxGroups - 1 - len(w.groups)
	if lines < 0 || uses > maxUses {
		return Replacement{}, errors.New("substitution has too many groups: it may have 8, and 10 with repeated ones")
	}
	r := Replacement{Longest: (maxReplaced - len(substitution)) / max(1, uses)}
	for _, p := range parts {
		if !p.isGroup && len(r.Lines) < lines {
			r.Lines = append(r.Lines, p.text)
		}
	}
	w.last = len(r.Lines)
	if err := r.setExpression(e.parsed, &w); err != nil {
		return Replacement{}, fmt.Errorf("pattern is refused: %w", err)
	}
	line := 0
	for _, p := range parts {
		switch {
		case p.isGroup:
			r.Value += fmt.Sprintf(`\%d`, w.groups[p.group])
		case line < len(r.Lines):
			line++
			r.Value += fmt.Sprintf(`\%d`, line)
		default:
			r.Value += p.text
		}
	}
	r.Value += fmt.Sprintf(`\%d`, w.last)
	return r, nil
}

// setExpression sets the expression, and how long a text may be for it. The rest of a text always matches. So it takes
// no more steps to match the beginning of a text than to match, or not, all of it.
func (r *Replacement) setExpression(re *syntax.Regexp, w *writer) error {
	steps := func(length int) float64 {
		return (&meter{length: float64(length), keepsTexts: true}).measure(re) + float64(length)
	}
	// A group is written for all that the pattern matches, if that is used.
	pattern := re
	if _, ok := w.groups[0]; ok {
		pattern = &syntax.Regexp{Op: syntax.OpCapture, Sub: []*syntax.Regexp{re}}
	}
	translated, err := w.translate(pattern, func() float64 { return steps(MinValue) })
	if err != nil {
		return err
	}
	w.last++
	r.Expression = strings.Repeat(`([^\n]*)\n`, len(r.Lines)) + translated + `([^\n]*)\n`
	i := slices.IndexFunc(longerTexts, func(length int) bool { return steps(length) <= maxLongerSteps })
	if i < 0 {
		r.Longest = MinValue
	} else {
		r.Longest = min(r.Longest, longerTexts[i])
	}
	return nil
}

// beginsText reports whether an expression matches at the beginning of a text only.
func beginsText(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpBeginText, syntax.OpBeginLine:
		return true
	case syntax.OpCapture, syntax.OpConcat:
		return beginsText(re.Sub[0])
	case syntax.OpAlternate:
		return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !beginsText(sub) })
	}
	return false
}

// part is a part of a substitution: a group or a text.
type part struct {
	isGroup bool
	group   int
	text    string
}

// splitSubstitution returns the parts of a substitution.
func splitSubstitution(substitution string, re *syntax.Regexp) ([]part, error) {
	var parts []part
	for rest := substitution; rest != ""; {
		text, after, found := strings.Cut(rest, `\`)
		if text != "" {
			parts = append(parts, part{text: text})
		}
		if !found {
			break
		}
		if after == "" || after[0] < '0' || after[0] > '9' {
			return nil, errors.New(`in substitution, a backslash comes before the number of a group, as in \1`)
		}
		group := int(after[0] - '0')
		switch {
		case group > re.MaxCap():
			return nil, fmt.Errorf(`substitution has \%d, but pattern has %d groups`, group, re.MaxCap())
		case group > 0 && isRepeated(re, group, false):
			return nil, fmt.Errorf(`substitution has \%d, a group within a repetition: put the repetition into the group`, group)
		}
		parts, rest = append(parts, part{isGroup: true, group: group}), after[1:]
	}
	return parts, nil
}

// isRepeated reports whether a group can match several times, of which the engines keep different ones.
func isRepeated(re *syntax.Regexp, group int, within bool) bool {
	switch re.Op {
	case syntax.OpCapture:
		if re.Cap == group {
			return within
		}
	case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		within = true
	}
	return slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return isRepeated(sub, group, within) })
}
