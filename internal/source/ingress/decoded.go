package ingress

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// nginx compares decoded paths with expressions, so that a percent sign, a control character and a byte above ASCII are
// one sign each. Here they are three: % and two digits.

// encodable are the signs that are encoded here, by how they are.
var encodable = []struct {
	first, last rune
	as          string
}{{'%', '%', "%25"}, {0x01, 0x1f, "%[01][0-9A-F]"}, {0x7f, 0x7f, "%7F"}, {0x80, 0xff, "%[89A-F][0-9A-F]"}}

// overDecoded returns an expression that matches all that nginx matches with one, and little more. False: there is
// none.
func overDecoded(expression string) (string, bool) {
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return "", false
	}
	changed, ok := overSigns(parsed)
	if !changed || !ok {
		return expression, ok
	}
	return parsed.String(), true
}

// overSigns changes an expression to what overDecoded returns.
func overSigns(re *syntax.Regexp) (changed, ok bool) {
	switch re.Op {
	case syntax.OpLiteral:
		if !slices.ContainsFunc(re.Rune, isEncodable) {
			return false, true
		}
		parts := make([]*syntax.Regexp, len(re.Rune))
		for i, r := range re.Rune {
			parts[i] = oneSign(&syntax.Regexp{Op: syntax.OpLiteral, Flags: re.Flags, Rune: []rune{r}})
		}
		*re = syntax.Regexp{Op: syntax.OpConcat, Sub: parts}
		return true, true
	case syntax.OpCharClass, syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		one := oneSign(re)
		changed = one != re
		*re = *one
		return changed, true
	case syntax.OpStar, syntax.OpPlus, syntax.OpRepeat:
		sub := re.Sub[0]
		if sub.Op == syntax.OpCapture {
			sub = sub.Sub[0]
		}
		endless := re.Op != syntax.OpRepeat || re.Max < 0
		if endless && (!takes(sub, isEncodable) || takesAll(sub, "%0123456789ABCDEF")) && isSign(sub) {
			return false, true // what is three signs here is met, too
		}
		changed, ok = overSigns(re.Sub[0])
		return changed, ok && (!changed || !endless && re.Max <= maxGroup)
	}
	ok = true
	for _, sub := range re.Sub {
		subChanged, subOK := overSigns(sub)
		changed, ok = changed || subChanged, ok && subOK
	}
	return changed, ok
}

// maxGroup is how often a group can be repeated.
const maxGroup = 32

// oneSign returns an expression that also matches what an expression for one sign matches if that is encoded.
func oneSign(re *syntax.Regexp) *syntax.Regexp {
	var all []*syntax.Regexp
	if takes(re, func(r rune) bool { return !isEncodable(r) }) {
		same := *re
		all = append(all, &same)
	}
	plain := len(all)
	for _, signs := range encodable {
		if takes(re, func(r rune) bool { return signs.first <= r && r <= signs.last }) {
			parsed, _ := syntax.Parse(signs.as, syntax.Perl) // it is a constant
			all = append(all, parsed)
		}
	}
	if len(all) == plain {
		return re
	}
	return &syntax.Regexp{Op: syntax.OpAlternate, Sub: all}
}

func isEncodable(r rune) bool { return r == '%' || r < ' ' || r > '~' }

func isSign(re *syntax.Regexp) bool {
	return re.Op == syntax.OpLiteral && len(re.Rune) == 1 || re.Op == syntax.OpCharClass || re.Op == syntax.OpAnyChar || re.Op == syntax.OpAnyCharNotNL
}

// takes reports whether an expression for one sign takes a byte that meets a condition.
func takes(re *syntax.Regexp, meets func(r rune) bool) bool {
	for r := rune(1); r <= 0xff; r++ {
		if meets(r) && takesSign(re, r) {
			return true
		}
	}
	return false
}

// takesAll reports whether an expression for one sign takes each of some.
func takesAll(re *syntax.Regexp, signs string) bool {
	return !strings.ContainsFunc(signs, func(r rune) bool { return !takesSign(re, r) })
}

func takesSign(re *syntax.Regexp, sign rune) bool {
	switch re.Op {
	case syntax.OpLiteral:
		return len(re.Rune) == 1 && strings.EqualFold(string(re.Rune), string(sign)) && (re.Flags&syntax.FoldCase != 0 || re.Rune[0] == sign)
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			if re.Rune[i] <= sign && sign <= re.Rune[i+1] {
				return true
			}
		}
	case syntax.OpAnyChar:
		return true
	case syntax.OpAnyCharNotNL:
		return sign != '\n'
	}
	return false
}
