package regex

import (
	"regexp/syntax"
	"slices"
)

// Values are texts of bytes that stand for themselves, and of a percent sign with two hexadecimal digits in upper case
// for each other byte.
type Values struct{ plain, encoded [256]bool }

// NewValues returns the texts in which some bytes stand for themselves, and some are encoded. % is not plain.
func NewValues(isPlain, isEncoded func(c byte) bool) *Values {
	v := &Values{}
	for i := range v.plain {
		v.plain[i], v.encoded[i] = isPlain(byte(i)), isEncoded(byte(i))
	}
	return v
}

// The states within a text: outside of an encoded byte, after the percent sign, and from afterDigit on after each of
// the first digits.
const (
	outside    = 0
	afterSign  = 1
	afterDigit = 2
)

const digits = "0123456789ABCDEF"

// next returns the states that a text can be in after one of some bytes.
func (v *Values) next(state int, bytes bytesOf) []int {
	var all []int
	has := func(c byte) bool { return bytes[c/64]>>(c%64)&1 != 0 }
	switch state {
	case outside:
		for c := range v.plain {
			if v.plain[c] && has(byte(c)) {
				all = append(all, outside)
				break
			}
		}
		if has('%') {
			all = append(all, afterSign)
		}
	case afterSign:
		for d := range len(digits) {
			if has(digits[d]) && slices.Contains(v.encoded[16*d:16*d+16], true) {
				all = append(all, afterDigit+d)
			}
		}
	default:
		for d := range len(digits) {
			if has(digits[d]) && v.encoded[16*(state-afterDigit)+d] {
				return []int{outside}
			}
		}
	}
	return all
}

// place is an instruction that a matcher comes to with a text in a state.
type place struct {
	instruction uint32
	state       int
}

// Fits reports whether each character and class of the expression is met by a part of some text. Otherwise, a part of
// the expression, or all of it, matches nothing. Assertions are taken to hold.
func (e Expression) Fits(v *Values) bool {
	if v.isPlain(e.parsed) {
		return true
	}
	program, err := syntax.Compile(e.parsed.Simplify())
	if err != nil {
		return false
	}
	// before are the places from which a matcher comes to a place, of those that it comes to from the start.
	before := map[place][]place{}
	var ends []place
	v.walk(program, func(from, to place) { before[to] = append(before[to], from) }, func(end place) { ends = append(ends, end) })
	met, seen := make([]bool, len(program.Inst)), map[place]bool{}
	for len(ends) > 0 {
		at := ends[len(ends)-1]
		if ends = ends[:len(ends)-1]; !seen[at] {
			seen[at], met[at.instruction] = true, true
			ends = append(ends, before[at]...)
		}
	}
	for i := range program.Inst {
		if !met[i] && isCharacter(&program.Inst[i]) {
			return false
		}
	}
	return met[program.Start]
}

// isPlain reports whether bytes that stand for themselves meet all of an expression. Most are so, and nothing more has
// to be looked at.
func (v *Values) isPlain(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpNoMatch:
		return false
	case syntax.OpLiteral:
		return !slices.ContainsFunc(re.Rune, func(r rune) bool { return r > 0xff || !v.plain[r] })
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= min(re.Rune[i+1], 0xff); r++ {
				if v.plain[r] {
					return true
				}
			}
		}
		return false
	}
	return !slices.ContainsFunc(re.Sub, func(sub *syntax.Regexp) bool { return !v.isPlain(sub) })
}

// walk goes all ways that texts can go through a program. It calls step for each step, and end where texts may end.
func (v *Values) walk(program *syntax.Prog, step func(from, to place), end func(place)) {
	seen := map[place]bool{}
	rest := []place{{uint32(program.Start), outside}}
	for len(rest) > 0 {
		at := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		goOn := func(instruction uint32, state int) {
			to := place{instruction, state}
			step(at, to)
			rest = append(rest, to)
		}
		switch instruction := &program.Inst[at.instruction]; {
		case isCharacter(instruction):
			for _, state := range v.next(at.state, bytesAt(instruction)) {
				goOn(instruction.Out, state)
			}
		case instruction.Op == syntax.InstMatch && at.state == outside:
			end(at)
		case instruction.Op == syntax.InstAlt || instruction.Op == syntax.InstAltMatch:
			goOn(instruction.Arg, at.state)
			goOn(instruction.Out, at.state)
		case instruction.Op != syntax.InstMatch && instruction.Op != syntax.InstFail:
			goOn(instruction.Out, at.state)
		}
	}
}

// isCharacter reports whether an instruction takes a character.
func isCharacter(instruction *syntax.Inst) bool {
	switch instruction.Op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return true
	}
	return false
}

// bytesAt returns the bytes that an instruction takes.
func bytesAt(instruction *syntax.Inst) bytesOf {
	var all bytesOf
	for c := range rune(256) {
		if instruction.MatchRune(c) {
			all.add(c, c)
		}
	}
	return all
}
